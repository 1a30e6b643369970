//! The read plan as a reader and the ring see it: tables in shared memory, checked once.
//!
//! Law:
//! 1. The layout is written by `_multitables/wire/plan_bytes.py` and read here; both number the same words.
//! 2. Every count, offset and product is checked when the plan is opened; later code indexes freely.
//! 3. Tasks cover each row of a lap once on each tape, and say which chunks of the grid have it: a
//!    reader writes all of them, stored or not, before it publishes. A plan that leaves a row to
//!    nobody is refused.
//! 4. A plan never changes, so the slices below are plain shared borrows: a memfd that is not sealed is
//!    refused.
//! 5. This file does no I/O on data files and knows nothing of clocks or processes.

pub use super::dataset::{Chunk, Dataset, DatasetTable, Fingerprint, UNALLOCATED};
pub use super::task::{KIND_LIBRARY, KIND_SHARE, Share, Task, Work};
use super::words::{Memory, Refused, Table, after, header, table};
use crate::shuffle::order::{Listed, Order};
use coverage::{Coverage, has_rows};
use os::memory::{ALL_SEALS, Mapping, sealed_len};
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

mod coverage;
mod ends;
mod whole;

pub const MAGIC: u64 = u64::from_le_bytes(*b"MTPLAN05");
/// An endless stream has this many rows.
pub const ENDLESS: u64 = u64::MAX;
/// A slot's code has room for this many readers (control.rs), and memory for this many slots.
pub const MAX_READERS: u64 = 200;
const MAX_SLOTS: u64 = 1 << 40;
/// Processes that share a ring's blocks.
pub const MAX_CONSUMERS: u64 = 1 << 16;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Header {
    magic: u64,
    total_bytes: u64,
    n_tapes: u64,
    n_tasks: u64,
    /// Words of an order, 0: none; and row numbers that it lists.
    n_order: u64,
    n_listed: u64,
    n_readers: u64,
    n_slots: u64,
    first_row: u64,
    lap_rows: u64,
    end_row: u64,
    capacity_rows: u64,
    block_rows: u64,
    control_bytes: u64,
    ring_bytes: u64,
    /// Not zero: blocks end with the lap, the last one of each may be shorter.
    lap_blocks: u64,
    cache_bytes: u64,
    /// Tables of ends, 0: none (ends.rs).
    n_ends: u64,
    n_consumers: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct TapeRecord {
    dataset: u64,
    at: u64,
    bytes: u64,
    /// Not zero: `Tape::caches`.
    caches: u64,
    /// Which table of ends, where the plan has some.
    ends: u64,
}

/// Where a dataset's rows go: its bytes of the ring.
#[derive(Debug)]
pub struct Tape {
    /// Whose rows it holds.
    pub dataset: usize,
    pub row_bytes: usize,
    pub at: usize,
    pub bytes: usize,
    /// Decoded chunks are worth keeping: others want the rest of their rows.
    pub caches: bool,
    ends: Option<usize>,
}

/// The opened plan.
#[derive(Debug)]
pub struct Plan {
    map: Memory,
    header: Header,
    tasks_at: usize,
    ends_at: usize,
    /// Tasks of a lap, each as often as it is repeated.
    lap_tasks: u64,
    /// Where tasks are repeated: first number in a lap, first task and tasks of each group that takes
    /// turns.
    groups: Vec<(u64, usize, u64)>,
    pub table: Arc<DatasetTable>,
    pub tapes: Vec<Tape>,
    /// Of a stream of shares: the order, and its first epoch.
    pub order: Option<(Order, u64)>,
}

impl Plan {
    /// Bytes that may be a plan; a shortage of memory is no fault of theirs.
    pub fn mapped(fd: BorrowedFd<'_>) -> io::Result<(Mapping, usize)> {
        let len = sealed_len(fd, ALL_SEALS)?;
        Ok((Mapping::new(fd, 0, len, false)?, len))
    }

    pub fn open(fd: BorrowedFd<'_>) -> Result<Plan, Refused> {
        Plan::over(Plan::mapped(fd).map_err(|_| "the plan cannot be mapped")?)
    }

    pub fn over((map, len): (Mapping, usize)) -> Result<Plan, Refused> {
        Plan::checked(Memory::Sealed(Arc::new(map)), len)
    }

    fn checked(map: Memory, len: usize) -> Result<Plan, Refused> {
        // SAFETY: plain words, which do not change (law 4).
        let header = unsafe { header::<Header>(&map, 0, len)? };
        if header.magic != MAGIC || header.total_bytes != len as u64 {
            return Err("the plan's header does not fit its bytes");
        }
        let tapes_at = size_of::<Header>();
        let tasks_at = after::<TapeRecord>(tapes_at, header.n_tapes)?;
        let order_at = after::<Task>(tasks_at, header.n_tasks)?;
        let listed_at = after::<u64>(order_at, header.n_order)?;
        let ends_at = after::<u64>(listed_at, header.n_listed)?;
        let n_ends = header.lap_rows.checked_add(1);
        let n_ends = n_ends.and_then(|each| each.checked_mul(header.n_ends));
        let table_at = after::<u64>(ends_at, n_ends.ok_or("the plan's ends are out of range")?)?;
        let Some(table_len) = len.checked_sub(table_at) else {
            return Err("the plan's tables do not fill it");
        };
        let datasets = DatasetTable::over(map.clone(), table_at, table_len)?;
        // SAFETY: the ranges end before `table_at`, which lies inside the mapping; all offsets are
        // multiples of 8 and the records are plain words, valid for any bytes.
        let (records, words) = unsafe {
            (
                table::<TapeRecord>(&map, tapes_at, header.n_tapes),
                table::<u64>(&map, order_at, header.n_order),
            )
        };
        let tapes = records
            .iter()
            .map(|record| tape(record, &datasets, &header));
        let tapes = tapes.collect::<Result<Vec<_>, _>>()?;
        let order = match words {
            [] => None,
            _ => {
                let listed = Table {
                    map: map.clone(),
                    at: listed_at,
                    count: header.n_listed,
                };
                let rows = tapes
                    .iter()
                    .map(|tape| datasets.datasets[tape.dataset].dims[0]);
                Some(order(words, Arc::new(listed), rows.min())?)
            }
        };
        let mut plan = Plan {
            map,
            header,
            tasks_at,
            ends_at,
            lap_tasks: header.n_tasks,
            groups: Vec::new(),
            table: Arc::new(datasets),
            tapes,
            order,
        };
        plan.check()?;
        plan.number_tasks();
        Ok(plan)
    }

    /// Where tasks are repeated, find those that take turns: each group's first number, its first
    /// task, and how many there are.
    fn number_tasks(&mut self) {
        let tasks = self.tasks();
        if tasks.iter().all(|task| task.repeat() == 1) {
            return;
        }
        let (mut groups, mut next, mut at) = (Vec::new(), 0u64, 0);
        for group in tasks.chunk_by(|a, b| b.takes_turns_with(a)) {
            groups.push((next, at, group.len() as u64));
            let count = group[0].repeat().saturating_mul(group.len() as u64);
            (next, at) = (next.saturating_add(count), at + group.len());
        }
        (self.groups, self.lap_tasks) = (groups, next);
    }

    fn check(&self) -> Result<(), Refused> {
        let header = &self.header;
        let slots_ok = header.n_slots.is_power_of_two() && header.n_slots <= MAX_SLOTS;
        let consumers_ok = (1..=MAX_CONSUMERS).contains(&header.n_consumers);
        if !slots_ok || !consumers_ok || !(1..=MAX_READERS).contains(&header.n_readers) {
            return Err("the plan's slots, readers or consumers are out of range");
        }
        let rows_ok = header.first_row.checked_add(header.lap_rows).is_some()
            && header.lap_rows < ENDLESS / 2
            && header.capacity_rows < ENDLESS / 2
            && (header.end_row == ENDLESS
                || header.lap_rows == header.end_row
                || header.lap_rows > 0 && header.end_row % header.lap_rows == 0);
        if !rows_ok {
            return Err("the plan's rows are out of range");
        }
        if header.block_rows == 0 || header.capacity_rows < header.block_rows {
            return Err("the plan's ring is smaller than a block");
        }
        self.check_ends()?;
        self.check_tasks()
    }

    fn check_tasks(&self) -> Result<(), Refused> {
        let header = &self.header;
        let range = "a task of the plan is out of range";
        let mut last = 0;
        let mut alike: Option<&Task> = None;
        let mut covered = vec![Coverage::default(); self.tapes.len()];
        for task in self.tasks() {
            let tape = self.tapes.get(task.tape as usize).ok_or(range)?;
            if task.dataset as usize != tape.dataset {
                return Err("a task of the plan has another dataset than its tape");
            }
            let lap_rows = self.rows_of_lap(tape);
            let rows = task.row_end.saturating_sub(task.row_begin);
            let more = rows.checked_mul(task.repeat().wrapping_sub(1));
            let begin = more.and_then(|more| task.row_begin.checked_add(more));
            let begin = begin.filter(|&begin| begin <= lap_rows).ok_or(range)?;
            // Tasks of several tapes that are repeated together take turns.
            let turns = alike.is_some_and(|before| task.takes_turns_with(before));
            let span = self.span(task);
            if span.start < last && !turns
                || rows == 0
                || rows > lap_rows - begin
                || span.end - span.start > header.capacity_rows
                || !self.fits(task)
            {
                return Err(range);
            }
            last = begin - task.row_begin + span.start;
            alike = Some(task);
            covered[task.tape as usize].add(task, self.dataset(task), begin + rows)?;
        }
        let all = |(covered, tape): (&Coverage, &Tape)| {
            // Rows without bytes are nobody's.
            covered.is_whole(self.rows_of_lap(tape)) || tape.row_bytes == 0
        };
        match covered.iter().zip(&self.tapes).all(all) {
            true => Ok(()),
            false => Err("rows of the plan have no task"),
        }
    }

    /// What a task names besides its rows is there.
    fn fits(&self, task: &Task) -> bool {
        match task.work() {
            Work::Library => true,
            Work::Chunks(grid) => {
                let has_rows = has_rows(
                    self.dataset(task),
                    task,
                    grid,
                    self.first_row(self.tape(task)),
                );
                has_rows && (task.repeat() == 1 || self.records(task).is_empty())
            }
            Work::Share(share) => {
                let Some((order, _)) = &self.order else {
                    return false;
                };
                let rows = task.row_end - task.row_begin;
                let window = |position: u64| position / order.window_rows;
                let end = share.position.checked_add(rows);
                share.number < share.count
                    && rows <= u64::from(u32::MAX)
                    && end.is_some_and(|end| {
                        end <= order.n_rows && window(share.position) == window(end - 1)
                    })
            }
        }
    }

    pub fn tasks(&self) -> &[Task] {
        // SAFETY: the range was checked in `open`; the bytes do not change and are plain words.
        unsafe { table::<Task>(&self.map, self.tasks_at, self.header.n_tasks) }
    }

    /// A task's dataset.
    pub fn dataset(&self, task: &Task) -> &Dataset {
        &self.table.datasets[task.dataset as usize]
    }

    /// A task's destination.
    pub fn tape(&self, task: &Task) -> &Tape {
        &self.tapes[task.tape as usize]
    }

    /// The numbers of a task's stored chunks; of a share they are not known before its window is.
    pub fn records(&self, task: &Task) -> Range<usize> {
        self.table.stored(self.dataset(task), task.grid())
    }

    pub fn n_readers(&self) -> usize {
        self.header.n_readers as usize
    }

    pub fn n_slots(&self) -> usize {
        self.header.n_slots as usize
    }

    /// Processes that share the blocks.
    pub fn n_consumers(&self) -> usize {
        self.header.n_consumers as usize
    }

    /// Steps of a lap (ends.rs), as all that is named rows below.
    pub fn lap_rows(&self) -> u64 {
        self.header.lap_rows
    }

    /// Rows of a block at most, its lap's rows if blocks end with the lap.
    pub fn lap_blocks(&self) -> Option<u64> {
        (self.header.lap_blocks != 0 && self.header.lap_rows > 0)
            .then(|| self.header.lap_rows.div_ceil(self.header.block_rows))
    }

    /// Bytes of decoded chunks that a reader may keep.
    pub fn cache_bytes(&self) -> u64 {
        self.header.cache_bytes
    }

    /// Rows on the whole tape, `ENDLESS` for a cyclic stream.
    pub fn end_row(&self) -> u64 {
        self.header.end_row
    }

    pub fn capacity_rows(&self) -> u64 {
        self.header.capacity_rows
    }

    pub fn block_rows(&self) -> u64 {
        self.header.block_rows
    }

    /// About as many tasks as fill `rows` rows of the tape.
    pub fn tasks_in(&self, rows: u64) -> u64 {
        let tasks = u128::from(rows) * u128::from(self.lap_tasks);
        (tasks / u128::from(self.lap_rows().max(1))) as u64
    }

    pub fn control_bytes(&self) -> usize {
        self.header.control_bytes as usize
    }

    pub fn ring_bytes(&self) -> usize {
        self.header.ring_bytes as usize
    }

    /// Tasks on the whole tape; `ENDLESS` for a cyclic stream.
    pub fn total_tasks(&self) -> u64 {
        if self.header.end_row == ENDLESS && self.header.n_tasks > 0 {
            ENDLESS
        } else {
            let laps = self.header.end_row / self.header.lap_rows.max(1);
            self.lap_tasks.saturating_mul(laps)
        }
    }

    /// Tasks of one lap.
    pub fn lap_tasks(&self) -> u64 {
        self.lap_tasks
    }

    /// The task numbered `global` on the tape, and the tape row at which its lap begins.
    pub fn task(&self, global: u64) -> (Task, u64) {
        let n = self.lap_tasks;
        let (lap, number) = (global / n, global % n);
        let lap_row = lap * self.header.lap_rows;
        if self.groups.is_empty() {
            return (self.tasks()[number as usize], lap_row);
        }
        let group = self.groups.partition_point(|(first, ..)| *first <= number) - 1;
        let (first, at, len) = self.groups[group];
        let (turn, which) = ((number - first) / len, (number - first) % len);
        let mut task = self.tasks()[at + which as usize];
        let before = turn * (task.row_end - task.row_begin);
        task.row_begin += before;
        task.row_end += before;
        (task, lap_row)
    }

    /// The lap in which the task numbered `global` lies.
    pub fn lap(&self, global: u64) -> u64 {
        global / self.lap_tasks.max(1)
    }

    /// Where a task lies: dataset, its rows, and a chunk of it as (number in the file, byte offset,
    /// stored size): the plan's chunk of that number, or else the task's only one.
    pub fn address(
        &self,
        task: u64,
        chunk: Option<u64>,
    ) -> (u32, u64, u64, Option<(u64, u64, u64)>) {
        if self.tasks().is_empty() {
            let first = self.header.first_row;
            return (0, first, first, None);
        }
        let (task, _) = self.task(task);
        let first = self.first_row(self.tape(&task));
        let records = self.records(&task);
        let only = (records.len() == 1).then_some(records.start as u64);
        let found = chunk.or(only);
        // Of a virtual dataset, it may be a chunk of another one.
        let datasets = || (0u32..).zip(&self.table.datasets);
        let has = |of: &Dataset, number: u64| {
            (of.chunks_at..of.chunks_at + of.n_chunks).contains(&number)
        };
        let of = chunk.and_then(|number| datasets().find(|(_, dataset)| has(dataset, number)));
        let named = of.map_or(task.dataset, |(number, _)| number);
        let found = found.and_then(|number| self.table.chunks().get(number as usize));
        let dataset = self.dataset(&task);
        let found = found.map(|chunk| {
            let own = self.table.datasets.get(named as usize).unwrap_or(dataset);
            let number = own.number_in_file(chunk.grid_index);
            (number, chunk.byte_offset, chunk.stored_size)
        });
        match task.share() {
            // Its rows may be any; a chunk says which.
            Some(_) => (named, 0, dataset.dims[0], found),
            None => (named, first + task.row_begin, first + task.row_end, found),
        }
    }

    /// Rows of the tape that are complete when every task before `frontier` is published.
    pub fn ready_rows(&self, frontier: u64) -> u64 {
        if frontier >= self.total_tasks() {
            return self.header.end_row;
        }
        let (task, lap_row) = self.task(frontier);
        lap_row + self.span(&task).start
    }
}

fn tape(record: &TapeRecord, datasets: &DatasetTable, header: &Header) -> Result<Tape, Refused> {
    let dataset = usize::try_from(record.dataset).unwrap_or(usize::MAX);
    let Some(row_bytes) = datasets
        .datasets
        .get(dataset)
        .map(|dataset| dataset.row_bytes)
    else {
        return Err("a tape of the plan has no dataset");
    };
    let end = record.at.checked_add(record.bytes);
    let rows = header.capacity_rows.checked_mul(row_bytes as u64);
    let has_ends = header.n_ends > 0;
    if end.is_none_or(|end| end > header.ring_bytes)
        || record.at < header.control_bytes
        || !has_ends && rows.is_none_or(|bytes| bytes > record.bytes)
    {
        return Err("a tape of the plan lies outside the ring");
    }
    if has_ends && record.ends >= header.n_ends {
        return Err("a tape of the plan has no ends");
    }
    Ok(Tape {
        dataset,
        row_bytes,
        at: record.at as usize,
        bytes: record.bytes as usize,
        caches: record.caches != 0,
        ends: has_ends.then_some(record.ends as usize),
    })
}

/// The order of a stream of shares, and its first epoch.
fn order(words: &[u64], listed: Listed, end_row: Option<u64>) -> Result<(Order, u64), Refused> {
    let words = words
        .try_into()
        .map_err(|_| "the order is of another kind")?;
    Order::from_words(words, listed, end_row.unwrap_or(0))
}
