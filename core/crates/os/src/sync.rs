//! Atomics and locks of what processes and threads do together.
//!
//! Law:
//! 1. They are the standard library's, by other names. In tests with the feature `races` they are ones
//!    whose every use is a step between which any other thread may come (sync/races.rs).
//! 2. What protocols are made of (ring, leases, work queue, turns, stage pool) is taken from here.

#[cfg(not(feature = "races"))]
pub use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicU32, AtomicU64},
};

#[cfg(feature = "races")]
pub use {
    races::{AtomicU32, AtomicU64},
    shuttle::sync::{Condvar, Mutex, MutexGuard},
};

#[cfg(feature = "races")]
pub mod races;

/// Each step is a choice: code that looks again and again must look once.
pub const IS_MODEL: bool = cfg!(feature = "races");

/// Words between cache lines, in memory that others may write: nobody reads them.
pub type Pad<const N: usize> = [AtomicU64; N];

/// The number of the processor on which this thread runs. The same for all where it is not known.
pub fn processor() -> u32 {
    #[cfg(feature = "races")]
    return races::processor();
    // SAFETY: it takes nothing, and gives -1 where it is not known.
    #[cfg(not(feature = "races"))]
    unsafe {
        libc::sched_getcpu() as u32
    }
}
