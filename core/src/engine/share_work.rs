//! A share's stored chunks on their way from the file to the places of their rows.
//!
//! Law:
//! 1. Each chunk is fetched and decoded once, and its wanted rows are copied to their places on the
//!    tape; a chunk that is wanted whole and in order is decoded there.
//! 2. What the plan says of the file is checked before it is fetched.
//! 3. Chunks may be decoded side by side, wherever they lie in the file; where anything is wrong, each
//!    is decoded alone.
//! 4. How rows come to their places is `place_shuffled`'s.

use crate::engine::counters::Record;
use crate::engine::kept::Kept;
use crate::engine::open_dataset::{OpenDataset, Turn, add_ns, grow};
use crate::engine::shuffle_task::{ChunkRead, NO_CHUNK, ShuffleTask};
use crate::fetch::coalesce::{Run, runs_within};
use crate::fetch::data_file::{Fetch, FetchError};
use crate::fetch::direct::Finished;
use crate::filters::{FilterError, FilterErrorKind};
use crate::os::memory::Mapping;
use crate::ring::tape::tape_rows;
use crate::scatter::fill;
use crate::tables::plan::{Chunk, Member, UNALLOCATED};
use crate::task_error::TaskError;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Places at least this long on the average are filled by the kernel, shorter ones from a buffer.
const MIN_KERNEL_PLACE_BYTES: usize = 2 << 10;

/// So many stored bytes are fetched, and as many chunks as can go side by side, before they are decoded.
const TOGETHER_BYTES: u64 = 256 << 10;

/// How many of these runs to fetch before their chunks are decoded.
fn together(source: &OpenDataset, runs: &[Run]) -> usize {
    let most = source.pipeline.max_group();
    if most == 1 {
        return 1;
    }
    let (mut chunks, mut bytes) = (0, 0);
    let is_enough = |run: &Run| {
        let enough = chunks >= most && bytes + run.len > TOGETHER_BYTES;
        (chunks, bytes) = (chunks + run.chunks.len(), bytes + run.len);
        enough
    };
    runs.iter().position(is_enough).unwrap_or(runs.len()).max(1)
}

/// The fetches of a share: its chunks that are not kept.
pub fn fetches(share: &mut ShuffleTask, kept: &Kept, into: &mut Vec<Run>) {
    if !kept.is_empty() {
        // A chunk that is kept is as if it were nowhere in the file.
        for (read, chunk) in share.reads.iter().zip(&mut share.chunks) {
            if kept.holds(read.number) {
                chunk.byte_offset = UNALLOCATED;
            }
        }
    }
    runs_within(&share.chunks, share.run_bytes, into);
}

/// One share of one member.
pub struct ShareWork<'a> {
    pub member: &'a Member,
    pub record: &'a Record,
    pub share: &'a ShuffleTask,
    /// The whole window's rows on the tape, of which this share's places are ours.
    pub(super) window: &'a mut [u8],
    kept: &'a mut Kept,
}

impl<'a> ShareWork<'a> {
    /// # Safety
    /// The caller owns the share's rows in the window that lies in these rows of the tape.
    pub unsafe fn new(
        member: &'a Member,
        record: &'a Record,
        share: &'a ShuffleTask,
        kept: &'a mut Kept,
        tape: &'a Mapping,
        rows: Range<u64>,
    ) -> ShareWork<'a> {
        // SAFETY: of the window only places of this share's seats are written, which are the
        // caller's; the others are never read.
        let window = unsafe { tape_rows(tape, member, rows.start, rows.end - rows.start) };
        ShareWork {
            member,
            record,
            share,
            window,
            kept,
        }
    }

    /// Every chunk lies inside the file and is not absurdly large, or nothing is fetched.
    pub fn check(
        source: &OpenDataset,
        member: &Member,
        share: &ShuffleTask,
    ) -> Result<(), TaskError> {
        let reads = share.reads.iter().zip(&share.chunks);
        for (read, chunk) in reads.filter(|(read, _)| read.number != NO_CHUNK) {
            source.check(member, std::slice::from_ref(chunk), read.number)?;
        }
        Ok(())
    }

    pub fn buffered(
        &mut self,
        source: &mut OpenDataset,
        found: &[Run],
        turn: Option<Turn<'_>>,
    ) -> Result<(), TaskError> {
        let result = self.fetch_runs(source, found, turn);
        self.end_waiting(source);
        result
    }

    fn fetch_runs(
        &mut self,
        source: &mut OpenDataset,
        found: &[Run],
        turn: Option<Turn<'_>>,
    ) -> Result<(), TaskError> {
        let mut next = found;
        while let Some(run) = next.first() {
            let start = Instant::now();
            let count = match self.read_in_place(source, run) {
                true => {
                    add_ns(&self.record.fetch_ns, start);
                    1
                }
                false => self.fetch_and_decode(source, next, turn)?,
            };
            next = &next[count..];
        }
        Ok(())
    }

    /// Fetch the first runs, and bring their chunks' rows to their places; how many runs.
    fn fetch_and_decode(
        &mut self,
        source: &mut OpenDataset,
        next: &[Run],
        turn: Option<Turn<'_>>,
    ) -> Result<usize, TaskError> {
        let start = Instant::now();
        let count = together(source, next);
        let mut stored = std::mem::take(&mut source.stored);
        let read = self.read(source, next, count, &mut stored, turn);
        add_ns(&self.record.fetch_ns, start);
        let result = read.and_then(|()| {
            let mut bytes = stored.as_slice();
            let parts = next[..count].iter().map(|run| {
                let (part, others) = bytes.split_at(run.len as usize);
                bytes = others;
                (run, part)
            });
            self.decode_runs(source, parts)
        });
        source.stored = stored;
        result.map(|()| count)
    }

    /// Fetch the first `count` runs, one behind the other, into `stored`.
    fn read(
        &self,
        source: &mut OpenDataset,
        runs: &[Run],
        count: usize,
        stored: &mut Vec<u8>,
        turn: Option<Turn<'_>>,
    ) -> Result<(), TaskError> {
        let number = |run: &Run| self.share.reads[run.chunks.start].number;
        let len = runs[..count].iter().map(|run| run.len as usize).sum();
        grow(stored, len, number(&runs[0]))?;
        let mut from = 0;
        for (index, run) in runs[..count].iter().enumerate() {
            let to = from + run.len as usize;
            let read = source.read(&mut stored[from..to], &runs[index..], turn);
            let file = source.fetch.file();
            self.record.fetches.store(file.fetches, Relaxed);
            read.map_err(|error| TaskError::Fetch(number(run), error))?;
            self.record.fetched_bytes.fetch_add(run.len, Relaxed);
            from = to;
        }
        Ok(())
    }

    /// Let the kernel put stored rows where they belong, when the page cache has them and they need
    /// no decoding and are all wanted. False: it is not so.
    fn read_in_place(&mut self, source: &mut OpenDataset, run: &Run) -> bool {
        let (share, row_bytes) = (self.share, self.member.row_bytes);
        let plain = self.member.whole_rows() && self.member.fixes.is_empty();
        let mut total = 0;
        for index in run.chunks.clone() {
            let (read, chunk) = (&share.reads[index], &share.chunks[index]);
            let wanted = read.seats.len() as u64 * row_bytes as u64;
            let whole = wanted == chunk.stored_size && read.size as u64 == wanted;
            if !source.pipeline.is_identity(chunk.filter_mask) || !whole {
                return false;
            }
            total += wanted;
        }
        // Gaps between chunks are not rows.
        if !plain || total != run.len {
            return false;
        }
        let seats =
            share.reads[run.chunks.start].seats.start..share.reads[run.chunks.end - 1].seats.end;
        let most = (total as usize / MIN_KERNEL_PLACE_BYTES).max(1);
        let mut places: Vec<libc::iovec> = Vec::with_capacity(most.min(seats.len()));
        let mut next = None;
        for run in share.seats.runs(seats) {
            let len = run.rows * row_bytes;
            let at = run.place as usize * row_bytes;
            // A row that is wanted twice is stored once.
            let follows = next.replace(run.end_row()).is_none_or(|row| row == run.row);
            if !follows || places.len() == most {
                return false;
            }
            places.push(libc::iovec {
                iov_base: self.window[at..at + len].as_mut_ptr().cast(),
                iov_len: len,
            });
        }
        let Fetch::Buffered(file) = &mut source.fetch else {
            return false;
        };
        // SAFETY: each place is a row of the window that is this share's, as just checked.
        let done = unsafe { file.read_places(&places, run.byte_offset) };
        self.record.fetches.store(file.fetches, Relaxed);
        if done {
            self.record.fetched_bytes.fetch_add(run.len, Relaxed);
            self.record.decoded_bytes.fetch_add(total, Relaxed);
        }
        done
    }

    pub fn direct(
        &mut self,
        source: &mut OpenDataset,
        flights: Vec<(Run, u64)>,
    ) -> Result<(), TaskError> {
        let result = self.land_runs(source, flights);
        self.end_waiting(source);
        result
    }

    fn land_runs(
        &mut self,
        source: &mut OpenDataset,
        flights: Vec<(Run, u64)>,
    ) -> Result<(), TaskError> {
        let (runs, tickets): (Vec<Run>, Vec<u64>) = flights.into_iter().unzip();
        let (mut next, mut tickets) = (runs.as_slice(), tickets.as_slice());
        while !next.is_empty() {
            let (runs, rest) = next.split_at(together(source, next));
            let (theirs, others) = tickets.split_at(runs.len());
            let mut landed = Vec::with_capacity(runs.len());
            for (run, &ticket) in runs.iter().zip(theirs) {
                landed.push(self.land(source, run, ticket)?);
            }
            let parts = runs.iter().zip(landed.iter().map(Finished::bytes));
            self.decode_runs(source, parts)?;
            if let Fetch::Direct(queue, _) = &mut source.fetch {
                landed.into_iter().for_each(|one| queue.recycle(one));
            }
            (next, tickets) = (rest, others);
        }
        Ok(())
    }

    fn land(
        &self,
        source: &mut OpenDataset,
        run: &Run,
        ticket: u64,
    ) -> Result<Finished, TaskError> {
        let number = self.share.reads[run.chunks.start].number;
        let start = Instant::now();
        let Fetch::Direct(queue, _) = &mut source.fetch else {
            return Err(TaskError::Internal(
                "a direct fetch of a buffered file".into(),
            ));
        };
        let finished = queue.finish(ticket);
        add_ns(&self.record.fetch_ns, start);
        let finished = finished.map_err(|error| TaskError::read(number, error))?;
        self.record.fetched_bytes.fetch_add(run.len, Relaxed);
        self.record.fetches.fetch_add(1, Relaxed);
        let (expected, got) = (run.len, finished.bytes().len() as u64);
        if got < expected {
            return Err(TaskError::Fetch(
                number,
                FetchError::Short { expected, got },
            ));
        }
        Ok(finished)
    }

    /// What is not fetched: chunks that were never stored, and those that are kept.
    pub fn unfetched(&mut self, source: &mut OpenDataset) -> Result<(), TaskError> {
        let (share, member) = (self.share, self.member);
        for (read, chunk) in share.reads.iter().zip(&share.chunks) {
            if chunk.byte_offset != UNALLOCATED {
                continue;
            }
            self.offset(source, chunk, read);
            if let Some(decoded) = self.kept.take(read.number) {
                self.seat(source, read, &decoded);
                self.kept.put_back(read.number, decoded);
                continue;
            }
            if member.spans_rows() {
                for run in share.seats.runs(read.seats.clone()) {
                    let (_, rows) = self.place(source, run);
                    fill::repeat(member.fill_shown(), rows);
                }
                continue;
            }
            grow(&mut source.decoded, read.size, read.number)?;
            let mut decoded = std::mem::take(&mut source.decoded);
            fill::repeat(&member.fill, &mut decoded[..read.size]);
            self.seat(source, read, &decoded[..read.size]);
            source.decoded = decoded;
        }
        self.end_waiting(source);
        Ok(())
    }

    /// Decode the chunks of some runs, which were fetched.
    fn decode_runs<'b>(
        &mut self,
        source: &mut OpenDataset,
        runs: impl Iterator<Item = (&'b Run, &'b [u8])>,
    ) -> Result<(), TaskError> {
        let start = Instant::now();
        let share = self.share;
        let stored = runs.flat_map(|(run, bytes)| {
            run.chunks.clone().map(|index| {
                let chunk = &share.chunks[index];
                let from = (chunk.byte_offset - run.byte_offset) as usize;
                (index, &bytes[from..from + chunk.stored_size as usize])
            })
        });
        let stored: Vec<(usize, &[u8])> = stored.collect();
        let mut left = stored.as_slice();
        while let Some(&(index, bytes)) = left.first() {
            let count = source.pipeline.group_size(left.len());
            let done = match count {
                4 => self.decode_abreast::<4>(source, left),
                3 => self.decode_abreast::<3>(source, left),
                2 => self.decode_abreast::<2>(source, left),
                _ => false,
            };
            if !done {
                self.decode_chunk(source, &share.reads[index], &share.chunks[index], bytes)?;
            }
            left = &left[if done { count } else { 1 }..];
        }
        add_ns(&self.record.decode_ns, start);
        Ok(())
    }

    fn decode_chunk(
        &mut self,
        source: &mut OpenDataset,
        read: &ChunkRead,
        chunk: &Chunk,
        stored: &[u8],
    ) -> Result<(), TaskError> {
        let wrong = |error| TaskError::Filter(read.number, error);
        let size = read.size;
        self.record.decoded_bytes.fetch_add(size as u64, Relaxed);
        self.offset(source, chunk, read);
        if source.pipeline.is_identity(chunk.filter_mask) {
            if stored.len() != size {
                return Err(wrong(FilterError {
                    filter: 0,
                    kind: FilterErrorKind::WrongSize,
                    expected: size as u64,
                    got: stored.len() as u64,
                }));
            }
            self.seat(source, read, stored);
            return Ok(());
        }
        if let Some(out) = self.in_place(read, size) {
            let result = source
                .pipeline
                .decode(chunk.filter_mask, stored, &mut self.window[out]);
            self.end_strings(source, read);
            return result.map_err(wrong);
        }
        grow(&mut source.decoded, size, read.number)?;
        let mut decoded = std::mem::take(&mut source.decoded);
        let result = source
            .pipeline
            .decode(chunk.filter_mask, stored, &mut decoded[..size]);
        if result.is_ok() {
            self.deliver(source, read, &decoded[..size]);
        }
        source.decoded = decoded;
        result.map_err(wrong)
    }

    /// Decode some chunks side by side, where that is quicker. False: none is done.
    fn decode_abreast<const N: usize>(
        &mut self,
        source: &mut OpenDataset,
        stored: &[(usize, &[u8])],
    ) -> bool {
        let Some(stored) = stored.first_chunk::<N>() else {
            return false;
        };
        let share = self.share;
        let reads = stored.map(|(index, _)| &share.reads[index]);
        let chunks = stored.map(|(index, _)| &share.chunks[index]);
        let mask = chunks[0].filter_mask;
        let is_alike = chunks.iter().all(|chunk| chunk.filter_mask == mask);
        if !is_alike || !source.pipeline.wants_group(mask) {
            return false;
        }
        let size = reads.iter().map(|read| read.size).sum();
        if grow(&mut source.decoded, size, 0).is_err() {
            return false;
        }
        let mut decoded = std::mem::take(&mut source.decoded);
        let mut rest = decoded.as_mut_slice();
        let mut outs = reads.map(|read| {
            let (out, others) = std::mem::take(&mut rest).split_at_mut(read.size);
            rest = others;
            out
        });
        let places = outs.each_mut().map(|out| &mut **out);
        let stored = stored.map(|(_, bytes)| bytes);
        let done = source.pipeline.decode_group(mask, stored, places);
        if done {
            for ((chunk, read), decoded) in chunks.into_iter().zip(reads).zip(outs) {
                self.offset(source, chunk, read);
                self.record
                    .decoded_bytes
                    .fetch_add(read.size as u64, Relaxed);
                self.deliver(source, read, decoded);
            }
        }
        source.decoded = decoded;
        done
    }

    /// Bring a decoded chunk's rows to their places, and keep it if others want it.
    fn deliver(&mut self, source: &mut OpenDataset, read: &ChunkRead, decoded: &[u8]) {
        self.seat(source, read, decoded);
        if self.member.kept {
            self.kept.keep(read.number, decoded);
        }
    }

    /// Leave in `source` the dataset's element with which the decoded bytes begin.
    fn offset(&self, source: &mut OpenDataset, chunk: &Chunk, read: &ChunkRead) {
        self.member
            .chunk_offset(chunk.grid_index, &mut source.offset);
        source.offset[0] = read.row;
    }
}
