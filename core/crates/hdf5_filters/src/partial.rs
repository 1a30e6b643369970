//! Parts of a chunk decoded alone: for filters whose chunks are made of independent blocks.
//!
//! Law:
//! 1. What is stored may be there in part: the head, and the spans of the blocks that are decoded,
//!    or what `Fetches` asked for of a span. Everything else may hold any bytes, which change nothing.
//! 2. Only a pipeline of one such filter has parts: what stands behind it would need all of it.
//!
//! It must never know any filter's format.

use super::{Fault, FilterError};
use std::ops::Range;

/// How a chunk is made of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// How many of the stored bytes have to be there before anything else is asked.
    pub head_bytes: usize,
    pub block_size: usize,
    pub n_blocks: usize,
    pub decoded_size: usize,
}

impl Blocks {
    /// The decoded bytes of block `n`.
    pub fn range(&self, n: usize) -> Range<usize> {
        let start = n * self.block_size;
        start..(start + self.block_size).min(self.decoded_size)
    }
}

/// What is to be fetched of one block, of which little is wanted, read by read: where the next read
/// begins may be told by the last.
#[derive(Clone, Debug, Default)]
pub struct Fetches {
    pub block: usize,
    /// The block's span, and its wanted bytes.
    pub span: Range<usize>,
    pub wanted: Range<usize>,
    /// What was fetched last, and is there.
    pub have: Range<usize>,
    /// How far the decoder has come.
    pub(super) stream: usize,
    pub(super) at: usize,
}

impl Fetches {
    /// Begin with a block, when the first `head` stored bytes are there.
    pub fn new(block: usize, span: Range<usize>, wanted: Range<usize>, head: usize) -> Fetches {
        Fetches {
            at: span.start,
            block,
            span,
            wanted,
            have: 0..head,
            stream: 0,
        }
    }

    /// Have `bytes` fetched, and what of the bytes `behind` them is worth no read of its own. None:
    /// they are there.
    pub(super) fn ask(&mut self, bytes: Range<usize>, behind: usize) -> Option<Range<usize>> {
        let end = bytes.end.min(self.span.end);
        let mut start = bytes.start.min(end);
        if self.have.contains(&start) {
            start = self.have.end.min(end);
        } else {
            self.have.start = start;
        }
        if start == end {
            return None;
        }
        self.have.end = (end + behind).min(self.span.end);
        Some(start..self.have.end)
    }
}

/// How much of a block's span has been fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    All,
    /// What `next_fetch` asked for.
    Asked,
}

/// A decoder whose chunks are made of blocks. `stored` has a chunk's length (law 1).
pub(crate) trait BlockDecoder {
    /// To be asked again when `head_bytes` was more than there was.
    fn blocks(&self, stored: &[u8]) -> Result<Blocks, Fault>;

    /// Which of the stored bytes, apart from the head, hold block `n`.
    fn span(&self, stored: &[u8], n: usize) -> Result<Range<usize>, Fault>;

    /// Whether it pays to fetch a block as `next_fetch` says.
    fn is_sparse(&self, stored: &[u8], fetches: &Fetches) -> Result<bool, Fault>;

    /// What to fetch next, when everything that this asked for before is there. None: that was all.
    fn next_fetch(
        &self,
        stored: &[u8],
        fetches: &mut Fetches,
    ) -> Result<Option<Range<usize>>, Fault>;

    /// Decodes of block `n` at least the bytes `wanted` into their places in `out`, the block's
    /// memory. Its other bytes may become anything. How many bytes were decoded for it; None: all of
    /// the span is needed, and not only what was asked for.
    fn decode_block(
        &mut self,
        stored: &[u8],
        block: (usize, Range<usize>, Fetched),
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Fault>;
}

/// A pipeline under a filter mask that makes it one block decoder.
pub struct Parts<'a> {
    pub(super) id: u32,
    pub(super) decoder: &'a mut dyn BlockDecoder,
}

impl Parts<'_> {
    pub fn blocks(&self, stored: &[u8]) -> Result<Blocks, FilterError> {
        self.decoder
            .blocks(stored)
            .map_err(|fault| self.fail(fault))
    }

    pub fn span(&self, stored: &[u8], n: usize) -> Result<Range<usize>, FilterError> {
        let span = self.decoder.span(stored, n);
        span.map_err(|fault| self.fail(fault))
    }

    pub fn is_sparse(&self, stored: &[u8], fetches: &Fetches) -> Result<bool, FilterError> {
        let sparse = self.decoder.is_sparse(stored, fetches);
        sparse.map_err(|fault| self.fail(fault))
    }

    pub fn next_fetch(
        &self,
        stored: &[u8],
        fetches: &mut Fetches,
    ) -> Result<Option<Range<usize>>, FilterError> {
        let next = self.decoder.next_fetch(stored, fetches);
        next.map_err(|fault| self.fail(fault))
    }

    pub fn decode_block(
        &mut self,
        stored: &[u8],
        block: (usize, Range<usize>, Fetched),
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<Option<usize>, FilterError> {
        let done = self.decoder.decode_block(stored, block, wanted, out);
        done.map_err(|fault| self.fail(fault))
    }

    fn fail(&self, fault: Fault) -> FilterError {
        fault.of(self.id)
    }
}
