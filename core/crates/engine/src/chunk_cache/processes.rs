//! Decoded chunks that processes share, in memory that all of them map.
//!
//! Law:
//! 1. No process depends on another one, which may end between two steps. A chunk that is not there is
//!    decoded by the process that needs it; a mark that another process decodes it is good for
//!    `DECODED_WITHIN` at most.
//! 2. The bytes are a log. Each new chunk takes its next part, and so the oldest chunks go.
//!    A copy counts only if no process had taken its part when it was whole, and if its checksum is right:
//!    a process that was stopped while it wrote may write where others have written since.
//! 3. No reference leads into the log: bytes are copied in and out by address.
//! 4. Pages of the log are reserved before they are written. Where memory is short nothing is added.
//! 5. Names of chunks are mixed with numbers that this memory alone has, so that a file cannot choose
//!    where its chunks lie.

use super::Key;
use crc32fast::Hasher as Crc;
use os::clock::now_ns;
use os::fork::ForkMark;
use os::memory::{Mapping, SIZE_SEALS, begun_memfd, reserve, sealed_len};
use os::sync::AtomicU64;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MAGIC: u64 = u64::from_le_bytes(*b"MTSHARE1");
/// Places among which a chunk has its own.
const WAYS: usize = 8;
/// Bytes of the log for which there is one place.
const BYTES_OF_PLACE: usize = 16 << 10;
/// A chunk that takes more than this part of the log is not added.
const LARGEST_PART: usize = 4;
const RESERVED_STEP: usize = 4 << 20;
/// It takes less to decode any chunk: who began earlier has ended, or been stopped.
const DECODED_WITHIN: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 200 });

/// A place's state: 40 bits of the key, 22 of a count, and one of these.
const EMPTY: u64 = 0;
const BEGUN: u64 = 1;
const READY: u64 = 2;
const CODE: u64 = 3;
const COUNT: u64 = 1 << 2;
const TAG: u64 = !0 << 24;

#[repr(C)]
struct Head {
    magic: AtomicU64,
    /// These four are read once, when the memory is opened.
    n_places: AtomicU64,
    log_bytes: AtomicU64,
    seeds: [AtomicU64; 2],
    _pad: [AtomicU64; 3],
    /// Bytes that were ever taken of the log, and those that are reserved of it.
    taken: AtomicU64,
    reserved: AtomicU64,
    _rest: [AtomicU64; 6],
}

#[repr(C)]
struct Place {
    state: AtomicU64,
    source: AtomicU64,
    byte_offset: AtomicU64,
    /// Where its bytes begin, of all that were ever taken.
    at: AtomicU64,
    len: AtomicU64,
    checksum: AtomicU64,
    /// When it was begun (`now_ns`).
    since: AtomicU64,
    _pad: AtomicU64,
}

/// The state of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Nothing,
    /// Another thread or process decodes it now.
    Begun,
    Ready,
}

#[derive(Debug)]
pub struct ProcessCache {
    map: Mapping,
    fd: OwnedFd,
    n_places: usize,
    log_bytes: usize,
    seeds: [u64; 2],
}

fn bytes_of(n_places: usize, log_bytes: usize) -> usize {
    size_of::<Head>() + n_places * size_of::<Place>() + log_bytes
}

impl ProcessCache {
    /// Memory for about `limit` bytes of chunks.
    pub fn new(limit: usize) -> io::Result<ProcessCache> {
        let log_bytes = limit.next_multiple_of(RESERVED_STEP);
        let n_places = (log_bytes / BYTES_OF_PLACE).next_multiple_of(WAYS);
        let start = bytes_of(n_places, 0);
        let fd = begun_memfd(c"multitables-chunks", start + log_bytes, start)?;
        let map = Mapping::sparse(fd.as_fd(), start + log_bytes)?;
        // SAFETY: the mapping begins with a page and is longer than a head, which is all atomics.
        let head = unsafe { &*map.base().cast::<Head>() };
        head.n_places.store(n_places as u64, SeqCst);
        head.log_bytes.store(log_bytes as u64, SeqCst);
        let numbers = RandomState::new();
        for (number, seed) in head.seeds.iter().enumerate() {
            seed.store(numbers.hash_one(number), SeqCst);
        }
        head.magic.store(MAGIC, SeqCst);
        drop(map);
        ProcessCache::open(fd)
    }

    /// That of another process.
    pub fn open(fd: OwnedFd) -> io::Result<ProcessCache> {
        let odd = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let len = sealed_len(fd.as_fd(), SIZE_SEALS)?;
        if len < size_of::<Head>() {
            return Err(odd("memory for chunks is shorter than its head"));
        }
        let map = Mapping::sparse(fd.as_fd(), len)?;
        // SAFETY: as in `new`.
        let head = unsafe { &*map.base().cast::<Head>() };
        let size = |word: &AtomicU64| usize::try_from(word.load(SeqCst)).unwrap_or(usize::MAX);
        let (n_places, log_bytes) = (size(&head.n_places), size(&head.log_bytes));
        let sound = head.magic.load(SeqCst) == MAGIC
            && n_places <= len
            && log_bytes <= len
            && n_places % WAYS == 0
            && n_places > 0
            && log_bytes > 0;
        if !sound || bytes_of(n_places, log_bytes) != len {
            return Err(odd("the head of memory for chunks does not fit its bytes"));
        }
        let seeds = [&head.seeds[0], &head.seeds[1]].map(|seed| seed.load(SeqCst));
        Ok(ProcessCache {
            n_places,
            log_bytes,
            seeds,
            map,
            fd,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes of chunks that it holds at most.
    pub fn limit(&self) -> usize {
        self.log_bytes
    }

    /// A number for the source of a chunk: equal in all processes, and secret to others.
    pub fn number_of(&self, what: impl Hash) -> u64 {
        // Its own keys are known to all; the seeds are not.
        let mut hasher = std::hash::DefaultHasher::new();
        self.seeds.hash(&mut hasher);
        what.hash(&mut hasher);
        hasher.finish()
    }

    fn head(&self) -> &Head {
        // SAFETY: checked in `open`; all atomics, which others may write at any time.
        unsafe { &*self.map.base().cast::<Head>() }
    }

    /// The places in which a chunk may be.
    fn places(&self, key: Key) -> &[Place] {
        let set = (key.mixed() >> 12) as usize % (self.n_places / WAYS);
        let at = size_of::<Head>() + set * WAYS * size_of::<Place>();
        // SAFETY: inside the mapping (checked in `open`), 8-aligned, all atomics.
        unsafe { std::slice::from_raw_parts(self.map.base().add(at).cast::<Place>(), WAYS) }
    }

    fn place(&self, key: Key) -> Option<(&Place, u64)> {
        let tag = key.mixed() & TAG;
        let mut all = self.places(key).iter();
        all.find_map(|place| {
            let state = place.state.load(Acquire);
            (state & CODE != EMPTY && state & TAG == tag).then_some((place, state))
        })
    }

    /// Bytes `[at, at + len)` of all that were ever taken are still in the log.
    fn is_there(&self, at: u64, len: usize) -> bool {
        let taken = self.head().taken.load(SeqCst);
        let end = (at % self.log_bytes as u64).saturating_add(len as u64);
        let inside = end <= self.log_bytes as u64;
        inside && at < taken && taken - at <= self.log_bytes as u64
    }

    fn address(&self, at: u64) -> *mut u8 {
        let log = bytes_of(self.n_places, 0);
        // SAFETY: an offset inside the mapping.
        unsafe { (self.map.base()).add(log + (at % self.log_bytes as u64) as usize) }
    }

    pub fn known(&self, key: Key) -> Known {
        match self.place(key) {
            Some((_, state)) if state & CODE == READY => Known::Ready,
            Some((place, _)) if is_recent(place) => Known::Begun,
            _ => Known::Nothing,
        }
    }

    /// Copy a chunk, whose size is known, into `room`. False: it is not there, and `room` is anything.
    pub fn copy(&self, key: Key, room: &mut [u8]) -> bool {
        let Some((place, state)) = self.place(key).filter(|(_, state)| state & CODE == READY)
        else {
            return false;
        };
        let at = place.at.load(Acquire);
        let of = Key {
            source: place.source.load(Acquire),
            byte_offset: place.byte_offset.load(Acquire),
        };
        let (len, checksum) = (place.len.load(Acquire), place.checksum.load(Acquire));
        let is_it = of == key && len == room.len() as u64 && place.state.load(SeqCst) == state;
        if !is_it || !self.is_there(at, room.len()) {
            return false;
        }
        // SAFETY: inside the mapping (`is_there`). Others may write these bytes meanwhile, which the
        // two checks below find out.
        unsafe { std::ptr::copy_nonoverlapping(self.address(at), room.as_mut_ptr(), room.len()) };
        std::sync::atomic::fence(SeqCst);
        self.is_there(at, room.len()) && checksum == checksum_of(key, room)
    }

    /// Say that this thread decodes a chunk from now on.
    pub fn begin(&self, key: Key) {
        let tag = key.mixed() & TAG;
        let places = self.places(key);
        let known = places.iter().find(|place| {
            let state = place.state.load(Acquire);
            state & CODE != EMPTY && state & TAG == tag
        });
        let age = |place: &Place| match place.state.load(Acquire) & CODE {
            EMPTY => 0,
            READY => place.at.load(Relaxed).saturating_add(1),
            _ if is_recent(place) => u64::MAX,
            _ => 0,
        };
        let oldest = || places.iter().min_by_key(|place| age(place));
        let Some(place) = known.or_else(oldest) else {
            return;
        };
        let state = place.state.load(Acquire);
        let (at, len) = (place.at.load(Acquire), place.len.load(Acquire));
        if state & CODE == READY && state & TAG == tag && self.is_there(at, len as usize) {
            return; // another has added it meanwhile
        }
        let begun = tag | (state.wrapping_add(COUNT) & !TAG & !CODE) | BEGUN;
        let changed = place.state.compare_exchange(state, begun, SeqCst, SeqCst);
        if changed.is_ok() {
            place.since.store(now_ns(), Release);
        }
    }

    /// Take the mark back: this thread does not decode the chunk.
    pub fn abandon(&self, key: Key) {
        if let Some((place, state)) = self.place(key).filter(|(_, state)| state & CODE == BEGUN) {
            let _ = (place.state).compare_exchange(state, state & !CODE | EMPTY, SeqCst, SeqCst);
        }
    }

    /// Add a chunk, if it has a place and there is memory.
    pub fn add(&self, key: Key, chunk: &[u8]) {
        if chunk.is_empty() || chunk.len() > self.log_bytes / LARGEST_PART {
            return;
        }
        if self.place(key).is_none() {
            self.begin(key);
        }
        let begun = self.place(key).filter(|(_, state)| state & CODE == BEGUN);
        let Some((place, state)) = begun else {
            return; // it is there, or another has the place
        };
        let Some(at) = self.take(chunk.len()) else {
            return;
        };
        // SAFETY: inside the mapping: `take` gives no part across its end.
        unsafe { std::ptr::copy_nonoverlapping(chunk.as_ptr(), self.address(at), chunk.len()) };
        place.source.store(key.source, Release);
        place.byte_offset.store(key.byte_offset, Release);
        place.at.store(at, Release);
        place.len.store(chunk.len() as u64, Release);
        (place.checksum).store(checksum_of(key, chunk), Release);
        let ready = state & !CODE | READY;
        let _ = place.state.compare_exchange(state, ready, SeqCst, SeqCst);
    }

    /// Take the next `len` bytes of the log.
    fn take(&self, len: usize) -> Option<u64> {
        let (head, size) = (self.head(), self.log_bytes as u64);
        let next = |taken: u64| {
            let left = size - taken % size;
            if left < len as u64 {
                taken + left
            } else {
                taken
            }
        };
        let end = |taken: u64| next(taken).checked_add(len as u64);
        loop {
            let taken = head.taken.load(SeqCst);
            let new = end(taken)?;
            self.reserved(new.min(size) as usize)?;
            let changed = head.taken.compare_exchange(taken, new, SeqCst, SeqCst);
            if changed.is_ok() {
                std::sync::atomic::fence(SeqCst);
                return Some(next(taken));
            }
        }
    }

    /// See that the first `end` bytes of the log have pages.
    fn reserved(&self, end: usize) -> Option<()> {
        let reserved = &self.head().reserved;
        loop {
            let done = reserved.load(SeqCst).min(self.log_bytes as u64) as usize;
            if done >= end {
                return Some(());
            }
            let step = RESERVED_STEP.min(self.log_bytes - done);
            let at = bytes_of(self.n_places, 0) + done;
            reserve(self.fd.as_fd(), at, step).ok()?;
            let _ = reserved.compare_exchange(done as u64, (done + step) as u64, AcqRel, Acquire);
        }
    }
}

/// Who began a chunk may still be at it.
fn is_recent(place: &Place) -> bool {
    let since = place.since.load(Acquire);
    u128::from(now_ns().saturating_sub(since)) < DECODED_WITHIN.as_nanos()
}

fn checksum_of(key: Key, chunk: &[u8]) -> u64 {
    let mut crc = Crc::new_with_initial(key.mixed() as u32);
    crc.update(chunk);
    u64::from(crc.finalize()) | (key.source ^ key.byte_offset) << 32
}

// ---- that of the children of a process

/// The memory that children are given.
struct OfChildren {
    /// Of the process that made it; none in a child that was not forked.
    maker: Option<ForkMark>,
    /// Locked only to be given out or back; in a child whose parent had it at the fork, never.
    cache: Mutex<Option<Arc<ProcessCache>>>,
}

static OF_CHILDREN: AtomicPtr<OfChildren> = AtomicPtr::new(std::ptr::null_mut());

impl OfChildren {
    fn get() -> Option<&'static OfChildren> {
        // SAFETY: what is stored there is never freed.
        unsafe { OF_CHILDREN.load(Acquire).as_ref() }
    }

    fn set(maker: Option<ForkMark>, cache: ProcessCache) -> Arc<ProcessCache> {
        let cache = Arc::new(cache);
        let new = OfChildren {
            maker,
            cache: Mutex::new(Some(cache.clone())),
        };
        OF_CHILDREN.store(Box::into_raw(Box::new(new)), Release);
        cache
    }

    fn cache(&self) -> Option<Arc<ProcessCache>> {
        self.cache.try_lock().ok()?.clone()
    }

    /// This process made it.
    fn is_mine(&self) -> bool {
        self.maker.as_ref().is_some_and(ForkMark::is_mine)
    }
}

/// Before a child is started: memory of `limit` bytes in which children share what they decode. One
/// that was inherited serves the children of children.
pub fn for_children(limit: usize) -> io::Result<Arc<ProcessCache>> {
    match OfChildren::get().and_then(OfChildren::cache) {
        Some(known) => Ok(known),
        None => Ok(OfChildren::set(
            Some(ForkMark::new()?),
            ProcessCache::new(limit)?,
        )),
    }
}

/// In a child that was not forked: share what its parent's other children decode.
pub fn join(memory: OwnedFd) -> io::Result<()> {
    OfChildren::set(None, ProcessCache::open(memory)?);
    Ok(())
}

/// The memory that this process shares with its parent's other children. None: it is no child, or has
/// no such memory.
pub fn shared_with_siblings() -> Option<Arc<ProcessCache>> {
    OfChildren::get().filter(|known| !known.is_mine())?.cache()
}

/// Give back the memory that was made for children to come; living children keep it.
pub fn release() {
    if let Some(known) = OfChildren::get().filter(|known| known.is_mine()) {
        if let Ok(mut cache) = known.cache.try_lock() {
            *cache = None;
        }
    }
}

#[cfg(test)]
mod tests;
