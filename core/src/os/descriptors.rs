//! Opening files by descriptors, and how many this process may have open.
//!
//! Law:
//! 1. Users of one kind share a fifth of the limit, which leaves room for other kinds.

use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// The mode of a file that is created, less what the user masks.
const MODE: libc::c_uint = 0o644;

/// Open a file, whose name counts from an open folder if one is given.
pub fn open_at(folder: Option<RawFd>, name: &CStr, flags: c_int) -> io::Result<OwnedFd> {
    let folder = folder.unwrap_or(libc::AT_FDCWD);
    // SAFETY: a terminated text and numbers.
    let fd = unsafe { libc::openat(folder, name.as_ptr(), flags | libc::O_CLOEXEC, MODE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The files that one of `users` may open: its share of a fifth of the limit, `bound` at most.
pub fn at_most(bound: usize, users: usize) -> usize {
    (limit() / 5 / users.max(1)).clamp(1, bound)
}

/// How many files this process may have open.
pub fn limit() -> usize {
    // SAFETY: plain data that getrlimit fills.
    let mut limit: libc::rlimit = unsafe { std::mem::zeroed() };
    // SAFETY: a valid place for the answer.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return usize::MAX;
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::at_most;

    #[test]
    fn a_share_is_never_more_than_its_bound() {
        assert_eq!(at_most(1, 1), 1);
        assert!((1..=64).contains(&at_most(64, 0)));
        assert_eq!(at_most(64, usize::MAX), 1);
    }
}
