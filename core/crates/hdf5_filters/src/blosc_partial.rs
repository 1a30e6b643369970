//! Which stored bytes of a blosc block are needed, when little of the block is wanted.
//!
//! Law:
//! 1. A block is a row of streams, each behind its length, so where one begins is told by the one
//!    before: they are asked for one after the other.
//! 2. Of an LZ4 stream whose beginning is needed, as much is asked for as that is likely to take.
//!    Where it was not enough, the decoder says so.
//! 3. A read costs about as much as copying a few thousand bytes, so small savings are left.

use super::Fault;
use super::blosc_format::prefix::{likely_bytes, prefix_pays};
use super::blosc_format::{BloscChunk, Content, Shuffling};
use super::partial::Fetches;
use std::ops::Range;

/// A read has to save at least this many bytes.
const WORTH_BYTES: usize = 8 << 10;
/// What is read along with a stream's length, and between a stream and the next one's length.
const ALONG_BYTES: usize = 512;
/// A stream's length, and the byte that tells of a run.
const LENGTH_BYTES: usize = 5;

impl BloscChunk<'_> {
    /// What is needed of stream `j` of a block, for the bytes `wanted` of the block.
    pub(super) fn needed(
        &self,
        j: usize,
        stream_size: usize,
        is_split: bool,
        wanted: &Range<usize>,
    ) -> Range<usize> {
        match self.shuffling {
            Shuffling::No => {
                let within = |at: usize| at.saturating_sub(j * stream_size).min(stream_size);
                within(wanted.start)..within(wanted.end)
            }
            // A stream for each byte of the elements.
            Shuffling::Bytes if is_split => {
                let last = wanted.end.div_ceil(self.typesize);
                wanted.start / self.typesize..last.min(stream_size)
            }
            _ => 0..stream_size,
        }
    }

    /// How many bytes of a packed stream are needed, when it is needed up to `needed`.
    fn packed_bytes(&self, stored: usize, needed: usize, decoded: usize) -> usize {
        match self.codec == 1 && prefix_pays(stored, needed, decoded) {
            true => likely_bytes(stored, needed, decoded),
            false => stored,
        }
    }

    pub(super) fn is_sparse(&self, fetches: &Fetches) -> bool {
        let (len, stored) = (self.block_range(fetches.block).len(), fetches.span.len());
        let n_streams = self.n_streams(len);
        if self.content != Content::Blocks || self.codec != 1 || len == 0 {
            return false;
        }
        let needed = match self.shuffling {
            Shuffling::Bytes if n_streams > 1 => fetches.wanted.len(),
            Shuffling::No => fetches.wanted.end,
            _ => len,
        };
        let saved = stored as u64 * (len - needed.min(len)) as u64 / len as u64;
        saved as usize >= n_streams * WORTH_BYTES
    }

    pub(super) fn next_fetch(&self, fetches: &mut Fetches) -> Result<Option<Range<usize>>, Fault> {
        if self.content != Content::Blocks {
            return Ok(fetches.ask(fetches.span.clone(), 0));
        }
        let len = self.block_range(fetches.block).len();
        let n_streams = self.n_streams(len);
        let size = len / n_streams;
        while fetches.stream < n_streams {
            let (at, end) = (fetches.at, fetches.span.end);
            let needed = self.needed(fetches.stream, size, n_streams > 1, &fetches.wanted);
            let along = match n_streams {
                1 => self.packed_bytes(end.saturating_sub(at + 4), needed.end, size),
                _ => ALONG_BYTES,
            };
            if let Some(bytes) = fetches.ask(at..at + LENGTH_BYTES, along) {
                return Ok(Some(bytes));
            }
            let stored = match self.word(at)? {
                stored if stored > 0 => stored as usize,
                0 => 0,
                _ => 1,
            };
            let first = at + 4;
            let behind = first + stored;
            if behind > end {
                return Err(Fault::truncated(behind, end));
            }
            let bytes = match stored {
                _ if needed.is_empty() => first..first,
                _ if stored == size => first + needed.start..first + needed.end,
                _ => first..first + self.packed_bytes(stored, needed.end, size),
            };
            (fetches.stream, fetches.at) = (fetches.stream + 1, behind);
            let gap = behind - bytes.end;
            let along = match fetches.stream < n_streams && gap <= ALONG_BYTES {
                true => gap + LENGTH_BYTES,
                false => 0,
            };
            if let (false, Some(bytes)) = (bytes.is_empty(), fetches.ask(bytes, along)) {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}
