//! The threads that read where io_uring is not to be had.
//!
//! Law:
//! 1. A request is the thread's that took it, with its buffer, until it comes back with its result.
//! 2. A pool that is dropped ends its threads, after the reads that it was given.

use super::request::Request;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::mpsc;
use std::thread::JoinHandle;

const THREADS: usize = 4;

/// A ticket, its request, and how many bytes came.
pub(super) type Done = (u64, Request, io::Result<usize>);

#[derive(Debug)]
pub(super) struct Pool {
    jobs: Option<mpsc::Sender<(u64, Request)>>,
    done: mpsc::Receiver<Done>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    pub(super) fn new() -> io::Result<Pool> {
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
                        let Ok((ticket, mut request)) = job else {
                            return;
                        };
                        let result = read_all(&mut request);
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

    pub(super) fn send(&self, ticket: u64, request: Request) -> io::Result<()> {
        let jobs = self.jobs.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        let sent = jobs.send((ticket, request));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// What has come back; with `wait`, at least one.
    pub(super) fn landed(&self, wait: bool) -> io::Result<impl Iterator<Item = Done> + '_> {
        let first = if wait {
            Some(self.done.recv().map_err(|_| io::ErrorKind::BrokenPipe)?)
        } else {
            None
        };
        Ok(first.into_iter().chain(self.done.try_iter()))
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

fn read_all(request: &mut Request) -> io::Result<usize> {
    loop {
        // SAFETY: inside the request's own buffer, which this thread owns meanwhile.
        let got = unsafe {
            libc::pread(
                request.file.as_raw_fd(),
                request.buffer.base().add(request.done).cast(),
                request.len - request.done,
                (request.from + request.done as u64) as libc::off_t,
            )
        };
        if got < 0 {
            let error = io::Error::last_os_error();
            if error.kind() != io::ErrorKind::Interrupted {
                return Err(error);
            }
        } else if let Some(done) = request.take_up(got as usize) {
            return Ok(done);
        }
    }
}
