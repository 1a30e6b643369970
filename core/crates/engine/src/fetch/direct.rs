//! Reads around the page cache: O_DIRECT, aligned buffers, several requests in flight.
//!
//! Law:
//! 1. `submit` starts a read of any byte range and returns a ticket; `finish` waits for it and
//!    gives its bytes; `recycle` takes the buffer back. Tickets may be finished in any order.
//! 2. io_uring where the kernel allows it, otherwise a few threads; the caller cannot tell.
//! 3. A buffer belongs to the kernel (or a thread) from `submit` until its completion was seen; a
//!    queue that is dropped waits for what is in flight.

mod aligned_buffer;
mod request;
mod thread_pool;

use aligned_buffer::{ALIGN, AlignedBuffer, no_memory};
use io_uring::{IoUring, Probe, opcode, types};
use request::Request;
use std::collections::HashMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use thread_pool::Pool;

const ENTRIES: u32 = 64;
/// A busy kernel is asked again so often, so long apart.
const BUSY_TRIES: u32 = 1000;
const BUSY_NAP: Duration = Duration::from_millis(1);

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
        unsafe { std::slice::from_raw_parts(self.buffer.base().add(self.skip), self.got) }
    }
}

enum Engine {
    Uring(Box<IoUring>),
    Threads(Pool),
}

/// A queue of direct reads.
pub struct Direct {
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

/// An io_uring that can read, if this kernel and sandbox let us make one. (Before Linux 5.6 there
/// were rings without plain reads.)
fn uring(entries: u32) -> io::Result<IoUring> {
    let ring = IoUring::new(entries)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if probe.is_supported(opcode::Read::CODE) {
        Ok(ring)
    } else {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// True when direct reads go through io_uring here.
pub fn io_uring_available() -> bool {
    uring(2).is_ok()
}

impl Direct {
    pub fn new() -> io::Result<Direct> {
        let engine = match uring(ENTRIES) {
            Ok(ring) => Engine::Uring(Box::new(ring)),
            Err(_) => Engine::Threads(Pool::new()?),
        };
        Ok(Direct::with(engine))
    }

    fn with(engine: Engine) -> Direct {
        Direct {
            engine,
            next: 0,
            flying: HashMap::new(),
            landed: HashMap::new(),
            in_flight: 0,
            spare: Vec::new(),
        }
    }

    /// Start reading `wanted` bytes from `byte_offset`.
    pub fn submit(
        &mut self,
        file: &Arc<OwnedFd>,
        byte_offset: u64,
        wanted: usize,
    ) -> io::Result<u64> {
        let from = byte_offset / ALIGN as u64 * ALIGN as u64;
        let skip = (byte_offset - from) as usize;
        let len = skip.checked_add(wanted);
        let len = len.and_then(|len| len.checked_next_multiple_of(ALIGN));
        let len = len.ok_or_else(no_memory)?;
        let request = Request {
            file: file.clone(),
            buffer: self.buffer(len)?,
            from,
            len,
            skip,
            wanted,
            done: 0,
            before: 0,
        };
        let ticket = self.next;
        self.next += 1;
        while self.in_flight >= ENTRIES as usize {
            self.reap(true)?;
        }
        self.start(ticket, request)?;
        Ok(ticket)
    }

    fn buffer(&mut self, len: usize) -> io::Result<AlignedBuffer> {
        let fits = |spare: &AlignedBuffer| spare.size >= len;
        if !self.spare.iter().any(fits) {
            // Too small for what comes now: they would only take memory.
            self.spare = AlignedBuffer::some(len)?;
        }
        match self.spare.iter().position(fits) {
            Some(index) => Ok(self.spare.swap_remove(index)),
            None => Err(no_memory()),
        }
    }

    fn start(&mut self, ticket: u64, request: Request) -> io::Result<()> {
        match &mut self.engine {
            Engine::Uring(ring) => {
                // SAFETY: `done` is below the buffer's length.
                let at = unsafe { request.buffer.base().add(request.done) };
                let len = u32::try_from(request.len - request.done).unwrap_or(1 << 30);
                let entry = opcode::Read::new(types::Fd(request.file.as_raw_fd()), at, len)
                    .offset(request.from + request.done as u64)
                    .build()
                    .user_data(ticket);
                // SAFETY: the buffer stays in `flying`, at the same address, until the completion.
                unsafe { ring.submission().push(&entry) }
                    .map_err(|_| io::Error::from(io::ErrorKind::ResourceBusy))?;
                self.flying.insert(ticket, request);
                self.in_flight += 1;
                // From here on the request is on its way: a kernel that is busy now takes it later.
                enter(ring, 0)?;
            }
            Engine::Threads(pool) => {
                pool.send(ticket, request)?;
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
                    enter(ring, 1)?;
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
                    match request.take_up(result as usize) {
                        None => again.push((entry.user_data(), request)),
                        Some(done) => {
                            self.landed.insert(entry.user_data(), (request, Ok(done)));
                        }
                    }
                }
            }
            Engine::Threads(pool) => {
                for (ticket, request, result) in pool.landed(wait)? {
                    self.in_flight -= 1;
                    self.landed.insert(ticket, (request, result));
                }
            }
        }
        let mut result = Ok(());
        for (ticket, request) in again {
            result = result.and(self.start(ticket, request));
        }
        result
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
            if self.in_flight == 0 {
                // Its start failed; waiting would be for ever.
                return Err(io::Error::from_raw_os_error(libc::EIO));
            }
            self.reap(true)?;
        }
    }

    /// Wait for all that is in flight.
    pub fn settle(&mut self) -> io::Result<()> {
        while self.in_flight > 0 {
            self.reap(true)?;
        }
        Ok(())
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
        if self.settle().is_err() {
            std::mem::forget(std::mem::take(&mut self.flying));
        }
    }
}

/// Give the kernel what was pushed and wait for `want` completions. A kernel short of memory, or
/// with completions to collect first, is asked again.
fn enter(ring: &IoUring, want: usize) -> io::Result<()> {
    let mut tries = 0;
    loop {
        let error = match ring.submit_and_wait(want) {
            Ok(_) => return Ok(()),
            Err(error) => error,
        };
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // What was pushed stays in the queue, so without a wish to wait all is well.
            Some(libc::EAGAIN | libc::EBUSY) if want == 0 => return Ok(()),
            Some(libc::EAGAIN | libc::EBUSY) if tries < BUSY_TRIES => {
                tries += 1;
                std::thread::sleep(BUSY_NAP);
            }
            _ => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn engines() -> Vec<Engine> {
        let mut engines = vec![Engine::Threads(Pool::new().unwrap())];
        if let Ok(ring) = uring(ENTRIES) {
            engines.push(Engine::Uring(Box::new(ring)));
        }
        engines
    }

    /// The kernel answers EIO where a process has no memory, in a completion of io_uring, too.
    #[test]
    fn a_read_that_fails_fails_alone() {
        let broken = Arc::new(OwnedFd::from(
            std::fs::File::open("/proc/self/mem").unwrap(),
        ));
        let good = Arc::new(OwnedFd::from(
            std::fs::File::open("/proc/self/exe").unwrap(),
        ));
        for engine in engines() {
            let mut direct = Direct::with(engine);
            let files = [&good, &broken, &good, &broken];
            let tickets = files.map(|file| direct.submit(file, 0, 4).unwrap());
            for (at, ticket) in tickets.into_iter().enumerate() {
                match direct.finish(ticket) {
                    Ok(finished) => assert!(at % 2 == 0 && finished.bytes() == b"\x7fELF"),
                    Err(error) => {
                        assert!(at % 2 == 1, "{error}");
                        assert_eq!(error.raw_os_error(), Some(libc::EIO));
                    }
                }
            }
        }
    }

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
        let file = Arc::new(OwnedFd::from(file));
        for engine in engines() {
            let mut direct = Direct::with(engine);
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
                .map(|&(at, len)| direct.submit(&file, at, len).unwrap())
                .collect();
            for (ticket, (at, len)) in tickets.into_iter().zip(ranges).rev() {
                let finished = direct.finish(ticket).unwrap();
                let at = at as usize;
                assert_eq!(finished.bytes(), &bytes[at..(at + len).min(bytes.len())]);
                direct.recycle(finished);
            }
            // More than the queue holds at once.
            let tickets: Vec<_> = (0..200u64)
                .map(|n| direct.submit(&file, n * 7, 100).unwrap())
                .collect();
            for (n, ticket) in tickets.into_iter().enumerate() {
                assert_eq!(
                    direct.finish(ticket).unwrap().bytes(),
                    &bytes[n * 7..n * 7 + 100]
                );
            }
            let _in_flight_at_drop = direct.submit(&file, 0, 4096).unwrap();
        }
    }
}
