//! A child of this process, and the socket that controls it.
//!
//! Law:
//! 1. It belongs to what holds this, from the instant that it exists: when this is dropped, the child
//!    is killed and reaped.
//! 2. It is reaped once, and never signalled after that. A fork of its parent does neither.
//! 3. Every wait has an end. A child that outlives its kill, because a device does not answer, is left
//!    to a thread, which reaps it when it has ended.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The pauses between two looks at a child, where the kernel has no pidfd (before Linux 5.3).
const PAUSES: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(2));
/// The status of a child that ended nobody knows how.
const UNKNOWN: i32 = 0;

#[derive(Debug)]
pub struct Child {
    pub pid: i32,
    parent: u32,
    state: Mutex<State>,
    control: Mutex<Option<OwnedFd>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Runs,
    /// Somebody has stopped it.
    Stopped,
    /// The system does not tell, with this error.
    Hidden(i32),
    /// Its exit status, negative for a signal.
    Ended(i32),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Child {
    /// A child that nobody has waited for.
    pub(super) fn new(pid: i32, control: OwnedFd) -> Child {
        Child {
            pid,
            parent: std::process::id(),
            state: Mutex::new(State::Runs),
            control: Mutex::new(Some(control)),
        }
    }

    fn is_mine(&self) -> bool {
        std::process::id() == self.parent
    }

    /// Its exit status, negative for a signal; `None` while it runs. An error: the system does not tell.
    pub fn poll(&self) -> io::Result<Option<i32>> {
        match self.look(&mut lock(&self.state)) {
            State::Ended(status) => Ok(Some(status)),
            State::Runs | State::Stopped => Ok(None),
            State::Hidden(number) => Err(io::Error::from_raw_os_error(number)),
        }
    }

    /// Whether it neither runs nor has ended.
    pub fn is_stopped(&self) -> bool {
        self.look(&mut lock(&self.state)) == State::Stopped
    }

    fn look(&self, state: &mut State) -> State {
        while !matches!(state, State::Ended(_)) {
            let mut status = 0;
            let kinds = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
            let got = match self.is_mine() {
                // SAFETY: a place for the status; the child was not reaped.
                true => unsafe { libc::waitpid(self.pid, &raw mut status, kinds) },
                false => -1,
            };
            *state = match got {
                0 if matches!(state, State::Hidden(_)) => State::Runs,
                0 => break,
                ..0 => match self.is_mine().then(io::Error::last_os_error) {
                    Some(error) if error.raw_os_error() != Some(libc::ECHILD) => {
                        *state = State::Hidden(error.raw_os_error().unwrap_or(libc::EPERM));
                        break;
                    }
                    // Somebody else has waited for it, or the user's program ignores SIGCHLD.
                    _ => State::Ended(UNKNOWN),
                },
                _ if libc::WIFSTOPPED(status) => State::Stopped,
                _ if libc::WIFCONTINUED(status) => State::Runs,
                _ if libc::WIFSIGNALED(status) => State::Ended(-libc::WTERMSIG(status)),
                _ => State::Ended(libc::WEXITSTATUS(status)),
            };
        }
        *state
    }

    /// Have it end, if it runs: by a kill, or where that is refused as soon as it listens.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        *lock(&self.control) = None;
        if !matches!(self.look(&mut state), State::Ended(_)) {
            // SAFETY: a child that was not reaped, so the number is its own.
            unsafe { libc::kill(self.pid, libc::SIGKILL) };
        }
    }

    /// Its exit status, if it ends before `deadline`.
    pub fn wait(&self, deadline: Instant) -> Option<i32> {
        let poll = || self.poll().ok().flatten();
        let mut status = poll();
        if status.is_none() {
            // SAFETY: pidfd_open takes a pid and flags and returns a descriptor or -1.
            let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, self.pid, 0) } as RawFd;
            // SAFETY: a new descriptor, that belongs to nobody else.
            let pidfd = (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) });
            let mut pause = PAUSES.0;
            while status.is_none() {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                match &pidfd {
                    Some(pidfd) => sleep_until_ended(pidfd, left),
                    None => std::thread::sleep(pause.min(left)),
                }
                pause = (2 * pause).min(PAUSES.1);
                status = poll();
            }
        }
        status
    }

    /// Leave it to a thread that reaps it when it has ended.
    fn leave(&self) {
        let mut state = lock(&self.state);
        if self.is_mine() && !matches!(self.look(&mut state), State::Ended(_)) {
            let pid = self.pid;
            // SAFETY: the thread alone waits for it from now on.
            let reap = move || unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            let named = std::thread::Builder::new().name("reaper".into());
            // Without a thread it is reaped when this process ends.
            let _ = named.spawn(reap);
            *state = State::Ended(-libc::SIGKILL);
        }
    }

    /// Send a number and descriptors; nothing, if it was ended before.
    pub fn send(&self, number: u32, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let raw: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        self.send_message(&number.to_le_bytes(), &raw)
    }

    /// Send bytes and descriptors without waiting; nothing, if it was ended before.
    pub fn send_message(&self, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
        let control = lock(&self.control);
        let Some(control) = &*control else {
            return Ok(());
        };
        // As words, so that it is aligned for a cmsghdr.
        let mut room = [0u64; 8];
        let n_bytes = size_of_val(descriptors) as u32;
        let mut part = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: plain data, and pointers to live locals. `room` is large enough for the header and
        // the few descriptors.
        let sent = unsafe {
            let mut message: libc::msghdr = std::mem::zeroed();
            message.msg_iov = &raw mut part;
            message.msg_iovlen = 1;
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(n_bytes) as _;
            assert!(message.msg_controllen as usize <= size_of_val(&room));
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_SOCKET;
            (*head).cmsg_type = libc::SCM_RIGHTS;
            (*head).cmsg_len = libc::CMSG_LEN(n_bytes) as _;
            let data = libc::CMSG_DATA(head).cast::<RawFd>();
            for (at, &descriptor) in descriptors.iter().enumerate() {
                data.add(at).write_unaligned(descriptor);
            }
            let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
            libc::sendmsg(control.as_raw_fd(), &raw const message, flags)
        };
        match sent {
            0.. => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.is_mine() {
            self.end();
            self.leave();
        }
    }
}

/// End them all. Those that have not ended after `patience` are left, which the result says: false.
pub fn end_together<'a>(
    children: impl Iterator<Item = &'a Child> + Clone,
    patience: Duration,
) -> bool {
    children.clone().for_each(Child::end);
    let deadline = Instant::now() + patience;
    let mut ended = true;
    for child in children {
        if child.wait(deadline).is_none() {
            child.leave();
            ended = false;
        }
    }
    ended
}

fn sleep_until_ended(pidfd: &OwnedFd, limit: Duration) {
    let mut poll = libc::pollfd {
        fd: pidfd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let limit = limit.as_millis().saturating_add(1).min(60_000) as libc::c_int;
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&raw mut poll, 1, limit) };
}

#[cfg(test)]
mod tests {
    use super::super::spawn::{Program, start_together};
    use super::*;

    fn sleeper() -> Child {
        let arguments = vec![b"sleep".to_vec(), b"1000".to_vec()];
        let program = Program::new(b"/bin/sleep".to_vec(), arguments, Vec::new()).unwrap();
        start_together(&program, 1).unwrap().remove(0)
    }

    fn is_there(pid: i32) -> bool {
        // SAFETY: signal 0 only asks.
        unsafe { libc::kill(pid, 0) == 0 }
    }

    #[test]
    fn a_child_that_is_dropped_is_killed_and_reaped() {
        let child = sleeper();
        let pid = child.pid;
        assert!(child.poll().unwrap().is_none() && is_there(pid));
        drop(child);
        let deadline = Instant::now() + Duration::from_secs(10);
        while is_there(pid) {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_child_that_is_stopped_says_so() {
        let child = sleeper();
        let deadline = Instant::now() + Duration::from_secs(10);
        for (signal, stopped) in [(libc::SIGSTOP, true), (libc::SIGCONT, false)] {
            // SAFETY: a child of ours.
            unsafe { libc::kill(child.pid, signal) };
            while child.is_stopped() != stopped {
                assert!(Instant::now() < deadline);
                std::thread::yield_now();
            }
        }
        end_together([&child].into_iter(), Duration::from_secs(10));
        assert_eq!(child.poll().unwrap(), Some(-libc::SIGKILL));
    }
}
