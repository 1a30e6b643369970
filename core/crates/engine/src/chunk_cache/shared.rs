//! A cache that threads share.
//!
//! Law:
//! 1. The lock is held for a look-up or an insertion: nothing is decoded, copied, allocated or freed
//!    under it, and no Python runs.
//! 2. Without a limit to speak of nothing is locked at all.

use super::{ChunkCache, Kept, Key, Policy, made_of};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub struct SharedCache {
    limit: usize,
    cache: Mutex<ChunkCache>,
}

impl SharedCache {
    pub fn new(limit_bytes: usize) -> SharedCache {
        SharedCache {
            limit: limit_bytes,
            cache: Mutex::new(ChunkCache::new(limit_bytes, Policy::S3Fifo)),
        }
    }

    pub fn limit(&self) -> usize {
        self.limit
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
        let bytes = Arc::new(room);
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
