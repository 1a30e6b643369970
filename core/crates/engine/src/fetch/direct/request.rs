//! A read around the page cache that is under way.
//!
//! Law: it reads whole aligned pieces, and continues until all requested bytes have come.

use super::aligned_buffer::{ALIGN, AlignedBuffer};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A read in flight: the requested bytes, and how many of them have come.
#[derive(Debug)]
pub(super) struct Request {
    /// Open until the read has ended.
    pub file: Arc<OwnedFd>,
    pub buffer: AlignedBuffer,
    /// First byte in the file, rounded down; bytes to read, rounded up.
    pub from: u64,
    pub len: usize,
    /// The requested part, inside the buffer.
    pub skip: usize,
    pub wanted: usize,
    pub done: usize,
    /// Bytes that had come when the read was last taken up again; no more than these: the end.
    pub before: usize,
}

impl Request {
    /// `got` more bytes came. The total when that is all; None when the rest, from an aligned
    /// place on, has to be asked for again.
    pub fn take_up(&mut self, got: usize) -> Option<usize> {
        let total = self.done + got;
        if total >= self.skip + self.wanted || total <= self.before {
            return Some(total.max(self.before));
        }
        self.before = total;
        self.done = total / ALIGN * ALIGN;
        None
    }
}
