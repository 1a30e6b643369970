//! Decoded chunks on their way to where a selection wants their elements.
//!
//! Law:
//! 1. A chunk that is wanted whole and in its own order is decoded straight into the result, unless
//!    other processes may want it. Others are decoded into memory that is kept (`SharedCache`), or that was used before, and gathered.
//! 2. What is decoded is not kept yet: the file is compared first (selected_read.rs).
//! 3. Nothing but the selection's own elements of the result is written.

use crate::chunk_cache::{Key, SharedCache};
use crate::chunk_read::{ChunkRead, Place};
use crate::counters::Record;
use crate::fetch::coalesce::Run;
use crate::fetch::error::FetchError;
use crate::fetch::queue::{FetchQueue, Turn};
use crate::scatter::elements::{BlockCopy, Row, Unit};
use crate::scatter::out::Out;
use crate::select::chunk_iter::{ChunkIter, Cursor, Pair, Segment};
use std::sync::atomic::Ordering::Relaxed;
use tables::dataset::{Chunk, Dataset};

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
    /// Memory of the cache, in which it is decoded.
    pub room: Vec<u8>,
}

/// The chunks of a selection that are fetched together.
pub struct PlaceSelected<'a> {
    pub dataset: &'a Dataset,
    /// A reader that dies of the chunk in hand is found with its number.
    pub record: &'a Record,
    pub chunk_iter: &'a ChunkIter,
    pub unit: Unit<'a>,
    /// None: nothing of this read is kept.
    pub cache: Option<&'a SharedCache>,
    pub wanted: &'a mut [Wanted],
    pub out: Out<'a>,
}

/// The row that is all of a chunk of `size` bytes.
pub fn whole(unit: &Unit<'_>, row: Option<Row>, size: usize) -> Option<Row> {
    let row = row.and_then(|row| unit.straight(&row));
    row.filter(|row| row.src == 0 && row.n * unit.bytes == size)
}

/// Copy what a chunk has to give; `bytes` begin at byte `base` of it.
pub fn deliver(
    unit: &Unit<'_>,
    segments: &[Segment],
    pairs: &[Pair],
    bytes: &[u8],
    base: usize,
    mut out: Out<'_>,
) {
    if let Some(row) = unit.only_row(segments, pairs) {
        return unit.copy(&row, bytes, base, out);
    }
    if let Some(blocks) = BlockCopy::new(unit, segments, pairs) {
        return blocks.copy(bytes, base, out);
    }
    unit.each_row(segments, pairs, &mut |row| {
        unit.copy(&row, bytes, base, out.lend())
    });
}

impl PlaceSelected<'_> {
    /// What a run's chunks have to give, if that is its bytes in their order.
    fn rows_of(&self, run: &Run, chunks: &[Chunk]) -> Option<Vec<Row>> {
        let mut end = run.byte_offset;
        let each = run.chunks.clone().map(|index| {
            let (chunk, wanted) = (&chunks[index], &self.wanted[index]);
            let row = (self.unit).only_row(&wanted.cursor.segments, self.chunk_iter.pairs())?;
            let follows = chunk.byte_offset == end && row.n * self.unit.bytes == wanted.len;
            end += chunk.stored_size;
            self.unit.straight(&row).filter(|_| follows)
        });
        each.collect()
    }

    fn whole(&self, wanted: &Wanted) -> Option<Row> {
        let row = (self.unit).only_row(&wanted.cursor.segments, self.chunk_iter.pairs());
        whole(&self.unit, row, wanted.len)
    }
}

/// Which of the chunks that are fetched together a read is of.
fn index(read: &ChunkRead) -> usize {
    read.wanted.start as usize
}

// SAFETY: targets are parts of `out`, which the placement has, or memory of the cache that
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

    fn dataset_of(&self, _: &ChunkRead) -> &Dataset {
        self.dataset
    }

    fn target(&mut self, read: &ChunkRead) -> Option<*mut [u8]> {
        let wanted = &self.wanted[index(read)];
        let others = self.cache.is_some_and(SharedCache::has_others);
        if let Some(row) = self.whole(wanted).filter(|_| !others) {
            return Some(&raw mut *self.out.part(row.dst..row.dst + read.size));
        }
        let cache = self.cache?;
        let wanted = &mut self.wanted[index(read)];
        let Some(room) = cache.room(read.size) else {
            cache.abandon(wanted.key);
            return None;
        };
        wanted.room = room;
        Some(&raw mut wanted.room[..])
    }

    fn place(&mut self, read: &ChunkRead, decoded: &[u8]) {
        let wanted = &self.wanted[index(read)];
        let (segments, pairs) = (&wanted.cursor.segments, self.chunk_iter.pairs());
        let out = self.out.lend();
        deliver(&self.unit, segments, pairs, decoded, wanted.base, out);
    }

    fn placed(&mut self, read: &ChunkRead) {
        let wanted = &self.wanted[index(read)];
        if wanted.room.is_empty() {
            if let Some(row) = self.whole(wanted) {
                (self.unit).apply_fixes(self.out.part(row.dst..row.dst + read.size));
            }
            return;
        }
        let (segments, pairs) = (&wanted.cursor.segments, self.chunk_iter.pairs());
        let out = self.out.lend();
        deliver(&self.unit, segments, pairs, &wanted.room, 0, out);
    }

    fn released(&mut self, read: &ChunkRead) {
        let wanted = &mut self.wanted[index(read)];
        let room = std::mem::take(&mut wanted.room);
        if let Some(cache) = self.cache.filter(|_| !room.is_empty()) {
            cache.give_back(room.len());
            cache.abandon(wanted.key);
        }
    }

    fn fetch_in_place(
        &mut self,
        queue: &mut FetchQueue,
        left: &[Run],
        chunks: &[Chunk],
        _: Option<Turn<'_>>,
    ) -> Result<bool, FetchError> {
        let Some(rows) = self.rows_of(&left[0], chunks) else {
            return Ok(false);
        };
        let bytes = self.unit.bytes;
        let out = &mut self.out;
        let places = rows.iter().map(|row| libc::iovec {
            iov_base: (out.part(row.dst..row.dst + row.n * bytes).as_mut_ptr()).cast(),
            iov_len: row.n * bytes,
        });
        let places: Vec<libc::iovec> = places.collect();
        // SAFETY: each place is a part of `out`, which is this placement's.
        let done = unsafe { queue.read_places(&places, &left[0]) };
        for row in rows.iter().filter(|_| done) {
            (self.unit).apply_fixes(out.part(row.dst..row.dst + row.n * bytes));
        }
        Ok(done)
    }

    fn fill_rows(&mut self, read: &ChunkRead) {
        let wanted = &self.wanted[index(read)];
        let mut value = Vec::new();
        self.unit.fill_value(self.dataset, &mut value);
        let (unit, out) = (&self.unit, &mut self.out);
        let pairs = self.chunk_iter.pairs();
        unit.each_row(&wanted.cursor.segments, pairs, &mut |row| {
            unit.fill(&row, &value, out.lend());
        });
    }
}
