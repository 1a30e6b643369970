//! A reader's loop: claim, fetch, decode, publish.
//!
//! Law:
//! 1. A task is idempotent: it writes only its own rows, so it may be run again after a death.
//! 2. Chunks that are whole rows are decoded straight into their place on the tape; everything
//!    else goes through one reused buffer and is scattered.
//! 3. Rows are published only after the file was seen unchanged after their last fetch.
//! 4. Whatever goes wrong becomes a record in the control header and a failed slot, never a panic
//!    that leaves the parent waiting.

use crate::control::{Claim, Control, Record, TEXT_BYTES};
use crate::fetch::{DataFile, Fetch, FetchError, Run, runs};
use crate::filters::{FilterError, FilterErrorKind, Pipeline};
use crate::memory::Mapping;
use crate::plan::{Chunk, KIND_LIBRARY, Member, Plan, Task, UNALLOCATED};
use crate::scatter::{self, Place};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Bytes and requests that a direct reader keeps in flight.
const FLIGHT_BYTES: u64 = 8 << 20;
const FLIGHT_TASKS: usize = 16;
/// How long a reader sleeps at most before it looks again.
const NAP: Duration = Duration::from_millis(500);

/// Numbers of `Record::error_kind`, as `_multitables/parent/failure.py` reads them.
pub mod error_kind {
    pub const FILTER_CHECKSUM: u32 = 1;
    pub const FILTER_SIZE: u32 = 2;
    pub const FILTER_MALFORMED: u32 = 3;
    pub const FILTER_UNKNOWN: u32 = 4;
    pub const FILTER_TRUNCATED: u32 = 11;
    pub const SHORT: u32 = 5;
    pub const READ: u32 = 6;
    pub const OPEN: u32 = 7;
    pub const CHANGED: u32 = 8;
    pub const LIBRARY: u32 = 9;
    pub const INTERNAL: u32 = 10;
}

/// What stopped a task.
#[derive(Debug)]
pub enum TaskError {
    /// The stored chunk numbered so in the plan does not decode.
    Filter(u64, FilterError),
    Fetch(u64, FetchError),
    UnknownFilter(u32),
    /// An exception of the library fallback: "module\0type\0text".
    Library(String),
    Internal(String),
}

/// Reads rows through an HDF5 library: (what, first row, end row, where to).
pub type LibraryRead<'a> = dyn FnMut(&str, u64, u64, &mut [u8]) -> Result<(), String> + 'a;

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Stopped,
    Failed,
}

/// What a reader keeps open for one member.
struct Source {
    fetch: Fetch,
    pipeline: Pipeline,
    stored: Vec<u8>,
    decoded: Vec<u8>,
    offset: Vec<u64>,
    hinted: u64,
}

/// A claimed task; for direct reads, with its requests in flight.
struct Pending {
    global: u64,
    flights: Vec<(Run, u64)>,
}

pub struct Reader<'a> {
    plan: &'a Plan,
    control: Control,
    tapes: &'a [Mapping],
    me: usize,
    sources: Vec<Option<Source>>,
    spare_runs: Vec<Run>,
}

impl<'a> Reader<'a> {
    pub fn new(plan: &'a Plan, control: Control, tapes: &'a [Mapping], me: usize) -> Reader<'a> {
        let sources = plan.members.iter().map(|_| None).collect();
        Reader {
            plan,
            control,
            tapes,
            me,
            sources,
            spare_runs: Vec::new(),
        }
    }

    /// Run the stream to its end, or until it is stopped or a task fails.
    pub fn run(&mut self, library: &mut LibraryRead<'_>) -> End {
        let mut pending: VecDeque<Pending> = VecDeque::new();
        let mut inherited: VecDeque<u64> = self.control.inherited(self.me).into();
        let window = self.window();
        let mut claimed_all = false;
        loop {
            while pending.len() < window && !claimed_all {
                let global = match inherited.pop_front() {
                    Some(global) => global,
                    None => match self.claim(pending.is_empty()) {
                        Claim::Task(global) => global,
                        Claim::Full => break,
                        Claim::Stopped => return End::Stopped,
                        Claim::Done => {
                            claimed_all = true;
                            break;
                        }
                    },
                };
                match self.begin(global) {
                    Ok(task) => pending.push_back(task),
                    Err(error) => return self.fail(global, &error),
                }
            }
            let Some(task) = pending.pop_front() else {
                if claimed_all {
                    return End::Done;
                }
                continue;
            };
            let global = task.global;
            self.record().current.store(global + 1, Relaxed);
            if let Err(error) = self.complete(task, library) {
                return self.fail(global, &error);
            }
            self.control.pass_turn(global);
            self.control.publish(global);
            self.record().current.store(0, Relaxed);
            self.record().tasks.fetch_add(1, Relaxed);
        }
    }

    fn record(&self) -> &Record {
        self.control.record(self.me)
    }

    /// Tasks that this reader may hold at a time: one, or for direct reads its share of the ring.
    fn window(&self) -> usize {
        let tasks = self.plan.tasks();
        if tasks.is_empty() || !self.plan.members.iter().any(|member| member.direct) {
            return 1;
        }
        let rows = (self.plan.lap_rows() / tasks.len() as u64).max(1);
        let share = self.plan.capacity_rows() / rows / self.plan.n_readers() as u64;
        let task_bytes = rows * self.plan.members[0].row_bytes.max(1) as u64;
        let wanted = (FLIGHT_BYTES / task_bytes.max(1)).clamp(4, FLIGHT_TASKS as u64);
        share.clamp(1, wanted) as usize
    }

    fn claim(&self, wait: bool) -> Claim {
        let mut waited = None;
        loop {
            let claim = self.control.try_claim(self.plan, self.me);
            if claim != Claim::Full || !wait {
                if let Some(start) = waited {
                    add_ns(&self.record().wait_ns, start);
                }
                return claim;
            }
            waited.get_or_insert_with(Instant::now);
            self.control.wait_for_space(self.plan, NAP);
        }
    }

    /// Open what the task needs and, for direct reads, start fetching.
    fn begin(&mut self, global: u64) -> Result<Pending, TaskError> {
        let (task, _) = self.plan.task(global);
        let mut flights = Vec::new();
        if task.kind != KIND_LIBRARY {
            let plan = self.plan;
            self.open(&task)?;
            if let Some(source) = self.sources[task.member as usize].as_mut() {
                if let Fetch::Direct(_, queue) = &mut source.fetch {
                    let mut found = Vec::new();
                    runs(chunks_of(plan, &task), &mut found);
                    for run in found {
                        let ticket =
                            queue
                                .submit(run.byte_offset, run.len as usize)
                                .map_err(|error| {
                                    TaskError::Fetch(task.first_chunk, FetchError::Read(error))
                                })?;
                        flights.push((run, ticket));
                    }
                }
            }
        }
        Ok(Pending { global, flights })
    }

    fn open(&mut self, task: &Task) -> Result<(), TaskError> {
        let at = task.member as usize;
        if self.sources[at].is_some() {
            return Ok(());
        }
        let start = Instant::now();
        let member = &self.plan.members[at];
        let pipeline = Pipeline::new(&member.filters, member.decoded_size)
            .map_err(TaskError::UnknownFilter)?;
        let fetch = Fetch::open(&member.filename, member.fingerprint, member.direct)
            .map_err(|error| TaskError::Fetch(task.first_chunk, error))?;
        self.sources[at] = Some(Source {
            fetch,
            pipeline,
            stored: Vec::new(),
            decoded: Vec::new(),
            offset: Vec::new(),
            hinted: 0,
        });
        add_ns(&self.record().open_ns, start);
        Ok(())
    }

    fn complete(
        &mut self,
        pending: Pending,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let plan = self.plan;
        let (task, lap_row) = plan.task(pending.global);
        let member = &plan.members[task.member as usize];
        if task.kind == KIND_LIBRARY {
            return self.read_by_library(&task, lap_row, member, library);
        }
        let chunks = chunks_of(plan, &task);
        let Some(mut source) = self.sources[task.member as usize].take() else {
            return Err(TaskError::Internal("a task's file is not open".into()));
        };
        let mut work = Work {
            plan,
            member,
            record: self.control.record(self.me),
            tape: &self.tapes[task.member as usize],
            lap_row,
            first_chunk: task.first_chunk,
        };
        let mut found = std::mem::take(&mut self.spare_runs);
        let result = match &source.fetch {
            Fetch::Direct(..) => work.direct(&mut source, chunks, pending.flights),
            Fetch::Buffered(_) => {
                runs(chunks, &mut found);
                work.buffered(&mut source, chunks, &found, &self.control, pending.global)
            }
        };
        self.spare_runs = found;
        let result = result.and_then(|()| work.unallocated(&mut source, chunks));
        // A file that changed explains any error, and taints rows that decoded well.
        let unchanged = source.fetch.file().check_unchanged();
        self.sources[task.member as usize] = Some(source);
        unchanged.map_err(|error| TaskError::Fetch(task.first_chunk, error))?;
        self.record().chunks.fetch_add(task.n_chunks, Relaxed);
        match result {
            // Perhaps valid, but not for us: the library decides. The task's rows are still ours.
            Err(TaskError::Filter(_, error)) if error.kind == FilterErrorKind::Unsupported => {
                self.read_by_library(&task, lap_row, member, library)
            }
            result => result,
        }
    }

    fn read_by_library(
        &self,
        task: &Task,
        lap_row: u64,
        member: &Member,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let start = Instant::now();
        let file = DataFile::open(&member.filename, member.fingerprint, false)
            .map_err(|error| TaskError::Fetch(task.first_chunk, error))?;
        let rows = task.row_end - task.row_begin;
        let tape = &self.tapes[task.member as usize];
        // SAFETY: this reader owns the task, so these rows of the tape are its alone.
        let out = unsafe { tape_rows(tape, member, lap_row + task.row_begin, rows) };
        let first = self.plan.first_row();
        let (begin, end) = (first + task.row_begin, first + task.row_end);
        library(&member.library, begin, end, out).map_err(TaskError::Library)?;
        file.check_unchanged()
            .map_err(|error| TaskError::Fetch(task.first_chunk, error))?;
        let record = self.record();
        record.library_tasks.fetch_add(1, Relaxed);
        record.decoded_bytes.fetch_add(out.len() as u64, Relaxed);
        add_ns(&record.decode_ns, start);
        Ok(())
    }

    /// Leave the reason where the parent finds it.
    pub fn fail(&self, global: u64, error: &TaskError) -> End {
        let record = self.record();
        let (mut chunk, mut text) = (u64::MAX, String::new());
        let (kind, filter, detail, expected, got) = match error {
            TaskError::Filter(at, error) => {
                chunk = *at;
                let kind = match error.kind {
                    FilterErrorKind::Checksum => error_kind::FILTER_CHECKSUM,
                    FilterErrorKind::WrongSize => error_kind::FILTER_SIZE,
                    FilterErrorKind::Truncated => error_kind::FILTER_TRUNCATED,
                    FilterErrorKind::Malformed => error_kind::FILTER_MALFORMED,
                    FilterErrorKind::Unsupported => error_kind::FILTER_UNKNOWN,
                };
                (kind, error.filter, 0, error.expected, error.got)
            }
            TaskError::Fetch(at, error) => {
                chunk = *at;
                match error {
                    FetchError::Short { expected, got } => {
                        (error_kind::SHORT, 0, 0, *expected, *got)
                    }
                    FetchError::Changed { expected, got } => {
                        (error_kind::CHANGED, 0, 0, *expected, *got)
                    }
                    FetchError::Read(error) => (
                        error_kind::READ,
                        0,
                        error.raw_os_error().unwrap_or(0) as u32,
                        0,
                        0,
                    ),
                    FetchError::Open(error) => (
                        error_kind::OPEN,
                        0,
                        error.raw_os_error().unwrap_or(0) as u32,
                        0,
                        0,
                    ),
                }
            }
            TaskError::UnknownFilter(id) => (error_kind::FILTER_UNKNOWN, *id, 0, 0, 0),
            TaskError::Library(reason) => {
                text.clone_from(reason);
                (error_kind::LIBRARY, 0, 0, 0, 0)
            }
            TaskError::Internal(reason) => {
                text.clone_from(reason);
                (error_kind::INTERNAL, 0, 0, 0, 0)
            }
        };
        record.error_task.store(global, Relaxed);
        record.error_chunk.store(chunk, Relaxed);
        record.error_filter.store(filter, Relaxed);
        record.error_detail.store(detail, Relaxed);
        record.error_expected.store(expected, Relaxed);
        record.error_got.store(got, Relaxed);
        let bytes = text.as_bytes();
        let len = bytes.len().min(TEXT_BYTES);
        for (place, byte) in record.text.iter().zip(&bytes[..len]) {
            place.store(*byte, Relaxed);
        }
        record.text_len.store(len as u32, Relaxed);
        record.error_kind.store(kind, Relaxed);
        self.control.pass_turn(global);
        self.control.fail(global);
        End::Failed
    }
}

fn chunks_of<'a>(plan: &'a Plan, task: &Task) -> &'a [Chunk] {
    &plan.chunks()[task.first_chunk as usize..(task.first_chunk + task.n_chunks) as usize]
}

fn add_ns(total: &std::sync::atomic::AtomicU64, start: Instant) {
    total.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
}

/// The tape's bytes for `rows` rows from tape row `row`.
///
/// # Safety
/// The caller must own these rows by the ring's protocol until it publishes or returns them.
#[expect(
    clippy::mut_from_ref,
    reason = "the tape is shared memory: who may write where is the ring's protocol, not Rust's"
)]
pub unsafe fn tape_rows<'a>(
    tape: &'a Mapping,
    member: &Member,
    row: u64,
    rows: u64,
) -> &'a mut [u8] {
    let len = rows as usize * member.row_bytes;
    let at = if member.tape_bytes == 0 {
        0
    } else {
        (u128::from(row) * member.row_bytes as u128 % member.tape_bytes as u128) as usize
    };
    assert!(len <= member.tape_bytes && at + len <= tape.len());
    // SAFETY: inside the double mapping (checked above); exclusive by the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(tape.base().add(at), len) }
}

/// One task's chunks on their way from the file to the tape.
struct Work<'a> {
    plan: &'a Plan,
    member: &'a Member,
    record: &'a Record,
    tape: &'a Mapping,
    lap_row: u64,
    first_chunk: u64,
}

impl<'a> Work<'a> {
    /// The wanted rows `[lo, hi)` of a chunk that begins at dataset row `row`.
    fn wanted(&self, row: u64, rows: u64) -> (u64, u64) {
        let first = self.plan.first_row();
        let end = (first + self.plan.lap_rows()).min(self.member.dims[0]);
        let lo = row.max(first);
        (lo, (row + rows).min(end).max(lo))
    }

    /// Where dataset rows `[lo, hi)` lie on the tape.
    fn rows(&self, lo: u64, hi: u64) -> &'a mut [u8] {
        let row = self.lap_row + (lo - self.plan.first_row());
        // SAFETY: these rows belong to the task that this reader owns. (Chunks beside each other
        // in the same rows belong to the task's owner or to another one that writes other bytes.)
        unsafe { tape_rows(self.tape, self.member, row, hi - lo) }
    }

    /// Bytes of a decoded chunk; in contiguous layout the last piece is shorter.
    fn decoded_size(&self, row: u64) -> usize {
        if !self.member.clipped {
            return self.member.decoded_size;
        }
        let rows = self.member.chunk_dims[0].min(self.member.dims[0].saturating_sub(row));
        self.member.decoded_size / self.member.chunk_dims[0] as usize * rows as usize
    }

    fn buffered(
        &mut self,
        source: &mut Source,
        chunks: &[Chunk],
        found: &[Run],
        control: &Control,
        global: u64,
    ) -> Result<(), TaskError> {
        for run in found {
            let start = Instant::now();
            let run_chunks = &chunks[run.chunks.clone()];
            let mut stored = std::mem::take(&mut source.stored);
            let in_place = self.in_place(source, run_chunks, run);
            let len = run.len as usize;
            let direct_to_tape = in_place.is_some();
            let target: &mut [u8] = match in_place {
                Some(rows) => rows,
                None => {
                    if stored.len() < len {
                        stored.resize(len, 0);
                    }
                    &mut stored[..len]
                }
            };
            let result = self.read_run(source, target, run, control, global);
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

    fn read_run(
        &self,
        source: &mut Source,
        target: &mut [u8],
        run: &Run,
        control: &Control,
        global: u64,
    ) -> Result<(), TaskError> {
        let at = self.first_chunk + run.chunks.start as u64;
        let Fetch::Buffered(file) = &mut source.fetch else {
            return Err(TaskError::Internal(
                "a buffered fetch of a direct file".into(),
            ));
        };
        let have = file.read_cached(target, run.byte_offset);
        if have < target.len() {
            source.hinted = self.hint_ahead(file, global, source.hinted);
            if self.member.turnstile {
                control.wait_turn(global);
            }
            file.read(target, run.byte_offset, have)
                .map_err(|error| TaskError::Fetch(at, error))?;
        }
        self.record.fetches.store(file.fetches, Relaxed);
        Ok(())
    }

    /// The page cache missed: name what all readers will want next, each range once per reader.
    fn hint_ahead(&self, file: &DataFile, global: u64, hinted: u64) -> u64 {
        let end = (global + 1 + 2 * self.plan.n_readers() as u64).min(self.plan.total_tasks());
        for next in hinted.max(global + 1)..end {
            let (task, _) = self.plan.task(next);
            if self.plan.members[task.member as usize].filename == self.member.filename {
                let mut found = Vec::new();
                runs(chunks_of(self.plan, &task), &mut found);
                found
                    .iter()
                    .for_each(|run| file.hint(run.byte_offset, run.len));
            }
        }
        hinted.max(end)
    }

    /// When a run's stored bytes are already the rows, the place where they belong.
    fn in_place(&self, source: &mut Source, chunks: &[Chunk], run: &Run) -> Option<&'a mut [u8]> {
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

    fn finish_in_place(&self, source: &mut Source, chunks: &[Chunk]) {
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
                scatter::fix_strings(self.member, at, self.rows(lo, hi));
            }
        }
        self.record.decoded_bytes.fetch_add(total, Relaxed);
    }

    fn direct(
        &mut self,
        source: &mut Source,
        chunks: &[Chunk],
        flights: Vec<(Run, u64)>,
    ) -> Result<(), TaskError> {
        for (run, ticket) in flights {
            let at = self.first_chunk + run.chunks.start as u64;
            let start = Instant::now();
            let finished = match &mut source.fetch {
                Fetch::Direct(_, queue) => queue.finish(ticket),
                Fetch::Buffered(_) => Err(std::io::ErrorKind::Unsupported.into()),
            };
            add_ns(&self.record.fetch_ns, start);
            let finished =
                finished.map_err(|error| TaskError::Fetch(at, FetchError::Read(error)))?;
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
            if let Fetch::Direct(_, queue) = &mut source.fetch {
                queue.recycle(finished);
            }
        }
        Ok(())
    }

    /// Decode each chunk of a fetched run into its rows.
    fn decode_run(
        &mut self,
        source: &mut Source,
        chunks: &[Chunk],
        run: &Run,
        bytes: &[u8],
    ) -> Result<(), TaskError> {
        let start = Instant::now();
        for (index, chunk) in chunks.iter().enumerate() {
            let at = self.first_chunk + (run.chunks.start + index) as u64;
            let from = (chunk.byte_offset - run.byte_offset) as usize;
            let stored = &bytes[from..from + chunk.stored_size as usize];
            self.decode_chunk(source, chunk, stored)
                .map_err(|error| TaskError::Filter(at, error))?;
        }
        add_ns(&self.record.decode_ns, start);
        Ok(())
    }

    fn decode_chunk(
        &mut self,
        source: &mut Source,
        chunk: &Chunk,
        stored: &[u8],
    ) -> Result<(), FilterError> {
        let member = self.member;
        member.chunk_offset(chunk.grid_index, &mut source.offset);
        let row = source.offset[0];
        let size = self.decoded_size(row);
        let (lo, hi) = self.wanted(row, member.chunk_dims[0]);
        let dst = self.rows(lo, hi);
        let at = Place {
            offset: &source.offset,
            lo,
            hi,
        };
        self.record.decoded_bytes.fetch_add(size as u64, Relaxed);
        if source.pipeline.is_identity(chunk.filter_mask) {
            if stored.len() != size {
                return Err(FilterError {
                    filter: 0,
                    kind: FilterErrorKind::WrongSize,
                    expected: size as u64,
                    got: stored.len() as u64,
                });
            }
            scatter::place(member, at, stored, dst);
        } else if member.whole_rows() && lo == row && dst.len() == size {
            source.pipeline.decode(chunk.filter_mask, stored, dst)?;
        } else {
            if source.decoded.len() < size {
                source.decoded.resize(size, 0);
            }
            let decoded = &mut source.decoded[..size];
            source.pipeline.decode(chunk.filter_mask, stored, decoded)?;
            scatter::place(member, at, decoded, dst);
        }
        scatter::fix_strings(member, at, dst);
        Ok(())
    }

    /// Chunks that the file never stored.
    fn unallocated(&mut self, source: &mut Source, chunks: &[Chunk]) -> Result<(), TaskError> {
        for chunk in chunks
            .iter()
            .filter(|chunk| chunk.byte_offset == UNALLOCATED)
        {
            self.member
                .chunk_offset(chunk.grid_index, &mut source.offset);
            let (lo, hi) = self.wanted(source.offset[0], self.member.chunk_dims[0]);
            let at = Place {
                offset: &source.offset,
                lo,
                hi,
            };
            let dst = self.rows(lo, hi);
            scatter::fill(self.member, at, dst);
            scatter::fix_strings(self.member, at, dst);
            self.record
                .decoded_bytes
                .fetch_add(dst.len() as u64, Relaxed);
        }
        Ok(())
    }
}
