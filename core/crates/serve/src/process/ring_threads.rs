//! Threads of the user's process that read a stream into its ring, as reader processes do.
//!
//! Law:
//! 1. A thread holds the ring as long as it reads; it ends when the stream is stopped, also while a
//!    store does not answer.
//! 2. What only a process may read, it leaves to one (ring/reader_loop.rs).
//! 3. It knows nothing of Python, and is never waited for.

use crate::process::serve::stream;
use crate::requests::arena;
use crate::ring::kept_rings;
use crate::ring::leases::Leases;
use os::{idle_threads, interrupt};
use std::io;
use std::sync::Arc;

/// Read all as the only reader, on the caller's thread. False: the ring does not hold all.
pub fn read_here(book: &Leases) -> bool {
    let plan = &book.plan;
    if plan.n_readers() > 1 || plan.end_row() > plan.capacity_rows() {
        return false;
    }
    book.keep(true);
    read(book, 0);
    true
}

fn read(book: &Leases, me: usize) {
    if book.is_mine() && me < book.plan.n_readers() {
        stream(&book.plan, &book.maps, me, None);
    }
}

/// Let a thread read as reader `me`.
pub fn start(book: &Arc<Leases>, me: usize) -> io::Result<()> {
    let book = book.clone();
    book.keep(true);
    let work = move || interrupt::helping(&book.unwanted, || read(&book, me));
    idle_threads::start(Box::new(work), kept_rings::at_rest)
}

/// End the threads that are free, and give kept rings back.
pub fn release() {
    idle_threads::release();
    kept_rings::release();
    arena::release();
}
