//! Whole rows of many datasets at once, each to its place in one result.
//!
//! Law:
//! 1. The words of a request are written by `_multitables/wire/request_bytes.py`; `parse` checks them,
//!    and `check` what they say of the table.
//! 2. Chunks are fetched in the order of the files, neighbours by one call, whichever datasets they
//!    belong to; chunks with the same filters are decoded together.
//! 3. Several readers of one request share its chunks by their decoded bytes: each has some that follow
//!    each other in the files.
//! 4. On a rotating disk a task's first fetches are asked for in its turn, those of small ones all.
//! 5. What was read of a file that changed meanwhile is an error.

use crate::chunk_read::{ChunkRead, Fetches, NO_CHUNK, Place};
use crate::counters::{Record, add_ns, count};
use crate::fetch::coalesce::{RUN_BYTES, Run, runs};
use crate::fetch::data_file::OpenFiles;
use crate::fetch::error::FetchError;
use crate::fetch::queue::{FetchQueue, Turn};
use crate::open_dataset::Lookup;
use crate::place_rows::PlaceRows;
use crate::scatter::interleave::Interleaver;
use crate::scatter::out::Out;
use crate::task_error::TaskError;
use crate::transfer::Transfer;
use hdf5_filters::convert::ElementConversion;
use hdf5_filters::{FilterSpec, Pipeline};
use os::clock::thread_ns;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tables::dataset::{Chunk, Dataset, DatasetTable, UNALLOCATED};

/// `words[0]` of such a request.
pub const KIND_PIECES: u64 = 3;
/// Words before the pieces, and of each.
pub const PIECES_HEAD_WORDS: usize = 6;
pub const PIECE_WORDS: usize = 4;
/// Direct reads that are in flight together.
const DIRECT_RUNS: usize = 8;

type Refused = &'static str;

/// A checked request.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    words: &'a [u64],
    pub out_bytes: usize,
}

/// Some rows of a dataset, and where the first of them goes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    dataset: usize,
    rows: Range<u64>,
    out_at: usize,
}

impl<'a> Pieces<'a> {
    pub fn parse(words: &'a [u64]) -> Result<Pieces<'a>, Refused> {
        let head = words.get(..PIECES_HEAD_WORDS);
        let Some(&[KIND_PIECES, _, _, _, n_pieces, out_bytes]) = head else {
            return Err("the request is not one for pieces");
        };
        let words = &words[PIECES_HEAD_WORDS..];
        let wanted = n_pieces.checked_mul(PIECE_WORDS as u64);
        if wanted != Some(words.len() as u64) {
            return Err("the request is not as long as it says");
        }
        let out_bytes = isize::try_from(out_bytes).map_err(|_| "the result is too large")?;
        Ok(Pieces {
            words,
            out_bytes: out_bytes as usize,
        })
    }

    /// Each piece lies in its dataset and in the result, and no library reads it.
    pub fn check(&self, table: &DatasetTable) -> Result<(), Refused> {
        let range = "a piece lies outside its dataset or the result";
        for piece in self.all() {
            let dataset = table.datasets.get(piece.dataset).ok_or(range)?;
            if dataset.by_library || !dataset.parts.is_empty() {
                return Err("a piece of a dataset that is not read in pieces");
            }
            let rows = piece.rows.end.checked_sub(piece.rows.start);
            let bytes = rows.and_then(|rows| rows.checked_mul(dataset.row_bytes as u64));
            let end = bytes.and_then(|bytes| bytes.checked_add(piece.out_at as u64));
            if piece.rows.end > dataset.dims[0] || end.is_none_or(|end| end > self.out_bytes as u64)
            {
                return Err(range);
            }
        }
        Ok(())
    }

    fn all(self) -> impl Iterator<Item = Piece> {
        self.words.chunks_exact(PIECE_WORDS).map(|words| Piece {
            dataset: usize::try_from(words[0]).unwrap_or(usize::MAX),
            rows: words[1]..words[2],
            out_at: usize::try_from(words[3]).unwrap_or(usize::MAX),
        })
    }
}

/// A chunk of a piece.
#[derive(Clone, Copy, Debug)]
struct Listed {
    piece: usize,
    number: u64,
    chunk: Chunk,
}

/// What a task is read with.
#[derive(Clone, Copy)]
struct ReadBy<'a> {
    files: &'a OpenFiles,
    record: &'a Record,
    /// On a rotating disk.
    turn: Option<Turn<'a>>,
}

/// How chunks are read that lie and decode alike.
struct Way {
    is_direct: bool,
    filters: Vec<FilterSpec>,
    conversion: Option<Arc<ElementConversion>>,
    pipeline: Pipeline,
}

/// What a reader keeps open for the datasets of one table.
pub struct OpenPieces {
    table: Arc<DatasetTable>,
    /// Through the page cache, and around it.
    queues: [Option<FetchQueue>; 2],
    ways: Vec<Way>,
    decoded: Vec<u8>,
    interleaver: Interleaver,
}

impl OpenPieces {
    pub fn new(table: DatasetTable) -> OpenPieces {
        OpenPieces {
            table: Arc::new(table),
            queues: [None, None],
            ways: Vec::new(),
            decoded: Vec::new(),
            interleaver: Interleaver::default(),
        }
    }

    /// Write what part `part` of `n_parts` has of the pieces into `out`, which is the whole result.
    pub fn read(
        &mut self,
        wanted: &Pieces<'_>,
        (part, n_parts): (u64, u64),
        mut out: Out<'_>,
        files: &OpenFiles,
        record: &Record,
        turn: Option<Turn<'_>>,
    ) -> Result<(), TaskError> {
        let table = self.table.clone();
        let turn = turn.filter(|_| table.sources.iter().any(|source| source.turnstile));
        let by = ReadBy {
            files,
            record,
            turn,
        };
        let internal = |reason: Refused| TaskError::Internal(reason.into());
        wanted.check(&table).map_err(internal)?;
        let pieces = wanted.all().filter(|piece| !piece.rows.is_empty());
        let pieces: Vec<Piece> = pieces.collect();
        let mine = part_of(&table, &pieces, part, n_parts);
        let way = |piece: &Piece| self.way(&table.datasets[piece.dataset]);
        let ways = pieces.iter().map(way).collect::<Result<Vec<_>, _>>()?;
        let mut left: Vec<usize> = ways.clone();
        left.sort_unstable();
        left.dedup();
        for way in left {
            let alike = mine.iter().filter(|one| ways[one.piece] == way);
            let alike: Vec<Listed> = alike.copied().collect();
            self.read_alike(way, &pieces, &alike, out.lend(), by)?;
        }
        Ok(())
    }

    /// Which queue and which filters a dataset's chunks go through.
    fn way(&mut self, dataset: &Dataset) -> Result<usize, TaskError> {
        let known = self
            .ways
            .iter()
            .position(|way| way.is_of(&self.table, dataset));
        if let Some(known) = known {
            return Ok(known);
        }
        let pipeline = Pipeline::new(&dataset.filters, dataset.decoded_size, thread_ns);
        let pipeline = pipeline.map_err(TaskError::UnknownFilter)?;
        self.ways.push(Way {
            is_direct: self.table.source(dataset).direct,
            filters: dataset.filters.clone(),
            conversion: dataset.conversion.clone(),
            pipeline: pipeline.with(dataset.conversion.as_ref()),
        });
        Ok(self.ways.len() - 1)
    }

    /// Read chunks that go through one queue and the same filters.
    fn read_alike(
        &mut self,
        way: usize,
        pieces: &[Piece],
        listed: &[Listed],
        out: Out<'_>,
        by: ReadBy<'_>,
    ) -> Result<(), TaskError> {
        let ReadBy {
            files,
            record,
            turn,
        } = by;
        let Some(first) = listed.first() else {
            return Ok(());
        };
        let table = &*self.table;
        let stored = |one: &&Listed| one.chunk.byte_offset != UNALLOCATED;
        for one in listed.iter().filter(stored) {
            let lookup = Lookup::new(table, &table.datasets[pieces[one.piece].dataset]);
            lookup.check(one.number, &one.chunk)?;
        }
        let way = &mut self.ways[way];
        let queue = match &mut self.queues[usize::from(way.is_direct)] {
            Some(queue) => queue,
            empty => {
                let start = Instant::now();
                let dataset = &table.datasets[pieces[first.piece].dataset];
                let queue = FetchQueue::open(table, dataset, files);
                let queue = queue.map_err(|error| TaskError::Fetch(first.number, error))?;
                add_ns(&record.open_ns, start);
                empty.insert(queue)
            }
        };
        count(&record.chunks, listed.iter().filter(stored).count());
        let chunks: Vec<Chunk> = listed.iter().map(|one| one.chunk).collect();
        let sizes = listed.iter().map(|one| cost(table, pieces, one));
        way.pipeline
            .expect(sizes.sum::<u64>() as usize / listed.len());
        let mut transfer = Transfer {
            record,
            queue,
            pipeline: &mut way.pipeline,
            assembler: None,
            decoded: &mut self.decoded,
            place: PlacePieces {
                table,
                pieces,
                listed,
                out,
                record,
                interleaver: &mut self.interleaver,
                offset: Vec::new(),
            },
        };
        let done = transfer.read(&chunks, turn);
        // A file that changed explains any other error.
        let changed = transfer.queue.check_unchanged();
        changed.map_err(|error| TaskError::Fetch(NO_CHUNK, error))?;
        done
    }
}

impl Way {
    fn is_of(&self, table: &DatasetTable, dataset: &Dataset) -> bool {
        self.is_direct == table.source(dataset).direct
            && self.filters == dataset.filters
            && self.conversion == dataset.conversion
    }
}

/// Bytes to decode, or to copy.
fn cost(table: &DatasetTable, pieces: &[Piece], one: &Listed) -> u64 {
    let dataset = &table.datasets[pieces[one.piece].dataset];
    match dataset.clipped {
        true => one.chunk.stored_size,
        false => dataset.decoded_size as u64,
    }
}

/// The chunks of one part, in the order of the files.
fn part_of(table: &DatasetTable, pieces: &[Piece], part: u64, n_parts: u64) -> Vec<Listed> {
    let mut all = Vec::new();
    for (piece, wanted) in pieces.iter().enumerate() {
        let dataset = &table.datasets[wanted.dataset];
        let (lookup, rows) = (Lookup::new(table, dataset), dataset.chunk_dims[0]);
        let inner = dataset.inner_chunks();
        let grid = wanted.rows.start / rows * inner..wanted.rows.end.div_ceil(rows) * inner;
        all.extend(grid.map(|grid| match lookup.chunk(grid) {
            Some((number, chunk)) => Listed {
                piece,
                number,
                chunk,
            },
            None => Listed {
                piece,
                number: NO_CHUNK,
                chunk: Chunk::never_stored(grid),
            },
        }));
    }
    all.sort_unstable_by_key(|one| (one.chunk.source, one.chunk.byte_offset, one.piece));
    let cost = |one: &Listed| cost(table, pieces, one);
    let total: u64 = all.iter().map(cost).sum();
    let mut before = 0u64;
    all.retain(|one| {
        let at = u128::from(before) * u128::from(n_parts) / u128::from(total.max(1));
        before += cost(one);
        at.min(u128::from(n_parts.saturating_sub(1))) == u128::from(part)
    });
    all
}

impl Transfer<'_, PlacePieces<'_>> {
    /// Fetch, decode and place chunks, and fill where none was stored.
    fn read(&mut self, chunks: &[Chunk], turn: Option<Turn<'_>>) -> Result<(), TaskError> {
        let mut found = Vec::new();
        runs(chunks, self.queue.limits(RUN_BYTES), &mut found);
        self.queue.cold = false;
        let (mut left, mut tickets) = (found.as_slice(), Vec::new());
        while !left.is_empty() {
            let n = self.at_once(left);
            let (now, behind) = left.split_at(n);
            if tickets.is_empty() && (turn.is_some() || self.queue.is_async()) {
                tickets = self.queue.submit(now, turn);
            }
            let mut next = Vec::new();
            if self.queue.is_async() {
                next = self.queue.submit(&behind[..self.at_once(behind)], turn);
            }
            let fetches = Fetches {
                runs: now,
                tickets: &tickets,
                turn,
            };
            if let Err(error) = self.run(chunks, fetches) {
                next.into_iter()
                    .for_each(|ticket| self.queue.discard(ticket));
                return Err(error);
            }
            (left, tickets) = (behind, next);
        }
        let never = |(_, chunk): &(usize, &Chunk)| chunk.byte_offset == UNALLOCATED;
        for (index, _) in chunks.iter().enumerate().filter(never) {
            let dataset = self.place.dataset(self.place.listed[index].piece);
            let read = self.place.read(index, &chunks[index]);
            self.fill(dataset, &read)?;
        }
        Ok(())
    }

    /// As many runs as are fetched together: around the page cache a few, else all of them.
    fn at_once(&self, left: &[Run]) -> usize {
        match self.queue.is_async() && !self.queue.is_remote() {
            true => left.len().min(DIRECT_RUNS),
            false => left.len(),
        }
    }
}

/// Chunks of many datasets; a read's `wanted` is its number among those that are listed.
struct PlacePieces<'a> {
    table: &'a DatasetTable,
    pieces: &'a [Piece],
    listed: &'a [Listed],
    out: Out<'a>,
    record: &'a Record,
    interleaver: &'a mut Interleaver,
    /// Of the chunk in hand.
    offset: Vec<u64>,
}

impl<'a> PlacePieces<'a> {
    fn dataset(&self, piece: usize) -> &'a Dataset {
        &self.table.datasets[self.pieces[piece].dataset]
    }

    /// Do something with the rows of a piece.
    fn within<T>(&mut self, piece: usize, act: impl FnOnce(&mut PlaceRows<'_>) -> T) -> T {
        let (dataset, of) = (self.dataset(piece), &self.pieces[piece]);
        let bytes = (of.rows.end - of.rows.start) as usize * dataset.row_bytes;
        let mut rows = PlaceRows {
            dataset,
            rows: of.rows.clone(),
            out: self.out.cut(of.out_at..of.out_at + bytes),
            first_record: 0,
            interleaver: self.interleaver,
            offset: std::mem::take(&mut self.offset),
        };
        let result = act(&mut rows);
        self.offset = rows.offset;
        result
    }

    /// Do something with a chunk, as the rows of its piece know it.
    fn with<T>(
        &mut self,
        read: &ChunkRead,
        act: impl FnOnce(&mut PlaceRows<'_>, &ChunkRead) -> T,
    ) -> T {
        let piece = self.listed[read.wanted.start as usize].piece;
        self.within(piece, |rows| {
            let read = rows.read_of(read.number, read.grid_index);
            act(rows, &read)
        })
    }
}

// SAFETY: targets are parts of `out`, which the placement has for as long as it lives.
unsafe impl Place for PlacePieces<'_> {
    fn read(&self, index: usize, chunk: &Chunk) -> ChunkRead {
        let dataset = self.dataset(self.listed[index].piece);
        let row = chunk.grid_index / dataset.inner_chunks().max(1) * dataset.chunk_dims[0];
        self.record
            .chunk
            .store(self.number(index).wrapping_add(1), Relaxed);
        ChunkRead {
            number: self.number(index),
            grid_index: chunk.grid_index,
            row,
            size: dataset.decoded_size_at(row),
            wanted: index as u64..index as u64 + 1,
        }
    }

    fn number(&self, index: usize) -> u64 {
        self.listed[index].number
    }

    fn dataset_of(&self, read: &ChunkRead) -> &Dataset {
        self.dataset(self.listed[read.wanted.start as usize].piece)
    }

    fn target(&mut self, read: &ChunkRead) -> Option<*mut [u8]> {
        self.with(read, |rows, read| rows.target(read))
    }

    fn place(&mut self, read: &ChunkRead, decoded: &[u8]) {
        self.with(read, |rows, read| {
            rows.place(read, decoded);
            rows.flush(); // the next chunk may be another dataset's
        });
    }

    fn placed(&mut self, read: &ChunkRead) {
        self.with(read, |rows, read| rows.placed(read));
    }

    fn fill_rows(&mut self, read: &ChunkRead) {
        self.with(read, |rows, read| rows.fill_rows(read));
    }

    fn fetch_in_place(
        &mut self,
        queue: &mut FetchQueue,
        left: &[Run],
        chunks: &[Chunk],
        turn: Option<Turn<'_>>,
    ) -> Result<bool, FetchError> {
        let listed = &self.listed[left[0].chunks.clone()];
        let piece = listed[0].piece;
        if listed.iter().any(|one| one.piece != piece) {
            return Ok(false);
        }
        self.within(piece, |rows| rows.fetch_in_place(queue, left, chunks, turn))
    }
}
