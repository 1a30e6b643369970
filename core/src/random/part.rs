//! A chunk's parts: only the blocks that hold wanted bytes are fetched and decoded.
//!
//! Law:
//! 1. The head is read first, then the wanted blocks; neighbours at once.
//! 2. Whatever is odd about the head is left to the whole chunk's decoding, which tells.
//! 3. Decoded bytes keep their places in the chunk; what is between them may be anything.

use super::gather::{Row, Unit};
use crate::filters::{Blocks, FilterError, Parts};
use std::ops::Range;

/// Most heads fit into so much.
pub const HEAD_BYTES: usize = 512;
/// Chunks of more blocks are decoded whole: their table alone is long.
const MAX_BLOCKS: usize = 4096;
/// Between two blocks, so much is read along.
const GAP_BYTES: usize = 4 << 10;

/// The wanted blocks of one chunk.
#[derive(Debug, Default)]
pub struct WantedBlocks {
    /// The wanted bytes of each block of the chunk, as a range of the chunk; empty: none.
    hulls: Vec<Range<usize>>,
    /// The wanted blocks, and where they are stored.
    pub spans: Vec<(usize, Range<usize>)>,
}

impl WantedBlocks {
    /// Begin with a chunk; false: it is not one for parts.
    pub fn begin(&mut self, blocks: &Blocks, decoded_size: usize) -> bool {
        self.hulls.clear();
        self.spans.clear();
        if blocks.decoded_size != decoded_size || blocks.n_blocks > MAX_BLOCKS {
            return false;
        }
        self.hulls.resize(blocks.n_blocks, 0..0);
        true
    }

    /// A row is wanted.
    pub fn add(&mut self, blocks: &Blocks, unit: &Unit<'_>, row: &Row) {
        if row.step.unsigned_abs() <= blocks.block_size || row.n == 1 {
            return self.add_bytes(blocks, unit.reach(row));
        }
        // Blocks between the units are not wanted.
        let mut src = row.src;
        for _ in 0..row.n {
            self.add_bytes(blocks, src..src + unit.stored);
            src = src.wrapping_add_signed(row.step);
        }
    }

    fn add_bytes(&mut self, blocks: &Blocks, bytes: Range<usize>) {
        for n in bytes.start / blocks.block_size..bytes.end.div_ceil(blocks.block_size) {
            let block = blocks.range(n);
            let here = bytes.start.max(block.start)..bytes.end.min(block.end);
            let hull = &mut self.hulls[n];
            *hull = match hull.end {
                0 => here,
                _ => hull.start.min(here.start)..hull.end.max(here.end),
            };
        }
    }

    /// Wanted bytes, and what lies between them in their blocks.
    pub fn bytes(&self) -> usize {
        self.hulls.iter().map(ExactSizeIterator::len).sum()
    }

    /// Find out where the wanted blocks are stored; how much of the chunk has to be decoded.
    pub fn locate(
        &mut self,
        blocks: &Blocks,
        parts: &Parts<'_>,
        stored: &[u8],
    ) -> Result<usize, FilterError> {
        let mut work = 0;
        for (n, hull) in self.hulls.iter().enumerate() {
            if !hull.is_empty() {
                self.spans.push((n, parts.span(stored, n)?));
                work += blocks.range(n).len();
            }
        }
        Ok(work)
    }

    /// The wanted bytes of block `n`, within the block.
    pub fn wanted(&self, blocks: &Blocks, n: usize) -> Range<usize> {
        let (hull, start) = (&self.hulls[n], blocks.range(n).start);
        hull.start - start..hull.end - start
    }

    /// Ranges of the stored bytes to fetch, in the order of the blocks.
    pub fn fetches(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut rest = &self.spans[..];
        std::iter::from_fn(move || {
            let (_, first) = rest.first()?;
            let (mut all, mut n) = (first.clone(), 1);
            for (_, span) in &rest[1..] {
                if span.start < all.start || span.start > all.end + GAP_BYTES {
                    break;
                }
                all.end = all.end.max(span.end);
                n += 1;
            }
            rest = &rest[n..];
            Some(all)
        })
    }
}
