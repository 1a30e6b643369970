//! Decoded chunks that are kept from request to request, within a bound.
//!
//! Law:
//! 1. Bytes kept, and what it takes to keep them, never exceed the limit; the least recently used
//!    chunk goes first, but for law 4. A chunk that would not fit alone is not kept.
//! 2. The memory of a chunk that goes is that of the one that comes: fresh memory costs more than
//!    decoding into memory that was used before.
//! 3. A chunk of which only parts were decoded is a ghost: nothing of it is kept but how much work
//!    it was. It is worth keeping once, within as many other bytes as the cache holds, the parts
//!    have been half the work of the whole, or it has been asked for often.
//! 4. A cache that is full, and holds many chunks, takes newcomers on trial: of those on trial the
//!    oldest goes first, unless it was found again. Where every chunk is as likely as any other,
//!    one that comes is worth no more than one that is there: what is kept stays, and chunks are
//!    decoded into memory that was used a moment ago. A newcomer that was asked for a short while
//!    ago stays, and now and then one of those that were seen before, as likings change.
//! 5. Knows nothing of files, filters or requests.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ptr::NonNull;

/// What a kept chunk takes beside its bytes, generously.
pub const ENTRY_BYTES: usize = 128;
/// A power of two. A ghost that is overwritten by another one is forgotten.
const GHOSTS: usize = 1 << 12;
/// So often, and the whole chunk is decoded and kept.
const OFTEN: u32 = 3;
/// Chunks that may be on trial, and chunks from which on a cache has trials.
const TRIALS: usize = 4;
const MANY: usize = 16;
/// A full cache keeps what was asked for within this part of its limit, and one in `NOW_AND_THEN` others.
const RECENT: u64 = 16;
const NOW_AND_THEN: u32 = 8;
const NONE: u32 = u32::MAX;

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

#[derive(Debug)]
struct Entry {
    key: Key,
    bytes: Vec<u8>,
    /// Neighbours in the order of use.
    newer: u32,
    older: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Ghost {
    key: Key,
    clock: u64,
    /// From the touch before the last to the last, by the clock.
    gap: u64,
    work: u64,
    touches: u32,
}

#[derive(Debug)]
pub struct ChunkCache {
    limit: usize,
    bytes: usize,
    places: HashMap<Key, u32, BuildHasherDefault<Mixed>>,
    entries: Vec<Entry>,
    /// Entries without a chunk.
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    /// On trial, the oldest first.
    trials: Vec<u32>,
    ghosts: Vec<Ghost>,
    /// How many chunks a full cache was asked about.
    asked: u32,
    /// Bytes of all chunks that were asked for and not found.
    clock: u64,
}

impl ChunkCache {
    pub fn new(limit_bytes: usize) -> ChunkCache {
        ChunkCache {
            limit: limit_bytes,
            bytes: 0,
            places: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            trials: Vec::new(),
            ghosts: Vec::new(),
            asked: 0,
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
        self.places.contains_key(&key)
    }

    /// The decoded chunk, which is now the most recently used, and on trial no more.
    pub fn find(&mut self, key: Key) -> Option<&[u8]> {
        let place = *self.places.get(&key)?;
        if self.newest != place {
            self.unlink(place);
            self.link(place);
        }
        self.end_trial(place);
        Some(&self.entries[place as usize].bytes)
    }

    /// Memory to decode a chunk of `len` bytes into, of chunks that go for it; to be kept, or returned.
    /// None: it does not fit, or there is no memory.
    pub fn room(&mut self, len: usize) -> Option<Vec<u8>> {
        let needed = len.checked_add(ENTRY_BYTES)?;
        if needed > self.limit {
            return None;
        }
        let mut room = Vec::new();
        while self.bytes + needed > self.limit {
            let gone = self.forget_one()?;
            // Not far more memory than there are bytes: the limit counts bytes.
            if gone.capacity() >= len && gone.capacity() <= len + len / 4 {
                room = gone;
            }
        }
        if room.capacity() < len {
            room = zeroed(len)?;
        }
        room.resize(len, 0);
        self.bytes += needed;
        Some(room)
    }

    /// Take memory from `room` back: its chunk is not kept.
    pub fn give_back(&mut self, room: &[u8]) {
        self.bytes -= room.len() + ENTRY_BYTES;
    }

    /// Keep a decoded chunk in memory from `room`, the most recently used. `worth`: what
    /// `is_worth_it` said of it.
    pub fn keep(&mut self, key: Key, bytes: Vec<u8>, worth: bool) -> &[u8] {
        let on_trial = !worth && self.is_full(bytes.len(), 1);
        if on_trial {
            self.note(key, bytes.len());
        }
        if let Some(place) = self.places.get(&key).copied() {
            self.release(place);
        }
        let entry = Entry {
            key,
            bytes,
            newer: NONE,
            older: NONE,
        };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place as usize] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as u32 - 1
            }
        };
        self.places.insert(key, place);
        self.link(place);
        if on_trial {
            self.trials.push(place);
        }
        &self.entries[place as usize].bytes
    }

    /// Forget everything that was decoded from `source`.
    pub fn forget(&mut self, source: u64) {
        let of_it = |(key, place): (&Key, &u32)| (key.source == source).then_some(*place);
        let places: Vec<u32> = self.places.iter().filter_map(of_it).collect();
        for place in places {
            self.release(place);
        }
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
        let gap = clock.wrapping_sub(ghost.clock);
        if ghost.touches == 0 || ghost.key != key || gap > recently {
            *ghost = Ghost {
                key,
                ..Ghost::default()
            };
        }
        (ghost.clock, ghost.gap) = (clock, gap);
        let seen = *ghost;
        let worked = seen.touches > 0 && seen.work >= len as u64 / 2;
        let mut is_worth_it = worked || seen.touches >= OFTEN;
        if is_worth_it && seen.gap > recently / RECENT && self.is_full(len, 2) {
            self.asked = self.asked.wrapping_add(1);
            is_worth_it = self.asked % NOW_AND_THEN == 0;
        }
        is_worth_it
    }

    /// Chunks of this size have trials, and the last of `more` others would replace one.
    fn is_full(&self, len: usize, more: usize) -> bool {
        let each = len.saturating_add(ENTRY_BYTES);
        each <= self.limit / MANY && self.bytes + more * each > self.limit
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

    fn forget_one(&mut self) -> Option<Vec<u8>> {
        let place = match self.trials.len() < TRIALS {
            true => self.oldest,
            false => self.trials[0],
        };
        (place != NONE).then(|| self.release(place))
    }

    fn end_trial(&mut self, place: u32) {
        if let Some(at) = self.trials.iter().position(|&trial| trial == place) {
            self.trials.remove(at);
        }
    }

    /// Take a chunk out; its memory.
    fn release(&mut self, place: u32) -> Vec<u8> {
        self.unlink(place);
        self.end_trial(place);
        let entry = &mut self.entries[place as usize];
        let bytes = std::mem::take(&mut entry.bytes);
        self.places.remove(&entry.key);
        self.free.push(place);
        self.bytes -= bytes.len() + ENTRY_BYTES;
        bytes
    }

    fn link(&mut self, place: u32) {
        let older = self.newest;
        let entry = &mut self.entries[place as usize];
        (entry.newer, entry.older) = (NONE, older);
        match older {
            NONE => self.oldest = place,
            _ => self.entries[older as usize].newer = place,
        }
        self.newest = place;
    }

    fn unlink(&mut self, place: u32) {
        let Entry { newer, older, .. } = self.entries[place as usize];
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
    }
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
