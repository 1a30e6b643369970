//! Decoded chunks on their way to where a selection wants their elements.
//!
//! Law:
//! 1. A chunk that is wanted whole and in its own order is decoded straight into the result. Others
//!    are decoded into memory that is kept (`ChunkCache`), or that was used before, and gathered.
//! 2. Nothing but the selection's own elements of the result is written.

use crate::engine::chunk_cache::{ChunkCache, Key};
use crate::engine::counters::Record;
use crate::engine::transfer::{ChunkRead, Place};
use crate::scatter::elements::{BlockCopy, Row, Unit};
use crate::select::chunk_iter::{ChunkIter, Cursor, Pair, Segment};
use crate::tables::dataset::{Chunk, Dataset};
use std::sync::atomic::Ordering::Relaxed;

/// A chunk that is fetched for a selection, or of one that is stored as it is the wanted bytes.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    pub cursor: Cursor,
    /// The number of its record.
    pub number: u64,
    pub key: Key,
    /// What the cache said of it.
    pub worth: bool,
    /// Its bytes from this one on are fetched.
    pub base: usize,
    pub len: usize,
    /// Memory of the cache, while it is decoded.
    room: Vec<u8>,
}

/// The chunks of a selection that are fetched together.
pub struct PlaceSelected<'a> {
    pub dataset: &'a Dataset,
    /// A reader that dies of the chunk in hand is found with its number.
    pub record: &'a Record,
    pub chunk_iter: &'a ChunkIter,
    pub unit: Unit<'a>,
    pub cache: &'a mut ChunkCache,
    pub wanted: &'a mut [Wanted],
    pub out: &'a mut [u8],
}

/// The row that is all of a chunk of `size` bytes.
pub fn whole(unit: &Unit<'_>, row: Option<Row>, size: usize) -> Option<Row> {
    row.filter(|row| unit.is_contiguous(row) && row.src == 0 && row.n * unit.bytes == size)
}

/// Copy what a chunk has to give; `bytes` begin at byte `base` of it.
pub fn deliver(
    unit: &Unit<'_>,
    segments: &[Segment],
    pairs: &[Pair],
    bytes: &[u8],
    base: usize,
    out: &mut [u8],
) {
    if let Some(row) = unit.only_row(segments, pairs) {
        return unit.copy(&row, bytes, base, out);
    }
    if let Some(blocks) = BlockCopy::new(unit, segments, pairs) {
        return blocks.copy(bytes, base, out);
    }
    unit.each_row(segments, pairs, &mut |row| {
        unit.copy(&row, bytes, base, out)
    });
}

impl PlaceSelected<'_> {
    fn whole(&self, wanted: &Wanted) -> Option<Row> {
        let row = (self.unit).only_row(&wanted.cursor.segments, self.chunk_iter.pairs());
        whole(&self.unit, row, self.dataset.decoded_size)
    }
}

/// Which of the chunks that are fetched together a read is of.
fn index(read: &ChunkRead) -> usize {
    read.wanted.start as usize
}

// SAFETY: targets are parts of `out`, which the placement borrows, or memory of the cache that
// `wanted`, which it borrows too, has until `placed`.
unsafe impl Place for PlaceSelected<'_> {
    fn read(&self, index: usize, chunk: &Chunk) -> ChunkRead {
        self.record.chunk.store(self.number(index) + 1, Relaxed);
        ChunkRead {
            number: self.number(index),
            grid_index: chunk.grid_index,
            row: 0,
            size: self.wanted[index].len,
            wanted: index as u64..index as u64 + 1,
        }
    }

    fn number(&self, index: usize) -> u64 {
        self.wanted[index].number
    }

    fn target(&mut self, read: &ChunkRead) -> Option<*mut [u8]> {
        let wanted = &self.wanted[index(read)];
        if let Some(row) = self.whole(wanted) {
            return Some(&raw mut self.out[row.dst..row.dst + read.size]);
        }
        let room = self.cache.room(read.size)?;
        let wanted = &mut self.wanted[index(read)];
        wanted.room = room;
        Some(&raw mut wanted.room[..])
    }

    fn place(&mut self, read: &ChunkRead, decoded: &[u8]) {
        let wanted = &self.wanted[index(read)];
        let (segments, pairs) = (&wanted.cursor.segments, self.chunk_iter.pairs());
        deliver(&self.unit, segments, pairs, decoded, wanted.base, self.out);
    }

    fn placed(&mut self, read: &ChunkRead) {
        let room = std::mem::take(&mut self.wanted[index(read)].room);
        let wanted = &self.wanted[index(read)];
        if room.is_empty() {
            if let Some(row) = self.whole(wanted) {
                (self.unit).end_strings(&mut self.out[row.dst..row.dst + read.size]);
            }
            return;
        }
        let bytes = self.cache.keep(wanted.key, room, wanted.worth);
        let (segments, pairs) = (&wanted.cursor.segments, self.chunk_iter.pairs());
        deliver(&self.unit, segments, pairs, bytes, 0, self.out);
    }

    fn released(&mut self, read: &ChunkRead) {
        let room = std::mem::take(&mut self.wanted[index(read)].room);
        if !room.is_empty() {
            self.cache.give_back(&room);
        }
    }

    fn fill_rows(&mut self, read: &ChunkRead) {
        let wanted = &self.wanted[index(read)];
        let mut value = Vec::new();
        self.unit.fill_value(self.dataset, &mut value);
        let (unit, out) = (&self.unit, &mut *self.out);
        let pairs = self.chunk_iter.pairs();
        unit.each_row(&wanted.cursor.segments, pairs, &mut |row| {
            unit.fill(&row, &value, out);
        });
    }
}
