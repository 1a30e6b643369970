//! A reader's loop: claim, fetch, decode, publish.
//!
//! Law:
//! 1. A task is idempotent: it writes only its own rows, so it may be run again after a death.
//! 2. Tasks end in the order in which they were claimed, failures too: the parent waits for the
//!    oldest one. Of a task that fails, the rows before the damage are good, and other tapes'
//!    rows beside these are still read.
//! 3. Rows are published only after the file was seen unchanged after their last fetch.
//! 4. On a rotating disk the reader that has the turn hands its requests to the kernel, and passes
//!    the turn on: they reach the disk in the order of the tape, and the next ones before these are
//!    done. Every task takes its turn, but what a library reads, or the page cache has, does nothing
//!    with it.
//! 5. A thread of the user's process calls no library: it hands the ring over to reader processes, its
//!    claimed tasks included.
//! 6. Whatever goes wrong becomes a record in the control header and a failed slot, never a panic
//!    that leaves the parent waiting.

use crate::ring::claimed::{Begun, Claimed, Pending};
use crate::ring::control::{Claim, Control};
use crate::ring::maps::RingMaps;
use crate::ring::tape::{tape_bytes, tape_rows};
use crate::ring::window::window;
use engine::assemble::{assembler, kept_bytes};
use engine::chunk_cache::{ChunkCache, Policy};
use engine::chunk_read::{ChunkRead, Fetches, NO_CHUNK};
use engine::counters::{Mark, Record, add_ns, count};
use engine::fetch::coalesce::{RUN_BYTES, Run, runs};
use engine::fetch::queue::{Turn, Turnstile};
use engine::open_dataset::{OpenDataset, check};
use engine::place_rows::PlaceRows;
use engine::place_shuffled::{PlaceShuffled, fetches};
use engine::scatter::out::Out;
use engine::shared::Shared;
use engine::shuffle_task::{ShuffleTask, Windows};
use engine::task_error::TaskError;
use hdf5_filters::FilterErrorKind;
use os::memory::Entered;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};
use tables::plan::{Chunk, Plan, Task, UNALLOCATED, Work};

/// How long a reader sleeps at most before it looks again.
const NAP: Duration = Duration::from_millis(500);

/// Reads rows through an HDF5 library: (what, first row, end row, where to, its mark).
pub type LibraryRead<'a> =
    dyn FnMut(&str, u64, u64, &mut [u8], Mark<'_>) -> Result<(), String> + 'a;

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Stopped,
    Failed,
    HandedOver,
}

pub struct Reader<'a> {
    pub(super) plan: &'a Plan,
    pub(super) control: Control,
    maps: &'a RingMaps,
    pub(super) me: usize,
    open: Vec<Option<OpenDataset>>,
    pub(super) shared: Arc<Shared>,
    spare_runs: Vec<Run>,
    windows: Windows<'a>,
    pub(super) cache: ChunkCache,
    entered: Vec<Entered>,
    /// Tasks take turns.
    turns: bool,
    /// Tasks of a predecessor that died: perhaps one of them killed it.
    pub(super) careful: Vec<u64>,
    /// A task has failed: rows of the tape from this one on are of no use.
    useless_row: Option<u64>,
    /// It runs in the user's process.
    pub is_thread: bool,
}

impl<'a> Reader<'a> {
    pub fn new(plan: &'a Plan, maps: &'a RingMaps, me: usize) -> Reader<'a> {
        let open = plan.table.datasets.iter().map(|_| None).collect();
        Reader {
            plan,
            control: maps.control,
            maps,
            me,
            open,
            shared: Arc::new(Shared::new(
                kept_bytes(&plan.table, plan.cache_bytes()),
                None,
                assembler,
            )),
            spare_runs: Vec::new(),
            windows: Windows::new(plan),
            cache: ChunkCache::new(plan.cache_bytes() as usize, Policy::Never),
            entered: plan.tapes.iter().map(|_| Entered::default()).collect(),
            turns: plan.table.sources.iter().any(|source| source.turnstile),
            careful: Vec::new(),
            useless_row: None,
            is_thread: false,
        }
    }

    /// Run the stream to its end, or until it is stopped or a task fails.
    pub fn run(&mut self, library: &mut LibraryRead<'_>) -> End {
        let mut pending: VecDeque<Pending> = VecDeque::new();
        self.careful = self.control.inherited(self.me);
        let mut inherited: VecDeque<u64> = self.careful.clone().into();
        let most = window(self.plan);
        let mut sources = self.plan.table.sources.iter();
        let is_async = sources.any(|source| source.direct || source.access.is_some());
        let mut claimed_all = false;
        loop {
            // Where nothing is waited for, a task that is claimed early comes late.
            let early = is_async || self.open.iter().flatten().any(|open| open.queue.cold);
            let window = if early { most } else { 1 };
            while pending.len() < window && !claimed_all {
                let global = match inherited.pop_front() {
                    Some(global) => global,
                    None if self.is_useless(self.control.next_task()) => {
                        claimed_all = true;
                        break;
                    }
                    None => match self.claim(pending.is_empty()) {
                        Claim::Task(global) => global,
                        Claim::Full => break,
                        Claim::Stopped if self.leaves() => return End::HandedOver,
                        Claim::Stopped => return End::Stopped,
                        Claim::Done => {
                            claimed_all = true;
                            break;
                        }
                    },
                };
                // An error waits for its turn: tasks before this one can still be delivered.
                let begun = self.begin(global, early);
                if begun.is_err() {
                    self.skip_turn(global);
                }
                pending.push_back(Pending::new(global, begun));
            }
            // While their requests are on the way.
            (pending.iter_mut()).for_each(|one| one.make_pages(self.plan, self.maps));
            let Some(task) = pending.pop_front() else {
                match (claimed_all, self.useless_row) {
                    (false, _) => continue,
                    (true, None) => {
                        // Another may have left it to this one to wake the parent.
                        self.control.tell_rest();
                        return End::Done;
                    }
                    (true, Some(_)) => return End::Failed,
                }
            };
            let global = task.global;
            if self.is_useless(global) {
                continue;
            }
            self.record().current.store(global + 1, Relaxed);
            let start = Instant::now();
            if let Err(error) = self.complete(task, library) {
                if self.leaves() {
                    return End::HandedOver;
                }
                let done_row = self.plan.done_before(global, error.chunk());
                self.set_error(global, done_row, &error);
                self.useless_row = Some(self.useless_row.map_or(done_row, |row| row.min(done_row)));
                continue;
            }
            if self.turns {
                self.control.pass_turn(global);
            }
            let next = start.elapsed() / self.plan.n_readers() as u32;
            // Counted first, so that the statistics have what is published.
            count(&self.record().tasks, 1);
            self.control.publish(self.me, global, next);
            self.record().current.store(0, SeqCst);
        }
    }

    pub(super) fn record(&self) -> &Record {
        self.control.record(self.me)
    }

    fn claim(&self, wait: bool) -> Claim {
        let mut waited = None;
        loop {
            if self.leaves() {
                return Claim::Stopped;
            }
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

    /// Open what the task needs. When tasks are claimed early, also start fetching, in the task's
    /// turn: nobody may wait for a turn with an earlier one in hand.
    fn begin(&mut self, global: u64, early: bool) -> Result<Begun, TaskError> {
        let plan = self.plan;
        let (task, _) = plan.task(global);
        let mut begun = Begun {
            runs: std::mem::take(&mut self.spare_runs),
            ..Begun::default()
        };
        let (work, dataset) = (task.work(), plan.dataset(&task));
        if work == Work::Library || dataset.by_library {
            self.skip_turn(global);
        }
        if work == Work::Library {
            return Ok(begun);
        }
        let records = plan.records(&task);
        let mut first_record = records.start as u64;
        if let Work::Share(share) = work {
            let share = self.windows.task(plan, &task, share, plan.lap(global));
            first_record = share.reads.first().map_or(first_record, |p| p.number);
            begun.share = Some(share);
            if dataset.by_library {
                return Ok(begun);
            }
        }
        let (control, table) = (self.control, &plan.table);
        let place = &mut self.open[task.dataset as usize];
        let open = match place {
            Some(open) => open,
            None => {
                let record = control.record(self.me);
                let open = OpenDataset::open(table, dataset, &self.shared, record, first_record)?;
                place.insert(open)
            }
        };
        let mut chunks = &table.chunks()[records];
        match &begun.share {
            Some(share) => {
                let reads = share.reads.iter().zip(&share.chunks);
                for (read, chunk) in reads.filter(|(read, _)| read.number != NO_CHUNK) {
                    check(table, dataset, std::slice::from_ref(chunk), read.number)?;
                }
            }
            None => {
                if let Err(error) = check(table, dataset, chunks, first_record) {
                    let number = error.chunk().unwrap_or(first_record);
                    chunks = &chunks[..(number - first_record) as usize];
                    begun.sound = Some((chunks.len(), error));
                }
            }
        }
        if !early {
            return Ok(begun);
        }
        match &mut begun.share {
            Some(share) => fetches(share, &self.cache, &open.queue, &mut begun.runs),
            None => runs(chunks, open.queue.limits(RUN_BYTES), &mut begun.runs),
        }
        let turn = turn(&control, plan, &task, global);
        begun.tickets = open.queue.submit(&begun.runs, turn);
        Ok(begun)
    }

    /// Processes go on where this thread is.
    fn leaves(&self) -> bool {
        self.is_thread && self.control.is_handed_over()
    }

    /// A task that fetches nothing lets the others go on.
    fn skip_turn(&self, global: u64) {
        if self.turns {
            self.control.wait_turn(global);
            self.control.pass_turn(global);
        }
    }

    fn complete(
        &mut self,
        pending: Pending,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let plan = self.plan;
        let (task, lap_row) = plan.task(pending.global);
        let claimed = Claimed {
            global: pending.global,
            task,
            lap_row,
        };
        let by_library = task.work() == Work::Library || plan.dataset(&task).by_library;
        let result = pending.begun.and_then(|begun| match by_library {
            true => Ok(()),
            false => self.decode(claimed, begun),
        });
        let mut failed = None;
        match result {
            // Perhaps valid, but not for us: the library decides. The task's rows are still ours.
            Err(TaskError::UnknownFilter(_)) => {}
            Err(TaskError::Filter(number, error)) if error.kind == FilterErrorKind::Unsupported => {
                failed = error.of_plugin().map(|error| (number, error));
            }
            Ok(()) if by_library => {}
            result => return result,
        }
        if self.is_thread {
            self.control.hand_over();
            return Err(TaskError::Library(String::new()));
        }
        let read = match task.share() {
            Some(share) => {
                let lap = plan.lap(claimed.global);
                let share = self.windows.task(plan, &task, share, lap);
                self.share_by_library(claimed, &share, library)
            }
            None => self.read_by_library(&claimed, library),
        };
        match (read, failed) {
            (Err(TaskError::Library(_)), Some((number, error))) => {
                Err(TaskError::Filter(number, error))
            }
            (read, _) => read,
        }
    }

    /// Fetch and decode a task's chunks.
    fn decode(&mut self, claimed: Claimed, mut begun: Begun) -> Result<(), TaskError> {
        let task = &claimed.task;
        let Some(mut open) = self.open[task.dataset as usize].take() else {
            return Err(TaskError::Internal("a task's file is not open".into()));
        };
        let result = match begun.share.take() {
            Some(share) => self.decode_share(claimed, share, begun, &mut open),
            None => self.decode_chunks(claimed, begun, &mut open),
        };
        // A file that changed explains any error, and taints rows that decoded well.
        let unchanged = open.queue.check_unchanged();
        self.open[task.dataset as usize] = Some(open);
        let first_record = self.plan.records(task).start as u64;
        unchanged.map_err(|error| TaskError::Fetch(first_record, error))?;
        count(&self.record().chunks, result?);
        Ok(())
    }

    /// Returns the number of chunks.
    fn decode_chunks(
        &mut self,
        claimed: Claimed,
        mut begun: Begun,
        open: &mut OpenDataset,
    ) -> Result<u64, TaskError> {
        let (plan, control, task) = (self.plan, self.control, &claimed.task);
        let records = plan.records(task);
        let first_record = records.start as u64;
        let all = &plan.table.chunks()[records];
        let n_sound = begun.sound.as_ref().map_or(all.len(), |(sound, _)| *sound);
        let chunks = &all[..n_sound];
        let mut found = std::mem::take(&mut begun.runs);
        if !open.queue.is_async() {
            runs(chunks, open.queue.limits(RUN_BYTES), &mut found);
        }
        let first = plan.first_row(plan.tape(task));
        let mut transfer = open.transfer(control.record(self.me), |interleaver| PlaceRows {
            dataset: plan.dataset(task),
            rows: first + task.row_begin..first + task.row_end,
            // SAFETY: this reader owns the task. (Chunks beside each other in the same rows belong to
            // it or to another one, which writes other bytes.)
            out: unsafe { self.rows(&claimed) },
            first_record,
            interleaver,
            offset: Vec::new(),
        });
        let fetches = Fetches {
            runs: &found,
            tickets: &begun.tickets,
            turn: turn(&control, plan, task, claimed.global),
        };
        let result = transfer.run(chunks, fetches);
        // Before an error there may be some, too.
        let filled = transfer.fill_rest(task.grid(), all);
        self.spare_runs = found;
        filled?;
        result?;
        match begun.sound {
            Some((_, error)) => Err(error),
            None => Ok(all.len() as u64),
        }
    }

    /// Returns the number of chunks.
    fn decode_share(
        &mut self,
        claimed: Claimed,
        mut share: ShuffleTask,
        mut begun: Begun,
        open: &mut OpenDataset,
    ) -> Result<u64, TaskError> {
        let (plan, control, task) = (self.plan, self.control, &claimed.task);
        let mut found = std::mem::take(&mut begun.runs);
        if !open.queue.is_async() {
            // Some chunks may be kept by now.
            fetches(&mut share, &self.cache, &open.queue, &mut found);
        }
        let tape = plan.tape(task);
        let bytes = tape_bytes(tape, claimed.rows());
        self.entered[task.tape as usize].enter(&self.maps.tapes[task.tape as usize], bytes);
        let mut transfer = open.transfer(control.record(self.me), |interleaver| PlaceShuffled {
            dataset: plan.dataset(task),
            share: &share,
            // SAFETY: this reader owns the task; of the window only places of the share's rows are
            // written, and the others are never read.
            window: unsafe { self.rows(&claimed) },
            caches: tape.caches,
            cache: &mut self.cache,
            interleaver,
            offset: Vec::new(),
        });
        let fetches = Fetches {
            runs: &found,
            tickets: &begun.tickets,
            turn: turn(&control, plan, task, claimed.global),
        };
        let result = transfer.run(&share.chunks, fetches);
        let result = result.and_then(|()| transfer.place_rest());
        self.spare_runs = found;
        result?;
        // A chunk may have been read in parts.
        let fetched = |(read, chunk): (&ChunkRead, &Chunk)| {
            (chunk.byte_offset != UNALLOCATED).then_some(read.number)
        };
        let mut numbers: Vec<u64> = (share.reads.iter().zip(&share.chunks))
            .filter_map(fetched)
            .collect();
        numbers.dedup();
        Ok(numbers.len() as u64)
    }

    /// A task's rows on its tape.
    ///
    /// # Safety
    /// This reader must own the task.
    pub(super) unsafe fn rows<'b>(&self, claimed: &Claimed) -> Out<'b>
    where
        'a: 'b,
    {
        let (at, rows) = (claimed.task.tape as usize, claimed.rows());
        // SAFETY: the caller's promise.
        unsafe {
            tape_rows(
                &self.maps.tapes[at],
                &self.plan.tapes[at],
                rows.start,
                rows.end - rows.start,
            )
        }
    }

    /// All rows of a task lie behind those that can still be delivered.
    fn is_useless(&self, global: u64) -> bool {
        self.useless_row
            .is_some_and(|row| self.plan.ready_rows(global) >= row)
    }

    /// Leave the reason where the parent finds it.
    pub fn fail(&self, global: u64, error: &TaskError) {
        self.set_error(global, self.plan.ready_rows(global), error);
    }

    fn set_error(&self, global: u64, done_row: u64, error: &TaskError) {
        let record = self.record();
        // A reason that nobody marked is of a task that was run again, after a death.
        let stands = |task| self.control.is_failed(task);
        match record.error.task().is_some_and(stands) {
            true => record.error.lower(done_row),
            false => record.set_error(global, done_row, error),
        }
        self.control.pass_turn(global);
        self.control.fail(global);
    }
}

/// The turn of a task that fetches, where tasks take turns.
fn turn<'c>(control: &'c Control, plan: &Plan, task: &Task, global: u64) -> Option<Turn<'c>> {
    let takes_turns = plan.table.source(plan.dataset(task)).turnstile;
    takes_turns.then_some(Turn {
        turnstile: control,
        task: global,
    })
}
