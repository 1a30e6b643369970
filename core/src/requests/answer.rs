//! Asks answered: the datasets that are open, the chunks that are kept, and the way through both.
//!
//! Law:
//! 1. An ask is checked against its dataset before anything is done for it; one that does not fit
//!    is an internal error.
//! 2. A bounded number of datasets is open at a time; the least recently used is closed first.
//! 3. What was read from a file that changed meanwhile is neither published nor kept.
//! 4. A row that is kept costs no system call, no clock and no new memory.

use crate::engine::chunk_cache::ChunkCache;
use crate::engine::counters::Record;
use crate::engine::dataset::{Dataset, NO_CHUNK};
use crate::engine::place_selected::{Scratch, Task};
use crate::engine::read_ahead::ReadAhead;
use crate::os::memory::Mapping;
use crate::scatter::elements::Unit;
use crate::select::chunk_iter::{ChunkIter, Cursor};
use crate::select::selection::{Catalogue, Hyperslab};
use crate::task_error::TaskError;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Datasets that are open at a time.
const OPEN: usize = 64;

/// Answers the asks of one board, in one reader.
pub struct Answerer {
    arena: Arc<Mapping>,
    datasets: Vec<Dataset>,
    /// Where the last ask's dataset is, and how many asks there were.
    last: usize,
    clock: u64,
    /// The number of the next source.
    next_source: u64,
    cache: ChunkCache,
    cover: ChunkIter,
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
            cache: ChunkCache::new(cache_limit_bytes),
            cover: ChunkIter::default(),
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
        let catalogue = Catalogue::parse(words).map_err(internal)?;
        let at = self.open(catalogue, record)?;
        let open = self.datasets[at].parts();
        let member = open.lookup.member;
        let slab = Hyperslab::parse(words, member).map_err(internal)?;
        let room = out.len();
        let Some(out) = out.get_mut(..slab.out_bytes()) else {
            let reason = format!("a result of {} bytes, room for {room}", slab.out_bytes());
            return Err(TaskError::Internal(reason));
        };
        if out.is_empty() {
            return Ok(());
        }
        self.cover.set(&slab, member, open.geometry, part, n_parts);
        let unit = Unit::new(&slab, member, self.cover.together);
        let mut task = Task {
            stored: ReadAhead::new(
                open.lookup,
                record,
                &self.cover,
                open.fetch,
                &mut self.ahead,
            ),
            pipeline: open.pipeline,
            source: open.source,
            cache: &mut self.cache,
            cover: &self.cover,
            unit,
            scratch: &mut self.scratch,
            out,
        };
        let done = task.run(&mut self.cursor);
        let touched = task.stored.touched;
        // A file that changed explains any other error.
        if let Err(error) = task.stored.end() {
            let chunk = open.lookup.chunk(self.cursor.grid_index);
            self.cache.forget(open.source);
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

    /// Where the dataset of an ask is, opened if it was not.
    fn open(&mut self, catalogue: Catalogue, record: &Record) -> Result<usize, TaskError> {
        self.clock += 1;
        let is_it = |dataset: &Dataset| dataset.catalogue == catalogue;
        let found = match self.datasets.get(self.last).is_some_and(is_it) {
            true => Some(self.last),
            false => self.datasets.iter().position(is_it),
        };
        self.last = match found {
            Some(at) => at,
            None => {
                let source = self.next_source;
                let mut dataset = Dataset::open(&self.arena, catalogue, source, record)?;
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
