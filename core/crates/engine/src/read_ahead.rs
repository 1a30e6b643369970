//! The stored bytes that one selection needs, through the page cache.
//!
//! Law:
//! 1. The page cache is asked first, without waiting. Only when it misses are the selection's next
//!    chunks named to the kernel, so that the device has a queue.
//! 2. Knows nothing of filters and of where bytes go.

use crate::chunk_cache::Key;
use crate::counters::{Record, add_ns, count};
use crate::fetch::error::FetchError;
use crate::fetch::queue::FetchQueue;
use crate::open_dataset::Lookup;
use crate::select::chunk_iter::{ChunkIter, Cursor};
use crate::task_error::TaskError;
use hdf5_filters::FilterError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;
use tables::dataset::Chunk;

/// Chunks that are named at once, and their bytes, unless the first has more.
const HINTS: usize = 128;
const HINT_BYTES: u64 = 32 << 20;

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

pub struct ReadAhead<'a> {
    pub lookup: Lookup<'a>,
    pub record: &'a Record,
    pub chunk_iter: &'a ChunkIter,
    pub queue: &'a mut FetchQueue,
    ahead: &'a mut Cursor,
    /// The place in the selection of the chunk in hand, from 1 on.
    pub turn: usize,
    /// Up to here they were named.
    hinted: usize,
    /// A chunk was marked as being in hand.
    marked: bool,
    /// Something was read, so the file must be compared before its bytes are used.
    pub touched: bool,
}

impl<'a> ReadAhead<'a> {
    pub fn new(
        lookup: Lookup<'a>,
        record: &'a Record,
        chunk_iter: &'a ChunkIter,
        queue: &'a mut FetchQueue,
        ahead: &'a mut Cursor,
    ) -> ReadAhead<'a> {
        ReadAhead {
            lookup,
            record,
            chunk_iter,
            queue,
            ahead,
            turn: 0,
            hinted: 0,
            marked: false,
            touched: false,
        }
    }

    /// A reader that dies of the chunk in hand is found with its number.
    pub fn mark(&mut self, number: u64) {
        self.marked = true;
        self.record.chunk.store(number + 1, Relaxed);
    }

    /// Fill `out` with the stored bytes of a chunk from `from` on.
    pub fn read(
        &mut self,
        here: &InHand<'_>,
        from: usize,
        out: &mut [u8],
    ) -> Result<(), TaskError> {
        let byte_offset = here.chunk.byte_offset + from as u64;
        let (start, before) = (Instant::now(), self.queue.fetches());
        self.touched = true;
        let first = self.turn > self.hinted;
        let read = self
            .queue
            .read(out, here.chunk.source, byte_offset, |queue| {
                if first {
                    self.ahead.clone_from(here.cursor);
                    hint(queue, self.lookup, self.chunk_iter, self.ahead);
                }
            });
        if let Ok(true) = read {
            self.hinted = self.hinted.max(self.turn + HINTS * usize::from(first));
        }
        count(&self.record.fetches, self.queue.fetches() - before);
        count(&self.record.fetched_bytes, out.len());
        add_ns(&self.record.fetch_ns, start);
        let read = read.map_err(|error| TaskError::Fetch(here.number, error));
        read.map(|_| ())
    }

    /// Name the chunks behind `cursor`, as the page cache lacks what is read.
    pub fn name_next(&mut self, cursor: &Cursor) {
        self.ahead.clone_from(cursor);
        let (lookup, chunk_iter, ahead) = (self.lookup, self.chunk_iter, &mut *self.ahead);
        if !self.queue.is_async() && chunk_iter.next_of_all(ahead) {
            hint(self.queue, lookup, chunk_iter, ahead);
        }
    }

    /// What was read came from the file that was indexed.
    pub fn compare(&mut self) -> Result<(), FetchError> {
        self.queue.check_unchanged()?;
        self.touched = false;
        Ok(())
    }

    /// No chunk is in hand any more. The file is still the one that was indexed, if it was read.
    pub fn end(&mut self) -> Result<(), FetchError> {
        if self.marked {
            self.record.chunk.store(0, Relaxed);
        }
        match self.touched {
            true => self.compare(),
            false => Ok(()),
        }
    }
}

/// Name the chunks from where `ahead` stands to the kernel.
fn hint(queue: &mut FetchQueue, lookup: Lookup<'_>, chunk_iter: &ChunkIter, ahead: &mut Cursor) {
    let mut bytes = 0;
    for _ in 0..HINTS {
        if let Some((_, chunk)) = lookup.chunk(ahead.grid_index) {
            queue.hint(chunk.source, chunk.byte_offset, chunk.stored_size);
            bytes += chunk.stored_size;
        }
        if bytes >= HINT_BYTES || !chunk_iter.next_of_all(ahead) {
            break;
        }
    }
}
