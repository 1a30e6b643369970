//! One task's stored chunks on their way from the file to the tape.
//!
//! Law:
//! 1. Chunks that are whole rows are decoded straight into their place on the tape; everything
//!    else goes through one reused buffer and is scattered.
//! 2. No number in a file can write outside the tape.
//! 3. Two neighbours may be decoded at once. Where anything is wrong with one of them, each is
//!    decoded again, alone, and errors are as if that were all.
//! 4. Every chunk of the task's grid is written: what has no record is the fill value.
//! 5. Knows nothing of claims and slots; the caller owns the rows.

use super::place_rows::Placement;
use crate::engine::counters::Record;
use crate::engine::open_dataset::{OpenDataset, Turn, add_ns, grow};
use crate::fetch::coalesce::Run;
use crate::fetch::data_file::{Fetch, FetchError};
use crate::filters::{FilterError, FilterErrorKind};
use crate::os::memory::Mapping;
use crate::ring::tape::tape_rows;
use crate::scatter::fill::{self, Place};
use crate::tables::plan::{Chunk, Member, Plan, Task, UNALLOCATED};
use crate::task_error::TaskError;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// One task of one member, and where it goes.
pub struct Transfer<'a> {
    pub plan: &'a Plan,
    pub member: &'a Member,
    pub record: &'a Record,
    pub tape: &'a Mapping,
    pub lap_row: u64,
    pub task: &'a Task,
    /// The number of its first stored chunk.
    pub first_record: u64,
}

impl<'a> Transfer<'a> {
    /// The task's rows `[lo, hi)` of a chunk that begins at dataset row `row`.
    pub(super) fn wanted(&self, row: u64, rows: u64) -> (u64, u64) {
        let first = self.plan.first_row();
        let end = (first + self.task.row_end).min(self.member.dims[0]);
        let lo = row.max(first + self.task.row_begin);
        (lo, (row + rows).min(end).max(lo))
    }

    /// Where dataset rows `[lo, hi)` lie on the tape.
    pub(super) fn rows(&self, lo: u64, hi: u64) -> &'a mut [u8] {
        let row = self.lap_row + (lo - self.plan.first_row());
        // SAFETY: these rows belong to the task that this reader owns. (Chunks beside each other
        // in the same rows belong to the task's owner or to another one that writes other bytes.)
        unsafe { tape_rows(self.tape, self.member, row, hi - lo) }
    }

    /// Bytes of a decoded chunk; in contiguous layout the last piece is shorter.
    pub(super) fn decoded_size(&self, row: u64) -> usize {
        if !self.member.clipped {
            return self.member.decoded_size;
        }
        let rows = self.member.chunk_dims[0].min(self.member.dims[0].saturating_sub(row));
        self.member.decoded_size / self.member.chunk_dims[0] as usize * rows as usize
    }

    pub fn buffered(
        &mut self,
        source: &mut OpenDataset,
        chunks: &[Chunk],
        found: &[Run],
        turn: Option<Turn<'_>>,
    ) -> Result<(), TaskError> {
        let result = self.fetch_runs(source, chunks, found, turn);
        self.end_waiting(source);
        result
    }

    fn fetch_runs(
        &mut self,
        source: &mut OpenDataset,
        chunks: &[Chunk],
        found: &[Run],
        turn: Option<Turn<'_>>,
    ) -> Result<(), TaskError> {
        for (index, run) in found.iter().enumerate() {
            let start = Instant::now();
            let run_chunks = &chunks[run.chunks.clone()];
            let mut stored = std::mem::take(&mut source.stored);
            let in_place = self.in_place(source, run_chunks, run);
            let len = run.len as usize;
            let direct_to_tape = in_place.is_some();
            let target: &mut [u8] = match in_place {
                Some(rows) => rows,
                None => {
                    let at = self.first_record + run.chunks.start as u64;
                    grow(&mut stored, len, at)?;
                    &mut stored[..len]
                }
            };
            let result = source.read(target, &found[index..], turn);
            let result = result.map_err(|error| {
                TaskError::Fetch(self.first_record + run.chunks.start as u64, error)
            });
            self.record
                .fetches
                .store(source.fetch.file().fetches, Relaxed);
            add_ns(&self.record.fetch_ns, start);
            let result = result.and_then(|()| {
                self.record.fetched_bytes.fetch_add(run.len, Relaxed);
                if direct_to_tape {
                    self.finish_in_place(source, run_chunks);
                    return Ok(());
                }
                let bytes = &stored[..len];
                self.decode_run(source, run_chunks, run, bytes)
            });
            source.stored = stored;
            result?;
        }
        Ok(())
    }

    /// When a run's stored bytes are already the rows, the place where they belong.
    fn in_place(
        &self,
        source: &mut OpenDataset,
        chunks: &[Chunk],
        run: &Run,
    ) -> Option<&'a mut [u8]> {
        if !self.member.whole_rows() {
            return None;
        }
        let (first, last) = (chunks.first()?, chunks.last()?);
        let mut total = 0;
        for (index, chunk) in chunks.iter().enumerate() {
            let next = chunk.grid_index == first.grid_index + index as u64;
            if !next || !source.pipeline.is_identity(chunk.filter_mask) {
                return None;
            }
            total += chunk.stored_size;
        }
        let begin = first.grid_index * self.member.chunk_dims[0];
        let end = (last.grid_index + 1) * self.member.chunk_dims[0];
        let (lo, hi) = self.wanted(begin, end - begin);
        let rows = self.rows(lo, hi);
        // Gaps, partial chunks and wrong sizes take the careful way.
        (lo == begin && total == run.len && rows.len() as u64 == total).then_some(rows)
    }

    fn finish_in_place(&self, source: &mut OpenDataset, chunks: &[Chunk]) {
        let mut total = 0;
        for chunk in chunks {
            total += chunk.stored_size;
            if !self.member.fixes.is_empty() {
                self.member
                    .chunk_offset(chunk.grid_index, &mut source.offset);
                let (lo, hi) = self.wanted(source.offset[0], self.member.chunk_dims[0]);
                let at = Place {
                    offset: &source.offset,
                    lo,
                    hi,
                };
                fill::fix_strings(self.member, at, self.rows(lo, hi));
            }
        }
        self.record.decoded_bytes.fetch_add(total, Relaxed);
    }

    pub fn direct(
        &mut self,
        source: &mut OpenDataset,
        chunks: &[Chunk],
        flights: Vec<(Run, u64)>,
    ) -> Result<(), TaskError> {
        let result = self.land_runs(source, chunks, flights);
        self.end_waiting(source);
        result
    }

    fn land_runs(
        &mut self,
        source: &mut OpenDataset,
        chunks: &[Chunk],
        flights: Vec<(Run, u64)>,
    ) -> Result<(), TaskError> {
        for (run, ticket) in flights {
            let at = self.first_record + run.chunks.start as u64;
            let start = Instant::now();
            let finished = match &mut source.fetch {
                Fetch::Direct(queue, _) => queue.finish(ticket),
                Fetch::Buffered(_) => Err(std::io::ErrorKind::Unsupported.into()),
            };
            add_ns(&self.record.fetch_ns, start);
            let finished = finished.map_err(|error| TaskError::read(at, error))?;
            self.record.fetched_bytes.fetch_add(run.len, Relaxed);
            self.record.fetches.fetch_add(1, Relaxed);
            let bytes = finished.bytes();
            if (bytes.len() as u64) < run.len {
                let got = bytes.len() as u64;
                return Err(TaskError::Fetch(
                    at,
                    FetchError::Short {
                        expected: run.len,
                        got,
                    },
                ));
            }
            self.decode_run(source, &chunks[run.chunks.clone()], &run, bytes)?;
            if let Fetch::Direct(queue, _) = &mut source.fetch {
                queue.recycle(finished);
            }
        }
        Ok(())
    }

    /// Decode each chunk of a fetched run into its rows.
    fn decode_run(
        &mut self,
        source: &mut OpenDataset,
        chunks: &[Chunk],
        run: &Run,
        bytes: &[u8],
    ) -> Result<(), TaskError> {
        let start = Instant::now();
        let stored = |chunk: &Chunk| {
            let from = (chunk.byte_offset - run.byte_offset) as usize;
            &bytes[from..from + chunk.stored_size as usize]
        };
        let mut index = 0;
        while let Some(chunk) = chunks.get(index) {
            let next = &chunks[index..];
            let next = &next[..source.pipeline.group_size(next.len())];
            let done = match next.len() {
                4 => self.decode_abreast::<4>(source, next, stored),
                3 => self.decode_abreast::<3>(source, next, stored),
                2 => self.decode_abreast::<2>(source, next, stored),
                _ => false,
            };
            if done {
                index += next.len();
                continue;
            }
            let at = self.first_record + (run.chunks.start + index) as u64;
            self.decode_chunk(source, chunk, stored(chunk), at)?;
            index += 1;
        }
        add_ns(&self.record.decode_ns, start);
        Ok(())
    }

    /// Bring chunks that wait for others to their rows.
    pub(super) fn end_waiting(&self, source: &mut OpenDataset) {
        if source.interleaver.is_empty() {
            return;
        }
        let start = Instant::now();
        source.interleaver.copy(|rows, _, pieces| {
            for piece in pieces {
                let first = rows.start - piece.first;
                let rows = self.rows(rows.start, rows.end);
                piece.copy.copy(piece.decoded, first, rows);
            }
        });
        add_ns(&self.record.decode_ns, start);
    }

    /// Decode some chunks side by side, where that is quicker. False: none is done.
    fn decode_abreast<'s, const N: usize>(
        &mut self,
        source: &mut OpenDataset,
        chunks: &[Chunk],
        stored: impl Fn(&Chunk) -> &'s [u8],
    ) -> bool {
        let Some(chunks) = chunks.first_chunk::<N>().map(<[Chunk; N]>::each_ref) else {
            return false;
        };
        let filter_mask = chunks[0].filter_mask;
        let is_alike = chunks.iter().all(|chunk| chunk.filter_mask == filter_mask);
        if !is_alike || !source.pipeline.wants_group(filter_mask) {
            return false;
        }
        let placements = chunks.map(|chunk| self.placement(source, chunk.grid_index));
        let in_place = || placements.iter().filter(|placement| placement.in_place);
        for (i, a) in in_place().enumerate() {
            if in_place().skip(i + 1).any(|b| a.lo < b.hi && b.lo < a.hi) {
                return false;
            }
        }
        let size = placements.iter().map(Placement::buffer_size).sum();
        if grow(&mut source.decoded, size, 0).is_err() {
            return false;
        }
        let mut decoded = std::mem::take(&mut source.decoded);
        let mut rest = decoded.as_mut_slice();
        let mut buffers = placements.each_ref().map(|placement| {
            let (buffer, others) = std::mem::take(&mut rest).split_at_mut(placement.buffer_size());
            rest = others;
            buffer
        });
        let mut placement = placements.iter();
        let outs = buffers.each_mut().map(|buffer| {
            let placement = placement.next().expect("as many placements as buffers");
            self.out(placement, buffer)
        });
        let done = source
            .pipeline
            .decode_group(filter_mask, chunks.map(stored), outs);
        if done {
            for (chunk, buffer) in chunks.into_iter().zip(buffers) {
                let placement = self.placement(source, chunk.grid_index);
                self.record
                    .decoded_bytes
                    .fetch_add(placement.size as u64, Relaxed);
                self.deliver(
                    source,
                    &placement,
                    (!placement.in_place).then_some(&*buffer),
                );
            }
        }
        source.decoded = decoded;
        done
    }

    /// What a chunk is decoded into: its rows, or this buffer.
    fn out<'b>(&self, placement: &Placement, buffer: &'b mut [u8]) -> &'b mut [u8]
    where
        'a: 'b,
    {
        match placement.in_place {
            true => self.rows(placement.lo, placement.hi),
            false => buffer,
        }
    }

    fn decode_chunk(
        &mut self,
        source: &mut OpenDataset,
        chunk: &Chunk,
        stored: &[u8],
        number: u64,
    ) -> Result<(), TaskError> {
        let wrong = |error| TaskError::Filter(number, error);
        let placement = self.placement(source, chunk.grid_index);
        let size = placement.size;
        self.record.decoded_bytes.fetch_add(size as u64, Relaxed);
        if source.pipeline.is_identity(chunk.filter_mask) {
            if stored.len() != size {
                return Err(wrong(FilterError {
                    filter: 0,
                    kind: FilterErrorKind::WrongSize,
                    expected: size as u64,
                    got: stored.len() as u64,
                }));
            }
            self.deliver(source, &placement, Some(stored));
            return Ok(());
        }
        grow(&mut source.decoded, placement.buffer_size(), number)?;
        let mut buffer = std::mem::take(&mut source.decoded);
        let out = self.out(&placement, &mut buffer[..placement.buffer_size()]);
        let result = source.pipeline.decode(chunk.filter_mask, stored, out);
        if result.is_ok() {
            self.deliver(
                source,
                &placement,
                (!placement.in_place).then(|| &buffer[..size]),
            );
        }
        source.decoded = buffer;
        result.map_err(wrong)
    }

    /// Chunks of the task's grid that the file never stored; `chunks` are those that it did.
    pub fn fill(&mut self, source: &mut OpenDataset, chunks: &[Chunk]) -> Result<(), TaskError> {
        let task = self.task;
        let (begin, end) = (task.first_chunk, task.first_chunk + task.n_chunks);
        let inner = self.member.inner_cells().max(1);
        if chunks.is_empty() && begin % inner == 0 && end % inner == 0 {
            let first = self.plan.first_row();
            let rows = self.rows(first + task.row_begin, first + task.row_end);
            fill::repeat(self.member.fill_shown(), rows);
            self.record
                .decoded_bytes
                .fetch_add(rows.len() as u64, Relaxed);
            return Ok(());
        }
        let is_stored = |chunk: &&Chunk| chunk.byte_offset != UNALLOCATED;
        let mut stored = chunks.iter().filter(is_stored).peekable();
        for cell in begin..end {
            if stored.next_if(|chunk| chunk.grid_index == cell).is_none() {
                self.fill_chunk(source, cell)?;
            }
        }
        self.end_waiting(source);
        Ok(())
    }

    fn fill_chunk(&mut self, source: &mut OpenDataset, cell: u64) -> Result<(), TaskError> {
        let member = self.member;
        let placement = self.placement(source, cell);
        if member.spans_rows() {
            fill::repeat(member.fill_shown(), self.rows(placement.lo, placement.hi));
        } else {
            grow(&mut source.decoded, placement.size, self.first_record)?;
            let mut decoded = std::mem::take(&mut source.decoded);
            fill::repeat(&member.fill, &mut decoded[..placement.size]);
            self.deliver(source, &placement, Some(&decoded[..placement.size]));
            source.decoded = decoded;
        }
        self.record
            .decoded_bytes
            .fetch_add(placement.size as u64, Relaxed);
        Ok(())
    }
}
