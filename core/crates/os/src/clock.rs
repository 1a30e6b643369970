//! The clocks of the machine and of a thread.
//!
//! Law:
//! 1. Clocks are read, never set; a time is nanoseconds.

use crate::sync::IS_MODEL;

/// Nanoseconds of a clock that all processes of the machine share.
pub fn now_ns() -> u64 {
    if IS_MODEL {
        return 0; // time stands still
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: a valid place for the answer; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What this thread has had of a CPU.
pub fn thread_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the address is that of a timespec. The clock exists on every Linux; where it could not
    // be read, the time would stand still.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
