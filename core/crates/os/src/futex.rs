//! Futex waits on words in shared memory.
//!
//! Law:
//! 1. Every wait has a deadline; a caller that is woken, timed out or interrupted looks again.
//! 2. The word lives in memory shared between processes, so the futexes are not private.

#[cfg(feature = "races")]
pub use crate::sync::races::{wait, wake_all};
#[cfg(not(feature = "races"))]
pub use kernel::{wait, wake_all};

#[cfg(not(feature = "races"))]
mod kernel {
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// Sleep while `word` still holds `expected`, at most `timeout`. Returns for any reason.
    pub fn wait(word: &AtomicU32, expected: u32, timeout: Duration) {
        let limit = libc::timespec {
            tv_sec: timeout.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(timeout.subsec_nanos()),
        };
        // SAFETY: the word outlives the call and the timeout is a valid relative timespec.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                word.as_ptr(),
                libc::FUTEX_WAIT,
                expected,
                &raw const limit,
            );
        }
    }

    /// Wake every sleeper on `word`.
    pub fn wake_all(word: &AtomicU32) {
        // SAFETY: the word outlives the call.
        unsafe {
            libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
        }
    }
}
