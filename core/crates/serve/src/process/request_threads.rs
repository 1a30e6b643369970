//! Threads of the user's process that answer its requests, as reader processes do.
//!
//! Law:
//! 1. A thread holds the work queue as long as it serves it; it ends when the requests end, or are
//!    handed over. It is never waited for.

use crate::requests::dispatcher::Dispatcher;
use crate::requests::in_process::serve;
use crate::ring::kept_rings;
use os::idle_threads;
use std::io;
use std::sync::Arc;

/// Let a thread answer as reader `me`.
pub fn start(dispatcher: &Arc<Dispatcher>, me: usize) -> io::Result<()> {
    dispatcher.here.start_threads();
    let dispatcher = dispatcher.clone();
    idle_threads::start(
        Box::new(move || serve(&dispatcher, me)),
        kept_rings::at_rest,
    )
}
