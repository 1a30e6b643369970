//! Decoded chunks on their way to the places of their rows in a window.
//!
//! Law:
//! 1. Whole rows are copied at once, parts of rows by strides; chunks with little of each row wait for
//!    those beside them. A chunk that is wanted whole and in order is decoded where it belongs.
//! 2. A chunk of which others want the rest is kept decoded (`ChunkCache`).
//! 3. Only places of the share's own rows are written.
//! 4. Elements without a filter are converted into their places: only the wanted ones, each written once.

use super::chunk_read::{ChunkRead, NO_CHUNK, Place};
use super::transfer::Transfer;
use crate::chunk_cache::{ChunkCache, Key};
use crate::fetch::coalesce::{Run, runs};
use crate::fetch::error::FetchError;
use crate::fetch::queue::{FetchQueue, Turn};
use crate::scatter::fill;
use crate::scatter::interleave::Interleaver;
use crate::scatter::out::Out;
use crate::scatter::rows::RowCopy;
use crate::shuffle_task::ShuffleTask;
use crate::task_error::TaskError;
use hdf5_filters::FilterError;
use hdf5_filters::convert::ElementConversion;
use std::ops::Range;
use std::sync::Arc;
use tables::dataset::{Chunk, Dataset, UNALLOCATED};
use tables::shuffle::row_map::Run as Stretch;

/// Places at least this long on the average are filled by the kernel, if nothing decodes them.
const MIN_KERNEL_PLACE_BYTES: usize = 2 << 10;

/// The fetches of a share: its chunks that are not kept.
pub fn fetches(
    share: &mut ShuffleTask,
    cache: &ChunkCache,
    queue: &FetchQueue,
    into: &mut Vec<Run>,
) {
    if cache.bytes() > 0 {
        // A chunk that is kept is as if it were nowhere in the file.
        for (read, chunk) in share.reads.iter().zip(&mut share.chunks) {
            if cache.holds(key(read.number)) {
                chunk.byte_offset = UNALLOCATED;
            }
        }
    }
    runs(&share.chunks, queue.limits(share.run_bytes), into);
}

/// The places of one share's rows.
pub struct PlaceShuffled<'a> {
    pub dataset: &'a Dataset,
    pub share: &'a ShuffleTask,
    /// The whole window's rows, of which this share's places are ours.
    pub window: Out<'a>,
    /// Keep decoded chunks.
    pub caches: bool,
    pub cache: &'a mut ChunkCache,
    pub interleaver: &'a mut Interleaver,
    /// Of the chunk in hand.
    pub offset: Vec<u64>,
}

/// A stream's chunks are known by the numbers of their records.
fn key(number: u64) -> Key {
    Key {
        source: 0,
        byte_offset: number,
    }
}

fn indices(rows: &Range<u64>) -> Range<usize> {
    rows.start as usize..rows.end as usize
}

impl PlaceShuffled<'_> {
    /// Keep a copy of a decoded chunk, if there is room.
    fn keep(&mut self, key: Key, decoded: &[u8]) {
        if self.cache.holds(key) {
            return;
        }
        if let Some(mut room) = self.cache.room(decoded.len()) {
            room.copy_from_slice(decoded);
            self.cache.keep(key, Arc::new(room), true);
        }
    }

    /// Copy whole rows, of which the first is row `first`, to their places.
    pub fn copy(&mut self, first: u64, rows: Range<usize>, bytes: &[u8]) {
        let of = (&*self.share.rows, rows);
        let copy = RowCopy::whole(self.dataset.row_bytes);
        copy.scatter(bytes, first, of, self.window.lend());
    }

    /// The bytes of a stretch of rows in the window.
    fn bytes(&self, stretch: &Stretch) -> Range<usize> {
        let row_bytes = self.dataset.row_bytes;
        let from = stretch.place as usize * row_bytes;
        from..from + stretch.rows * row_bytes
    }

    /// Leave the element with which the decoded bytes begin in `offset`.
    fn set_offset(&mut self, read: &ChunkRead) {
        self.dataset.chunk_offset(read.grid_index, &mut self.offset);
        self.offset[0] = read.row;
    }

    fn apply_fixes(&mut self, read: &ChunkRead) {
        if self.dataset.fixes.is_empty() {
            return;
        }
        self.set_offset(read);
        for stretch in self.share.rows.runs(indices(&read.wanted)) {
            let at = fill::Place {
                offset: &self.offset,
                lo: stretch.row,
                hi: stretch.end_row(),
            };
            let bytes = self.bytes(&stretch);
            fill::apply_fixes(self.dataset, at, self.window.cut(bytes));
        }
    }

    /// Copy the wanted rows of a decoded chunk to their places.
    fn scatter(&mut self, read: &ChunkRead, decoded: &[u8]) {
        let (dataset, wanted) = (self.dataset, indices(&read.wanted));
        self.set_offset(read);
        let copy = RowCopy::of(dataset, &self.offset);
        if !Interleaver::wants(&copy, decoded.len()) || !dataset.fixes.is_empty() {
            let of = (&*self.share.rows, wanted);
            copy.scatter(decoded, read.row, of, self.window.lend());
            return self.apply_fixes(read);
        }
        if !self.interleaver.has_room(&read.wanted, decoded.len()) {
            self.flush();
        }
        let rows = read.wanted.clone();
        self.interleaver.add(rows, copy, read.row, decoded);
    }

    /// Where the rows of a run go, if that is what its stored bytes are, and they are long enough
    /// for the kernel to be quicker than a copy.
    fn places(&mut self, run: &Run, chunks: &[Chunk]) -> Option<Vec<libc::iovec>> {
        let row_bytes = self.dataset.row_bytes;
        let reads = &self.share.reads[run.chunks.clone()];
        let mut total = 0;
        for (read, chunk) in reads.iter().zip(&chunks[run.chunks.clone()]) {
            let wanted = (read.wanted.end - read.wanted.start) * row_bytes as u64;
            if wanted != chunk.stored_size || read.size as u64 != wanted {
                return None;
            }
            total += wanted;
        }
        let plain = self.dataset.whole_rows() && self.dataset.fixes.is_empty();
        // Gaps between chunks are not rows.
        if !plain || total != run.len {
            return None;
        }
        let rows = reads[0].wanted.start..reads[reads.len() - 1].wanted.end;
        let most = (total as usize / MIN_KERNEL_PLACE_BYTES).max(1);
        let mut places: Vec<libc::iovec> = Vec::with_capacity(most.min(indices(&rows).len()));
        let mut next = None;
        for stretch in self.share.rows.runs(indices(&rows)) {
            // A row that is wanted twice is stored once.
            let follows = next.replace(stretch.end_row());
            if follows.is_some_and(|row| row != stretch.row) || places.len() == most {
                return None;
            }
            let bytes = self.bytes(&stretch);
            places.push(libc::iovec {
                iov_len: bytes.len(),
                iov_base: self.window.part(bytes).as_mut_ptr().cast(),
            });
        }
        Some(places)
    }
}

// SAFETY: targets are parts of `window`, which the placement has for as long as it lives.
unsafe impl Place for PlaceShuffled<'_> {
    fn read(&self, index: usize, _: &Chunk) -> ChunkRead {
        self.share.reads[index].clone()
    }

    fn number(&self, index: usize) -> u64 {
        self.share.reads[index].number
    }

    fn dataset_of(&self, _: &ChunkRead) -> &Dataset {
        self.dataset
    }

    fn target(&mut self, read: &ChunkRead) -> Option<*mut [u8]> {
        if !self.dataset.whole_rows() || self.caches {
            return None;
        }
        let wanted = indices(&read.wanted);
        let stretch = self.share.rows.runs(wanted.clone()).next()?;
        let bytes = self.bytes(&stretch);
        // A row that is wanted twice has two places.
        let all = stretch.rows == wanted.len() && bytes.len() == read.size;
        (all && stretch.row == read.row).then(|| &raw mut *self.window.part(bytes))
    }

    fn convert(
        &mut self,
        read: &ChunkRead,
        conversion: &ElementConversion,
        stored: &[u8],
    ) -> Result<bool, FilterError> {
        let (dataset, row_bytes) = (self.dataset, self.dataset.row_bytes);
        let is_whole = stored.len() == conversion.stored_size(read.size);
        let plain = dataset.whole_rows() && dataset.fixes.is_empty();
        if self.caches || !plain || !is_whole {
            return Ok(false);
        }
        let place = dataset.place(read.grid_index);
        for stretch in self.share.rows.runs(indices(&read.wanted)) {
            let first = (stretch.row - read.row) as usize;
            let elements = first * row_bytes / dataset.element_bytes;
            let begin = conversion.stored_size(first * row_bytes);
            let end = begin + conversion.stored_size(stretch.rows * row_bytes);
            let bytes = self.bytes(&stretch);
            let out = self.window.part(bytes);
            conversion.convert_some(elements, place, &stored[begin..end], out)?;
        }
        Ok(true)
    }

    fn place(&mut self, read: &ChunkRead, decoded: &[u8]) {
        self.scatter(read, decoded);
        if self.caches && read.number != NO_CHUNK {
            self.keep(key(read.number), decoded);
        }
    }

    fn placed(&mut self, read: &ChunkRead) {
        self.apply_fixes(read);
    }

    fn rows(&self, read: &ChunkRead) -> Range<u64> {
        let (all, wanted) = (&self.share.rows, indices(&read.wanted));
        all.row(wanted.start)..all.row(wanted.end - 1) + 1
    }

    fn fill_rows(&mut self, read: &ChunkRead) {
        for stretch in self.share.rows.runs(indices(&read.wanted)) {
            let bytes = self.bytes(&stretch);
            fill::repeat(self.dataset.fill_shown(), self.window.part(bytes));
        }
    }

    fn flush(&mut self) {
        if self.interleaver.is_empty() {
            return;
        }
        let (all, window) = (&*self.share.rows, &mut self.window);
        self.interleaver.copy(|rows, ahead, pieces| {
            let part = (all, indices(&rows));
            RowCopy::scatter_all(pieces, part, indices(&ahead), window.lend());
        });
    }

    fn fetch_in_place(
        &mut self,
        queue: &mut FetchQueue,
        left: &[Run],
        chunks: &[Chunk],
        _: Option<Turn<'_>>,
    ) -> Result<bool, FetchError> {
        let Some(places) = self.places(&left[0], chunks) else {
            return Ok(false);
        };
        // SAFETY: each place is a row of the window that is this share's.
        Ok(unsafe { queue.read_places(&places, &left[0]) })
    }
}

impl Transfer<'_, PlaceShuffled<'_>> {
    /// What is not fetched: chunks that were never stored, and those that are kept.
    pub fn place_rest(&mut self) -> Result<(), TaskError> {
        let (share, dataset) = (self.place.share, self.place.dataset);
        for (read, chunk) in share.reads.iter().zip(&share.chunks) {
            if chunk.byte_offset != UNALLOCATED {
                continue;
            }
            let key = key(read.number);
            match self.place.cache.find(key) {
                Some(decoded) => self.place.scatter(read, &decoded),
                None => self.fill(dataset, read)?,
            }
        }
        self.place.flush();
        Ok(())
    }
}
