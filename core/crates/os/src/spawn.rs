//! Starts processes that are one client of the disk.
//!
//! Law:
//! 1. Those that one call starts share their I/O context (CLONE_IO): a scheduler that serves its
//!    clients one after the other, and waits for each of them (BFQ), takes them for one. Where the
//!    kernel does not let them share, they are started all the same.
//! 2. A process begins with /dev/null for its input, its parent's output (or /dev/null), and the socket
//!    that controls it as descriptor 3; with the parent's signal mask and SIGINT blocked, but no signal
//!    handled; and in a session of its own.
//! 3. Either all are started, or none is left. Each belongs to its `Child` at once.
//! 4. Between clone and exec there are system calls only: the memory is still the parent's.

use super::child::Child;
use super::descriptors;
use std::ffi::{CString, NulError, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::time::{Duration, Instant};

/// How long a child that cannot run its program may take to end.
const END_TIME: Duration = Duration::from_secs(1);
/// The control socket of a child.
const CONTROL: RawFd = 3;
/// The child's stack until it runs its own program.
const STACK_BYTES: usize = 64 << 10;
/// From <linux/ioprio.h>.
const IOPRIO_WHO_PROCESS: c_int = 1;
const IOPRIO_CLASS_SHIFT: c_int = 13;

/// What a process runs.
pub struct Program {
    path: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Program {
    /// A program with its arguments, the name first, and `NAME=value` texts.
    pub fn new(
        path: Vec<u8>,
        arguments: Vec<Vec<u8>>,
        environment: Vec<Vec<u8>>,
    ) -> io::Result<Program> {
        let texts = |all: Vec<Vec<u8>>| -> Result<Vec<CString>, NulError> {
            all.into_iter().map(CString::new).collect()
        };
        Ok(Program {
            path: CString::new(path)?,
            arguments: texts(arguments)?,
            environment: texts(environment)?,
        })
    }
}

/// Start a program `count` times.
pub fn start_together(program: &Program, count: usize) -> io::Result<Vec<Child>> {
    // The thread's I/O context is made for them, and stays with them when it is gone.
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().spawn_scoped(scope, || {
            make_io_context();
            (0..count).map(|_| start(program)).collect()
        })?;
        let panicked = |_| io::Error::other("the thread that starts readers panicked");
        thread.join().map_err(panicked)?
    })
}

/// A thread has no I/O context before its first request; naming the priority that it has makes one.
fn make_io_context() {
    // SAFETY: plain numbers, about this thread only. A failure costs the sharing, nothing else.
    unsafe {
        let found = libc::syscall(libc::SYS_ioprio_get, IOPRIO_WHO_PROCESS, 0);
        let class = found >> IOPRIO_CLASS_SHIFT;
        let priority = if class > 0 { found } else { 0 };
        libc::syscall(libc::SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, priority);
    }
}

/// Both ends of a control socket, and none of them is a standard input or output that was closed.
fn socket_pair() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: a place for two descriptors.
    if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: new descriptors, that belong to nobody else.
    let [ours, theirs] = ends.map(|end| unsafe { OwnedFd::from_raw_fd(end) });
    Ok([above_standard(ours)?, above_standard(theirs)?])
}

fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= CONTROL {
        return Ok(fd);
    }
    // SAFETY: a live descriptor; the copy belongs to nobody else.
    match unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, CONTROL) } {
        // SAFETY: as above.
        copy @ 0.. => Ok(unsafe { OwnedFd::from_raw_fd(copy) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// All that a child needs, made before it is: it cannot allocate.
struct Birth {
    path: *const c_char,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    control: RawFd,
    /// Descriptors to close, for kernels without close_range (before Linux 5.9).
    open: Vec<RawFd>,
    mask: libc::sigset_t,
    error: c_int,
}

fn start(program: &Program) -> io::Result<Child> {
    let [ours, theirs] = socket_pair()?;
    let pointers = |texts: &[CString]| {
        let each = texts.iter().map(|text| text.as_ptr());
        each.chain([ptr::null()]).collect()
    };
    // SAFETY: a signal set is plain data, filled just below.
    let mut mask: libc::sigset_t = unsafe { std::mem::zeroed() };
    // No handler of the parent's may run in a child that shares its memory.
    // SAFETY: two live signal sets; the old mask is put back below.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut mask);
    }
    let mut child_mask = mask;
    // Ctrl-C in the terminal is the parent's to handle, also while the child is in its session.
    // SAFETY: a live signal set.
    unsafe { libc::sigaddset(&raw mut child_mask, libc::SIGINT) };
    let mut birth = Birth {
        path: program.path.as_ptr(),
        arguments: pointers(&program.arguments),
        environment: pointers(&program.environment),
        control: theirs.as_raw_fd(),
        open: if has_close_range() {
            Vec::new()
        } else {
            open_descriptors()
        },
        mask: child_mask,
        error: 0,
    };
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    let mut clone = |flags| {
        // SAFETY: CLONE_VFORK keeps this thread here until the child has left the stack, `birth` and
        // `program`; `child` does nothing that another process's memory would not survive.
        unsafe { libc::clone(child, top.cast(), flags, (&raw mut birth).cast()) }
    };
    let mut pid = clone(flags | libc::CLONE_IO);
    if pid < 0 {
        pid = clone(flags);
    }
    let failure = io::Error::last_os_error();
    // SAFETY: the mask that was there before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, ptr::null_mut()) };
    if pid < 0 {
        return Err(failure);
    }
    let child = Child::new(pid, ours);
    match birth.error {
        0 => Ok(child),
        error => {
            child.wait(Instant::now() + END_TIME);
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// In the child; returns only if the program cannot be run.
extern "C" fn child(birth: *mut c_void) -> c_int {
    // SAFETY: `start` passes its own, and waits. All else are system calls on the child's own
    // descriptors and signals, which are copies.
    unsafe {
        let birth = &mut *birth.cast::<Birth>();
        libc::setsid();
        // Where the parent has closed one of the standard three, something else may be there.
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        if null < 0 {
            birth.error = *libc::__errno_location();
            libc::_exit(127);
        }
        for standard in 0..=2 {
            let inherited = standard > 0 && libc::fcntl(standard, libc::F_GETFD) == 0;
            if !inherited && libc::dup2(null, standard) < 0 {
                birth.error = *libc::__errno_location();
                libc::_exit(127);
            }
        }
        if null > 2 {
            libc::close(null);
        }
        if birth.control == CONTROL {
            libc::fcntl(CONTROL, libc::F_SETFD, 0);
        } else {
            libc::dup2(birth.control, CONTROL);
        }
        if birth.open.is_empty() {
            close_range(CONTROL + 1, c_int::MAX);
        }
        for &descriptor in &birth.open {
            if descriptor != CONTROL {
                libc::close(descriptor);
            }
        }
        default_signals();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const birth.mask, ptr::null_mut());
        libc::execve(
            birth.path,
            birth.arguments.as_ptr(),
            birth.environment.as_ptr(),
        );
        birth.error = *libc::__errno_location();
        libc::_exit(127)
    }
}

/// Signals are handled as in any new program. Who ignores one wants its children to do so, too, but
/// for those that Python ignores on its own account.
///
/// # Safety
/// Only for a child that has no program of its own yet.
unsafe fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: plain data; numbers that are no signals are refused.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, ptr::null(), &raw mut action);
            let pythons = matches!(signal, libc::SIGPIPE | libc::SIGXFSZ);
            if action.sa_sigaction != libc::SIG_IGN || pythons {
                action = std::mem::zeroed();
                libc::sigaction(signal, &raw const action, ptr::null_mut());
            }
        }
    }
}

fn close_range(first: c_int, last: c_int) {
    // SAFETY: closes descriptors by number; callers know which.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

fn has_close_range() -> bool {
    // A range that is always empty.
    // SAFETY: no descriptor has this number.
    unsafe { libc::syscall(libc::SYS_close_range, u32::MAX, u32::MAX, 0) == 0 }
}

/// All but the standard ones; where the system does not list them, all that there may be.
fn open_descriptors() -> Vec<RawFd> {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return (3..descriptors::limit().min(1 << 16) as RawFd).collect();
    };
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    numbers.filter(|&number| number > 2).collect()
}
