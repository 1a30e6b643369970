//! A handle: one request on its way, until its result is taken or forgotten.
//!
//! Law:
//! 1. It holds its stage, its request and its dataset until every task of it is answered, no matter who else
//!    forgets it: readers never write into another's memory.
//! 2. What it brought is told once all its tasks are answered, failures too.
//! 3. Every wait has a deadline. A forked child waits for nothing.

use crate::requests::arena::Region;
use crate::requests::shared_dataset::SharedDataset;
use crate::requests::stage_pool::StageLease;
use crate::requests::work_queue::{self, WorkQueue};
use engine::task_error::Failure;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An answer is looked for so long before the thread sleeps: to be woken for each of many small
/// ones would cost the reader more than to answer it.
const LOOKING: Duration = Duration::from_micros(20);

/// How a handle ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Done,
    Failed(Failure),
    /// A library's result, of this many bytes, did not fit the stage.
    More(u64),
    Cancelled,
    Closed,
}

/// Where a handle's tasks went, and what takes back what it does not need any more.
pub(super) trait Reaper: Send + Sync {
    /// False in a forked child.
    fn is_mine(&self) -> bool;

    fn work_queue(&self) -> &WorkQueue;

    /// Readers may write after the end.
    fn outlived(&self) -> bool;

    /// Slots and a request that a handle does not need any more.
    fn take_home(&self, slots: Vec<u32>, request: Option<Region>);

    /// Nobody asks for this handle any more, which is still on its way.
    fn reap(&self, handle: Arc<RequestHandle>);
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub struct RequestHandle {
    pub(super) reaper: Arc<dyn Reaper>,
    pub(super) state: Mutex<State>,
}

pub(super) struct State {
    pub(super) n_tasks: usize,
    /// Unanswered.
    pub(super) slots: Vec<u32>,
    pub(super) outcome: Option<Outcome>,
    pub(super) failure: Option<Failure>,
    pub(super) more: Option<u64>,
    pub(super) cancelled: bool,
    pub(super) shape: Vec<u64>,
    pub(super) lease: Option<Arc<StageLease>>,
    pub(super) request: Option<Region>,
    /// Held, not looked at: the readers do.
    pub(super) shared: Option<Arc<SharedDataset>>,
}

impl RequestHandle {
    /// How it ended, or None: it is still on its way.
    pub fn poll(&self) -> Option<Outcome> {
        // First: a thread of the parent may have held the lock at the fork.
        if !self.reaper.is_mine() {
            return Some(Outcome::Closed);
        }
        let mut state = lock(&self.state);
        if state.outcome.is_some() {
            return state.outcome.clone();
        }
        let work_queue = self.reaper.work_queue();
        let mut home = Vec::new();
        let mut slots = std::mem::take(&mut state.slots);
        slots.retain(|&slot| {
            let Some(code) = work_queue.answered(slot) else {
                return true;
            };
            let answer = work_queue.slot(slot);
            match code {
                work_queue::FAILED => {
                    state.failure = state.failure.take().or_else(|| answer.error.get());
                }
                work_queue::MORE => state.more = Some(answer.result_bytes.load(SeqCst)),
                _ => {
                    let n = (answer.n_dims.load(SeqCst) as usize).min(work_queue::MAX_DIMS);
                    state.shape = answer.dims[..n]
                        .iter()
                        .map(|dim| dim.load(SeqCst))
                        .collect();
                }
            }
            work_queue.free(slot);
            home.push(slot);
            false
        });
        state.slots = slots;
        let landed = state.slots.is_empty();
        let closed = !landed && work_queue.stopped();
        if landed || closed {
            state.outcome = Some(match (&state.failure, state.more) {
                _ if closed => Outcome::Closed,
                (Some(failure), _) => Outcome::Failed(failure.clone()),
                (None, Some(bytes)) => Outcome::More(bytes),
                (None, None) if state.cancelled => Outcome::Cancelled,
                (None, None) => Outcome::Done,
            });
            state.shared = None;
        }
        let over = matches!(state.outcome, Some(Outcome::Cancelled | Outcome::Closed));
        let request = state.request.take_if(|_| landed);
        let mut lease = state.lease.take_if(|_| over);
        if closed && self.reaper.outlived() {
            std::mem::forget(lease.take());
        }
        self.reaper.take_home(home, request);
        let outcome = state.outcome.clone();
        drop(state);
        drop(lease);
        outcome
    }

    /// Wait until it has ended, at most until `deadline`.
    pub fn wait(&self, deadline: Instant) -> Option<Outcome> {
        let start = Instant::now();
        loop {
            if let Some(outcome) = self.poll() {
                return Some(outcome);
            }
            let left = work_queue::until(deadline);
            if left.is_zero() {
                return None;
            }
            if start.elapsed() < LOOKING {
                std::thread::yield_now();
                continue;
            }
            let slot = lock(&self.state).slots.first().copied();
            if let Some(slot) = slot {
                self.reaper.work_queue().wait_for_answer(slot, left);
            }
        }
    }

    /// Its memory, for readers; None: no caller needs the result any more.
    pub(super) fn held(&self) -> Option<(Arc<StageLease>, Option<Arc<SharedDataset>>)> {
        let state = lock(&self.state);
        Some((state.lease.clone()?, state.shared.clone()))
    }

    /// Tasks that are not known to be answered.
    pub(super) fn unanswered(&self) -> Vec<u32> {
        lock(&self.state).slots.clone()
    }

    /// All its tasks, if nobody is known to have answered one, and they are no more than one thread
    /// does as fast as several: one task, or copies of what is stored as it is.
    pub(super) fn simple_tasks(&self) -> Option<Vec<u32>> {
        let state = lock(&self.state);
        let is_plain = |shared: &Arc<SharedDataset>| {
            let datasets = &shared.table().datasets;
            matches!(&datasets[..], [one] if one.is_as_stored() && one.parts.is_empty())
        };
        let is_simple = state.slots.len() == 1 || state.shared.as_ref().is_some_and(is_plain);
        let is_whole = state.slots.len() == state.n_tasks && !state.slots.is_empty();
        (is_simple && is_whole).then(|| state.slots.clone())
    }

    /// Cancel it if no reader has begun it; whether it is cancelled.
    pub fn cancel(&self) -> bool {
        if !self.reaper.is_mine() {
            return false;
        }
        let mut state = lock(&self.state);
        if state.outcome.is_some() {
            return state.outcome == Some(Outcome::Cancelled);
        }
        let work_queue = self.reaper.work_queue();
        // One task is taken back for certain or not at all; of several, one may have begun.
        if let [slot] = state.slots[..] {
            state.cancelled |= work_queue.cancel(slot);
        }
        let cancelled = state.cancelled;
        drop(state);
        self.poll();
        cancelled
    }

    /// Where the result lies, once the handle is done and until `release`.
    pub fn lease(&self) -> Option<Arc<StageLease>> {
        match self.poll() {
            Some(Outcome::Done) => lock(&self.state).lease.clone(),
            _ => None,
        }
    }

    /// The stage of a handle that has failed, for another try.
    pub fn take_stage(&self) -> Option<StageLease> {
        match self.poll() {
            Some(Outcome::Failed(_) | Outcome::More(_)) => {
                Arc::into_inner(lock(&self.state).lease.take()?)
            }
            _ => None,
        }
    }

    /// The shape of a library's result.
    pub fn shape(&self) -> Vec<u64> {
        if !self.reaper.is_mine() {
            return Vec::new();
        }
        lock(&self.state).shape.clone()
    }

    /// The result is not needed any more, or not at all.
    pub fn release(self: &Arc<RequestHandle>) {
        if !self.reaper.is_mine() {
            return;
        }
        if self.poll().is_some() {
            let lease = lock(&self.state).lease.take();
            // Where views keep it, the stage is free for the next request all the same.
            if let Some(Err(kept)) = lease.map(Arc::try_unwrap) {
                kept.detach();
            }
        } else {
            self.reaper.reap(self.clone());
        }
    }
}
