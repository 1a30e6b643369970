//! The parent of this process, with which it ends.
//!
//! Law:
//! 1. However the parent dies, this process ends: nothing that it holds is left.

use std::io;
use std::os::fd::RawFd;
use std::time::Duration;

/// Milliseconds between two looks at a parent, where no descriptor shows its end.
const LOOK_MS: i32 = 200;

/// End this process when `parent` ends. A pidfd sees every kind of death, and is not fooled by
/// descriptors that the parent's other children inherited. Where a sandbox hides process ids, the
/// parent's end of the socket has to do.
pub fn end_with(parent: i32, socket: RawFd) -> io::Result<()> {
    // SAFETY: pidfd_open takes a pid and flags and returns a descriptor or -1.
    let pidfd = unsafe { libc::syscall(libc::SYS_pidfd_open, parent, 0) } as RawFd;
    std::thread::Builder::new().spawn(move || {
        // SAFETY: plain system calls.
        let known = parent > 0 && unsafe { libc::getppid() } >= 0;
        // SAFETY: as above.
        while !known || unsafe { libc::getppid() } == parent {
            let mut poll = libc::pollfd {
                fd: if known { pidfd } else { socket },
                events: if known { libc::POLLIN } else { 0 },
                revents: 0,
            };
            // SAFETY: one valid pollfd; a negative descriptor is passed over.
            let ready =
                unsafe { libc::poll(&raw mut poll, 1, if pidfd < 0 { LOOK_MS } else { -1 }) };
            if ready < 0 {
                std::thread::sleep(Duration::from_millis(LOOK_MS as u64));
            } else if ready > 0 && !known {
                break;
            }
        }
        // SAFETY: ends the process at once, without running Python's exit code.
        unsafe { libc::_exit(0) };
    })?;
    Ok(())
}
