//! Decoded rows of a share on their way to their places in the window.
//!
//! Law:
//! 1. Whole rows are copied at once, parts of rows by strides; chunks with little of each row wait for
//!    those beside them.
//! 2. Knows nothing of files and filters.

use crate::engine::open_dataset::{OpenDataset, add_ns};
use crate::engine::share_work::ShareWork;
use crate::engine::shuffle_task::ChunkRead;
use crate::scatter::fill::{self, Place};
use crate::scatter::interleave::Interleaver;
use crate::scatter::rows::RowCopy;
use crate::shuffle::row_map::Run as SeatRun;
use std::ops::Range;
use std::time::Instant;

impl ShareWork<'_> {
    /// When a chunk is its rows, all wanted and in order: their bytes in the window.
    pub(super) fn in_place(&self, read: &ChunkRead, size: usize) -> Option<Range<usize>> {
        let row_bytes = self.member.row_bytes;
        if !self.member.whole_rows() || self.member.kept {
            return None;
        }
        let run = self.share.seats.runs(read.seats.clone()).next()?;
        // A row that is wanted twice has two seats.
        let all = run.rows == read.seats.len() && run.rows * row_bytes == size;
        let at = run.place as usize * row_bytes;
        (all && run.row == read.row).then(|| at..at + size)
    }

    pub(super) fn end_strings(&mut self, source: &OpenDataset, read: &ChunkRead) {
        let (share, member) = (self.share, self.member);
        if member.fixes.is_empty() {
            return;
        }
        for run in share.seats.runs(read.seats.clone()) {
            let (at, dst) = self.place(source, run);
            fill::fix_strings(member, at, dst);
        }
    }

    /// Where some rows go.
    pub(super) fn place<'b>(
        &'b mut self,
        source: &'b OpenDataset,
        run: SeatRun,
    ) -> (Place<'b>, &'b mut [u8]) {
        let row_bytes = self.member.row_bytes;
        let at = Place {
            offset: &source.offset,
            lo: run.row,
            hi: run.end_row(),
        };
        let from = run.place as usize * row_bytes;
        (at, &mut self.window[from..from + run.rows * row_bytes])
    }

    /// Copy the wanted rows of a decoded chunk to their places.
    pub(super) fn seat(&mut self, source: &mut OpenDataset, read: &ChunkRead, decoded: &[u8]) {
        let member = self.member;
        let copy = RowCopy::of(member, &source.offset);
        if !Interleaver::wants(&copy, decoded.len()) || !member.fixes.is_empty() {
            let of = (&*self.share.seats, read.seats.clone());
            copy.scatter(decoded, read.row, of, self.window);
            return self.end_strings(source, read);
        }
        let seats = read.seats.start as u64..read.seats.end as u64;
        if !source.interleaver.has_room(&seats, decoded.len()) {
            self.end_waiting(source);
        }
        source.interleaver.add(seats, copy, read.row, decoded);
    }

    /// Bring chunks that wait for others to the places of their rows.
    pub(super) fn end_waiting(&mut self, source: &mut OpenDataset) {
        if source.interleaver.is_empty() {
            return;
        }
        let (start, all) = (Instant::now(), &*self.share.seats);
        let indices = |seats: Range<u64>| seats.start as usize..seats.end as usize;
        source.interleaver.copy(|seats, ahead, pieces| {
            RowCopy::scatter_all(pieces, (all, indices(seats)), indices(ahead), self.window);
        });
        add_ns(&self.record.decode_ns, start);
    }

    /// Copy whole rows, of which the first is row `first`, to their places.
    pub fn copy(&mut self, first: u64, seats: Range<usize>, rows: &[u8]) {
        let of = (&*self.share.seats, seats);
        RowCopy::whole(self.member.row_bytes).scatter(rows, first, of, self.window);
    }
}
