//! Decoded chunks that are kept, within a bound.
//!
//! Operations: `find` a chunk; `room` for one that is decoded, then `keep` it, or `give_back` the room;
//! `is_worth_it` and `note` for chunks of which parts can be decoded. `SharedCache` has the same for
//! threads.
//!
//! Law:
//! 1. Bytes kept, and what it takes to keep them, never exceed the limit. A chunk that would not fit
//!    alone is not kept.
//! 2. Which chunk goes is the policy's. `S3Fifo` (Yang et al., "FIFO queues are all you need for cache
//!    eviction", SOSP 2023) has newcomers in a small queue, from which those that are found again go
//!    to the main one: so what is asked for once replaces nothing that is asked for often. `Never` is
//!    for shuffles: windows visit chunks cyclically, so any other would evict what is needed next.
//! 3. The memory of a chunk that goes is that of the one that comes: fresh memory costs more than
//!    decoding into memory that was used before.
//! 4. A chunk of which only parts were decoded, or that went, is a ghost: nothing of it is kept but how
//!    much work it was. It is worth keeping once, within as many other bytes as the cache holds, the
//!    parts have been half the work of the whole, or it has been asked for often.
//! 5. A chunk that goes while somebody copies from it lives on until that is done.
//! 6. Knows nothing of files, filters or requests.

pub mod processes;
mod shared;

pub use shared::SharedCache;

use std::alloc::{Layout, alloc_zeroed};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr::NonNull;
use std::sync::Arc;

/// What a kept chunk takes beside its bytes, generously.
pub const ENTRY_BYTES: usize = 128;
/// The small queue has this part of the limit.
const SMALL: usize = 10;
/// Uses that are counted.
const MAX_USES: u8 = 3;
/// A power of two. A ghost that is overwritten by another one is forgotten.
const GHOSTS: usize = 1 << 12;
/// Asked for this often, the whole chunk is decoded and kept.
const OFTEN: u32 = 3;

/// Which chunks go when others come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    Never,
    S3Fifo,
}

/// Where a chunk comes from: a way to decode a file, and the chunk's address in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Key {
    pub source: u64,
    pub byte_offset: u64,
}

impl Key {
    fn mixed(self) -> u64 {
        let mixed =
            (self.byte_offset ^ self.source.rotate_left(40)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 32)
    }
}

impl std::hash::Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.mixed());
    }
}

/// Keys are mixed already. A file whose chunks collide only slows its own reading.
#[derive(Default)]
struct Mixed(u64);

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn write_u64(&mut self, mixed: u64) {
        self.0 = mixed;
    }
}

/// A decoded chunk that is kept, or that somebody still looks at.
pub type Kept = Arc<Vec<u8>>;

#[derive(Debug)]
struct Entry {
    bytes: Kept,
    /// How often it was found since it came, or since it was passed over.
    uses: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    key: Key,
    clock: u64,
    work: u64,
    touches: u32,
}

#[derive(Debug)]
pub struct ChunkCache {
    policy: Policy,
    limit: usize,
    /// Of all entries, and of rooms that are out.
    bytes: usize,
    small_bytes: usize,
    entries: HashMap<Key, Entry, BuildHasherDefault<Mixed>>,
    /// The next to go is first.
    small: VecDeque<Key>,
    main: VecDeque<Key>,
    ghosts: Vec<Ghost>,
    /// Bytes of all chunks that were asked for and not found.
    clock: u64,
}

impl ChunkCache {
    pub fn new(limit_bytes: usize, policy: Policy) -> ChunkCache {
        ChunkCache {
            policy,
            limit: limit_bytes,
            bytes: 0,
            small_bytes: 0,
            entries: HashMap::default(),
            small: VecDeque::new(),
            main: VecDeque::new(),
            ghosts: Vec::new(),
            clock: 0,
        }
    }

    /// What is kept, and what it takes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A chunk of `len` bytes can be kept at all.
    fn fits(&self, len: usize) -> bool {
        len.saturating_add(ENTRY_BYTES) <= self.limit
    }

    pub fn holds(&self, key: Key) -> bool {
        self.entries.contains_key(&key)
    }

    /// The decoded chunk.
    pub fn find(&mut self, key: Key) -> Option<Kept> {
        let entry = self.entries.get_mut(&key)?;
        entry.uses = MAX_USES.min(entry.uses + 1);
        Some(entry.bytes.clone())
    }

    /// Memory to decode a chunk of `len` bytes into, of chunks that go for it; to be kept, or given
    /// back. None: it does not fit, or there is no memory.
    pub fn room(&mut self, len: usize) -> Option<Vec<u8>> {
        let mut gone = Vec::new();
        if !self.reserve(len, &mut gone) {
            return None;
        }
        let room = made_of(gone, len);
        if room.is_none() {
            self.give_back(len);
        }
        room
    }

    /// Let chunks go until there is room for one of `len` bytes, which counts from now on. False: it
    /// does not fit.
    fn reserve(&mut self, len: usize, gone: &mut Vec<Kept>) -> bool {
        if !self.fits(len) {
            return false;
        }
        while self.bytes + len + ENTRY_BYTES > self.limit {
            match self.evict() {
                Some(chunk) => gone.push(chunk),
                None => return false,
            }
        }
        self.bytes += len + ENTRY_BYTES;
        true
    }

    /// Take memory from `room` back, of `len` bytes: its chunk is not kept.
    pub fn give_back(&mut self, len: usize) {
        self.bytes -= len + ENTRY_BYTES;
    }

    /// Keep a decoded chunk in memory from `room`. `worth`: what `is_worth_it` said of it.
    pub fn keep(&mut self, key: Key, bytes: Kept, worth: bool) {
        if self.holds(key) {
            // Another thread decoded it, too.
            return self.give_back(bytes.len());
        }
        if worth {
            self.main.push_back(key);
        } else {
            self.small.push_back(key);
            self.small_bytes += bytes.len() + ENTRY_BYTES;
        }
        self.entries.insert(key, Entry { bytes, uses: 0 });
    }

    /// Forget everything that was decoded from `source`.
    pub fn forget(&mut self, source: u64) {
        self.forget_all(|key| key.source == source);
    }

    fn forget_all(&mut self, is_it: impl Fn(&Key) -> bool) {
        let entries = &mut self.entries;
        let mut forget = |keys: &mut VecDeque<Key>| {
            let mut bytes = 0;
            keys.retain(|key| {
                if !is_it(key) {
                    return true;
                }
                let gone = entries.remove(key);
                bytes += gone.map_or(0, |gone| gone.bytes.len() + ENTRY_BYTES);
                false
            });
            bytes
        };
        let small = forget(&mut self.small);
        self.bytes -= small + forget(&mut self.main);
        self.small_bytes -= small;
    }

    /// Whether a chunk that was not found should be decoded whole, to be kept.
    pub fn is_worth_it(&mut self, key: Key, len: usize) -> bool {
        self.clock = self.clock.wrapping_add(len as u64);
        if !self.fits(len) {
            return false;
        }
        let recently = self.limit as u64;
        let clock = self.clock;
        let ghost = self.ghost(key);
        let age = clock.wrapping_sub(ghost.clock);
        if ghost.touches == 0 || ghost.key != key || age > recently {
            *ghost = Ghost {
                key,
                ..Ghost::default()
            };
        }
        ghost.clock = clock;
        let has_worked = ghost.touches > 0 && ghost.work >= len as u64 / 2;
        has_worked || ghost.touches >= OFTEN
    }

    /// `work` bytes were decoded of a chunk that is not kept, or not for long.
    pub fn note(&mut self, key: Key, work: usize) {
        let ghost = self.ghost(key);
        if ghost.key == key {
            ghost.work = ghost.work.saturating_add(work as u64);
            ghost.touches += 1;
        }
    }

    fn ghost(&mut self, key: Key) -> &mut Ghost {
        if self.ghosts.is_empty() {
            self.ghosts.resize(GHOSTS, Ghost::default());
        }
        &mut self.ghosts[(key.mixed() >> 7) as usize % GHOSTS]
    }

    /// Let a chunk go. None: none may.
    fn evict(&mut self) -> Option<Kept> {
        if self.policy == Policy::Never {
            return None;
        }
        loop {
            let of_small = self.main.is_empty() || self.small_bytes > self.limit / SMALL;
            let key = match of_small {
                true => self.small.pop_front().or_else(|| self.main.pop_front())?,
                false => self.main.pop_front()?,
            };
            let entry = self.entries.get_mut(&key)?;
            let size = entry.bytes.len() + ENTRY_BYTES;
            if of_small {
                self.small_bytes = self.small_bytes.saturating_sub(size);
            }
            if entry.uses > 0 {
                // It stays, or moves on to the main queue.
                entry.uses = if of_small { 0 } else { entry.uses - 1 };
                self.main.push_back(key);
                continue;
            }
            let gone = self.entries.remove(&key)?;
            self.bytes -= size;
            if of_small {
                self.note(key, gone.bytes.len());
            }
            return Some(gone.bytes);
        }
    }
}

/// Memory for `len` bytes, of chunks that went if it fits. None: there is no memory.
fn made_of(gone: Vec<Kept>, len: usize) -> Option<Vec<u8>> {
    // Not far more memory than there are bytes: the limit counts bytes.
    let fits = |room: &Vec<u8>| room.capacity() >= len && room.capacity() <= len + len / 4;
    let mut unused = gone.into_iter().filter_map(Arc::into_inner);
    let mut room = unused.find(fits).or_else(|| zeroed(len))?;
    room.resize(len, 0);
    Some(room)
}

/// Memory from the kernel is zero already: to write that would touch it once more. None: there is
/// no memory.
fn zeroed(len: usize) -> Option<Vec<u8>> {
    let layout = Layout::array::<u8>(len).ok().filter(|_| len > 0)?;
    // SAFETY: the layout's size is not zero.
    let bytes = NonNull::new(unsafe { alloc_zeroed(layout) })?;
    // SAFETY: `len` bytes of the global allocator, all written, aligned as bytes are, of this Vec
    // alone.
    Some(unsafe { Vec::from_raw_parts(bytes.as_ptr(), len, len) })
}

#[cfg(test)]
mod tests;
