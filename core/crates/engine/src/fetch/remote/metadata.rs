//! The metadata of an object: read in few and large blocks, which are kept.
//!
//! Law:
//! 1. A block near the end of another one is as long as all bytes that were read so far, up to the longest
//!    request: where every byte is metadata, the kept bytes double with each block. Elsewhere a block is
//!    short, at most a gap that is fetched along. Of a file with pages, it is whole
//!    pages. An object of two requests at most is fetched as a whole.
//! 2. `prefetch` fetches ranges that will be read: all at once, neighbours together. One that a block
//!    would bring is fetched as that block.
//! 3. Blocks are bounded in bytes; the first to come is the first to go.
//! 4. A thread that misses a range which another one fetches waits for it. A forked process starts again,
//!    because the threads that it would wait for stayed in its parent.

use super::object::Object;
use super::pool::Pool;
use super::queue::{Origin, RemoteQueue, interrupted};
use crate::fetch::error::FetchError;
use hdf5_format::source::ByteSource;
use os::interrupt::{PULSE, is_stopped};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use tables::access::Access;

/// The first block of a file, and the shortest elsewhere.
pub const FIRST_BYTES: u64 = 128 << 10;
const SHORT_BYTES: u64 = 32 << 10;
/// Blocks that are kept.
const KEPT_BYTES: u64 = 128 << 20;

pub struct RemoteMetadata {
    object: Arc<Object>,
    blocks: Blocks,
}

/// The blocks of one process.
struct Blocks {
    process: u32,
    /// The blocks of a fork of the process.
    of_fork: OnceLock<Box<Blocks>>,
    state: Mutex<State>,
    fetched: Condvar,
    /// Its threads are kept for the next block.
    _pool: Arc<Pool>,
    /// Bytes that were read.
    used: AtomicU64,
}

#[derive(Default)]
struct State {
    /// By where they begin; they do not overlap.
    blocks: BTreeMap<u64, Arc<Vec<u8>>>,
    order: VecDeque<u64>,
    bytes: u64,
    /// Ranges that threads fetch now.
    pending: Vec<Range<u64>>,
    page_bytes: u64,
    is_closed: bool,
}

impl RemoteMetadata {
    pub fn new(object: Arc<Object>) -> RemoteMetadata {
        RemoteMetadata {
            object,
            blocks: Blocks::new(),
        }
    }

    /// Keep bytes that a request brought already.
    pub fn keep(&self, begin: u64, bytes: Vec<u8>) {
        self.object.requests.fetch_add(1, Relaxed);
        self.object.bytes.fetch_add(bytes.len() as u64, Relaxed);
        self.lock().keep(begin, bytes);
    }

    /// Forget all blocks, and read no more.
    pub fn close(&self) {
        let page_bytes = self.lock().page_bytes;
        *self.lock() = State {
            page_bytes,
            is_closed: true,
            ..State::default()
        };
    }

    /// Requests, and bytes that they brought.
    pub fn counts(&self) -> (u64, u64) {
        let object = &self.object;
        (object.requests.load(Relaxed), object.bytes.load(Relaxed))
    }

    fn blocks(&self) -> &Blocks {
        let me = std::process::id();
        let mut blocks = &self.blocks;
        while blocks.process != me {
            blocks = blocks.of_fork.get_or_init(|| Box::new(Blocks::new()));
        }
        blocks
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = &self.blocks().state;
        state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block with the byte at `at`, and where it begins.
    fn block(&self, at: u64) -> io::Result<(u64, Arc<Vec<u8>>)> {
        let mut state = self.lock();
        loop {
            if let Some(found) = state.find(at) {
                return Ok(found);
            }
            if state.is_closed {
                return Err(io::Error::from_raw_os_error(libc::EBADF));
            }
            if !state.pending.iter().any(|range| range.contains(&at)) {
                break;
            }
            let woken = self.blocks().fetched.wait_timeout(state, PULSE);
            let (again, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                drop(again);
                if is_stopped() {
                    return Err(io_error(interrupted()));
                }
                state = self.lock();
            } else {
                state = again;
            }
        }
        let used = self.blocks().used.load(Relaxed);
        let range = state.next_block(at, self.object.size, &self.object.access, used);
        state.pending.push(range.clone());
        drop(state);
        // By a thread of the pool, so that the wait for it can be interrupted.
        let mut queue = RemoteQueue::new(u64::MAX, self.object.access.requests);
        let origin = Origin::Object(self.object.clone());
        let ticket = queue.submit(origin, range.start, (range.end - range.start) as usize);
        let bytes = queue.finish(ticket);
        let mut state = self.lock();
        state.pending.retain(|pending| *pending != range);
        self.blocks().fetched.notify_all();
        Ok((
            range.start,
            state.keep(range.start, bytes.map_err(io_error)?),
        ))
    }
}

impl Blocks {
    fn new() -> Blocks {
        Blocks {
            process: std::process::id(),
            of_fork: OnceLock::new(),
            state: Mutex::default(),
            fetched: Condvar::new(),
            _pool: Pool::of_process(),
            used: AtomicU64::new(0),
        }
    }
}

impl ByteSource for RemoteMetadata {
    fn size(&self) -> u64 {
        self.object.size
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset.saturating_add(out.len() as u64) > self.object.size {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let (begin, block) = self.block(at)?;
            let bytes = &block[(at - begin) as usize..];
            let len = bytes.len().min(out.len() - done);
            self.blocks().used.fetch_add(len as u64, Relaxed);
            out[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
        }
        Ok(())
    }

    fn prefetch(&self, wanted: &mut dyn Iterator<Item = (u64, u64)>) {
        let (size, access) = (self.object.size, &self.object.access);
        let ends = wanted.map(|(begin, len)| begin.min(size)..begin.saturating_add(len).min(size));
        let mut ranges: Vec<Range<u64>> = ends.filter(|range| !range.is_empty()).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let mut state = self.lock();
        let runs = state.missing(&ranges, access);
        if runs.is_empty() || state.is_closed {
            return;
        }
        if let [one] = &runs[..] {
            let used = self.blocks().used.load(Relaxed);
            let block = state.next_block(one.start, size, access, used);
            if one.end <= block.end {
                drop(state);
                drop(self.block(one.start)); // a failure comes again when the range is read
                return;
            }
        }
        state.pending.extend_from_slice(&runs);
        drop(state);
        let mut queue = RemoteQueue::new(access.memory_bytes, access.requests);
        let ask = |run: &Range<u64>| {
            let len = (run.end - run.start) as usize;
            queue.submit(Origin::Object(self.object.clone()), run.start, len)
        };
        let tickets: Vec<u64> = runs.iter().map(ask).collect();
        for (run, ticket) in runs.into_iter().zip(tickets) {
            // A range that fails here fails again when it is read, with its error.
            let bytes = queue.finish(ticket);
            let mut state = self.lock();
            state.pending.retain(|pending| *pending != run);
            if let Ok(bytes) = bytes {
                queue.taken(bytes.len());
                state.keep(run.start, bytes);
            }
            self.blocks().fetched.notify_all();
        }
    }

    fn wants_prefetch(&self) -> bool {
        true
    }

    fn has(&self, offset: u64, len: u64) -> bool {
        let (state, end) = (self.lock(), offset.saturating_add(len));
        let mut at = offset;
        while at < end {
            match state.find(at) {
                Some((begin, block)) => at = begin + block.len() as u64,
                None => return state.is_closed, // where a read fails at once
            }
        }
        true
    }

    fn has_pages(&self, page_bytes: u64) {
        self.lock().page_bytes = page_bytes;
    }
}

impl State {
    /// The block that has a byte.
    fn find(&self, at: u64) -> Option<(u64, Arc<Vec<u8>>)> {
        let (begin, block) = self.blocks.range(..=at).next_back()?;
        (at - begin < block.len() as u64).then(|| (*begin, block.clone()))
    }

    /// The block to fetch for a missing byte; `used` bytes were read so far.
    fn next_block(&self, at: u64, size: u64, access: &Access, used: u64) -> Range<u64> {
        let (limit, gap) = (access.request_bytes, access.gap_bytes);
        let before = self.blocks.range(..=at).next_back();
        let behind = self
            .blocks
            .range(at..)
            .next()
            .map_or(size, |(begin, _)| *begin);
        let from = before.map_or(0, |(begin, block)| begin + block.len() as u64);
        let is_small = size <= 2 * limit;
        let used = if is_small { size } else { used };
        let grown = used.clamp(SHORT_BYTES, limit.max(SHORT_BYTES));
        let short = (used / 8).clamp(SHORT_BYTES, gap.max(SHORT_BYTES));
        let len = if at - from <= grown { grown } else { short };
        // Right behind a block, this one goes on; elsewhere the bytes before may be wanted, too.
        let mut range = match at - from < SHORT_BYTES {
            true => from..from + len,
            false => at / SHORT_BYTES * SHORT_BYTES..at / SHORT_BYTES * SHORT_BYTES + len,
        };
        if (1..=limit).contains(&self.page_bytes) {
            range.start = at / self.page_bytes * self.page_bytes;
            range.end = range.start + len.next_multiple_of(self.page_bytes);
        }
        range.start.max(from)..range.end.max(at + 1).min(behind).min(size)
    }

    /// The parts of sorted ranges that are neither here nor on their way, neighbours together.
    fn missing(&self, ranges: &[Range<u64>], access: &Access) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                if let Some((begin, block)) = self.find(at) {
                    at = begin + block.len() as u64;
                    continue;
                }
                if let Some(pending) = self.pending.iter().find(|range| range.contains(&at)) {
                    at = pending.end;
                    continue;
                }
                let behind = self.blocks.range(at..).next().map(|(begin, _)| *begin);
                let pending = self.pending.iter().map(|range| range.start);
                let next = pending.chain(behind).filter(|&begin| begin > at).min();
                let end = range.end.min(next.unwrap_or(u64::MAX));
                match runs.last_mut() {
                    Some(run) if at <= run.end => run.end = run.end.max(end),
                    Some(run)
                        if at - run.end <= access.gap_bytes
                            && end - run.start <= access.request_bytes
                            && self.is_free(run.end..at) =>
                    {
                        run.end = end;
                    }
                    _ => runs.push(at..end),
                }
                at = end;
            }
        }
        runs
    }

    /// No part of a range is on its way. (Kept blocks inside it are fetched again, with their neighbours.)
    fn is_free(&self, range: Range<u64>) -> bool {
        let mut pending = self.pending.iter();
        !pending.any(|other| other.start < range.end && range.start < other.end)
    }

    fn keep(&mut self, begin: u64, bytes: Vec<u8>) -> Arc<Vec<u8>> {
        let block = Arc::new(bytes);
        if self.is_closed || block.is_empty() {
            return block;
        }
        let end = begin + block.len() as u64;
        let inside: Vec<u64> = self.blocks.range(begin..end).map(|(at, _)| *at).collect();
        for at in inside {
            let gone = self.blocks.remove(&at);
            self.bytes -= gone.map_or(0, |block| block.len() as u64);
        }
        self.bytes += block.len() as u64;
        self.order.push_back(begin);
        if let Some(old) = self.blocks.insert(begin, block.clone()) {
            self.bytes -= old.len() as u64;
        }
        while self.bytes > KEPT_BYTES && self.order.len() > 1 {
            let gone = self
                .order
                .pop_front()
                .and_then(|at| self.blocks.remove(&at));
            self.bytes -= gone.map_or(0, |block| block.len() as u64);
        }
        block
    }
}

/// The error of a store is carried as it is.
fn io_error(error: FetchError) -> io::Error {
    match error {
        FetchError::Open(error) | FetchError::Read(error) => error,
        other => io::Error::other(StoreError(other)),
    }
}

/// Why a store did not give bytes.
#[derive(Debug)]
pub struct StoreError(pub FetchError);

impl std::fmt::Display for StoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            FetchError::Store(text) => f.write_str(text),
            other => write!(f, "{other:?}"),
        }
    }
}

impl std::error::Error for StoreError {}
