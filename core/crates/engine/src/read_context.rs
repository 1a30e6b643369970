//! What one thread needs to read selections of datasets.
//!
//! Law:
//! 1. A request is checked against its dataset before anything is done for it (`Hyperslab::parse`).
//! 2. Datasets of one file whose chunks decode alike, such as the fields of one table, are read by the
//!    same queue and filters, and share what is kept of them. A bounded number of these is open.
//! 3. What was read from a file that changed meanwhile is neither published nor kept.
//! 4. A row that is kept costs no system call, no clock and no new memory.

use crate::chunk_read::NO_CHUNK;
use crate::counters::{Record, count};
use crate::fetch::coalesce::Run;
use crate::fetch::recent::Recent;
use crate::open_dataset::{Lookup, OpenDataset};
use crate::place_selected::deliver;
use crate::read_ahead::ReadAhead;
use crate::scatter::elements::Unit;
use crate::scatter::out::Out;
use crate::select::chunk_iter::{ChunkIter, Cursor};
use crate::select::selection::Hyperslab;
use crate::selected_read::{Scratch, SelectedRead};
use crate::shared::{SelectedDataset, Shared};
use crate::task_error::TaskError;
use os::descriptors::at_most;
use std::ops::Range;
use std::sync::Arc;

/// Ways to decode a file that one context has open.
const OPEN: usize = 64;

/// Reads selections, one after the other.
pub struct ReadContext {
    shared: Arc<Shared>,
    open: Recent<u64, OpenDataset>,
    chunk_iter: ChunkIter,
    cursor: Cursor,
    ahead: Cursor,
    scratch: Scratch,
}

impl ReadContext {
    pub fn new(shared: Arc<Shared>) -> ReadContext {
        ReadContext::one_of(1, shared)
    }

    /// One of several that read at the same time, in one thread.
    pub fn one_of(contexts: usize, shared: Arc<Shared>) -> ReadContext {
        ReadContext {
            shared,
            open: Recent::new(at_most(OPEN, contexts)),
            chunk_iter: ChunkIter::default(),
            cursor: Cursor::default(),
            ahead: Cursor::default(),
            scratch: Scratch::default(),
        }
    }

    /// Begin with what part `part` of `n_parts` has of a selection. False: it has nothing of it.
    pub fn begin(
        &mut self,
        of: &SelectedDataset,
        slab: &Hyperslab<'_>,
        part: u64,
        n_parts: u64,
    ) -> bool {
        if slab.out_bytes() == 0 {
            return false;
        }
        let chunk_iter = &mut self.chunk_iter;
        chunk_iter.set(slab, of.dataset(), &of.geometry, part, n_parts);
        chunk_iter.begin(&mut self.cursor)
    }

    /// Chunks of the selection, of all parts.
    pub fn n_chunks(&self) -> u64 {
        self.chunk_iter.n_chunks()
    }

    /// Go on to the first of these chunks of the part, and end with the last. False: there are no such.
    pub fn seek(&mut self, turns: Range<u64>) -> bool {
        self.chunk_iter.seek(&mut self.cursor, turns)
    }

    /// Write the result if that is no more than a copy: of one chunk, which is kept, or which is stored
    /// as it is and in the page cache. False: what is written is anything.
    pub fn read_at_once(
        &mut self,
        of: &SelectedDataset,
        slab: &Hyperslab<'_>,
        out: &mut [u8],
        record: &Record,
    ) -> bool {
        let (chunk_iter, cursor) = (&self.chunk_iter, &self.cursor);
        let lookup = Lookup::new(&of.table, of.dataset());
        let chunk = lookup.chunk(cursor.grid_index);
        let Some((number, chunk)) = chunk.filter(|_| chunk_iter.is_last(cursor)) else {
            return false;
        };
        let unit = Unit::new(slab, of.dataset(), chunk_iter.together);
        let (segments, pairs) = (&cursor.segments, chunk_iter.pairs());
        if of.dataset().is_as_stored() {
            let row = unit.only_row(segments, pairs);
            let row = row.filter(|row| unit.is_plain() && unit.is_contiguous(row));
            let is_sound = lookup.check(number, &chunk).is_ok()
                && (chunk.stored_size == of.dataset().decoded_size as u64 || of.dataset().clipped);
            let open = self.open.find(|way| *way == of.way);
            return match (row, open) {
                (Some(row), Some(open)) if is_sound => {
                    let run = Run {
                        byte_offset: chunk.byte_offset + row.src as u64,
                        len: out.len() as u64,
                        source: chunk.source,
                        chunks: 0..1,
                    };
                    from_page_cache(open, &run, out, record)
                }
                _ => false,
            };
        }
        let found = self.shared.cache.find(of.keys.of(&chunk));
        let Some(bytes) = found else {
            return false;
        };
        deliver(&unit, segments, pairs, &bytes, 0, Out::of(out));
        count(&record.cache_hits, 1);
        true
    }

    /// Write what is wanted of the chunks that are left into `out`, which is all of the result.
    pub fn read(
        &mut self,
        of: &SelectedDataset,
        slab: &Hyperslab<'_>,
        out: Out<'_>,
        record: &Record,
    ) -> Result<(), TaskError> {
        let dataset = of.dataset();
        let lookup = Lookup::new(&of.table, dataset);
        let cache = &self.shared.cache;
        let open = self.open.get_or_make(
            |way| *way == of.way,
            || {
                let (table, shared) = (&of.table, &self.shared);
                let open = OpenDataset::open(table, dataset, shared, record, NO_CHUNK)?;
                Ok((of.way, open))
            },
        )?;
        let chunk_iter = &self.chunk_iter;
        let mut read = SelectedRead {
            stored: ReadAhead::new(lookup, record, chunk_iter, &mut open.queue, &mut self.ahead),
            pipeline: &mut open.pipeline,
            keys: &of.keys,
            assembler: open.assembler.as_mut(),
            cache,
            keeps: out.len() <= cache.limit(),
            unit: Unit::new(slab, dataset, chunk_iter.together),
            scratch: &mut self.scratch,
            out,
        };
        let done = read.run(&mut self.cursor);
        // A file that changed explains any other error.
        if let Err(error) = read.stored.end() {
            let chunk = lookup.chunk(self.cursor.grid_index);
            of.keys.forget(cache);
            let number = chunk.map_or(NO_CHUNK, |found| found.0);
            return Err(TaskError::Fetch(number, error));
        }
        done
    }
}

/// Fill `out` with bytes of a file, if the page cache has all of them.
fn from_page_cache(open: &mut OpenDataset, run: &Run, out: &mut [u8], record: &Record) -> bool {
    let place = libc::iovec {
        iov_base: out.as_mut_ptr().cast(),
        iov_len: out.len(),
    };
    // SAFETY: a live slice.
    let is_there = unsafe { open.queue.read_places(&[place], run) };
    if !is_there || open.queue.check_unchanged().is_err() {
        return false;
    }
    count(&record.chunks, 1);
    count(&record.fetches, 1);
    count(&record.fetched_bytes, out.len());
    count(&record.decoded_bytes, out.len());
    true
}
