//! Requests answered: the datasets that are open, the chunks that are kept, and the way through both.
//!
//! Law:
//! 1. A request is checked against its dataset before anything is done for it; one that does not fit
//!    is an internal error.
//! 2. A bounded number of datasets is open at a time; the least recently used is closed first.
//! 3. What was read from a file that changed meanwhile is neither published nor kept.
//! 4. A row that is kept costs no system call, no clock and no new memory.

use crate::engine::chunk_cache::{ChunkCache, Policy};
use crate::engine::counters::Record;
use crate::engine::open_dataset::{Lookup, OpenDataset};
use crate::engine::read_ahead::ReadAhead;
use crate::engine::selected_read::{Scratch, SelectedRead};
use crate::engine::transfer::NO_CHUNK;
use crate::os::memory::Mapping;
use crate::scatter::elements::Unit;
use crate::select::chunk_iter::{ChunkIter, Cursor, Geometry};
use crate::select::selection::{Hyperslab, TablePlace};
use crate::tables::dataset::{Dataset, DatasetTable};
use crate::task_error::TaskError;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Datasets that are open at a time.
const OPEN: usize = 64;

/// A dataset that was asked for, as the reader keeps it open.
struct Known {
    place: TablePlace,
    table: DatasetTable,
    geometry: Geometry,
    open: OpenDataset,
    /// The file and the way its chunks are decoded: two datasets that decode the same chunks alike,
    /// such as the fields of one table, share what is kept of them.
    source: u64,
    /// When it was last asked for.
    used: u64,
}

impl Known {
    fn open(
        arena: &Arc<Mapping>,
        place: TablePlace,
        source: u64,
        record: &Record,
    ) -> Result<Known, TaskError> {
        let internal = |reason: &str| TaskError::Internal(reason.into());
        let table = DatasetTable::over(arena.clone(), place.at, place.len).map_err(internal)?;
        let [dataset] = &table.datasets[..] else {
            return Err(internal("a request's table has one dataset"));
        };
        let geometry = Geometry::new(dataset).ok_or_else(|| internal("the grid is too large"))?;
        let open = OpenDataset::open(&table, dataset, record, NO_CHUNK)?;
        Ok(Known {
            place,
            geometry,
            open,
            source,
            table,
            used: 0,
        })
    }

    fn dataset(&self) -> &Dataset {
        &self.table.datasets[0]
    }

    /// The chunks of both are the same bytes, stored and decoded.
    fn is_alike(&self, other: &Known) -> bool {
        let (a, b) = (self.dataset(), other.dataset());
        let (from, other) = (self.table.source(a), other.table.source(b));
        from.fingerprint == other.fingerprint
            && a.filters == b.filters
            && a.decoded_size == b.decoded_size
    }
}

/// Answers the requests of one work queue, in one reader.
pub struct Answerer {
    arena: Arc<Mapping>,
    datasets: Vec<Known>,
    /// Where the last request's dataset is, and how many requests there were.
    last: usize,
    clock: u64,
    /// The number of the next source.
    next_source: u64,
    cache: ChunkCache,
    chunk_iter: ChunkIter,
    cursor: Cursor,
    ahead: Cursor,
    scratch: Scratch,
}

impl Answerer {
    pub fn new(arena: Arc<Mapping>, cache_limit_bytes: usize) -> Answerer {
        Answerer {
            arena,
            datasets: Vec::new(),
            last: 0,
            clock: 0,
            next_source: 0,
            cache: ChunkCache::new(cache_limit_bytes, Policy::S3Fifo),
            chunk_iter: ChunkIter::default(),
            cursor: Cursor::default(),
            ahead: Cursor::default(),
            scratch: Scratch::default(),
        }
    }

    /// Write what part `part` of `n_parts` owns of the result into `out`, which is all of it.
    pub fn answer(
        &mut self,
        words: &[u64],
        part: u64,
        n_parts: u64,
        out: &mut [u8],
        record: &Record,
    ) -> Result<(), TaskError> {
        let internal = |reason: &str| TaskError::Internal(reason.into());
        let table = TablePlace::parse(words).map_err(internal)?;
        let at = self.open(table, record)?;
        let known = &mut self.datasets[at];
        let dataset = &known.table.datasets[0];
        let slab = Hyperslab::parse(words, dataset).map_err(internal)?;
        let room = out.len();
        let Some(out) = out.get_mut(..slab.out_bytes()) else {
            let reason = format!("a result of {} bytes, room for {room}", slab.out_bytes());
            return Err(TaskError::Internal(reason));
        };
        if out.is_empty() {
            return Ok(());
        }
        let lookup = Lookup::new(&known.table, dataset);
        let chunk_iter = &mut self.chunk_iter;
        chunk_iter.set(&slab, dataset, &known.geometry, part, n_parts);
        let queue = &mut known.open.queue;
        let mut read = SelectedRead {
            stored: ReadAhead::new(lookup, record, chunk_iter, queue, &mut self.ahead),
            pipeline: &mut known.open.pipeline,
            source: known.source,
            cache: &mut self.cache,
            unit: Unit::new(&slab, dataset, chunk_iter.together),
            scratch: &mut self.scratch,
            out,
        };
        let done = read.run(&mut self.cursor);
        let touched = read.stored.touched;
        // A file that changed explains any other error.
        if let Err(error) = read.stored.end() {
            let chunk = lookup.chunk(self.cursor.grid_index);
            self.cache.forget(known.source);
            return Err(TaskError::Fetch(
                chunk.map_or(NO_CHUNK, |found| found.0),
                error,
            ));
        }
        if touched {
            let kept = self.cache.bytes() as u64;
            record.cache_bytes.store(kept, Relaxed);
        }
        done
    }

    /// Where the dataset of a request is, opened if it was not.
    fn open(&mut self, table: TablePlace, record: &Record) -> Result<usize, TaskError> {
        self.clock += 1;
        let is_it = |known: &Known| known.place == table;
        let found = match self.datasets.get(self.last).is_some_and(is_it) {
            true => Some(self.last),
            false => self.datasets.iter().position(is_it),
        };
        self.last = match found {
            Some(at) => at,
            None => {
                let source = self.next_source;
                let mut dataset = Known::open(&self.arena, table, source, record)?;
                match self.datasets.iter().find(|other| other.is_alike(&dataset)) {
                    Some(other) => dataset.source = other.source,
                    None => self.next_source += 1,
                }
                self.make_room();
                self.datasets.push(dataset);
                self.datasets.len() - 1
            }
        };
        self.datasets[self.last].used = self.clock;
        Ok(self.last)
    }

    fn make_room(&mut self) {
        while self.datasets.len() >= OPEN {
            let oldest = (0..self.datasets.len()).min_by_key(|&at| self.datasets[at].used);
            if let Some(at) = oldest {
                self.datasets.swap_remove(at);
            }
        }
    }
}
