//! Which blocks are ready, lent and given back: the parent's book of the ring.
//!
//! Law:
//! 1. Blocks are lent in order, each once, when every task below their end is published, or has
//!    done its rows of them before it failed.
//! 2. The tail moves over blocks given back, in order, whatever the order of giving back.
//! 3. A forked child has no part in it: it is lent nothing and gives nothing back. Both are asked
//!    before the lock is taken, which a thread of the parent may have held at the fork.
//! 4. Waiting ends by its deadline; who died is the supervisor's question.
//! 5. Of n consumers of a ring each has every n-th block of a lap. Its own blocks are counted here
//!    (`Own`); which blocks of the stream they are, `block_of` says.
//! 6. Knows nothing of Python.

use crate::ring::kept_rings;
use crate::ring::maps::RingMaps;
use os::fork::ForkMark;
use os::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tables::plan::{ENDLESS, Plan};

/// What `receive` says when it has no block; HELD: as its own consumer holds what readers need.
pub const ENDED: i32 = 0;
pub const EMPTY: i32 = 1;
pub const FAILED: i32 = 2;
pub const HELD: i32 = 3;
pub const CLOSED: i32 = 4;

/// The number of one of a consumer's blocks among these.
type Own = u64;

#[derive(Default)]
pub struct State {
    /// Tasks before this one are published.
    pub frontier: u64,
    pub next_block: Own,
    tail_block: Own,
    /// Blocks from `tail_block` on: lent since when, or given back.
    lent: VecDeque<Option<Instant>>,
    pub closed: bool,
}

/// The plan, the mapped ring and its book.
pub struct Leases {
    pub plan: Plan,
    pub maps: Arc<RingMaps>,
    /// Which consumer has this book.
    consumer: u64,
    /// A descriptor that closes when the book is closed and no block is lent.
    tie: Mutex<Option<OwnedFd>>,
    state: Mutex<State>,
    mark: ForkMark,
    /// No other process has the ring.
    keeps: AtomicBool,
    /// The stream was stopped: threads that read it wait for no store any longer.
    pub unwanted: Arc<AtomicBool>,
}

impl Drop for Leases {
    fn drop(&mut self) {
        if self.is_mine() && *self.keeps.get_mut() {
            kept_rings::keep(self.maps.clone());
        }
    }
}

impl Leases {
    pub fn new(plan: Plan, maps: Arc<RingMaps>, consumer: u64) -> io::Result<Leases> {
        if consumer >= plan.n_consumers() as u64 {
            let why = "no such consumer in the plan";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Leases {
            plan,
            maps,
            consumer,
            tie: Mutex::default(),
            state: Mutex::default(),
            mark: ForkMark::new()?,
            keeps: AtomicBool::new(false),
            unwanted: Arc::default(),
        })
    }

    /// End the stream for all its readers.
    pub fn stop(&self) {
        self.unwanted.store(true, SeqCst);
        self.maps.control.stop();
    }

    /// True in the process that made the ring, false in its forked children.
    pub fn is_mine(&self) -> bool {
        self.mark.is_mine()
    }

    /// Lend the next block if it is ready, without waiting.
    pub fn try_next(&self) -> Result<Own, i32> {
        if !self.is_mine() {
            return Err(CLOSED);
        }
        self.next(&mut self.state())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Which block of the stream an own one is; `ENDLESS`: none.
    fn block_of(&self, own: Own) -> u64 {
        let consumers = self.plan.n_consumers() as u64;
        let (lap, number) = match self.plan.lap_blocks() {
            None => (0, own),
            Some(per_lap) => match self.own_before(per_lap) {
                0 => return ENDLESS,
                mine => ((own / mine).saturating_mul(per_lap), own % mine),
            },
        };
        lap.saturating_add(number.saturating_mul(consumers))
            .saturating_add(self.consumer)
    }

    /// How many of the first blocks of a lap are own ones.
    fn own_before(&self, blocks: u64) -> Own {
        let consumers = self.plan.n_consumers() as u64;
        blocks.saturating_sub(self.consumer).div_ceil(consumers)
    }

    /// The steps (`Plan::span`) of an own block: rows, if the stream is counted in rows.
    pub fn block_rows(&self, own: Own) -> (u64, u64) {
        let (block, end_row) = (self.block_of(own), self.plan.end_row());
        let size = self.plan.block_rows();
        let Some(per_lap) = self.plan.lap_blocks() else {
            let begin = block.saturating_mul(size).min(end_row);
            return (begin, begin.saturating_add(size).min(end_row));
        };
        let lap = self.plan.lap_rows();
        let lap_row = (block / per_lap).saturating_mul(lap);
        let begin = block % per_lap * size;
        (
            lap_row.saturating_add(begin),
            lap_row.saturating_add((begin + size).min(lap)),
        )
    }

    /// How many own blocks end before `row`.
    fn blocks_before(&self, row: u64) -> Own {
        let size = self.plan.block_rows();
        match self.plan.lap_blocks() {
            None if row >= self.plan.end_row() => self.own_before(row.div_ceil(size)),
            None => self.own_before(row / size),
            Some(per_lap) => {
                let lap = self.plan.lap_rows();
                row / lap * self.own_before(per_lap) + self.own_before(row % lap / size)
            }
        }
    }

    /// Own blocks of the whole stream.
    pub fn total_blocks(&self) -> u64 {
        if self.plan.end_row() == ENDLESS {
            ENDLESS
        } else {
            self.blocks_before(self.plan.end_row())
        }
    }

    pub fn advance(&self, state: &mut State) -> u64 {
        let total = self.plan.total_tasks();
        while state.frontier < total && self.maps.control.is_published(state.frontier) {
            state.frontier += 1;
        }
        self.plan.ready_rows(state.frontier)
    }

    /// The oldest task failed: rows that are good nevertheless, and whether more may come.
    fn before_failure(&self, state: &State) -> (u64, bool) {
        let (plan, control) = (&self.plan, &self.maps.control);
        let records = || (0..plan.n_readers()).map(|reader| control.record(reader));
        let mut task = state.frontier;
        let mut row = u64::MAX;
        while task < plan.total_tasks() && plan.ready_rows(task) < row {
            if control.is_failed(task) {
                // Told before the task is marked.
                row = records()
                    .filter_map(|one| one.error.done_row())
                    .fold(row, u64::min);
            } else if !control.is_published(task) {
                return (plan.ready_rows(task), control.is_coming(plan, task));
            }
            task += 1;
        }
        (row, false)
    }

    fn has_failed(&self, state: &State) -> bool {
        self.maps.control.is_failed(state.frontier) && !self.before_failure(state).1
    }

    /// The next block if it is ready, or the reason why not.
    fn next(&self, state: &mut State) -> Result<Own, i32> {
        if state.closed {
            return Err(CLOSED);
        }
        let block = state.next_block;
        let (begin, end) = self.block_rows(block);
        if begin >= self.plan.end_row() {
            return Err(ENDED);
        }
        let mut ready = self.advance(state);
        let mut may_come = true;
        if ready < end && self.maps.control.is_failed(state.frontier) {
            (ready, may_come) = self.before_failure(state);
        }
        if ready >= end {
            state.next_block += 1;
            state.lent.push_back(Some(Instant::now()));
            return Ok(block);
        }
        if !may_come {
            return Err(FAILED);
        }
        match self.waits_for(state) {
            Some(consumer) if consumer as u64 == self.consumer => Err(HELD),
            _ => Err(EMPTY),
        }
    }

    /// The consumer that has to give blocks back before readers can go on; None: they can.
    pub fn waits_for(&self, state: &State) -> Option<usize> {
        let control = &self.maps.control;
        (control.starved(&self.plan, state.frontier)).then(|| control.last_consumer())
    }

    /// Unpublished tasks below the end of the next block.
    fn missing(&self, state: &State) -> u64 {
        let (_, end) = self.block_rows(state.next_block);
        let total = self.plan.total_tasks();
        let (mut task, mut missing) = (state.frontier, 0);
        while task < total && self.plan.ready_rows(task) < end {
            let control = &self.maps.control;
            missing += u64::from(!control.is_published(task) && !control.is_failed(task));
            task += 1;
        }
        missing
    }

    pub fn release(&self, block: Own) {
        if !self.is_mine() {
            return;
        }
        let mut state = self.state();
        let at = (block - state.tail_block) as usize;
        if let Some(lent) = state.lent.get_mut(at) {
            *lent = None;
        }
        let before = state.tail_block;
        while state.lent.front() == Some(&None) {
            state.lent.pop_front();
            state.tail_block += 1;
        }
        if state.tail_block != before {
            let (tail, _) = self.block_rows(state.tail_block);
            let tail = tail.min(self.plan.end_row());
            self.maps.control.move_tail(self.consumer as usize, tail);
        }
        self.end(&state);
    }

    /// Blocks that the user holds: (first row, end row, since when), oldest first.
    pub fn held(&self) -> Vec<(u64, u64, Instant)> {
        let state = self.state();
        let lent = (state.tail_block..).zip(&state.lent);
        let told = |(block, since): (u64, &Option<Instant>)| {
            let (begin, end) = self.block_rows(block);
            since.map(|since| (begin, end, since))
        };
        lent.filter_map(told).collect()
    }

    /// Whether no other process has the ring, or may write it any more: then it is kept for another
    /// stream when its last block is given back, and its last thread has ended. One with several
    /// consumers, which are processes, never is.
    pub fn keep(&self, keeps: bool) {
        let is_own = self.maps.fd.is_some() && self.plan.n_consumers() == 1;
        self.keeps.store(keeps && is_own, SeqCst);
    }

    /// Lend no more blocks, and stop the readers of a ring with one consumer. Lent blocks stay valid.
    pub fn close(&self) {
        if !self.is_mine() {
            return;
        }
        let mut state = self.state();
        if std::mem::replace(&mut state.closed, true) {
            return;
        }
        match self.plan.n_consumers() {
            1 => self.stop(),
            _ => self.end(&state),
        }
    }

    /// Leave a shared ring when the book is closed and no block is lent.
    fn end(&self, state: &State) {
        if state.closed && state.lent.is_empty() && self.plan.n_consumers() > 1 {
            self.leave(self.consumer as usize);
            drop(self.tie().take());
        }
    }

    fn tie(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.tie.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keep a descriptor open as long as a block may be lent.
    pub fn keep_open(&self, descriptor: OwnedFd) {
        *self.tie() = Some(descriptor);
    }

    /// A consumer takes no more; readers need not wait for it.
    pub fn leave(&self, consumer: usize) {
        self.maps.control.leave(consumer, self.plan.end_row());
    }

    /// Blocks that can be lent without waiting.
    pub fn ready_blocks(&self) -> u64 {
        if !self.is_mine() {
            return 0;
        }
        let mut state = self.state();
        if state.closed {
            return 0;
        }
        let mut rows = self.advance(&mut state);
        if self.maps.control.is_failed(state.frontier) {
            rows = self.before_failure(&state).0;
        }
        self.blocks_before(rows).saturating_sub(state.next_block)
    }

    /// Wait until a block is ready or `timeout` has passed.
    pub fn wait(&self, timeout: Duration) -> Result<Own, i32> {
        let control = &self.maps.control;
        let deadline = Instant::now() + timeout;
        loop {
            let (reason, plenty, word) = {
                let mut state = self.state();
                match self.next(&mut state) {
                    Ok(block) => return Ok(block),
                    Err(reason @ (HELD | EMPTY)) => {
                        let published = control.published();
                        let enough = published + self.missing(&state);
                        // Half of the ring: with all of it the readers would have to wait.
                        let half = self.plan.tasks_in(self.plan.capacity_rows() / 2);
                        let plenty = (published + half).min(self.plan.total_tasks()).max(enough);
                        let word = control.arm(enough, plenty);
                        // Between the look and the arming: who published then woke nobody.
                        if self.missing(&state) == 0 || self.has_failed(&state) {
                            continue;
                        }
                        (reason, plenty, word)
                    }
                    Err(reason) => return Err(reason),
                }
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(reason);
            }
            if control.published() < plenty {
                control.sleep(word, left);
            }
        }
    }
}
