//! One part of a request, chunk by chunk.
//!
//! Law:
//! 1. Each touched chunk is fetched and decoded at most once, and is found decoded if it was kept.
//! 2. A chunk that is wanted whole and in its own order is decoded straight into the result.
//! 3. Everything else is decoded into memory that is kept or was used before, and gathered.
//! 4. An error names the chunk by its number in the catalogue.

use super::chunk_cache::{ChunkCache, Key};
use super::cover::{Cover, Pair, Segment, Walk};
use super::gather::{Row, Unit};
use super::part::{HEAD_BYTES, WantedBlocks};
use super::stored::Stored;
use super::window::{self, Window};
use crate::failure::TaskError;
use crate::filters::{FilterError, FilterErrorKind, Pipeline};
use crate::plan::Chunk;
use crate::work::add_ns;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Memory that is used again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    stored: Vec<u8>,
    decoded: Vec<u8>,
    value: Vec<u8>,
    window: Window,
    blocks: WantedBlocks,
}

pub struct Task<'a> {
    pub stored: Stored<'a>,
    pub pipeline: &'a mut Pipeline,
    pub source: u64,
    pub cache: &'a mut ChunkCache,
    pub cover: &'a Cover,
    pub unit: Unit<'a>,
    pub scratch: &'a mut Scratch,
    pub out: &'a mut [u8],
}

/// A chunk in hand.
#[derive(Clone, Copy)]
struct InHand<'w> {
    number: u64,
    chunk: Chunk,
    walk: &'w Walk,
    key: Key,
}

impl InHand<'_> {
    fn wrong(&self, error: FilterError) -> TaskError {
        TaskError::Filter(self.number, error)
    }
}

impl Task<'_> {
    pub fn run(&mut self, walk: &mut Walk) -> Result<(), TaskError> {
        if !self.cover.begin(walk) {
            return Ok(());
        }
        loop {
            self.stored.turn();
            self.serve(walk)?;
            if !self.cover.next(walk) {
                return Ok(());
            }
        }
    }

    fn serve(&mut self, walk: &Walk) -> Result<(), TaskError> {
        let lookup = self.stored.lookup;
        let Some((number, chunk)) = lookup.chunk(walk.grid_index) else {
            self.fill(walk);
            return Ok(());
        };
        let record = self.stored.record;
        let as_stored = self.pipeline.is_identity(chunk.filter_mask);
        let key = Key {
            source: self.source,
            byte_offset: chunk.byte_offset,
        };
        if !as_stored {
            if let Some(bytes) = self.cache.find(key) {
                count(&record.cache_hits, 1);
                let (segments, pairs) = (&walk.segments, self.cover.pairs());
                deliver(&self.unit, segments, pairs, bytes, 0, self.out);
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
            walk,
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
    fn fill(&mut self, walk: &Walk) {
        let member = self.stored.lookup.member;
        let (unit, out, value) = (&self.unit, &mut *self.out, &mut self.scratch.value);
        unit.fill_value(member, value);
        let mut bytes = 0;
        unit.each_row(&walk.segments, self.cover.pairs(), &mut |row| {
            unit.fill(&row, value, out);
            bytes += row.n * unit.bytes;
        });
        count(&self.stored.record.decoded_bytes, bytes);
    }

    /// Read the wanted bytes of a chunk that is stored as it is.
    fn read_wanted(&mut self, here: InHand<'_>) -> Result<(), TaskError> {
        let mut window = std::mem::take(&mut self.scratch.window);
        window.clear();
        let mut result = Ok(());
        let unit = self.unit;
        let cover = self.cover;
        unit.each_row(&here.walk.segments, cover.pairs(), &mut |row| {
            window::split(&unit, row, &mut |row| {
                if result.is_ok() && !window.take(&unit, row) {
                    result = self.read_window(&here, &window);
                    window.clear();
                    window.take(&unit, row);
                }
            });
        });
        let result = result.and_then(|()| self.read_window(&here, &window));
        self.scratch.window = window;
        result
    }

    fn read_window(&mut self, here: &InHand<'_>, window: &Window) -> Result<(), TaskError> {
        let at = here.chunk.byte_offset + window.span.start as u64;
        let mut bytes = 0;
        if let [row] = &window.rows[..] {
            if self.unit.is_contiguous(row) {
                let out = &mut self.out[row.dst..row.dst + row.n * self.unit.bytes];
                self.stored.read(here.walk, here.number, at, out)?;
                self.unit.end_strings(out);
                count(&self.stored.record.decoded_bytes, out.len());
                return Ok(());
            }
        }
        let len = window.span.len();
        let stored = &mut self.scratch.stored;
        grow(stored, len, here.number)?;
        self.stored
            .read(here.walk, here.number, at, &mut stored[..len])?;
        for row in &window.rows {
            self.unit
                .copy(row, &stored[..len], window.span.start, self.out);
            bytes += row.n * self.unit.bytes;
        }
        count(&self.stored.record.decoded_bytes, bytes);
        Ok(())
    }

    /// A chunk that is not kept: decode it, or what is wanted of it.
    fn miss(&mut self, here: InHand<'_>) -> Result<(), TaskError> {
        let size = self.stored.lookup.member.decoded_size;
        let row = self.unit.only_row(&here.walk.segments, self.cover.pairs());
        let is_part = self.whole(row, size).is_none();
        let has_parts = is_part && self.pipeline.parts(here.chunk.filter_mask).is_some();
        if has_parts && !self.cache.is_worth_it(here.key, size) && self.decode_parts(&here, row)? {
            return Ok(());
        }
        let len = here.chunk.stored_size as usize;
        let mut stored = std::mem::take(&mut self.scratch.stored);
        let result = grow(&mut stored, len, here.number).and_then(|()| {
            let at = here.chunk.byte_offset;
            self.stored
                .read(here.walk, here.number, at, &mut stored[..len])?;
            self.decode(here, &stored[..len])
        });
        self.scratch.stored = stored;
        result
    }

    /// The row that is all of a chunk.
    fn whole(&self, row: Option<Row>, size: usize) -> Option<Row> {
        row.filter(|row| {
            let contiguous = self.unit.is_contiguous(row);
            contiguous && row.src == 0 && row.n * self.unit.bytes == size
        })
    }

    fn decode(&mut self, here: InHand<'_>, stored: &[u8]) -> Result<(), TaskError> {
        let start = Instant::now();
        let size = self.stored.lookup.member.decoded_size;
        let mask = here.chunk.filter_mask;
        let (segments, pairs) = (&here.walk.segments, self.cover.pairs());
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

    /// Fetch and decode only the blocks that hold wanted bytes. False: it has to be the whole.
    fn decode_parts(&mut self, here: &InHand<'_>, row: Option<Row>) -> Result<bool, TaskError> {
        let size = self.stored.lookup.member.decoded_size;
        let len = here.chunk.stored_size as usize;
        let Some(mut parts) = self.pipeline.parts(here.chunk.filter_mask) else {
            return Ok(false);
        };
        let Scratch {
            stored,
            decoded,
            blocks: wanted,
            ..
        } = &mut *self.scratch;
        grow(stored, len, here.number)?;
        let stored = &mut stored[..len];
        let mut fetch = |stored: &mut [u8], span: Range<usize>| {
            let at = here.chunk.byte_offset + span.start as u64;
            (self.stored).read(here.walk, here.number, at, &mut stored[span])
        };
        let head = HEAD_BYTES.min(len);
        fetch(stored, 0..head)?;
        let Ok(blocks) = parts.blocks(stored) else {
            return Ok(false);
        };
        if !wanted.begin(&blocks, size) {
            return Ok(false);
        }
        if blocks.head_bytes > head {
            fetch(stored, head..blocks.head_bytes)?;
        }
        let unit = self.unit;
        unit.each_row(&here.walk.segments, self.cover.pairs(), &mut |row| {
            wanted.add(&blocks, &unit, &row);
        });
        // Where it is nearly all, it may as well be kept.
        let few = wanted.bytes() <= size / 4 * 3;
        let (Ok(work), true) = (wanted.locate(&blocks, &parts, stored), few) else {
            return Ok(false);
        };
        for span in wanted.fetches() {
            // What is in the head is there.
            let span = span.start.max(head.min(span.end))..span.end;
            if !span.is_empty() {
                fetch(stored, span)?;
            }
        }
        let start = Instant::now();
        grow(decoded, size, here.number)?;
        let straight = row.filter(|row| unit.is_contiguous(row));
        for (n, span) in &wanted.spans {
            let range = blocks.range(*n);
            let part = wanted.wanted(&blocks, *n);
            // A block that is wanted whole, side by side, is decoded where it belongs.
            let out = match straight {
                Some(row) if part.len() == range.len() => {
                    let at = row.dst + (range.start - row.src);
                    &mut self.out[at..at + range.len()]
                }
                _ => &mut decoded[range.clone()],
            };
            let done = parts.decode_block(stored, *n, span.clone(), part.clone(), out);
            done.map_err(|error| here.wrong(error))?;
            if let (Some(row), true) = (straight, part.len() < range.len()) {
                let from = range.start + part.start;
                let at = row.dst + (from - row.src);
                let bytes = &decoded[from..from + part.len()];
                self.out[at..at + part.len()].copy_from_slice(bytes);
            }
        }
        match straight {
            Some(row) => {
                let len = row.n * unit.bytes;
                unit.end_strings(&mut self.out[row.dst..row.dst + len]);
            }
            None => {
                let (segments, pairs) = (&here.walk.segments, self.cover.pairs());
                deliver(&unit, segments, pairs, &decoded[..size], 0, self.out);
            }
        }
        self.cache.note(here.key, work);
        count(&self.stored.record.decoded_bytes, work);
        add_ns(&self.stored.record.decode_ns, start);
        Ok(true)
    }

    /// The chunk in hand, read around the page cache: whole, or the wanted bytes of one that is
    /// stored as it is.
    fn around(&mut self, here: InHand<'_>, as_stored: bool) -> Result<(), TaskError> {
        let (unit, cover, lookup) = (self.unit, self.cover, self.stored.lookup);
        let (cache, pipeline, source) = (&*self.cache, &*self.pipeline, self.source);
        self.stored.fly(here.walk, |walk| {
            let (number, chunk) = lookup.chunk(walk.grid_index)?;
            lookup.check(number, &chunk).ok()?;
            if pipeline.is_identity(chunk.filter_mask) {
                return Some(hull(&unit, cover, walk, &chunk));
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
            true => hull(&unit, cover, here.walk, &chunk),
            false => chunk.byte_offset..chunk.byte_offset + chunk.stored_size,
        };
        let base = (span.start - chunk.byte_offset) as usize;
        let finished = self.stored.land(here.number, span)?;
        let result = match as_stored {
            true => {
                let (segments, pairs) = (&here.walk.segments, cover.pairs());
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
fn hull(unit: &Unit<'_>, cover: &Cover, walk: &Walk, chunk: &Chunk) -> Range<u64> {
    let (mut start, mut end) = (usize::MAX, 0);
    unit.each_row(&walk.segments, cover.pairs(), &mut |row| {
        let reach = unit.reach(&row);
        (start, end) = (start.min(reach.start), end.max(reach.end));
    });
    chunk.byte_offset + start.min(end) as u64..chunk.byte_offset + end as u64
}

/// Copy what a chunk has to give; `bytes` begin at byte `base` of it.
fn deliver(
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
fn grow(buffer: &mut Vec<u8>, len: usize, number: u64) -> Result<(), TaskError> {
    if buffer.len() < len {
        let no_memory = |_| std::io::Error::from_raw_os_error(libc::ENOMEM);
        buffer.clear();
        let more = buffer.try_reserve_exact(len);
        more.map_err(|error| TaskError::read(number, no_memory(error)))?;
        buffer.resize(len, 0);
    }
    Ok(())
}
