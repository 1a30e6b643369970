//! Decoded chunks on their way to the rows that follow each other in memory.
//!
//! Law:
//! 1. A chunk of whole rows is its place; of others, the wanted rows are scattered.
//! 2. Nothing outside the given rows is written, whatever a file's numbers say.
//! 3. Every chunk of the grid is written: what has no record is the fill value.

use super::chunk_read::{ChunkRead, NO_CHUNK, Place};
use super::transfer::Transfer;
use crate::counters::count;
use crate::fetch::coalesce::Run;
use crate::fetch::error::FetchError;
use crate::fetch::queue::{FetchQueue, Turn};
use crate::scatter::fill;
use crate::scatter::interleave::Interleaver;
use crate::scatter::out::Out;
use crate::scatter::rows::RowCopy;
use crate::task_error::TaskError;
use std::ops::Range;
use tables::dataset::{Chunk, Dataset, UNALLOCATED};

/// Rows of a dataset, in its order.
pub struct PlaceRows<'a> {
    pub dataset: &'a Dataset,
    /// The dataset's rows, and their bytes.
    pub rows: Range<u64>,
    pub out: Out<'a>,
    /// The number of the first chunk's record.
    pub first_record: u64,
    pub interleaver: &'a mut Interleaver,
    /// Of the chunk in hand.
    pub offset: Vec<u64>,
}

impl PlaceRows<'_> {
    pub(super) fn read_of(&self, number: u64, grid_index: u64) -> ChunkRead {
        let dataset = self.dataset;
        let row = grid_index / dataset.inner_chunks().max(1) * dataset.chunk_dims[0];
        let end = row
            .saturating_add(dataset.chunk_dims[0])
            .min(dataset.dims[0]);
        let wanted = row.max(self.rows.start)..end.min(self.rows.end);
        ChunkRead {
            number,
            grid_index,
            row,
            size: dataset.decoded_size_at(row),
            wanted: match wanted.is_empty() {
                true => self.rows.end..self.rows.end,
                false => wanted,
            },
        }
    }

    /// Where some of the dataset's rows lie.
    fn bytes(&self, rows: &Range<u64>) -> Range<usize> {
        let at = |row: u64| (row - self.rows.start) as usize * self.dataset.row_bytes;
        at(rows.start)..at(rows.end)
    }

    fn apply_fixes(&mut self, read: &ChunkRead) {
        if self.dataset.fixes.is_empty() || read.wanted.is_empty() {
            return;
        }
        self.dataset.chunk_offset(read.grid_index, &mut self.offset);
        let at = fill::Place {
            offset: &self.offset,
            lo: read.wanted.start,
            hi: read.wanted.end,
        };
        let bytes = self.bytes(&read.wanted);
        fill::apply_fixes(self.dataset, at, self.out.cut(bytes));
    }
}

// SAFETY: targets are parts of `out`, which the placement has for as long as it lives.
unsafe impl Place for PlaceRows<'_> {
    fn read(&self, index: usize, chunk: &Chunk) -> ChunkRead {
        self.read_of(self.number(index), chunk.grid_index)
    }

    fn number(&self, index: usize) -> u64 {
        self.first_record + index as u64
    }

    fn dataset_of(&self, _: &ChunkRead) -> &Dataset {
        self.dataset
    }

    fn target(&mut self, read: &ChunkRead) -> Option<*mut [u8]> {
        let bytes = self.bytes(&read.wanted);
        let is_it =
            self.dataset.whole_rows() && read.wanted.start == read.row && bytes.len() == read.size;
        is_it.then(|| &raw mut *self.out.part(bytes))
    }

    fn place(&mut self, read: &ChunkRead, decoded: &[u8]) {
        if read.wanted.is_empty() {
            return;
        }
        let dataset = self.dataset;
        dataset.chunk_offset(read.grid_index, &mut self.offset);
        let copy = RowCopy::of(dataset, &self.offset);
        if Interleaver::wants(&copy, decoded.len()) && dataset.fixes.is_empty() {
            if !self.interleaver.has_room(&read.wanted, decoded.len()) {
                self.flush();
            }
            let rows = read.wanted.clone();
            return self.interleaver.add(rows, copy, read.row, decoded);
        }
        let bytes = self.bytes(&read.wanted);
        let first = read.wanted.start - read.row;
        copy.copy(decoded, first, self.out.cut(bytes));
        self.apply_fixes(read);
    }

    fn placed(&mut self, read: &ChunkRead) {
        self.apply_fixes(read);
    }

    fn fill_rows(&mut self, read: &ChunkRead) {
        let bytes = self.bytes(&read.wanted);
        fill::repeat(self.dataset.fill_shown(), self.out.part(bytes));
    }

    fn flush(&mut self) {
        if self.interleaver.is_empty() {
            return;
        }
        let (first, row_bytes) = (self.rows.start, self.dataset.row_bytes);
        let out = &mut self.out;
        self.interleaver.copy(|rows, _, pieces| {
            let at = |row: u64| (row - first) as usize * row_bytes;
            let mut to = out.cut(at(rows.start)..at(rows.end));
            for piece in pieces {
                let first = rows.start - piece.first;
                piece.copy.copy(piece.decoded, first, to.lend());
            }
        });
    }

    fn fetch_in_place(
        &mut self,
        queue: &mut FetchQueue,
        left: &[Run],
        chunks: &[Chunk],
        turn: Option<Turn<'_>>,
    ) -> Result<bool, FetchError> {
        let run = &left[0];
        let here = &chunks[run.chunks.clone()];
        let first = here[0].grid_index;
        let mut follow = (first..).zip(here);
        if !self.dataset.whole_rows() || !follow.all(|(grid, chunk)| chunk.grid_index == grid) {
            return Ok(false);
        }
        let (first, last) = (
            self.read_of(NO_CHUNK, first),
            self.read_of(NO_CHUNK, here[here.len() - 1].grid_index),
        );
        let bytes = self.bytes(&(first.wanted.start..last.wanted.end));
        let stored: u64 = here.iter().map(|chunk| chunk.stored_size).sum();
        // Gaps, chunks of which not all is wanted and wrong sizes take the careful way.
        if first.wanted.start != first.row || stored != run.len || bytes.len() as u64 != stored {
            return Ok(false);
        }
        queue.read_run(self.out.part(bytes), left, turn)?;
        for index in run.chunks.clone() {
            let read = self.read(index, &chunks[index]);
            self.apply_fixes(&read);
        }
        Ok(true)
    }
}

impl Transfer<'_, PlaceRows<'_>> {
    /// The chunks of a task's grid that the file never stored; `chunks` are those that it did.
    pub fn fill_rest(&mut self, grid: Range<u64>, chunks: &[Chunk]) -> Result<(), TaskError> {
        let dataset = self.place.dataset;
        let inner = dataset.inner_chunks().max(1);
        let is_fill = self.assembler.is_none() && chunks.is_empty() && dataset.fills_evenly();
        if is_fill && grid.start % inner == 0 && grid.end % inner == 0 {
            let len = self.place.out.len();
            fill::repeat(dataset.fill_shown(), self.place.out.part(0..len));
            count(&self.record.decoded_bytes, len);
            return Ok(());
        }
        let is_stored = |chunk: &&Chunk| chunk.byte_offset != UNALLOCATED;
        let mut stored = chunks.iter().filter(is_stored).peekable();
        for grid_index in grid {
            let next = stored.next_if(|chunk| chunk.grid_index == grid_index);
            if next.is_none() {
                let read = self.place.read_of(NO_CHUNK, grid_index);
                self.fill(dataset, &read)?;
            }
        }
        self.place.flush();
        Ok(())
    }
}
