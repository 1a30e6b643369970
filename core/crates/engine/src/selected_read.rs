//! What one part of a request wants of a dataset, chunk by chunk.
//!
//! Law:
//! 1. Each touched chunk is fetched and decoded at most once. Cached ones come first: the others
//!    might evict them before their turn.
//! 2. Of a chunk that is stored as it is the wanted bytes are read, and of one whose blocks can be
//!    decoded alone the wanted blocks. All others wait until some are together, and are transferred.
//! 3. Around the page cache, the next chunks are asked for before these are decoded. However a read
//!    ends, it leaves no request in flight.
//! 4. A chunk that another process decodes at this moment comes last: then it is there, or is decoded
//!    here.
//! 5. A decoded chunk is kept only when the file was compared after the fetch.
//! 6. An error names the chunk by the number of its record.

use crate::chunk_cache::{Key, SharedCache};
use crate::chunk_read::{Fetches, NO_CHUNK, room};
use crate::counters::{add_ns, count};
use crate::elements::{Elements, ReadElements};
use crate::fetch::coalesce::{Run, runs};
use crate::partial_decode::{PartialDecode, WantedBlocks};
use crate::place_selected::{PlaceSelected, Wanted, deliver, whole};
use crate::read_ahead::{InHand, ReadAhead};
use crate::scatter::elements::{Row, Unit};
use crate::scatter::out::Out;
use crate::select::chunk_iter::{ChunkIter, Cursor};
use crate::shared::Keys;
use crate::sieve::Sieve;
use crate::task_error::TaskError;
use crate::transfer::Transfer;
use hdf5_filters::{FilterError, FilterErrorKind, Pipeline};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tables::dataset::Chunk;

/// How many chunks are transferred together, and how much one fetch brings, ...
const BATCH_CHUNKS: usize = 64;
const RUN_BYTES: u64 = 256 << 10;
/// ... and how many around the page cache, where two such batches are in flight.
const DIRECT_BATCH_CHUNKS: usize = 4;
/// From a store, which answers many requests at a time; the queue bounds their bytes.
const REMOTE_BATCH_CHUNKS: usize = 256;
/// How often is looked for what another process decodes.
const GLANCE: Duration = Duration::from_micros(200);
/// Larger pieces of chunks that are stored as they are have a fetch of their own.
const PIECE_BYTES: usize = 64 << 10;

/// Memory that is used again and again.
#[derive(Debug, Default)]
pub struct Scratch {
    stored: Vec<u8>,
    decoded: Vec<u8>,
    sieve: Sieve,
    blocks: WantedBlocks,
    cached: Cursor,
    value: Vec<u8>,
    served: Served,
    /// Where others decode.
    elsewhere: Vec<Cursor>,
    /// What waits to be transferred, and what was asked for already.
    next: Batch,
    submitted: Batch,
}

/// Chunks that are transferred together.
#[derive(Debug, Default)]
struct Batch {
    chunks: Vec<Chunk>,
    /// One for each chunk; those behind them are spare.
    wanted: Vec<Wanted>,
    runs: Vec<Run>,
    tickets: Vec<u64>,
}

/// The chunks that were served before their turn, a bit each.
#[derive(Debug, Default)]
struct Served(Vec<u64>);

impl Served {
    fn add(&mut self, turn: usize) {
        if self.0.len() <= turn / 64 {
            self.0.resize(turn / 64 + 1, 0);
        }
        self.0[turn / 64] |= 1 << (turn % 64);
    }

    fn has(&self, turn: usize) -> bool {
        let word = self.0.get(turn / 64);
        word.is_some_and(|word| word >> (turn % 64) & 1 == 1)
    }
}

pub struct SelectedRead<'a> {
    pub stored: ReadAhead<'a>,
    pub pipeline: &'a mut Pipeline,
    pub keys: &'a Keys,
    /// Of a virtual dataset.
    pub assembler: Option<&'a mut Box<dyn ReadElements>>,
    pub cache: &'a SharedCache,
    /// Chunks that are decoded are kept. If not, those that are kept are found all the same.
    pub keeps: bool,
    pub unit: Unit<'a>,
    pub scratch: &'a mut Scratch,
    pub out: Out<'a>,
}

impl<'a> SelectedRead<'a> {
    fn chunk_iter(&self) -> &'a ChunkIter {
        self.stored.chunk_iter
    }

    /// Write what is wanted of the chunk at which `cursor` stands and of those behind it.
    pub fn run(&mut self, cursor: &mut Cursor) -> Result<(), TaskError> {
        let result = self.run_from(cursor);
        self.discard();
        result
    }

    fn run_from(&mut self, cursor: &mut Cursor) -> Result<(), TaskError> {
        self.scratch.served.0.clear();
        let is_last = self.chunk_iter().is_last(cursor);
        let may_have_some = self.cache.bytes() > 0 || self.cache.has_others();
        if !is_last && !self.pipeline.is_identity(0) && may_have_some {
            self.serve_cached(cursor);
        }
        loop {
            self.stored.turn += 1;
            if !self.scratch.served.has(self.stored.turn) {
                if let Err(error) = self.serve(cursor) {
                    // The first one that fails is told, and those that wait come before.
                    self.transfer()?;
                    self.transfer()?;
                    return Err(error);
                }
            }
            if !self.chunk_iter().next(cursor) {
                break;
            }
        }
        // What waits, and what was asked for before it.
        self.transfer()?;
        self.transfer()?;
        self.serve_elsewhere()
    }

    /// Serve the chunks that others decoded meanwhile, or decode them.
    fn serve_elsewhere(&mut self) -> Result<(), TaskError> {
        while !self.scratch.elsewhere.is_empty() {
            for cursor in std::mem::take(&mut self.scratch.elsewhere) {
                self.serve(&cursor)?;
            }
            self.transfer()?;
            self.transfer()?;
            if !self.scratch.elsewhere.is_empty() {
                std::thread::sleep(GLANCE);
            }
        }
        Ok(())
    }

    fn serve_cached(&mut self, cursor: &Cursor) {
        let mut ahead = std::mem::take(&mut self.scratch.cached);
        ahead.clone_from(cursor);
        for turn in 1.. {
            if let Some((_, chunk)) = self.stored.lookup.chunk(ahead.grid_index) {
                let len = self.stored.lookup.decoded_size(&chunk);
                if self.find(&ahead, self.key(&chunk), len) {
                    self.scratch.served.add(turn);
                }
            }
            if !self.chunk_iter().next(&mut ahead) {
                break;
            }
        }
        self.scratch.cached = ahead;
    }

    fn key(&self, chunk: &Chunk) -> Key {
        self.keys.of(chunk)
    }

    /// Gather from a chunk that the cache has. False if it has not.
    fn find(&mut self, cursor: &Cursor, key: Key, len: usize) -> bool {
        let Some(bytes) = self.cache.find_any(key, len) else {
            return false;
        };
        let (segments, pairs) = (&cursor.segments, self.stored.chunk_iter.pairs());
        deliver(&self.unit, segments, pairs, &bytes, 0, self.out.lend());
        count(&self.stored.record.cache_hits, 1);
        true
    }

    fn serve(&mut self, cursor: &Cursor) -> Result<(), TaskError> {
        let lookup = self.stored.lookup;
        let Some((number, chunk)) = lookup.chunk(cursor.grid_index) else {
            return self.fill(cursor);
        };
        let record = self.stored.record;
        let as_stored = self.pipeline.is_identity(chunk.filter_mask);
        let here = InHand {
            number,
            chunk,
            cursor,
            key: self.key(&chunk),
        };
        if !as_stored {
            if self.find(cursor, here.key, lookup.decoded_size(&chunk)) {
                return Ok(());
            }
            if self.cache.is_begun(here.key) {
                self.scratch.elsewhere.push(cursor.clone());
                return Ok(());
            }
            count(&record.cache_misses, 1);
        }
        self.stored.mark(number);
        count(&record.chunks, 1);
        lookup.check(number, &chunk)?;
        let (size, stored) = (lookup.decoded_size(&chunk), chunk.stored_size as usize);
        let is_enough = || stored < size && stored >= lookup.dataset.needed(cursor.grid_index);
        match (as_stored, self.stored.queue.is_async()) {
            (true, _) if !lookup.dataset.clipped && stored != size && !is_enough() => Err(here
                .wrong(FilterError {
                    filter: 0,
                    kind: FilterErrorKind::WrongSize,
                    expected: size as u64,
                    got: stored as u64,
                })),
            (true, false) => match self.piece(cursor) {
                Some(piece) => self.add(&here, piece.clone(), piece.len(), false),
                None => {
                    let out = self.out.lend();
                    (self.scratch.sieve).read(&mut self.stored, &here, &self.unit, out)
                }
            },
            (true, true) => {
                let hull = self.hull(cursor);
                self.add(&here, hull.clone(), hull.len(), false)
            }
            (false, true) => {
                self.begin(here.key);
                self.add(&here, 0..stored, size, false)
            }
            (false, false) => self.miss(&here),
        }
    }

    /// What an unallocated chunk shows.
    fn fill(&mut self, cursor: &Cursor) -> Result<(), TaskError> {
        if self.assembler.is_some() {
            return self.assemble(cursor);
        }
        let dataset = self.stored.lookup.dataset;
        let (unit, out, value) = (&self.unit, &mut self.out, &mut self.scratch.value);
        unit.fill_value(dataset, value);
        let mut bytes = 0;
        unit.each_row(
            &cursor.segments,
            self.stored.chunk_iter.pairs(),
            &mut |row| {
                unit.fill(&row, value, out.lend());
                bytes += row.n * unit.bytes;
            },
        );
        count(&self.stored.record.decoded_bytes, bytes);
        Ok(())
    }

    /// Put the rows that are wanted of a virtual dataset's chunk together.
    fn assemble(&mut self, cursor: &Cursor) -> Result<(), TaskError> {
        let hull = self.hull(cursor);
        let dataset = self.stored.lookup.dataset;
        let Some(assembler) = &mut self.assembler else {
            return Ok(());
        };
        let row_bytes = dataset.decoded_size / dataset.chunk_dims[0] as usize;
        let (first, end) = (hull.start / row_bytes, hull.end.div_ceil(row_bytes));
        let (base, len) = (first * row_bytes, (end - first) * row_bytes);
        let (offset, extents) = (&mut Vec::new(), &mut dataset.chunk_dims.clone());
        dataset.chunk_offset(cursor.grid_index, offset);
        (offset[0], extents[0]) = (offset[0] + first as u64, (end - first) as u64);
        let wanted = Elements {
            dataset,
            offset,
            extents,
        };
        let (segments, pairs) = (&cursor.segments, self.stored.chunk_iter.pairs());
        let record = self.stored.record;
        let row = self.unit.only_row(segments, pairs);
        let is_all = |row: &Row| row.src == base && row.n * self.unit.bytes == len;
        let straight = row.and_then(|row| self.unit.straight(&row));
        if let Some(row) = straight.filter(is_all) {
            let out = self.out.part(row.dst..row.dst + len);
            assembler.read(&wanted, out, record)?;
            self.unit.apply_fixes(out);
            return Ok(());
        }
        let read = room(&mut self.scratch.decoded, len, NO_CHUNK)?;
        assembler.read(&wanted, read, record)?;
        deliver(&self.unit, segments, pairs, read, base, self.out.lend());
        Ok(())
    }

    /// Other processes may wait for a chunk, which is kept.
    fn begin(&self, key: Key) {
        if self.keeps {
            self.cache.begin(key);
        }
    }

    /// The cache lacks a chunk: decode it, or what is wanted of it.
    fn miss(&mut self, here: &InHand<'_>) -> Result<(), TaskError> {
        let size = self.stored.lookup.decoded_size(&here.chunk);
        let row = (self.unit).only_row(&here.cursor.segments, self.chunk_iter().pairs());
        let is_part = whole(&self.unit, row, size).is_none();
        let worth = is_part && self.keeps && self.cache.is_worth_it(here.key, size);
        let has_parts = is_part && self.pipeline.parts(here.chunk.filter_mask).is_some();
        if has_parts && !worth {
            let scratch = &mut *self.scratch;
            let decode = PartialDecode {
                from: &mut self.stored,
                pipeline: self.pipeline,
                unit: self.unit,
                stored: &mut scratch.stored,
                decoded: &mut scratch.decoded,
                wanted: &mut scratch.blocks,
                out: self.out.lend(),
            };
            if let Some(work) = decode.run(here, row)? {
                self.cache.note(here.key, work);
                return Ok(());
            }
        }
        self.begin(here.key);
        self.add(here, 0..here.chunk.stored_size as usize, size, worth)
    }

    /// The wanted bytes of a chunk that is stored as it is, if they are few and lie together, and there
    /// are other chunks: neighbours are then read by one call.
    fn piece(&self, cursor: &Cursor) -> Option<Range<usize>> {
        let chunk_iter = self.chunk_iter();
        let row = self.unit.only_row(&cursor.segments, chunk_iter.pairs())?;
        let piece = self.unit.reach(&row);
        let is_alone = self.stored.turn == 1 && chunk_iter.is_last(cursor);
        let is_one = self.unit.lies_together(&row) && piece.len() <= PIECE_BYTES && !is_alone;
        is_one.then_some(piece)
    }

    /// From the first wanted byte of a chunk to the last.
    fn hull(&self, cursor: &Cursor) -> Range<usize> {
        let (mut start, mut end) = (usize::MAX, 0);
        let (unit, pairs) = (&self.unit, self.stored.chunk_iter.pairs());
        unit.each_row(&cursor.segments, pairs, &mut |row| {
            let reach = unit.reach(&row);
            (start, end) = (start.min(reach.start), end.max(reach.end));
        });
        start.min(end)..end
    }

    /// Transfer these bytes of a chunk, which decode to `len`, together with others.
    fn add(
        &mut self,
        here: &InHand<'_>,
        bytes: Range<usize>,
        len: usize,
        worth: bool,
    ) -> Result<(), TaskError> {
        let batch = &mut self.scratch.next;
        let at = batch.chunks.len();
        if batch.wanted.len() == at {
            batch.wanted.push(Wanted::default());
        }
        let wanted = &mut batch.wanted[at];
        wanted.cursor.clone_from(here.cursor);
        wanted.number = here.number;
        wanted.key = here.key;
        wanted.worth = worth;
        (wanted.base, wanted.len) = (bytes.start, len);
        batch.chunks.push(Chunk {
            byte_offset: here.chunk.byte_offset + bytes.start as u64,
            stored_size: bytes.len() as u64,
            ..here.chunk
        });
        let queue = &self.stored.queue;
        let most = match (queue.is_remote(), queue.is_async()) {
            (true, _) => REMOTE_BATCH_CHUNKS,
            (_, true) => DIRECT_BATCH_CHUNKS,
            (_, false) => BATCH_CHUNKS,
        };
        match at + 1 < most {
            true => Ok(()),
            false => self.transfer(),
        }
    }

    /// Ask for the chunks that wait, and bring those that were asked for before to their places; or,
    /// through the page cache, those that wait.
    fn transfer(&mut self) -> Result<(), TaskError> {
        let scratch = &mut *self.scratch;
        if scratch.next.chunks.is_empty() && scratch.submitted.chunks.is_empty() {
            return Ok(());
        }
        let batch = &mut scratch.next;
        let limits = self.stored.queue.limits(RUN_BYTES);
        runs(&batch.chunks, limits, &mut batch.runs);
        if self.stored.queue.is_async() {
            let start = Instant::now();
            std::mem::swap(&mut scratch.next, &mut scratch.submitted);
            let batch = &mut scratch.submitted;
            batch.tickets = self.stored.queue.submit(&batch.runs, None);
            add_ns(&self.stored.record.fetch_ns, start);
        }
        if scratch.next.chunks.is_empty() {
            return Ok(());
        }
        self.stored.touched = true;
        // Where something is missing the whole batch is asked for.
        self.stored.queue.cold = false;
        let batch = &mut scratch.next;
        let place = PlaceSelected {
            dataset: self.stored.lookup.dataset,
            record: self.stored.record,
            chunk_iter: self.stored.chunk_iter,
            unit: self.unit,
            cache: self.keeps.then_some(self.cache),
            wanted: &mut batch.wanted,
            out: self.out.lend(),
        };
        let mut transfer = Transfer {
            record: self.stored.record,
            queue: self.stored.queue,
            pipeline: self.pipeline,
            assembler: None,
            decoded: &mut scratch.decoded,
            place,
        };
        let fetches = Fetches {
            runs: &batch.runs,
            tickets: &batch.tickets,
            turn: None,
        };
        let result = transfer.run(&batch.chunks, fetches);
        let decoded = &mut batch.wanted[..batch.chunks.len()];
        keep(decoded, self.cache, &mut self.stored);
        if let Some(last) = decoded.last().filter(|_| self.stored.queue.cold) {
            self.stored.name_next(&last.cursor);
        }
        batch.chunks.clear();
        batch.tickets.clear();
        result
    }

    /// Wait for what was asked for and is not wanted any more.
    fn discard(&mut self) {
        self.scratch.elsewhere.clear();
        for batch in [&mut self.scratch.next, &mut self.scratch.submitted] {
            batch.chunks.clear();
            for ticket in batch.tickets.drain(..) {
                self.stored.queue.discard(ticket);
            }
        }
    }
}

/// Keep what was decoded into memory of the cache, if the file is still the one that was indexed. (If
/// not, the read's end tells.)
fn keep(decoded: &mut [Wanted], cache: &SharedCache, stored: &mut ReadAhead<'_>) {
    let has_room = |wanted: &Wanted| !wanted.room.is_empty();
    if !decoded.iter().any(has_room) {
        return;
    }
    let is_good = stored.compare().is_ok();
    for wanted in decoded.iter_mut().filter(|wanted| has_room(wanted)) {
        let room = std::mem::take(&mut wanted.room);
        match is_good {
            true => cache.keep(wanted.key, room, wanted.worth),
            false => {
                cache.give_back(room.len());
                cache.abandon(wanted.key);
            }
        }
    }
    let kept = cache.bytes() as u64;
    stored.record.cache_bytes.store(kept, Relaxed);
}
