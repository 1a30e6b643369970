//! Decoded chunks of a task on their way to their rows on the tape.
//!
//! Law:
//! 1. A chunk of whole rows is its place; of others, the wanted rows are scattered.
//! 2. Nothing outside the task's rows is written.

use super::open_dataset::OpenDataset;
use super::transfer::Transfer;
use crate::scatter::fill::{self, Place};
use crate::scatter::interleave::Interleaver;
use crate::scatter::rows::RowCopy;

/// Where a chunk goes.
pub(super) struct Placement {
    /// Of all its decoded bytes.
    pub(super) size: usize,
    /// The rows that are wanted of it.
    pub(super) lo: u64,
    pub(super) hi: u64,
    /// These rows on the tape are the decoded bytes.
    pub(super) in_place: bool,
}

impl Placement {
    /// What it needs of the buffer in which chunks are decoded that are scattered then.
    pub(super) fn buffer_size(&self) -> usize {
        if self.in_place { 0 } else { self.size }
    }
}

impl Transfer<'_> {
    /// Where a chunk goes. Its offset is left in `source`.
    pub(super) fn placement(&self, source: &mut OpenDataset, grid_index: u64) -> Placement {
        let member = self.member;
        member.chunk_offset(grid_index, &mut source.offset);
        let row = source.offset[0];
        let size = self.decoded_size(row);
        let (lo, hi) = self.wanted(row, member.chunk_dims[0]);
        let rows_bytes = ((hi - lo) as usize).saturating_mul(member.row_bytes);
        Placement {
            size,
            lo,
            hi,
            in_place: member.whole_rows() && lo == row && rows_bytes == size,
        }
    }

    /// Bring a decoded chunk to its rows, if it is not there (None), and end its strings.
    pub(super) fn deliver(
        &self,
        source: &mut OpenDataset,
        placement: &Placement,
        decoded: Option<&[u8]>,
    ) {
        let (member, first) = (self.member, source.offset[0]);
        if let Some(decoded) = decoded {
            let copy = RowCopy::of(member, &source.offset);
            let rows = placement.lo..placement.hi;
            if Interleaver::wants(&copy, decoded.len()) && member.fixes.is_empty() {
                if !source.interleaver.has_room(&rows, decoded.len()) {
                    self.end_waiting(source);
                }
                return source.interleaver.add(rows, copy, first, decoded);
            }
            copy.copy(
                decoded,
                placement.lo - first,
                self.rows(placement.lo, placement.hi),
            );
        }
        let at = Place {
            offset: &source.offset,
            lo: placement.lo,
            hi: placement.hi,
        };
        fill::fix_strings(member, at, self.rows(placement.lo, placement.hi));
    }
}
