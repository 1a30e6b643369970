//! The reads of one queue that are under way at a store.
//!
//! Law:
//! 1. `submit` asks for a range and returns a ticket; `finish` waits for it and gives its bytes. Tickets
//!    may be finished in any order.
//! 2. The bytes that were asked for and not taken are bounded. A read beyond the bound starts later, in
//!    order, and at the latest when its caller waits for it.
//! 3. A wait ends when the program is interrupted; what was asked for is left to the pool's threads.
//! 4. Files of this machine, and bytes in memory, are read in the same way, beside objects.

use super::object::Object;
use super::pool::Pool;
use crate::fetch::buffer::grow;
use crate::fetch::error::FetchError;
use os::interrupt;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Where bytes come from.
#[derive(Clone, Debug)]
pub enum Origin {
    Object(Arc<Object>),
    File(Arc<OwnedFd>),
    Memory(Arc<[u8]>),
}

/// A read that has ended. Of one that failed the memory may be anything.
struct Landed {
    ticket: u64,
    len: usize,
    bytes: Vec<u8>,
    done: Result<(), FetchError>,
}

/// A read that was not started yet.
struct Waiting {
    ticket: u64,
    origin: Origin,
    begin: u64,
    len: usize,
}

pub struct RemoteQueue {
    pool: Arc<Pool>,
    next: u64,
    waiting: VecDeque<Waiting>,
    landed: HashMap<u64, Landed>,
    /// Reads that were started and are not wanted any more.
    discarded: HashSet<u64>,
    /// Started and not landed, and the bytes of all that were started and not taken.
    in_flight: usize,
    bytes: u64,
    limit: u64,
    requests: usize,
    outbox: Sender<Landed>,
    inbox: Receiver<Landed>,
    spare: Vec<Vec<u8>>,
}

/// Buffers that are kept for the next reads.
const SPARE: usize = 16;

impl std::fmt::Debug for RemoteQueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteQueue")
            .field("in_flight", &self.in_flight)
            .finish_non_exhaustive()
    }
}

impl RemoteQueue {
    /// At most `limit` bytes, and `requests` of the whole process, are under way.
    pub fn new(limit: u64, requests: usize) -> RemoteQueue {
        let (outbox, inbox) = channel();
        RemoteQueue {
            pool: Pool::of_process(),
            next: 0,
            waiting: VecDeque::new(),
            landed: HashMap::new(),
            discarded: HashSet::new(),
            in_flight: 0,
            bytes: 0,
            limit,
            requests,
            outbox,
            inbox,
            spare: Vec::new(),
        }
    }

    /// Ask for `len` bytes from `begin` on.
    pub fn submit(&mut self, origin: Origin, begin: u64, len: usize) -> u64 {
        let ticket = self.next;
        self.next += 1;
        self.waiting.push_back(Waiting {
            ticket,
            origin,
            begin,
            len,
        });
        self.start(None);
        ticket
    }

    /// Start the reads that the bound allows, and all reads up to a ticket.
    fn start(&mut self, needed: Option<u64>) {
        while let Some(first) = self.waiting.front() {
            let len = first.len as u64;
            let fits = self.bytes == 0 || self.bytes + len <= self.limit;
            if !fits && needed.is_none_or(|ticket| first.ticket > ticket) {
                return;
            }
            if let Some(read) = self.waiting.pop_front() {
                self.bytes += len;
                self.in_flight += 1;
                self.send(read);
            }
        }
    }

    fn send(&mut self, read: Waiting) {
        let Waiting {
            ticket,
            origin,
            begin,
            len,
        } = read;
        let (mut bytes, outbox) = (self.spare.pop().unwrap_or_default(), self.outbox.clone());
        let job = move || {
            let done = fill(&origin, begin, len, &mut bytes);
            // Without a receiver the queue is gone, and nothing is waited for.
            let _ = outbox.send(Landed {
                ticket,
                len,
                bytes,
                done,
            });
        };
        self.pool.send(Box::new(job), self.requests);
    }

    /// Take in a read that has ended.
    fn land(&mut self, read: Landed) {
        self.in_flight -= 1;
        match self.discarded.remove(&read.ticket) {
            true => self.release(read.len, read.bytes),
            false => {
                self.landed.insert(read.ticket, read);
            }
        }
    }

    /// Wait for a read and take its bytes.
    pub fn finish(&mut self, ticket: u64) -> Result<Vec<u8>, FetchError> {
        loop {
            while let Ok(landed) = self.inbox.try_recv() {
                self.land(landed);
            }
            if let Some(read) = self.landed.remove(&ticket) {
                if let Err(error) = read.done {
                    self.release(read.len, read.bytes);
                    return Err(error);
                }
                return Ok(read.bytes);
            }
            self.start(Some(ticket));
            if self.in_flight == 0 {
                // It was never asked for; waiting would be for ever.
                return Err(FetchError::Read(io::Error::from_raw_os_error(libc::EIO)));
            }
            // There is a sender, this queue's own, so an answer comes.
            match self.inbox.recv_timeout(interrupt::PULSE) {
                Ok(landed) => self.land(landed),
                Err(_) if interrupt::is_stopped() => return Err(interrupted()),
                Err(_) => {}
            }
        }
    }

    /// A read is not wanted any more. One that was started goes on.
    pub fn discard(&mut self, ticket: u64) {
        if let Some(at) = self.waiting.iter().position(|read| read.ticket == ticket) {
            self.waiting.remove(at);
        } else if let Some(read) = self.landed.remove(&ticket) {
            self.release(read.len, read.bytes);
        } else {
            self.discarded.insert(ticket);
        }
    }

    /// Give a finished read's memory back for the next one.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.release(bytes.len(), bytes);
    }

    /// A finished read's memory is the caller's from now on.
    pub fn taken(&mut self, len: usize) {
        self.bytes = self.bytes.saturating_sub(len as u64);
        self.start(None);
    }

    fn release(&mut self, len: usize, bytes: Vec<u8>) {
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
        self.taken(len);
    }
}

/// The program does not want to wait any longer.
pub fn interrupted() -> FetchError {
    FetchError::Store("\0Interrupted\0the program was interrupted".into())
}

/// Make `bytes` the `len` bytes of an origin from `begin` on.
fn fill(origin: &Origin, begin: u64, len: usize, bytes: &mut Vec<u8>) -> Result<(), FetchError> {
    let room = grow(bytes, len);
    bytes.truncate(len);
    room.map_err(FetchError::Read)?;
    match origin {
        Origin::Object(object) => object.read(begin, bytes),
        Origin::Memory(all) => {
            let part = usize::try_from(begin).ok();
            let part = part.and_then(|begin| all.get(begin..)?.get(..len));
            let (expected, got) = (len as u64, 0);
            bytes.copy_from_slice(part.ok_or(FetchError::Short { expected, got })?);
            Ok(())
        }
        Origin::File(fd) => {
            let file = File::from(fd.try_clone().map_err(FetchError::Read)?);
            file.read_exact_at(bytes, begin).map_err(|error| {
                let expected = len as u64;
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => FetchError::Short { expected, got: 0 },
                    _ => FetchError::Read(error),
                }
            })
        }
    }
}
