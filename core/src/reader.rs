//! A reader's loop: claim, fetch, decode, publish.
//!
//! Law:
//! 1. A task is idempotent: it writes only its own rows, so it may be run again after a death.
//! 2. Tasks end in the order in which they were claimed, failures too: the parent waits for the
//!    oldest one.
//! 3. Rows are published only after the file was seen unchanged after their last fetch.
//! 4. Whatever goes wrong becomes a record in the control header and a failed slot, never a panic
//!    that leaves the parent waiting.

use crate::control::{Claim, Control, Record};
use crate::failure::TaskError;
use crate::fetch::{DataFile, Fetch, Run, runs};
use crate::filters::FilterErrorKind;
use crate::memory::Mapping;
use crate::plan::{KIND_LIBRARY, Member, Plan, Task};
use crate::work::{Source, Work, add_ns, tape_rows};
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// Bytes and requests that a direct reader keeps in flight.
const FLIGHT_BYTES: u64 = 8 << 20;
const FLIGHT_TASKS: usize = 16;
/// How long a reader sleeps at most before it looks again.
const NAP: Duration = Duration::from_millis(500);

/// Reads rows through an HDF5 library: (what, first row, end row, where to).
pub type LibraryRead<'a> = dyn FnMut(&str, u64, u64, &mut [u8]) -> Result<(), String> + 'a;

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Stopped,
    Failed,
}

/// A claimed task; for direct reads with its requests in flight, or why it cannot be read.
struct Pending {
    global: u64,
    flights: Result<Vec<(Run, u64)>, TaskError>,
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
        let window = window(self.plan);
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
                // An error waits for its turn: tasks before this one can still be delivered.
                let flights = self.begin(global);
                pending.push_back(Pending { global, flights });
            }
            let Some(task) = pending.pop_front() else {
                if claimed_all {
                    return End::Done;
                }
                continue;
            };
            let global = task.global;
            self.record().current.store(global + 1, Relaxed);
            let start = Instant::now();
            if let Err(error) = self.complete(task, library) {
                return self.fail(global, &error);
            }
            self.control.pass_turn(global);
            let next = start.elapsed() / self.plan.n_readers() as u32;
            // Counted first: whoever has the rows finds them in the statistics.
            self.record().tasks.fetch_add(1, Relaxed);
            self.control.publish(global, next);
            self.record().current.store(0, Relaxed);
        }
    }

    fn record(&self) -> &Record {
        self.control.record(self.me)
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
    fn begin(&mut self, global: u64) -> Result<Vec<(Run, u64)>, TaskError> {
        let plan = self.plan;
        let (task, _) = plan.task(global);
        let mut flights = Vec::new();
        if task.kind == KIND_LIBRARY {
            return Ok(flights);
        }
        let (member, control) = (&plan.members[task.member as usize], self.control);
        let place = &mut self.sources[task.member as usize];
        let source = match place {
            Some(source) => source,
            None => place.insert(Source::open(
                member,
                control.record(self.me),
                task.first_chunk,
            )?),
        };
        let chunks = plan.chunks_of(&task);
        source.check(member, chunks, task.first_chunk)?;
        if let Fetch::Direct(queue, _) = &mut source.fetch {
            let mut found = Vec::new();
            runs(chunks, &mut found);
            for run in found {
                let ticket = queue
                    .submit(run.byte_offset, run.len as usize)
                    .map_err(|error| TaskError::read(task.first_chunk, error))?;
                flights.push((run, ticket));
            }
        }
        Ok(flights)
    }

    fn complete(
        &mut self,
        pending: Pending,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let (task, lap_row) = self.plan.task(pending.global);
        let result = pending
            .flights
            .and_then(|flights| self.decode(pending.global, &task, lap_row, flights));
        match result {
            // Perhaps valid, but not for us: the library decides. The task's rows are still ours.
            Err(TaskError::UnknownFilter(_)) => {}
            Err(TaskError::Filter(_, error)) if error.kind == FilterErrorKind::Unsupported => {}
            Ok(()) if task.kind == KIND_LIBRARY => {}
            result => return result,
        }
        self.read_by_library(&task, lap_row, library)
    }

    /// Fetch and decode a task's chunks; nothing to do for the library's tasks.
    fn decode(
        &mut self,
        global: u64,
        task: &Task,
        lap_row: u64,
        flights: Vec<(Run, u64)>,
    ) -> Result<(), TaskError> {
        if task.kind == KIND_LIBRARY {
            return Ok(());
        }
        let plan = self.plan;
        let chunks = plan.chunks_of(task);
        let Some(mut source) = self.sources[task.member as usize].take() else {
            return Err(TaskError::Internal("a task's file is not open".into()));
        };
        let mut work = Work {
            plan,
            member: &plan.members[task.member as usize],
            record: self.control.record(self.me),
            tape: &self.tapes[task.member as usize],
            lap_row,
            first_chunk: task.first_chunk,
        };
        let mut found = std::mem::take(&mut self.spare_runs);
        let result = match &source.fetch {
            Fetch::Direct(..) => work.direct(&mut source, chunks, flights),
            Fetch::Buffered(_) => {
                runs(chunks, &mut found);
                work.buffered(&mut source, chunks, &found, &self.control, global)
            }
        };
        self.spare_runs = found;
        let result = result.and_then(|()| work.unallocated(&mut source, chunks));
        // A file that changed explains any error, and taints rows that decoded well.
        let unchanged = source.fetch.file().check_unchanged();
        self.sources[task.member as usize] = Some(source);
        unchanged.map_err(|error| TaskError::Fetch(task.first_chunk, error))?;
        self.record().chunks.fetch_add(task.n_chunks, Relaxed);
        result
    }

    fn read_by_library(
        &self,
        task: &Task,
        lap_row: u64,
        library: &mut LibraryRead<'_>,
    ) -> Result<(), TaskError> {
        let member: &Member = &self.plan.members[task.member as usize];
        let start = Instant::now();
        let file = DataFile::open(&member.filename, member.fingerprint, false)
            .map_err(|error| TaskError::Fetch(task.first_chunk, error))?;
        let rows = task.row_end - task.row_begin;
        let tape = &self.tapes[task.member as usize];
        // SAFETY: this reader owns the task, so these rows of the tape are its alone.
        let out = unsafe { tape_rows(tape, member, lap_row + task.row_begin, rows) };
        let first = self.plan.first_row();
        let (begin, end) = (first + task.row_begin, first + task.row_end);
        let result = library(&member.library, begin, end, out);
        // A file that changed explains any error.
        file.check_unchanged()
            .map_err(|error| TaskError::Fetch(task.first_chunk, error))?;
        result.map_err(TaskError::Library)?;
        let record = self.record();
        record.library_tasks.fetch_add(1, Relaxed);
        record.decoded_bytes.fetch_add(out.len() as u64, Relaxed);
        add_ns(&record.decode_ns, start);
        Ok(())
    }

    /// Leave the reason where the parent finds it.
    pub fn fail(&self, global: u64, error: &TaskError) -> End {
        self.record().blame(global, error);
        self.control.pass_turn(global);
        self.control.fail(global);
        End::Failed
    }
}

/// Tasks that a reader may hold at a time: one, or for direct reads its share of the ring.
pub fn window(plan: &Plan) -> usize {
    let tasks = plan.tasks();
    if tasks.is_empty() || !plan.members.iter().any(|member| member.direct) {
        return 1;
    }
    let rows = (plan.lap_rows() / tasks.len() as u64).max(1);
    let share = plan.capacity_rows() / rows / plan.n_readers() as u64;
    let task_bytes = rows * plan.members[0].row_bytes.max(1) as u64;
    // Two even of the largest, so that one is on its way while the other is decoded.
    let wanted = (FLIGHT_BYTES / task_bytes.max(1)).clamp(2, FLIGHT_TASKS as u64);
    share.clamp(1, wanted) as usize
}
