//! Opening files by descriptors, taking those that are sent, and how many there may be.
//!
//! Law:
//! 1. A descriptor is owned from the instant that it exists, and closed with the program that runs next.
//! 2. Users of one kind share a fifth of the limit, which leaves room for other kinds.

use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

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

/// Close a descriptor with the program that runs next, though it was inherited.
pub fn close_with_program(fd: BorrowedFd<'_>) {
    // SAFETY: a live descriptor and numbers.
    unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// A copy of a descriptor, above the standard ones.
pub fn copy_of(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: numbers only.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a new descriptor, which belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// What came through a socket.
pub struct Received {
    /// Bytes; 0: the other end is closed.
    pub len: usize,
    pub descriptors: Vec<OwnedFd>,
    /// More was sent than there is room for.
    pub is_cut: bool,
}

/// Take a message with the few descriptors that it brings.
pub fn receive_with_descriptors(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: c_int,
) -> io::Result<Received> {
    let mut part = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // As words, so that it is aligned for a cmsghdr.
    let mut room = [0u64; 8];
    // SAFETY: plain data; the fields that matter are set below.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = room.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&room) as _;
    let flags = flags | libc::MSG_CMSG_CLOEXEC;
    let len = loop {
        // SAFETY: every pointer in `message` refers to a live local, or to `bytes`.
        let len = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
        match usize::try_from(len) {
            Ok(len) => break len,
            Err(_) => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
    };
    let mut descriptors = Vec::new();
    // SAFETY: walks the control messages that the kernel wrote into `room`; each descriptor is new in
    // this process and is owned from here on.
    unsafe {
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            if (*head).cmsg_level == libc::SOL_SOCKET && (*head).cmsg_type == libc::SCM_RIGHTS {
                let n_bytes = (*head).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(head).cast::<RawFd>();
                for at in 0..n_bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(at).read_unaligned()));
                }
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
    }
    Ok(Received {
        len,
        descriptors,
        is_cut: message.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
    })
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
