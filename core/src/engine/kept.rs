//! Decoded chunks of which a reader has delivered a part, and others of its shares want the rest.
//!
//! Law:
//! 1. They are kept while there is room, and then stay: windows come round to all chunks in turn, so
//!    nothing is wanted later than what was kept first.
//!
//! It must never know what a chunk's bytes mean.

use crate::tables::plan::Plan;
use std::collections::HashMap;

/// Decoded chunks, by their number in the plan.
pub struct Kept {
    chunks: HashMap<u64, Box<[u8]>>,
    room: u64,
}

impl Kept {
    pub fn new(plan: &Plan) -> Kept {
        Kept {
            chunks: HashMap::new(),
            room: plan.cache_bytes(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub fn holds(&self, number: u64) -> bool {
        self.chunks.contains_key(&number)
    }

    /// Keep a copy, if there is room.
    pub fn keep(&mut self, number: u64, decoded: &[u8]) {
        let len = decoded.len() as u64;
        if len <= self.room && !self.holds(number) {
            self.room -= len;
            self.chunks.insert(number, decoded.into());
        }
    }

    /// A chunk, to be put back.
    pub fn take(&mut self, number: u64) -> Option<Box<[u8]>> {
        self.chunks.remove(&number)
    }

    pub fn put_back(&mut self, number: u64, decoded: Box<[u8]>) {
        self.chunks.insert(number, decoded);
    }
}
