//! Reads around the page cache: O_DIRECT, aligned buffers, several requests in flight.
//!
//! Law:
//! 1. `submit` starts a read of any byte range and returns a ticket; `finish` waits for it and
//!    gives its bytes; `recycle` takes the buffer back. Tickets may be finished in any order.
//! 2. io_uring where the kernel allows it, otherwise a few threads; the caller cannot tell.
//! 3. A buffer belongs to the kernel (or a thread) from `submit` until its completion was seen; a
//!    queue that is dropped waits for what is in flight.

use io_uring::{IoUring, opcode, types};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::collections::HashMap;
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// Satisfies every block device in use; files, offsets and memory are rounded to it.
const ALIGN: usize = 4096;
const ENTRIES: u32 = 64;
const THREADS: usize = 4;

/// Memory that O_DIRECT accepts.
#[derive(Debug)]
struct AlignedBuffer {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain owned memory.
unsafe impl Send for AlignedBuffer {}

impl AlignedBuffer {
    fn new(len: usize) -> AlignedBuffer {
        let size = len.next_multiple_of(ALIGN).max(ALIGN);
        let Ok(layout) = Layout::from_size_align(size, ALIGN) else {
            handle_alloc_error(Layout::new::<u8>())
        };
        // SAFETY: the layout has a size above zero.
        match NonNull::new(unsafe { alloc(layout) }) {
            Some(base) => AlignedBuffer { base, layout },
            None => handle_alloc_error(layout),
        }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout and owned by this value.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// A read in flight: what was asked for, and how much of it has come.
#[derive(Debug)]
struct Request {
    buffer: AlignedBuffer,
    /// First byte in the file, rounded down; bytes to read, rounded up.
    from: u64,
    len: usize,
    /// The part that was asked for, inside the buffer.
    skip: usize,
    wanted: usize,
    done: usize,
}

/// A finished read; `bytes` may be shorter than asked when the file ends.
#[derive(Debug)]
pub struct Finished {
    buffer: AlignedBuffer,
    skip: usize,
    got: usize,
}

impl Finished {
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the kernel filled `skip + got` bytes of the buffer.
        unsafe { std::slice::from_raw_parts(self.buffer.base.as_ptr().add(self.skip), self.got) }
    }
}

type Done = (u64, Request, io::Result<usize>);

/// The threads that stand in where io_uring is not to be had.
#[derive(Debug)]
struct Pool {
    jobs: Option<mpsc::Sender<(u64, Request)>>,
    done: mpsc::Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
}

enum Engine {
    Uring(Box<IoUring>),
    Threads(Pool),
}

/// A queue of direct reads on one file.
pub struct Direct {
    fd: RawFd,
    engine: Engine,
    next: u64,
    flying: HashMap<u64, Request>,
    landed: HashMap<u64, (Request, io::Result<usize>)>,
    in_flight: usize,
    spare: Vec<AlignedBuffer>,
}

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Direct")
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

/// True when this kernel and sandbox let us make an io_uring.
pub fn io_uring_available() -> bool {
    IoUring::new(2).is_ok()
}

impl Direct {
    pub fn new(fd: RawFd) -> io::Result<Direct> {
        let engine = match IoUring::new(ENTRIES) {
            Ok(ring) => Engine::Uring(Box::new(ring)),
            Err(_) => Engine::Threads(Pool::new(fd)?),
        };
        Ok(Direct::with(fd, engine))
    }

    fn with(fd: RawFd, engine: Engine) -> Direct {
        Direct {
            fd,
            engine,
            next: 0,
            flying: HashMap::new(),
            landed: HashMap::new(),
            in_flight: 0,
            spare: Vec::new(),
        }
    }

    /// Start reading `wanted` bytes from `byte_offset`.
    pub fn submit(&mut self, byte_offset: u64, wanted: usize) -> io::Result<u64> {
        let from = byte_offset / ALIGN as u64 * ALIGN as u64;
        let skip = (byte_offset - from) as usize;
        let len = (skip + wanted).next_multiple_of(ALIGN);
        let request = Request {
            buffer: self.buffer(len),
            from,
            len,
            skip,
            wanted,
            done: 0,
        };
        let ticket = self.next;
        self.next += 1;
        while self.in_flight >= ENTRIES as usize {
            self.reap(true)?;
        }
        self.start(ticket, request)?;
        Ok(ticket)
    }

    fn buffer(&mut self, len: usize) -> AlignedBuffer {
        match self
            .spare
            .iter()
            .position(|spare| spare.layout.size() >= len)
        {
            Some(index) => self.spare.swap_remove(index),
            None => {
                self.spare.pop();
                AlignedBuffer::new(len)
            }
        }
    }

    fn start(&mut self, ticket: u64, request: Request) -> io::Result<()> {
        match &mut self.engine {
            Engine::Uring(ring) => {
                // SAFETY: `done` is below the buffer's length.
                let at = unsafe { request.buffer.base.as_ptr().add(request.done) };
                let len = u32::try_from(request.len - request.done).unwrap_or(1 << 30);
                let entry = opcode::Read::new(types::Fd(self.fd), at, len)
                    .offset(request.from + request.done as u64)
                    .build()
                    .user_data(ticket);
                // SAFETY: the buffer stays in `flying`, at the same address, until the completion.
                unsafe { ring.submission().push(&entry) }
                    .map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
                self.flying.insert(ticket, request);
                self.in_flight += 1;
                ring.submit()?;
            }
            Engine::Threads(pool) => {
                let jobs = pool.jobs.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
                jobs.send((ticket, request))
                    .map_err(|_| io::ErrorKind::BrokenPipe)?;
                self.in_flight += 1;
            }
        }
        Ok(())
    }

    /// Take in completions; with `wait`, at least one.
    fn reap(&mut self, wait: bool) -> io::Result<()> {
        let mut again = Vec::new();
        match &mut self.engine {
            Engine::Uring(ring) => {
                if wait && ring.completion().is_empty() {
                    match ring.submit_and_wait(1) {
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        result => {
                            result?;
                        }
                    }
                }
                for entry in ring.completion() {
                    let Some(mut request) = self.flying.remove(&entry.user_data()) else {
                        continue;
                    };
                    self.in_flight -= 1;
                    let result = entry.result();
                    if result == -libc::EINTR || result == -libc::EAGAIN {
                        again.push((entry.user_data(), request));
                        continue;
                    }
                    if result < 0 {
                        let error = io::Error::from_raw_os_error(-result);
                        self.landed.insert(entry.user_data(), (request, Err(error)));
                        continue;
                    }
                    request.done += result as usize;
                    // A short read that stops on our alignment may have more behind it.
                    let short = result > 0 && request.done < request.skip + request.wanted;
                    if short && request.done % ALIGN == 0 {
                        again.push((entry.user_data(), request));
                    } else {
                        let done = request.done;
                        self.landed.insert(entry.user_data(), (request, Ok(done)));
                    }
                }
            }
            Engine::Threads(pool) => {
                let first = if wait {
                    Some(pool.done.recv().map_err(|_| io::ErrorKind::BrokenPipe)?)
                } else {
                    None
                };
                for (ticket, request, result) in first.into_iter().chain(pool.done.try_iter()) {
                    self.in_flight -= 1;
                    self.landed.insert(ticket, (request, result));
                }
            }
        }
        for (ticket, request) in again {
            self.start(ticket, request)?;
        }
        Ok(())
    }

    /// Wait for a read and take its bytes.
    pub fn finish(&mut self, ticket: u64) -> io::Result<Finished> {
        loop {
            if let Some((request, result)) = self.landed.remove(&ticket) {
                let done = result?;
                let got = done.saturating_sub(request.skip).min(request.wanted);
                return Ok(Finished {
                    buffer: request.buffer,
                    skip: request.skip,
                    got,
                });
            }
            self.reap(true)?;
        }
    }

    /// Give a finished read's buffer back for the next one.
    pub fn recycle(&mut self, finished: Finished) {
        if self.spare.len() < ENTRIES as usize {
            self.spare.push(finished.buffer);
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        // The kernel may still write into our buffers: let it finish before they are freed.
        while self.in_flight > 0 && self.reap(true).is_ok() {}
        if self.in_flight > 0 {
            std::mem::forget(std::mem::take(&mut self.flying));
        }
    }
}

impl Pool {
    fn new(fd: RawFd) -> io::Result<Pool> {
        let (jobs, inbox) = mpsc::channel::<(u64, Request)>();
        let (outbox, done) = mpsc::channel::<Done>();
        let inbox = std::sync::Arc::new(std::sync::Mutex::new(inbox));
        let mut threads = Vec::new();
        for _ in 0..THREADS {
            let (inbox, outbox) = (inbox.clone(), outbox.clone());
            let thread = std::thread::Builder::new()
                .name("direct".into())
                .spawn(move || {
                    loop {
                        let job = match inbox.lock() {
                            Ok(inbox) => inbox.recv(),
                            Err(_) => return,
                        };
                        let Ok((ticket, request)) = job else { return };
                        let result = read_all(fd, &request);
                        if outbox.send((ticket, request, result)).is_err() {
                            return;
                        }
                    }
                })?;
            threads.push(thread);
        }
        Ok(Pool {
            jobs: Some(jobs),
            done,
            threads,
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn read_all(fd: RawFd, request: &Request) -> io::Result<usize> {
    let mut done = 0;
    while done < request.skip + request.wanted {
        // SAFETY: inside the request's own buffer, which this thread owns meanwhile.
        let got = unsafe {
            libc::pread(
                fd,
                request.buffer.base.as_ptr().add(done).cast(),
                request.len - done,
                (request.from + done as u64) as libc::off_t,
            )
        };
        match got {
            0 => break,
            1.. => done += got as usize,
            _ => {
                let error = io::Error::last_os_error();
                if error.kind() != io::ErrorKind::Interrupted {
                    return Err(error);
                }
            }
        }
        if done % ALIGN != 0 {
            break;
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsRawFd;

    /// Both engines read any range right, also past the end of the file. (The file is opened
    /// without O_DIRECT: what is tested is the arithmetic, on any file system.)
    #[test]
    fn any_range_is_read_by_either_engine() {
        let path = std::env::temp_dir().join(format!("multitables-direct-{}", std::process::id()));
        let bytes: Vec<u8> = (0..100_000u32).map(|n| (n % 251) as u8).collect();
        std::fs::File::create(&path)
            .unwrap()
            .write_all(&bytes)
            .unwrap();
        let file = std::fs::File::open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let fd = file.as_raw_fd();
        let mut engines = vec![Engine::Threads(Pool::new(fd).unwrap())];
        if let Ok(ring) = IoUring::new(ENTRIES) {
            engines.push(Engine::Uring(Box::new(ring)));
        }
        for engine in engines {
            let mut direct = Direct::with(fd, engine);
            let ranges = [
                (0, 10),
                (4095, 2),
                (5000, 60_000),
                (99_990, 10),
                (99_990, 50),
                (12, 0),
            ];
            let tickets: Vec<_> = ranges
                .iter()
                .map(|&(at, len)| direct.submit(at, len).unwrap())
                .collect();
            for (ticket, (at, len)) in tickets.into_iter().zip(ranges).rev() {
                let finished = direct.finish(ticket).unwrap();
                let at = at as usize;
                assert_eq!(finished.bytes(), &bytes[at..(at + len).min(bytes.len())]);
                direct.recycle(finished);
            }
            // More than the queue holds at once.
            let tickets: Vec<_> = (0..200u64)
                .map(|n| direct.submit(n * 7, 100).unwrap())
                .collect();
            for (n, ticket) in tickets.into_iter().enumerate() {
                assert_eq!(
                    direct.finish(ticket).unwrap().bytes(),
                    &bytes[n * 7..n * 7 + 100]
                );
            }
            let _in_flight_at_drop = direct.submit(0, 4096).unwrap();
        }
    }
}
