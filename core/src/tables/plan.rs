//! The read plan as a reader and the ring see it: tables in shared memory, checked once.
//!
//! Law:
//! 1. The layout is written by `_multitables/wire/plan_bytes.py` and read here; both number the same words.
//! 2. Every count, offset and product is checked when the plan is opened; later code indexes freely.
//! 3. Tasks cover each row of a lap once for each member, and say which chunks of the grid have it: a
//!    reader writes all of them, stored or not, before it publishes. A plan that leaves a row to
//!    nobody is refused.
//! 4. A plan never changes, so the slices below are plain shared borrows: its memfd is sealed, or
//!    it is the catalogue of a dataset, whose region of the arena is not written again while the
//!    dataset lives. After that nothing of it is read.
//! 5. This file does no I/O on data files and knows nothing of clocks or processes.

pub use super::dataset::{Fingerprint, Member, StringFix};
use super::dataset::{MemberRecord, member};
use super::words::{Header, Refused, Table, part, table};
use crate::os::memory::{Mapping, file_len};
use crate::ring::control::control_bytes;
use crate::shuffle::order::{Listed, Order};
use cover::Cover;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

mod cover;

pub const MAGIC: u64 = u64::from_le_bytes(*b"MTPLAN03");
/// The address of a chunk that was never allocated in the file, as if it had no record: its elements
/// are the fill value.
pub const UNALLOCATED: u64 = u64::MAX;
/// An endless stream has this many rows.
pub const ENDLESS: u64 = u64::MAX;
/// `Task::kind`: read through an HDF5 library instead of fetch and decode.
pub const KIND_LIBRARY: u32 = 1;
/// `Task::kind`: a share of a window of the epoch's order; its rows go where the order says.
pub const KIND_SHARE: u32 = 2;

/// A slot's code has room for so many readers (control.rs), and memory for so many slots.
pub const MAX_READERS: u64 = 200;
const MAX_SLOTS: u64 = 1 << 40;

/// One piece of work: some chunks of one member's grid, stored or not, and the rows of the lap that
/// they touch. Of chunks that were never stored, `repeat` such pieces follow each other; those of
/// several members, for the same rows, take turns.
/// Of `KIND_SHARE`: the rows are a whole window, `first_chunk` is the position at which it begins,
/// and `n_chunks` says which share of it this is (low half) of how many (high half).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub member: u32,
    pub kind: u32,
    pub row_begin: u64,
    pub row_end: u64,
    pub first_chunk: u64,
    pub n_chunks: u64,
    pub repeat: u64,
}

/// One stored chunk; those of a member are sorted by their number in its grid.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    pub grid_index: u64,
    pub byte_offset: u64,
    pub stored_size: u64,
    pub filter_mask: u32,
    pub reserved: u32,
}

/// The opened plan.
#[derive(Debug)]
pub struct Plan {
    map: Arc<Mapping>,
    header: Header,
    tasks_at: usize,
    chunks_at: usize,
    /// Tasks of a lap, each as often as it is repeated.
    lap_tasks: u64,
    /// Where tasks are repeated: first number in a lap, first task and tasks of each group that takes
    /// turns.
    groups: Vec<(u64, usize, u64)>,
    pub members: Vec<Member>,
    /// Of a stream of shares.
    pub order: Option<(Order, u64)>,
}

impl Plan {
    pub fn open(fd: BorrowedFd<'_>) -> Result<Plan, Refused> {
        let len = file_len(fd).map_err(|_| "the plan cannot be read")?;
        let map = Mapping::new(fd, 0, len, false).map_err(|_| "the plan cannot be mapped")?;
        Plan::over(Arc::new(map), 0, len)
    }

    /// The plan in `len` bytes from `at` of a mapping, in which it does not change (law 3).
    pub fn over(map: Arc<Mapping>, at: usize, len: usize) -> Result<Plan, Refused> {
        if len < size_of::<Header>() {
            return Err("the plan is shorter than its header");
        }
        if at % 8 != 0 || at.checked_add(len).is_none_or(|end| end > map.len()) {
            return Err("the plan lies outside its memory");
        }
        // SAFETY: the mapping is page aligned, so `at` is aligned for words; at least a header of
        // it lies there, as just checked, and never changes; Header is plain words.
        let header = unsafe { *map.base().add(at).cast::<Header>() };
        if header.magic != MAGIC || header.total_bytes != len as u64 {
            return Err("the plan's header does not fit its bytes");
        }
        let members_at = at + size_of::<Header>();
        let tasks_at = after(members_at, header.n_members, size_of::<MemberRecord>())?;
        let chunks_at = after(tasks_at, header.n_tasks, size_of::<Task>())?;
        let listed_at = after(chunks_at, header.n_chunks, size_of::<Chunk>())?;
        let words_at = after(listed_at, header.n_listed, 8)?;
        let blob_at = after(words_at, header.n_words, 8)?;
        if after(blob_at, header.n_blob, 1)? != at + len {
            return Err("the plan's tables do not fill it");
        }
        // SAFETY: the ranges were checked against the mapping's length just above; all offsets are
        // multiples of 8 and the records are plain words, valid for any bytes.
        let (records, words, blob) = unsafe {
            (
                table::<MemberRecord>(&map, members_at, header.n_members),
                table::<u64>(&map, words_at, header.n_words),
                table::<u8>(&map, blob_at, header.n_blob),
            )
        };
        let members = records
            .iter()
            .map(|record| member(record, words, blob, &header))
            .collect::<Result<Vec<_>, _>>()?;
        let order = match header.n_order {
            0 => None,
            _ => {
                let listed = Table {
                    map: map.clone(),
                    at: listed_at,
                    count: header.n_listed,
                };
                Some(order(words, Arc::new(listed), &header, &members)?)
            }
        };
        let mut plan = Plan {
            map,
            header,
            tasks_at,
            chunks_at,
            lap_tasks: header.n_tasks,
            groups: Vec::new(),
            members,
            order,
        };
        plan.check_chunks()?;
        plan.check()?;
        plan.number_tasks();
        Ok(plan)
    }

    /// A member's chunks are there, in order, and chunks of its grid.
    fn check_chunks(&self) -> Result<(), Refused> {
        for member in &self.members {
            let end = member.chunks_at.checked_add(member.n_chunks);
            if end.is_none_or(|end| end > self.header.n_chunks) {
                return Err("the chunks of a dataset are out of range");
            }
            let chunks = self.chunks_of(member);
            let sorted = chunks.is_sorted_by(|a, b| a.grid_index < b.grid_index);
            let last = chunks.last();
            if !sorted || last.is_some_and(|last| last.grid_index >= member.n_cells) {
                return Err("a chunk of the plan lies outside its grid");
            }
        }
        Ok(())
    }

    /// Where tasks are repeated, find those that take turns: each group's first number, its first
    /// task, and how many there are.
    fn number_tasks(&mut self) {
        let tasks = self.tasks();
        if tasks.iter().all(|task| task.repeat == 1) {
            return;
        }
        let (mut groups, mut next, mut at) = (Vec::new(), 0u64, 0);
        for group in tasks.chunk_by(|a, b| b.takes_turns_with(a)) {
            groups.push((next, at, group.len() as u64));
            let count = group[0].repeat.saturating_mul(group.len() as u64);
            (next, at) = (next.saturating_add(count), at + group.len());
        }
        (self.groups, self.lap_tasks) = (groups, next);
    }

    fn check(&self) -> Result<(), Refused> {
        let header = &self.header;
        let slots_ok = header.n_slots.is_power_of_two() && header.n_slots <= MAX_SLOTS;
        if !slots_ok || header.n_readers == 0 || header.n_readers > MAX_READERS {
            return Err("the plan's slots or readers are out of range");
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
        let mut last = 0;
        let mut alike: Option<&Task> = None;
        let mut covers = vec![Cover::default(); self.members.len()];
        for task in self.tasks() {
            let Some(cover) = covers.get_mut(task.member as usize) else {
                return Err("a task of the plan is out of range");
            };
            let rows = task.row_end.saturating_sub(task.row_begin);
            let more = rows.checked_mul(task.repeat.wrapping_sub(1));
            let begin = more.and_then(|more| task.row_begin.checked_add(more));
            let Some(begin) = begin.filter(|&begin| begin <= header.lap_rows) else {
                return Err("a task of the plan is out of range");
            };
            // Tasks of several members that are repeated together take turns.
            let turns = alike.is_some_and(|before| task.takes_turns_with(before));
            if task.row_begin < last && !turns
                || rows == 0
                || rows > header.lap_rows - begin
                || rows > header.capacity_rows
                || !self.fits(task)
            {
                return Err("a task of the plan is out of range");
            }
            (last, alike) = (begin, Some(task));
            cover.add(task, &self.members[task.member as usize], begin + rows)?;
        }
        let all = |(cover, member): (&Cover, &Member)| {
            // Rows without bytes are nobody's.
            cover.is_whole(header.lap_rows) || member.row_bytes == 0
        };
        match covers.iter().zip(&self.members).all(all) {
            true => Ok(()),
            false => Err("rows of the plan have no task"),
        }
    }

    /// What a task names besides its rows is there.
    fn fits(&self, task: &Task) -> bool {
        if task.kind != KIND_SHARE {
            let member = &self.members[task.member as usize];
            let chunks = task.kind == KIND_LIBRARY || member.has_rows(task, self.first_row());
            return chunks && (task.repeat == 1 || self.records(task).is_empty());
        }
        if task.repeat != 1 {
            return false;
        }
        let Some((order, _)) = &self.order else {
            return false;
        };
        let rows = task.row_end - task.row_begin;
        let window = |position: u64| position / order.window_rows;
        let end = task.first_chunk.checked_add(rows);
        let (share, shares) = task.share();
        share < shares
            && rows <= u64::from(u32::MAX)
            && end.is_some_and(|end| {
                end <= order.n_rows && window(task.first_chunk) == window(end - 1)
            })
    }

    pub fn tasks(&self) -> &[Task] {
        // SAFETY: the range was checked in `over`; the bytes do not change and are plain words.
        unsafe { table::<Task>(&self.map, self.tasks_at, self.header.n_tasks) }
    }

    pub fn chunks(&self) -> &[Chunk] {
        // SAFETY: as in `tasks`.
        unsafe { table::<Chunk>(&self.map, self.chunks_at, self.header.n_chunks) }
    }

    /// A member's stored chunks.
    pub fn chunks_of(&self, member: &Member) -> &[Chunk] {
        let at = member.chunks_at as usize;
        &self.chunks()[at..at + member.n_chunks as usize]
    }

    /// The numbers of a task's stored chunks; of a share they are not known before its window is.
    pub fn records(&self, task: &Task) -> Range<usize> {
        let member = &self.members[task.member as usize];
        let cells = match task.kind {
            KIND_SHARE | KIND_LIBRARY => 0..0,
            _ => task.first_chunk..task.first_chunk + task.n_chunks,
        };
        self.stored(member, cells)
    }

    /// The numbers of the stored ones of a member's chunks.
    pub fn stored(&self, member: &Member, cells: Range<u64>) -> Range<usize> {
        let (chunks, at) = (self.chunks_of(member), member.chunks_at as usize);
        at + place(chunks, cells.start)..at + place(chunks, cells.end)
    }

    pub fn n_readers(&self) -> usize {
        self.header.n_readers as usize
    }

    pub fn n_slots(&self) -> usize {
        self.header.n_slots as usize
    }

    /// Row of the dataset at which a lap begins.
    pub fn first_row(&self) -> u64 {
        self.header.first_row
    }

    pub fn lap_rows(&self) -> u64 {
        self.header.lap_rows
    }

    /// Rows of a block at most, its lap's rows if blocks end with the lap.
    pub fn lap_blocks(&self) -> Option<u64> {
        (self.header.lap_blocks != 0 && self.header.lap_rows > 0)
            .then(|| self.header.lap_rows.div_ceil(self.header.block_rows))
    }

    /// Bytes of decoded chunks that a reader may keep.
    pub fn keep_bytes(&self) -> u64 {
        self.header.keep_bytes
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

    /// About as many tasks as fill so many rows of the tape.
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

    /// Where a task lies: member, rows of the dataset, and a chunk of it as (grid index, byte
    /// offset, stored size): the plan's chunk of that number, or else the task's only one.
    pub fn address(
        &self,
        task: u64,
        chunk: Option<u64>,
    ) -> (u32, u64, u64, Option<(u64, u64, u64)>) {
        if self.tasks().is_empty() {
            return (0, self.first_row(), self.first_row(), None);
        }
        let (record, _) = self.task(task);
        let shares = record.kind == KIND_SHARE;
        let records = self.records(&record);
        let only = (records.len() == 1).then_some(records.start as u64);
        let found = chunk.or(only);
        let found = found.and_then(|number| self.chunks().get(number as usize));
        if shares {
            // Its rows may be any; a chunk says which.
            let rows = self.members[record.member as usize].dims[0];
            let found = found.map(|chunk| (chunk.grid_index, chunk.byte_offset, chunk.stored_size));
            return (record.member, 0, rows, found);
        }
        let first = self.first_row();
        (
            record.member,
            first + record.row_begin,
            first + record.row_end,
            found.map(|chunk| (chunk.grid_index, chunk.byte_offset, chunk.stored_size)),
        )
    }

    /// The control header has room for its readers and slots.
    pub fn control_fits(&self) -> bool {
        self.control_bytes() >= control_bytes(self.n_readers(), self.n_slots())
    }

    /// Rows of the tape that are complete when every task before `frontier` is published.
    pub fn ready_rows(&self, frontier: u64) -> u64 {
        if frontier >= self.total_tasks() {
            return self.header.end_row;
        }
        let (task, lap_row) = self.task(frontier);
        lap_row + task.row_begin
    }
}

impl Task {
    /// Both are repeated, for the same rows.
    fn takes_turns_with(&self, other: &Task) -> bool {
        let rows = |task: &Task| (task.row_begin, task.row_end, task.repeat);
        self.repeat > 1 && rows(self) == rows(other)
    }

    /// Which share of its window, of how many.
    pub fn share(&self) -> (u32, u32) {
        (self.n_chunks as u32, (self.n_chunks >> 32) as u32)
    }
}

/// The order of a stream of shares, and its first epoch.
fn order(
    words: &[u64],
    listed: Listed,
    header: &Header,
    members: &[Member],
) -> Result<(Order, u64), Refused> {
    let words = part(words, header.order_at, header.n_order)?;
    let words = words
        .try_into()
        .map_err(|_| "the order is of another kind")?;
    let end_row = members.iter().map(|member| member.dims[0]).min();
    let (order, first_epoch) = Order::from_words(words, listed, end_row.unwrap_or(0))?;
    Ok((order, first_epoch))
}

/// How many of these chunks, which are sorted, come before a chunk of the grid.
fn place(chunks: &[Chunk], cell: u64) -> usize {
    let Some(first) = chunks.first() else {
        return 0;
    };
    // Where nothing is missing it is where it is expected.
    let guess = cell.saturating_sub(first.grid_index);
    let guess = usize::try_from(guess).map_or(chunks.len(), |guess| guess.min(chunks.len()));
    let before = guess == 0 || chunks[guess - 1].grid_index < cell;
    let behind = chunks.get(guess).is_none_or(|next| next.grid_index >= cell);
    match before && behind {
        true => guess,
        false => chunks.partition_point(|chunk| chunk.grid_index < cell),
    }
}

fn after(at: usize, count: u64, each: usize) -> Result<usize, Refused> {
    usize::try_from(count)
        .ok()
        .and_then(|n| n.checked_mul(each))
        .and_then(|bytes| at.checked_add(bytes))
        .ok_or("a table of the plan is too large")
}
