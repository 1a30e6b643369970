//! Which process a thing was made in: forked children know that they are children.
//!
//! Law:
//! 1. The C library counts forks in the child, before anything else runs there. No kernel needs to
//!    know of it (`MADV_WIPEONFORK` is missing in sandboxes), and to look takes no system call.
//! 2. Nothing waits and nothing is locked: a fork may come at any moment.

use std::io;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Forks between the program's start and this process.
static FORKS: AtomicU64 = AtomicU64::new(0);
static COUNTED: AtomicBool = AtomicBool::new(false);

extern "C" fn count() {
    FORKS.fetch_add(1, SeqCst);
}

/// What a process leaves in a thing that its forked children must leave alone.
#[derive(Debug)]
pub struct ForkMark(u64);

impl ForkMark {
    pub fn new() -> io::Result<ForkMark> {
        // Two threads may both come here. Then each fork counts as two, which does no harm.
        if !COUNTED.load(SeqCst) {
            // SAFETY: the function lives as long as the program, and only counts.
            let error = unsafe { libc::pthread_atfork(None, None, Some(count)) };
            if error != 0 {
                return Err(io::Error::from_raw_os_error(error));
            }
            COUNTED.store(true, SeqCst);
        }
        Ok(ForkMark(FORKS.load(SeqCst)))
    }

    /// False in a process that was forked from the one that made the mark.
    pub fn is_mine(&self) -> bool {
        self.0 == FORKS.load(SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_and_its_child_know_that_they_are_forks() {
        let mark = ForkMark::new().unwrap();
        let exits = |found: bool| -> ! {
            // SAFETY: ends a child of this test at once.
            unsafe { libc::_exit(i32::from(!found)) }
        };
        // SAFETY: the children make system calls only, and end; what is made is on the stack.
        let status = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                let own = ForkMark::new();
                let child = libc::fork();
                let is_fork = own.is_ok_and(|own| own.is_mine() != (child == 0)) && !mark.is_mine();
                let mut status = 0;
                if child > 0 {
                    libc::waitpid(child, &raw mut status, 0);
                }
                exits(is_fork && status == 0);
            }
            let mut status = -1;
            libc::waitpid(pid, &raw mut status, 0);
            status
        };
        assert!(status == 0 && mark.is_mine());
    }
}
