//! An object of a store: its ranges, from the cache on disk or from the store.
//!
//! Law:
//! 1. It is what was indexed, or it is an error: the client compares its version with each request.
//! 2. Requests are counted, and the bytes that they brought.
//! 3. An object does without a cache that cannot be opened: the parent has refused such a folder.

use super::client::client;
use crate::fetch::disk_cache::{CachedObject, DiskCache};
use crate::fetch::error::FetchError;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use tables::access::Access;
use tables::dataset::Source;

pub struct Object {
    name: Vec<u8>,
    pub access: Access,
    pub size: u64,
    cached: Option<CachedObject>,
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("name", &String::from_utf8_lossy(&self.name))
            .finish_non_exhaustive()
    }
}

impl Object {
    /// A source, if that is an object.
    pub fn of(source: &Source, caches: &Caches) -> Option<Object> {
        let (access, fingerprint) = (source.access.clone()?, &source.fingerprint);
        let (size, version) = (fingerprint.size_bytes, fingerprint.inode);
        Some(Object::new(&source.filename, access, size, version, caches))
    }

    /// `version` is the number of the object's version, as its fingerprint has it.
    pub fn new(name: &[u8], access: Access, size: u64, version: u64, caches: &Caches) -> Object {
        let cache = access.cache.as_ref();
        let cache = cache.and_then(|(folder, limit)| caches.open(folder, *limit));
        Object {
            cached: cache.map(|cache| cache.object(name, &version.to_le_bytes(), size)),
            name: name.to_vec(),
            access,
            size,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Fill `out` with the bytes from `begin` on.
    pub fn read(&self, begin: u64, out: &mut [u8]) -> Result<(), FetchError> {
        match &self.cached {
            Some(cached) => {
                let fetch = &mut |begin, out: &mut [u8]| self.fetch(begin, out);
                cached.read(begin, out, fetch).map(drop)
            }
            None => self.fetch(begin, out),
        }
    }

    fn fetch(&self, begin: u64, out: &mut [u8]) -> Result<(), FetchError> {
        self.requests.fetch_add(1, Relaxed);
        client()?.read(&self.name, &self.access.client, begin, out)?;
        self.bytes.fetch_add(out.len() as u64, Relaxed);
        Ok(())
    }
}

/// The caches that are open, by their folders; all clones share them.
#[derive(Clone, Debug, Default)]
pub struct Caches(Arc<Mutex<HashMap<PathBuf, DiskCache>>>);

impl Caches {
    fn open(&self, folder: &Path, limit: u64) -> Option<DiskCache> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = open.get(folder) {
            return Some(known.clone());
        }
        let cache = DiskCache::open(folder, limit).ok()?;
        open.insert(folder.to_owned(), cache.clone());
        Some(cache)
    }
}
