//! A cache that threads share, and behind it one that processes share, if there is such a one.
//!
//! Law:
//! 1. The lock is held for a look-up or an insertion: nothing is decoded, copied, allocated or freed
//!    under it, and no Python runs.
//! 2. Without a limit to speak of nothing is locked at all.
//! 3. A chunk that another process has decoded is copied, and kept as if it had been decoded here.

use super::processes::{Known, ProcessCache};
use super::{ChunkCache, Kept, Key, Policy, made_of, zeroed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct SharedCache {
    limit: usize,
    cache: Mutex<ChunkCache>,
    others: Option<Arc<ProcessCache>>,
}

impl SharedCache {
    pub fn new(limit_bytes: usize, others: Option<Arc<ProcessCache>>) -> SharedCache {
        SharedCache {
            limit: limit_bytes,
            cache: Mutex::new(ChunkCache::new(limit_bytes, Policy::S3Fifo)),
            others,
        }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Other processes decode chunks for this one, too.
    pub fn has_others(&self) -> bool {
        self.others.is_some()
    }

    /// Another thread or process decodes a chunk at this moment. If not, it is this thread's, unless
    /// it is there.
    pub fn is_begun(&self, key: Key) -> bool {
        let known = |others: &Arc<ProcessCache>| others.known(key) == Known::Begun;
        self.others.as_ref().is_some_and(known)
    }

    /// Say that this thread decodes a chunk.
    pub fn begin(&self, key: Key) {
        if let Some(others) = &self.others {
            others.begin(key);
        }
    }

    /// Say that it does not, after all, or that the chunk is not kept.
    pub fn abandon(&self, key: Key) {
        if let Some(others) = &self.others {
            others.abandon(key);
        }
    }

    /// The decoded chunk of `len` bytes, which this process or another has decoded.
    pub fn find_any(&self, key: Key, len: usize) -> Option<Kept> {
        if let found @ Some(_) = self.find(key) {
            return found;
        }
        let others = self.others.as_ref()?;
        if others.known(key) != Known::Ready {
            return None;
        }
        let kept = self.room(len);
        let is_kept = kept.is_some();
        let mut room = kept.or_else(|| zeroed(len))?;
        if !others.copy(key, &mut room) {
            if is_kept {
                self.give_back(len);
            }
            return None;
        }
        let bytes = Arc::new(room);
        if is_kept {
            self.insert(key, bytes.clone(), false);
        }
        Some(bytes)
    }

    /// The cache, if it can hold anything. Whatever panicked with it, its counts still hold.
    fn lock(&self) -> Option<MutexGuard<'_, ChunkCache>> {
        let cache = || self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        (self.limit > 0).then(cache)
    }

    pub fn bytes(&self) -> usize {
        self.lock().map_or(0, |cache| cache.bytes())
    }

    pub fn find(&self, key: Key) -> Option<Kept> {
        self.lock()?.find(key)
    }

    pub fn room(&self, len: usize) -> Option<Vec<u8>> {
        let mut gone = Vec::new();
        let reserved = self.lock()?.reserve(len, &mut gone);
        let room = reserved.then(|| made_of(gone, len))?;
        if room.is_none() {
            self.give_back(len);
        }
        room
    }

    pub fn give_back(&self, len: usize) {
        if let Some(mut cache) = self.lock() {
            cache.give_back(len);
        }
    }

    pub fn keep(&self, key: Key, room: Vec<u8>, worth: bool) {
        if let Some(others) = &self.others {
            others.add(key, &room);
        }
        self.insert(key, Arc::new(room), worth);
    }

    fn insert(&self, key: Key, bytes: Kept, worth: bool) {
        // What the cache does not take is freed when it is unlocked.
        let _not_taken = bytes.clone();
        if let Some(mut cache) = self.lock() {
            cache.keep(key, bytes, worth);
        }
    }

    pub fn forget(&self, source: u64) {
        if let Some(mut cache) = self.lock() {
            cache.forget(source);
        }
    }

    pub fn is_worth_it(&self, key: Key, len: usize) -> bool {
        self.lock()
            .is_some_and(|mut cache| cache.is_worth_it(key, len))
    }

    pub fn note(&self, key: Key, work: usize) {
        if let Some(mut cache) = self.lock() {
            cache.note(key, work);
        }
    }
}
