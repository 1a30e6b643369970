//! The stored bytes that one task needs, from the file.
//!
//! Law:
//! 1. The page cache is asked first, without waiting. Only when it misses are the task's next
//!    chunks named to the kernel, so that the device has a queue.
//! 2. Around the page cache a few reads are in flight, in the order in which they are needed; none
//!    is left behind when a task ends, however it ends.
//! 3. Knows nothing of filters and of where bytes go.

use crate::engine::counters::Record;
use crate::engine::dataset::Lookup;
use crate::engine::open_dataset::add_ns;
use crate::fetch::data_file::{DataFile, Fetch, FetchError};
use crate::fetch::direct::{Direct, Finished};
use crate::select::chunk_iter::{ChunkIter, Cursor};
use crate::task_error::TaskError;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// So many chunks are named at once, and a direct file has so many reads in flight.
const HINTS: usize = 128;
const FLIGHTS: usize = 8;

/// A read around the page cache.
struct Flight {
    /// The chunk's place in the task.
    turn: usize,
    span: Range<u64>,
    ticket: u64,
}

pub struct ReadAhead<'a> {
    pub lookup: Lookup<'a>,
    pub record: &'a Record,
    cover: &'a ChunkIter,
    fetch: &'a mut Fetch,
    ahead: &'a mut Cursor,
    /// The place in the task of the chunk in hand, from 1 on.
    pub turn: usize,
    /// Up to here they were named, or started.
    hinted: usize,
    started: usize,
    all_started: bool,
    blamed: bool,
    /// Something was read: the file has to be looked at before it is believed.
    pub touched: bool,
    flights: VecDeque<Flight>,
}

impl<'a> ReadAhead<'a> {
    pub fn new(
        lookup: Lookup<'a>,
        record: &'a Record,
        cover: &'a ChunkIter,
        fetch: &'a mut Fetch,
        ahead: &'a mut Cursor,
    ) -> ReadAhead<'a> {
        ReadAhead {
            lookup,
            record,
            cover,
            fetch,
            ahead,
            turn: 0,
            hinted: 0,
            started: 0,
            all_started: false,
            blamed: false,
            touched: false,
            flights: VecDeque::new(),
        }
    }

    /// The next chunk's turn has come: its place.
    pub fn next_turn(&mut self) -> usize {
        self.turn += 1;
        self.turn
    }

    /// A reader that dies of the chunk in hand is found with its number.
    pub fn blame(&mut self, number: u64) {
        self.blamed = true;
        self.record.chunk.store(number + 1, Relaxed);
    }

    pub fn is_direct(&self) -> bool {
        matches!(self.fetch, Fetch::Direct(..))
    }

    /// Fill `out` from the file, for the chunk at which `cursor` stands.
    pub fn read(
        &mut self,
        cursor: &Cursor,
        number: u64,
        byte_offset: u64,
        out: &mut [u8],
    ) -> Result<(), TaskError> {
        let start = Instant::now();
        self.touched = true;
        let Fetch::Buffered(file) = &mut *self.fetch else {
            return Err(TaskError::Internal(
                "a buffered read of a direct file".into(),
            ));
        };
        let before = file.fetches;
        let have = file.read_cached(out, byte_offset);
        let mut result = Ok(());
        if have < out.len() {
            if self.turn > self.hinted {
                self.ahead.clone_from(cursor);
                hint(file, self.lookup, self.cover, self.ahead);
                self.hinted = self.turn + HINTS;
            }
            result = file.read(out, byte_offset, have);
        }
        self.record
            .fetches
            .fetch_add(file.fetches - before, Relaxed);
        self.record
            .fetched_bytes
            .fetch_add(out.len() as u64, Relaxed);
        add_ns(&self.record.fetch_ns, start);
        result.map_err(|error| TaskError::Fetch(number, error))
    }

    /// Start reads for the chunk in hand, at which `cursor` stands, and for those behind it; `wanted`
    /// tells the bytes of a chunk, or None where nothing has to be read.
    pub fn fly(&mut self, cursor: &Cursor, wanted: impl Fn(&Cursor) -> Option<Range<u64>>) {
        let Fetch::Direct(queue, _) = &mut *self.fetch else {
            return;
        };
        if self.started == 0 {
            self.ahead.clone_from(cursor);
        }
        while !self.all_started && self.flights.len() < FLIGHTS {
            self.started += 1;
            if let Some(span) = wanted(self.ahead) {
                // What cannot be started is started, and fails, when its turn has come.
                if let Ok(ticket) = queue.submit(span.start, (span.end - span.start) as usize) {
                    self.flights.push_back(Flight {
                        turn: self.started,
                        span,
                        ticket,
                    });
                }
            }
            self.all_started = !self.cover.next(self.ahead);
        }
    }

    /// Bytes of the chunk in hand. Give them back with `recycle`.
    pub fn land(&mut self, number: u64, span: Range<u64>) -> Result<Finished, TaskError> {
        let start = Instant::now();
        self.touched = true;
        let failed = |error| TaskError::read(number, error);
        let Fetch::Direct(queue, _) = &mut *self.fetch else {
            return Err(TaskError::Internal(
                "a direct read of a buffered file".into(),
            ));
        };
        let mut ticket = None;
        while let Some(flight) = self.flights.front() {
            if flight.turn > self.turn {
                break;
            }
            if flight.turn == self.turn && flight.span == span {
                ticket = Some(flight.ticket);
            } else {
                discard(queue, flight.ticket);
            }
            self.flights.pop_front();
        }
        let len = span.end - span.start;
        let ticket = match ticket {
            Some(ticket) => ticket,
            None => queue.submit(span.start, len as usize).map_err(failed)?,
        };
        let finished = queue.finish(ticket).map_err(failed)?;
        add_ns(&self.record.fetch_ns, start);
        self.record.fetches.fetch_add(1, Relaxed);
        self.record.fetched_bytes.fetch_add(len, Relaxed);
        let got = finished.bytes().len() as u64;
        if got < len {
            self.recycle(finished);
            let short = FetchError::Short { expected: len, got };
            return Err(TaskError::Fetch(number, short));
        }
        Ok(finished)
    }

    pub fn recycle(&mut self, finished: Finished) {
        if let Fetch::Direct(queue, _) = &mut *self.fetch {
            queue.recycle(finished);
        }
    }

    /// Wait for what is in flight, and look whether the file is still the one that was indexed.
    pub fn end(&mut self) -> Result<(), FetchError> {
        if let Fetch::Direct(queue, _) = &mut *self.fetch {
            self.flights
                .drain(..)
                .for_each(|flight| discard(queue, flight.ticket));
        }
        if self.blamed {
            self.record.chunk.store(0, Relaxed);
        }
        match self.touched {
            true => self.fetch.file().check_unchanged(),
            false => Ok(()),
        }
    }
}

fn discard(queue: &mut Direct, ticket: u64) {
    if let Ok(finished) = queue.finish(ticket) {
        queue.recycle(finished);
    }
}

/// Name the chunks from where `ahead` stands to the kernel.
fn hint(file: &mut DataFile, lookup: Lookup<'_>, cover: &ChunkIter, ahead: &mut Cursor) {
    for _ in 0..HINTS {
        if let Some((_, chunk)) = lookup.chunk(ahead.grid_index) {
            file.hint(chunk.byte_offset, chunk.stored_size);
        }
        if !cover.next(ahead) {
            break;
        }
    }
}
