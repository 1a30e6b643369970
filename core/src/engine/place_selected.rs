//! One part of a request, chunk by chunk.
//!
//! Law:
//! 1. Each touched chunk is fetched and decoded at most once. Those that are kept come first: the
//!    others, in their order, might be kept instead of them just before their turn.
//! 2. A chunk that is wanted whole and in its own order is decoded straight into the result.
//! 3. Everything else is decoded into memory that is kept or was used before, and gathered.
//! 4. An error names the chunk by its number in the catalogue.

use crate::engine::abreast::Followers;
use crate::engine::chunk_cache::{ChunkCache, Key};
use crate::engine::open_dataset::add_ns;
use crate::engine::partial_decode::WantedBlocks;
use crate::engine::read_ahead::ReadAhead;
use crate::engine::sieve::Sieve;
use crate::filters::{FilterError, FilterErrorKind, Pipeline};
use crate::scatter::elements::{BlockCopy, Row, Unit};
use crate::select::chunk_iter::{ChunkIter, Cursor, Pair, Segment};
use crate::tables::plan::Chunk;
use crate::task_error::TaskError;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Memory that is used again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    pub stored: Vec<u8>,
    pub followers: Followers,
    ahead: Cursor,
    pub decoded: Vec<u8>,
    value: Vec<u8>,
    pub served: Served,
    pub window: Sieve,
    pub blocks: WantedBlocks,
}

pub struct Task<'a> {
    pub stored: ReadAhead<'a>,
    pub pipeline: &'a mut Pipeline,
    pub source: u64,
    pub cache: &'a mut ChunkCache,
    pub cover: &'a ChunkIter,
    pub unit: Unit<'a>,
    pub scratch: &'a mut Scratch,
    pub out: &'a mut [u8],
}

/// The chunks that were served before their turn, a bit each.
#[derive(Debug, Default)]
pub struct Served(Vec<u64>);

impl Served {
    pub fn add(&mut self, turn: usize) {
        if self.0.len() <= turn / 64 {
            self.0.resize(turn / 64 + 1, 0);
        }
        self.0[turn / 64] |= 1 << (turn % 64);
    }

    pub fn has(&self, turn: usize) -> bool {
        self.0
            .get(turn / 64)
            .is_some_and(|word| word >> (turn % 64) & 1 == 1)
    }
}

/// A chunk in hand.
#[derive(Clone, Copy)]
pub struct InHand<'w> {
    pub number: u64,
    pub chunk: Chunk,
    pub cursor: &'w Cursor,
    pub key: Key,
}

impl InHand<'_> {
    pub fn wrong(&self, error: FilterError) -> TaskError {
        TaskError::Filter(self.number, error)
    }
}

impl Task<'_> {
    pub fn run(&mut self, cursor: &mut Cursor) -> Result<(), TaskError> {
        if !self.cover.begin(cursor) {
            return Ok(());
        }
        self.scratch.served.0.clear();
        let may_be_kept = self.cache.bytes() > 0 && !self.pipeline.is_identity(0);
        if may_be_kept && !self.cover.is_last(cursor) {
            self.serve_kept(cursor);
        }
        loop {
            let turn = self.stored.next_turn();
            if !self.scratch.served.has(turn) {
                self.serve(cursor)?;
            }
            if !self.cover.next(cursor) {
                return Ok(());
            }
        }
    }

    fn serve_kept(&mut self, cursor: &Cursor) {
        let mut ahead = std::mem::take(&mut self.scratch.ahead);
        ahead.clone_from(cursor);
        for turn in 1.. {
            if let Some((_, chunk)) = self.stored.lookup.chunk(ahead.grid_index) {
                if self.find(&ahead, &chunk) {
                    self.scratch.served.add(turn);
                }
            }
            if !self.cover.next(&mut ahead) {
                break;
            }
        }
        self.scratch.ahead = ahead;
    }

    /// Gather from a chunk that is kept. False: it is not.
    fn find(&mut self, cursor: &Cursor, chunk: &Chunk) -> bool {
        let key = Key {
            source: self.source,
            byte_offset: chunk.byte_offset,
        };
        let Some(bytes) = self.cache.find(key) else {
            return false;
        };
        let (segments, pairs) = (&cursor.segments, self.cover.pairs());
        deliver(&self.unit, segments, pairs, bytes, 0, self.out);
        count(&self.stored.record.cache_hits, 1);
        true
    }

    fn serve(&mut self, cursor: &Cursor) -> Result<(), TaskError> {
        let lookup = self.stored.lookup;
        let Some((number, chunk)) = lookup.chunk(cursor.grid_index) else {
            self.fill(cursor);
            return Ok(());
        };
        let record = self.stored.record;
        let as_stored = self.pipeline.is_identity(chunk.filter_mask);
        let key = Key {
            source: self.source,
            byte_offset: chunk.byte_offset,
        };
        if !as_stored {
            if self.find(cursor, &chunk) {
                return Ok(());
            }
            count(&record.cache_misses, 1);
        }
        self.stored.blame(number);
        count(&record.chunks, 1);
        lookup.check(number, &chunk)?;
        let here = InHand {
            number,
            chunk,
            cursor,
            key,
        };
        if as_stored {
            let expected = lookup.member.decoded_size as u64;
            if !lookup.member.clipped && chunk.stored_size != expected {
                return Err(here.wrong(wrong_size(expected, chunk.stored_size)));
            }
        }
        if self.stored.is_direct() {
            return self.around(here, as_stored);
        }
        if as_stored {
            return self.read_wanted(here);
        }
        self.miss(here)
    }

    /// What an unallocated chunk shows.
    fn fill(&mut self, cursor: &Cursor) {
        let member = self.stored.lookup.member;
        let (unit, out, value) = (&self.unit, &mut *self.out, &mut self.scratch.value);
        unit.fill_value(member, value);
        let mut bytes = 0;
        unit.each_row(&cursor.segments, self.cover.pairs(), &mut |row| {
            unit.fill(&row, value, out);
            bytes += row.n * unit.bytes;
        });
        count(&self.stored.record.decoded_bytes, bytes);
    }

    /// A chunk that is not kept: decode it, or what is wanted of it.
    fn miss(&mut self, here: InHand<'_>) -> Result<(), TaskError> {
        let size = self.stored.lookup.member.decoded_size;
        let row = self
            .unit
            .only_row(&here.cursor.segments, self.cover.pairs());
        let is_part = self.whole(row, size).is_none();
        let is_worth_it = is_part && self.cache.is_worth_it(here.key, size);
        let has_parts = is_part && self.pipeline.parts(here.chunk.filter_mask).is_some();
        if has_parts && !is_worth_it && self.decode_parts(&here, row)? {
            return Ok(());
        }
        let len = here.chunk.stored_size as usize;
        let mut stored = std::mem::take(&mut self.scratch.stored);
        let result = grow(&mut stored, len, here.number).and_then(|()| {
            let at = here.chunk.byte_offset;
            self.stored
                .read(here.cursor, here.number, at, &mut stored[..len])?;
            let wants_abreast = self.pipeline.wants_group(here.chunk.filter_mask);
            if wants_abreast && self.serve_abreast(&here, &stored[..len]) {
                return Ok(());
            }
            self.decode(here, &stored[..len])
        });
        self.scratch.stored = stored;
        result
    }

    /// The row that is all of a chunk.
    pub fn whole(&self, row: Option<Row>, size: usize) -> Option<Row> {
        row.filter(|row| {
            let contiguous = self.unit.is_contiguous(row);
            contiguous && row.src == 0 && row.n * self.unit.bytes == size
        })
    }

    fn decode(&mut self, here: InHand<'_>, stored: &[u8]) -> Result<(), TaskError> {
        let start = Instant::now();
        let size = self.stored.lookup.member.decoded_size;
        let mask = here.chunk.filter_mask;
        let (segments, pairs) = (&here.cursor.segments, self.cover.pairs());
        let row = self.unit.only_row(segments, pairs);
        if let Some(row) = self.whole(row, size) {
            let out = &mut self.out[row.dst..row.dst + size];
            let done = self.pipeline.decode(mask, stored, out);
            done.map_err(|error| here.wrong(error))?;
            self.unit.end_strings(out);
        } else if let Some(mut bytes) = self.cache.room(size) {
            let done = self.pipeline.decode(mask, stored, &mut bytes);
            done.map_err(|error| here.wrong(error))?;
            let bytes = self.cache.keep(here.key, bytes);
            deliver(&self.unit, segments, pairs, bytes, 0, self.out);
        } else {
            let decoded = &mut self.scratch.decoded;
            grow(decoded, size, here.number)?;
            let bytes = &mut decoded[..size];
            let done = self.pipeline.decode(mask, stored, bytes);
            done.map_err(|error| here.wrong(error))?;
            deliver(&self.unit, segments, pairs, bytes, 0, self.out);
        }
        count(&self.stored.record.decoded_bytes, size);
        add_ns(&self.stored.record.decode_ns, start);
        Ok(())
    }

    /// The chunk in hand, read around the page cache: whole, or the wanted bytes of one that is
    /// stored as it is.
    fn around(&mut self, here: InHand<'_>, as_stored: bool) -> Result<(), TaskError> {
        let (unit, cover, lookup) = (self.unit, self.cover, self.stored.lookup);
        let (cache, pipeline, source) = (&*self.cache, &*self.pipeline, self.source);
        self.stored.fly(here.cursor, |cursor| {
            let (number, chunk) = lookup.chunk(cursor.grid_index)?;
            lookup.check(number, &chunk).ok()?;
            if pipeline.is_identity(chunk.filter_mask) {
                return Some(hull(&unit, cover, cursor, &chunk));
            }
            let key = Key {
                source,
                byte_offset: chunk.byte_offset,
            };
            let end = chunk.byte_offset + chunk.stored_size;
            (!cache.holds(key)).then_some(chunk.byte_offset..end)
        });
        let chunk = here.chunk;
        let span = match as_stored {
            true => hull(&unit, cover, here.cursor, &chunk),
            false => chunk.byte_offset..chunk.byte_offset + chunk.stored_size,
        };
        let base = (span.start - chunk.byte_offset) as usize;
        let finished = self.stored.land(here.number, span)?;
        let result = match as_stored {
            true => {
                let (segments, pairs) = (&here.cursor.segments, cover.pairs());
                let bytes = finished.bytes();
                count(&self.stored.record.decoded_bytes, bytes.len());
                deliver(&unit, segments, pairs, bytes, base, self.out);
                Ok(())
            }
            false => self.decode(here, finished.bytes()),
        };
        self.stored.recycle(finished);
        result
    }
}

/// From the first wanted byte of a chunk in the file to the last.
fn hull(unit: &Unit<'_>, cover: &ChunkIter, cursor: &Cursor, chunk: &Chunk) -> Range<u64> {
    let (mut start, mut end) = (usize::MAX, 0);
    unit.each_row(&cursor.segments, cover.pairs(), &mut |row| {
        let reach = unit.reach(&row);
        (start, end) = (start.min(reach.start), end.max(reach.end));
    });
    chunk.byte_offset + start.min(end) as u64..chunk.byte_offset + end as u64
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

/// Only this reader writes its record, so no locked instruction is needed.
pub fn count(total: &std::sync::atomic::AtomicU64, more: impl TryInto<u64>) {
    let more = more.try_into().unwrap_or(0);
    total.store(total.load(Relaxed).wrapping_add(more), Relaxed);
}

fn wrong_size(expected: u64, got: u64) -> FilterError {
    FilterError {
        filter: 0,
        kind: FilterErrorKind::WrongSize,
        expected,
        got,
    }
}

/// Make `buffer` at least `len` bytes long; too little memory is an error, not an abort.
pub fn grow(buffer: &mut Vec<u8>, len: usize, number: u64) -> Result<(), TaskError> {
    if buffer.len() < len {
        let no_memory = |_| std::io::Error::from_raw_os_error(libc::ENOMEM);
        buffer.clear();
        let more = buffer.try_reserve_exact(len);
        more.map_err(|error| TaskError::read(number, no_memory(error)))?;
        buffer.resize(len, 0);
    }
    Ok(())
}
