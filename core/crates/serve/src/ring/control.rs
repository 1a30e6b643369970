//! The ring's control header: who has claimed, fetched, published and released what.
//!
//! Law:
//! 1. Everything here is atomics in shared memory; a process may die between any two of them.
//! 2. A task is owned by the reader whose number stands in its slot. Only its owner publishes it, so a
//!    dead reader's tasks are found, and run again, without guessing.
//! 3. A task may be claimed only when its last row fits under tail + capacity, in tape order, so
//!    that the oldest unreleased block can always be completed: there is no deadlock.
//! 4. Sleepers are woken only when they said that they sleep: no system call in a running stream.
//! 5. This file knows rows and tasks, never bytes, files or Python.
//!
//! A slot holds `(task + 1) << 8 | code`, code being a reader's number + 1, FAILED or PUBLISHED.
//! Slots are reused: the plan has at least as many as tasks can begin within the ring's capacity.

use engine::counters::{RECORD_BYTES, Record, STATE_FAILED, STATE_FINISHED};
use engine::fetch::queue::Turnstile;
use os::clock::now_ns;
use os::futex;
use os::sync::{AtomicU32, AtomicU64, Pad, processor};
use os::turns::Turns;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;
use tables::plan::{ENDLESS, Plan};

const PUBLISHED: u64 = 255;
const FAILED: u64 = 254;

/// Bytes before the readers' records.
const HEAD_BYTES: usize = 1024;

/// A consumer that outruns the readers is not woken for each task, which would take time from the
/// readers and gain nothing, but for several at once, as long as it has not to wait longer.
const GATHER: Duration = Duration::from_millis(1);

/// The fields that all share, each group on a cache line of its own.
#[repr(C)]
struct Head {
    next_task: AtomicU64,
    _pad0: Pad<15>,
    tail_row: AtomicU64,
    _pad1: Pad<15>,
    published: AtomicU64,
    wake_plenty: AtomicU64,
    /// `!enough`, so that zero is never enough.
    wake_enough: AtomicU64,
    armed_ns: AtomicU64,
    wake_word: AtomicU32,
    /// The processor on which the parent fell asleep.
    parent_cpu: AtomicU32,
    _pad2: Pad<11>,
    space_word: AtomicU32,
    space_waiting: AtomicU32,
    stop: AtomicU32,
    /// Threads leave the ring to processes.
    handed_over: AtomicU32,
    _pad3: Pad<14>,
    turns: Turns,
}

const _: () = assert!(size_of::<Head>() <= HEAD_BYTES);

/// Bytes that a control header takes.
pub fn control_bytes(n_readers: usize, n_slots: usize, n_consumers: usize) -> usize {
    HEAD_BYTES + n_readers * RECORD_BYTES + (n_slots + n_consumers) * 8
}

/// A plan's control header has room for its readers, slots and consumers.
pub fn control_fits(plan: &Plan) -> bool {
    plan.control_bytes() >= control_bytes(plan.n_readers(), plan.n_slots(), plan.n_consumers())
}

/// Why a claim returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    Task(u64),
    /// The ring is full (only from `try_claim`).
    Full,
    /// Every task of the stream has been claimed.
    Done,
    /// The parent ended the stream.
    Stopped,
}

/// A view of the control header; the memory belongs to a mapping that outlives it.
#[derive(Clone, Copy)]
pub struct Control {
    base: *mut u8,
    n_readers: usize,
    n_slots: usize,
    n_consumers: usize,
}

// SAFETY: all access goes through atomics.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Control {
    /// # Safety
    /// `base` must point at `control_bytes(...)` bytes of these numbers, 8-aligned, zero when made,
    /// that stay mapped while this value or a copy of it is in use.
    pub unsafe fn new(
        base: *mut u8,
        n_readers: usize,
        n_slots: usize,
        n_consumers: usize,
    ) -> Control {
        Control {
            base,
            n_readers,
            n_slots,
            n_consumers,
        }
    }

    /// Make a header that nobody uses what a new one for `plan` is.
    pub fn clear(&self, plan: &Plan) {
        for at in (0..plan.control_bytes()).step_by(8) {
            // SAFETY: `new`'s promise; all of a header is atomics.
            let word = unsafe { &*self.base.add(at).cast::<AtomicU64>() };
            word.store(0, Relaxed);
        }
    }

    fn head(&self) -> &Head {
        // SAFETY: `new`'s promise; all of a head is atomics, which others may write at any time.
        unsafe { &*self.base.cast::<Head>() }
    }

    pub fn record(&self, reader: usize) -> &Record {
        assert!(reader < self.n_readers);
        // SAFETY: `new`'s promise and the check above; records are 8-aligned.
        unsafe {
            &*self
                .base
                .add(HEAD_BYTES + reader * RECORD_BYTES)
                .cast::<Record>()
        }
    }

    fn slots(&self) -> &[AtomicU64] {
        self.words(0, self.n_slots)
    }

    /// The row before which each consumer has released everything.
    fn tails(&self) -> &[AtomicU64] {
        self.words(self.n_slots, self.n_consumers)
    }

    /// Words behind the readers' records.
    fn words(&self, first: usize, count: usize) -> &[AtomicU64] {
        let at = HEAD_BYTES + self.n_readers * RECORD_BYTES + 8 * first;
        // SAFETY: `new`'s promise.
        unsafe { std::slice::from_raw_parts(self.base.add(at).cast::<AtomicU64>(), count) }
    }

    fn slot(&self, task: u64) -> &AtomicU64 {
        &self.slots()[(task as usize) & (self.n_slots - 1)]
    }

    // ---- readers

    /// Claim the next task if it fits into the ring now.
    pub fn try_claim(&self, plan: &Plan, reader: usize) -> Claim {
        let head = self.head();
        loop {
            if self.stopped() {
                return Claim::Stopped;
            }
            let next = head.next_task.load(SeqCst);
            if next >= plan.total_tasks() {
                return Claim::Done;
            }
            if !self.fits(plan, next) {
                return Claim::Full;
            }
            let slot = self.slot(next);
            let seen = slot.load(SeqCst);
            if seen >> 8 > next {
                // Another reader has it and was stopped before it moved the counter: help.
                let _ = head
                    .next_task
                    .compare_exchange(next, next + 1, SeqCst, SeqCst);
                continue;
            }
            let mine = ((next + 1) << 8) | (reader as u64 + 1);
            if slot.compare_exchange(seen, mine, SeqCst, SeqCst).is_ok() {
                let _ = head
                    .next_task
                    .compare_exchange(next, next + 1, SeqCst, SeqCst);
                return Claim::Task(next);
            }
        }
    }

    fn fits(&self, plan: &Plan, task: u64) -> bool {
        let (record, lap_row) = plan.task(task);
        lap_row + plan.span(&record).end <= self.tail_row().saturating_add(plan.capacity_rows())
    }

    /// Sleep until rows were released, the stream was stopped, or `limit` has passed.
    pub fn wait_for_space(&self, plan: &Plan, limit: Duration) {
        let head = self.head();
        self.tell_rest();
        // The word first: who takes the flag away moves it, and this one must not sleep on it then.
        let word = head.space_word.load(SeqCst);
        head.space_waiting.store(1, SeqCst);
        let next = head.next_task.load(SeqCst);
        if !self.stopped() && next < plan.total_tasks() && !self.fits(plan, next) {
            futex::wait(&head.space_word, word, limit);
        }
    }

    /// Tasks that a reader of this number claimed before it died, oldest first. What it published it
    /// may not have said: the parent looks again.
    pub fn inherited(&self, reader: usize) -> Vec<u64> {
        self.wake_consumers();
        let mut tasks: Vec<u64> = self
            .slots()
            .iter()
            .map(|slot| slot.load(SeqCst))
            .filter(|value| value & 255 == reader as u64 + 1)
            .map(|value| (value >> 8) - 1)
            .collect();
        tasks.sort_unstable();
        tasks
    }

    /// The rows of `task` are in the ring; the next one's are expected after `next`.
    pub fn publish(&self, reader: usize, task: u64, next: Duration) {
        let cpu = u64::from(processor());
        self.record(reader).cpu.store(cpu, Relaxed);
        self.slot(task).store(((task + 1) << 8) | PUBLISHED, SeqCst);
        let published = self.head().published.fetch_add(1, SeqCst) + 1;
        self.tell_parent(published, next, Some(reader));
    }

    /// One more is done.
    pub fn count(&self, next: Duration) {
        let published = self.head().published.fetch_add(1, SeqCst) + 1;
        self.tell_parent(published, next, None);
    }

    /// Nothing more comes from a reader for a while: what is there has to do. Its record says that
    /// it has no task in hand.
    pub fn tell_rest(&self) {
        let published = self.head().published.load(SeqCst);
        self.tell_parent(published, GATHER, None);
    }

    /// Wake the parent if it waits for this many, or for fewer and the next come too late for it.
    fn tell_parent(&self, published: u64, next: Duration, reader: Option<usize>) {
        let head = self.head();
        let plenty = head.wake_plenty.load(SeqCst);
        if plenty == 0 || published < !head.wake_enough.load(SeqCst) {
            return;
        }
        // Until the next one is there.
        let since = now_ns().saturating_sub(head.armed_ns.load(SeqCst));
        let waited = Duration::from_nanos(since).saturating_add(next);
        if published < plenty && waited < GATHER {
            return;
        }
        let can_wait = published < plenty + self.n_readers as u64 && waited < 2 * GATHER;
        if !can_wait || !reader.is_some_and(|reader| self.is_another_nearer(reader)) {
            self.wake_parent();
        }
    }

    /// Another reader is at work where the parent fell asleep, and will soon publish. Woken from
    /// there, the parent takes a third of the time to begin (on a virtual machine 7 us, and 20 when
    /// another processor has to be told), which it takes from the readers where all share cores.
    fn is_another_nearer(&self, reader: usize) -> bool {
        let near = u64::from(self.head().parent_cpu.load(Relaxed));
        let is_there = |reader: usize| {
            let record = self.record(reader);
            record.cpu.load(Relaxed) == near && record.current.load(SeqCst) != 0
        };
        let mut others = (0..self.n_readers).filter(|&other| other != reader);
        self.record(reader).cpu.load(Relaxed) != near && others.any(is_there)
    }

    /// `task` cannot be read; the reason stands in the reader's record.
    pub fn fail(&self, task: u64) {
        self.slot(task).store(((task + 1) << 8) | FAILED, SeqCst);
        self.wake_parent();
    }

    fn wake_parent(&self) {
        let head = self.head();
        if head.wake_plenty.swap(0, SeqCst) != 0 {
            // Who armed in between has not slept yet, and finds the word moved.
            head.wake_enough.store(0, SeqCst);
            head.wake_word.fetch_add(1, SeqCst);
            futex::wake_all(&head.wake_word);
        }
    }

    /// A thread has a task that only a process may read: all threads end, and leave what they have
    /// claimed to processes of their numbers.
    pub fn hand_over(&self) {
        self.head().handed_over.store(1, SeqCst);
        self.wake_readers();
    }

    pub fn is_handed_over(&self) -> bool {
        self.head().handed_over.load(SeqCst) != 0
    }

    pub fn stopped(&self) -> bool {
        self.head().stop.load(SeqCst) != 0
    }

    // ---- the parent

    /// A slot that a later task has taken was published: its rows are released.
    pub fn is_published(&self, task: u64) -> bool {
        let slot = self.slot(task).load(SeqCst);
        slot == ((task + 1) << 8) | PUBLISHED || slot >> 8 > task + 1
    }

    pub fn is_failed(&self, task: u64) -> bool {
        self.slot(task).load(SeqCst) == ((task + 1) << 8) | FAILED
    }

    /// Somebody is at a task, or may still claim it, or has just ended it.
    pub fn is_coming(&self, plan: &Plan, task: u64) -> bool {
        let lives = |reader: usize| {
            let state = self.record(reader).state.load(SeqCst);
            state != STATE_FINISHED && state != STATE_FAILED
        };
        let slot = self.slot(task).load(SeqCst);
        match (slot >> 8 == task + 1, slot & 255) {
            (true, PUBLISHED | FAILED) => true,
            (true, number) => lives(number as usize - 1),
            (false, _) => self.fits(plan, task) && (0..self.n_readers).any(lives),
        }
    }

    pub fn next_task(&self) -> u64 {
        self.head().next_task.load(SeqCst)
    }

    /// True when readers can do nothing more until rows are released.
    pub fn starved(&self, plan: &Plan, frontier: u64) -> bool {
        let next = self.next_task();
        frontier == next && next < plan.total_tasks() && !self.fits(plan, next)
    }

    pub fn tail_row(&self) -> u64 {
        self.head().tail_row.load(SeqCst)
    }

    /// A consumer has released the rows before `row`; readers reuse rows that all have released.
    pub fn move_tail(&self, consumer: usize, row: u64) {
        let (head, tails) = (self.head(), self.tails());
        tails[consumer].store(row, SeqCst);
        let least = tails.iter().map(|tail| tail.load(SeqCst)).min();
        // Two that move at once may both see the other's old tail: the later one's is larger.
        head.tail_row.fetch_max(least.unwrap_or(row), SeqCst);
        // A reader that is woken and finds no space says so again: one wake for many moves.
        if head.space_waiting.load(SeqCst) != 0 && head.space_waiting.swap(0, SeqCst) != 0 {
            self.wake_readers();
        }
    }

    /// The consumer that has released least.
    pub fn last_consumer(&self) -> usize {
        let tails = self.tails().iter().map(|tail| tail.load(SeqCst));
        let last = tails.enumerate().min_by_key(|&(_, tail)| tail);
        last.map_or(0, |(consumer, _)| consumer)
    }

    /// A consumer takes no more: the others go on without it.
    pub fn leave(&self, consumer: usize, end_row: u64) {
        self.move_tail(consumer, end_row);
        self.wake_consumers();
    }

    pub fn stop(&self) {
        let head = self.head();
        head.stop.store(1, SeqCst);
        head.turns.wake();
        self.wake_readers();
        self.wake_consumers();
    }

    fn wake_consumers(&self) {
        let head = self.head();
        head.wake_word.fetch_add(1, SeqCst);
        futex::wake_all(&head.wake_word);
    }

    fn wake_readers(&self) {
        let head = self.head();
        head.space_word.fetch_add(1, SeqCst);
        futex::wake_all(&head.space_word);
    }

    /// Ask to be woken when `plenty` tasks of the stream have been published, or `enough` and it
    /// would take long to wait for more; returns the word to wait on. Call under the parent's
    /// lock, then look again, then `sleep`.
    pub fn arm(&self, enough: u64, plenty: u64) -> u32 {
        let head = self.head();
        let word = head.wake_word.load(SeqCst);
        head.parent_cpu.store(processor(), Relaxed);
        // Several threads, and processes, may wait: the one that wants least decides.
        head.wake_enough.fetch_max(!enough.max(1), SeqCst);
        let mut before = head.wake_plenty.load(SeqCst);
        loop {
            if before == 0 {
                head.armed_ns.store(now_ns(), SeqCst);
            }
            let least = match before {
                0 => plenty.max(1),
                before => before.min(plenty.max(1)),
            };
            let set = head
                .wake_plenty
                .compare_exchange(before, least, SeqCst, SeqCst);
            match set {
                Ok(_) => break,
                Err(now) => before = now,
            }
        }
        word
    }

    pub fn sleep(&self, word: u32, limit: Duration) {
        futex::wait(&self.head().wake_word, word, limit);
    }

    pub fn published(&self) -> u64 {
        self.head().published.load(SeqCst)
    }
}

/// The number of rows is never near the end of the tape's numbers.
const _: () = assert!(ENDLESS == u64::MAX);

impl Turnstile for Control {
    /// Wait for this task's turn to fetch (rotating disks: in the order of the tape, one at a time).
    fn wait_turn(&self, task: u64) {
        self.head().turns.wait(task, || !self.stopped());
    }

    /// This task's fetch is over, or on its way in the kernel's queue; the next may begin. May be
    /// said more than once.
    fn pass_turn(&self, task: u64) {
        self.head().turns.pass(task);
    }
}

#[cfg(test)]
mod tests;
