//! Parts of a chunk decoded alone: for filters whose chunks are made of independent blocks.
//!
//! 1. What is stored may be there in part: the head, and the spans of the blocks that are decoded.
//!    Everything else may hold any bytes, which change nothing.
//! 2. Only a pipeline of one such filter has parts: what stands behind it would need all of it.
//!
//! It must never know any filter's format.

use super::{Fault, FilterError};
use std::ops::Range;

/// How a chunk is made of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Of the stored bytes, so many have to be there before anything else is asked.
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

/// A decoder whose chunks are made of blocks. `stored` has a chunk's length (law 1).
pub(crate) trait BlockDecoder {
    /// To be asked again when `head_bytes` was more than there was.
    fn blocks(&self, stored: &[u8]) -> Result<Blocks, Fault>;

    /// Which of the stored bytes, apart from the head, hold block `n`.
    fn span(&self, stored: &[u8], n: usize) -> Result<Range<usize>, Fault>;

    /// Decodes of block `n` at least the bytes `wanted` into their places in `out`, the block's
    /// memory. Its other bytes may become anything.
    fn decode_block(
        &mut self,
        stored: &[u8],
        n: usize,
        span: Range<usize>,
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), Fault>;
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

    pub fn decode_block(
        &mut self,
        stored: &[u8],
        n: usize,
        span: Range<usize>,
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), FilterError> {
        let done = self.decoder.decode_block(stored, n, span, wanted, out);
        done.map_err(|fault| self.fail(fault))
    }

    fn fail(&self, fault: Fault) -> FilterError {
        FilterError {
            filter: self.id,
            kind: fault.kind,
            expected: fault.expected,
            got: fault.got,
        }
    }
}
