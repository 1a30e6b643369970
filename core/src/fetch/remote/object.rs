//! An object of a store: its ranges, from the cache on disk or from the store.
//!
//! Law:
//! 1. It is what was indexed, or it is an error: the client compares its version with each request.
//! 2. Requests are counted, and the bytes that they brought.

use super::client::client;
use crate::fetch::data_file::FetchError;
use crate::tables::access::Access;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

#[derive(Debug)]
pub struct Object {
    name: Vec<u8>,
    pub access: Access,
    pub size: u64,
    pub requests: AtomicU64,
    pub bytes: AtomicU64,
}

impl Object {
    pub fn new(name: &[u8], access: Access, size: u64) -> Object {
        Object {
            name: name.to_vec(),
            access,
            size,
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Fill `out` with the bytes from `begin` on.
    pub fn read(&self, begin: u64, out: &mut [u8]) -> Result<(), FetchError> {
        self.requests.fetch_add(1, Relaxed);
        client()?.read(&self.name, &self.access.client, begin, out)?;
        self.bytes.fetch_add(out.len() as u64, Relaxed);
        Ok(())
    }
}
