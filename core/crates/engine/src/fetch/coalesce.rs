//! Which stored chunks one fetch can serve.
//!
//! Law:
//! 1. Chunks that lie near each other in one file are fetched by one call.
//! 2. Pure: no file is touched.

use std::ops::Range;
use tables::plan::{Chunk, UNALLOCATED};

/// Gaps up to this size between stored chunks are read along rather than skipped.
const GAP_BYTES: u64 = 16 << 10;
/// One fetch is at most this large, unless a single chunk is larger. Chunks that are decoded side by
/// side fit in it.
pub const RUN_BYTES: u64 = 2 << 20;

/// Where a run of chunks lies in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    pub chunks: Range<usize>,
    /// The number of the source that has them.
    pub source: u32,
    pub byte_offset: u64,
    pub len: u64,
}

/// What one fetch may bring.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Gaps up to this size are read along.
    pub gap_bytes: u64,
    /// Unless a single chunk is larger.
    pub run_bytes: u64,
}

impl Limits {
    /// Of files.
    pub fn within(run_bytes: u64) -> Limits {
        Limits {
            gap_bytes: GAP_BYTES,
            run_bytes,
        }
    }
}

/// Group chunks that one fetch can serve. Unallocated chunks are in no run.
pub fn runs(chunks: &[Chunk], limits: Limits, into: &mut Vec<Run>) {
    into.clear();
    for (index, chunk) in chunks.iter().enumerate() {
        if chunk.byte_offset == UNALLOCATED {
            continue;
        }
        let end = chunk.byte_offset.saturating_add(chunk.stored_size);
        if let Some(run) = into.last_mut() {
            let run_end = run.byte_offset + run.len;
            if run.chunks.end == index
                && run.source == chunk.source
                && chunk.byte_offset >= run_end
                && chunk.byte_offset - run_end <= limits.gap_bytes
                && end - run.byte_offset <= limits.run_bytes
            {
                run.chunks.end = index + 1;
                run.len = end - run.byte_offset;
                continue;
            }
        }
        into.push(Run {
            chunks: index..index + 1,
            source: chunk.source,
            byte_offset: chunk.byte_offset,
            len: chunk.stored_size,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(byte_offset: u64, stored_size: u64) -> Chunk {
        Chunk {
            grid_index: 0,
            byte_offset,
            stored_size,
            filter_mask: 0,
            source: 0,
        }
    }

    #[test]
    fn neighbours_are_fetched_together() {
        let chunks = [
            chunk(1000, 500),
            chunk(1500, 500),
            chunk(UNALLOCATED, 0),
            chunk(2000, 10),
            chunk(2020, 10),
            chunk(1_000_000, 10),
            chunk(500, 10),
            // Another file's bytes.
            Chunk {
                source: 1,
                ..chunk(510, 10)
            },
        ];
        let mut found = Vec::new();
        runs(&chunks, Limits::within(RUN_BYTES), &mut found);
        let expected = [
            (0..2, 0, 1000, 1000),
            (3..5, 0, 2000, 30),
            (5..6, 0, 1_000_000, 10),
            (6..7, 0, 500, 10),
            (7..8, 1, 510, 10),
        ];
        assert_eq!(
            found,
            expected.map(|(chunks, source, byte_offset, len)| Run {
                chunks,
                source,
                byte_offset,
                len
            })
        );
    }
}
