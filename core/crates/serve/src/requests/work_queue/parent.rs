//! The parent's side of the work queue: requests, and waits for answers.
//!
//! Law:
//! 1. Only the parent calls this. Its threads are one writer to the queues: a thread that submits or recovers
//!    holds the dispatcher's lock.

use super::{CLAIMED, DONE, FAILED, FREE, HERE, READY, WorkQueue};
use os::futex;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

impl WorkQueue {
    /// Hand a free slot, which is filled, to `reader`.
    pub fn submit(&self, slot: u32, reader: usize) {
        let number = self.head().submitted.fetch_add(1, SeqCst);
        self.slot(slot).number.store(number, SeqCst);
        self.slot(slot).deaths.store(0, SeqCst);
        let state = &self.slot(slot).state;
        let generation = (state.load(SeqCst) >> 8).wrapping_add(1);
        state.store(generation << 8 | READY, SeqCst);
        self.enqueue(slot, reader);
    }

    fn enqueue(&self, slot: u32, reader: usize) {
        let (queue, entries) = self.queue(reader);
        let tail = queue.tail.load(SeqCst);
        entries[tail as usize % entries.len()].store(slot, SeqCst);
        queue.tail.store(tail + 1, SeqCst);
        if queue.sleeping.load(SeqCst) != 0 {
            self.wake(reader);
        } else if self.is_behind(reader) {
            self.wake_another(reader);
        }
    }

    /// The reader with least to do.
    pub fn least_loaded(&self) -> usize {
        let load = |&reader: &usize| {
            let (queue, _) = self.queue(reader);
            let busy = queue.sleeping.load(SeqCst) == 0;
            let slow = queue.slow.load(SeqCst) != 0;
            self.backlog(reader) + u64::from(busy) + 2 * u64::from(slow)
        };
        (0..self.n_readers).min_by_key(load).unwrap_or(0)
    }

    /// DONE, FAILED or MORE when the slot is answered.
    pub fn answered(&self, slot: u32) -> Option<u32> {
        let code = self.code(slot);
        (DONE..CLAIMED).contains(&code).then_some(code)
    }

    /// An answered slot is the parent's again.
    pub fn free(&self, slot: u32) {
        let state = &self.slot(slot).state;
        let seen = state.load(SeqCst);
        state.store(seen & !255 | FREE, SeqCst);
        self.slot(slot).error.clear();
    }

    /// Sleep until the slot is answered, or `limit` has passed, or for no reason.
    pub fn wait_for_answer(&self, slot: u32, limit: Duration) {
        let slot_ref = self.slot(slot);
        slot_ref.waited.store(1, SeqCst);
        let seen = slot_ref.state.load(SeqCst);
        if !(DONE..CLAIMED).contains(&(seen & 255)) && !self.stopped() {
            futex::wait(&slot_ref.state, seen, limit);
        }
    }

    /// A number that moves with every answer from now on, until `unwatch`.
    pub fn watch(&self) -> u32 {
        self.head().watched.fetch_add(1, SeqCst);
        self.head().answers_word.load(SeqCst)
    }

    pub fn unwatch(&self) {
        self.head().watched.fetch_sub(1, SeqCst);
    }

    /// Sleep until an answer comes after `seen` was the number, at most `limit`.
    pub fn wait_for_answers(&self, seen: u32, limit: Duration) {
        futex::wait(&self.head().answers_word, seen, limit);
    }

    /// Wake who watches, for another reason than an answer.
    pub fn wake_all(&self) {
        self.head().answers_word.fetch_add(1, SeqCst);
        futex::wake_all(&self.head().answers_word);
    }

    /// Slots that `reader` has claimed.
    pub fn claimed(&self, reader: usize) -> Vec<u32> {
        let code = CLAIMED + reader as u32;
        (0..self.n_slots as u32)
            .filter(|&slot| self.code(slot) == code)
            .collect()
    }

    /// A dead reader's task is queued for its successor, or has failed: `fail` tells of the deaths.
    pub fn recover(&self, slot: u32, reader: usize, fail: impl FnOnce(u64) -> bool) -> bool {
        let deaths = self.slot(slot).deaths.fetch_add(1, SeqCst) + 1;
        let failed = fail(deaths);
        let code = if failed { FAILED } else { READY };
        if self.change(slot, CLAIMED + reader as u32, code) {
            if failed {
                self.tell(slot);
            } else {
                self.enqueue(slot, reader);
            }
        }
        failed
    }

    /// A reader may have died between an answer and waking who waits for it.
    pub fn tell_answered(&self) {
        for slot in (0..self.n_slots as u32).filter(|&slot| self.answered(slot).is_some()) {
            futex::wake_all(&self.slot(slot).state);
        }
        self.wake_all();
    }

    /// Claim a task that no thread has begun, to answer it as `HERE`.
    pub fn claim_here(&self, slot: u32) -> bool {
        self.change(slot, READY, CLAIMED + HERE as u32)
    }

    /// A task that `reader` has claimed is for another.
    pub fn put_back(&self, slot: u32, reader: usize) {
        if self.change(slot, CLAIMED + reader as u32, READY) {
            self.enqueue(slot, reader);
        }
    }

    /// A task that nobody has begun is not done.
    pub fn cancel(&self, slot: u32) -> bool {
        self.change(slot, READY, DONE)
    }

    /// From now on each reader does its own tasks. Others take over only from a reader that is slow.
    pub fn keep_own(&self) {
        self.head().own.store(1, SeqCst);
    }

    /// Nothing new will be asked: readers leave when everything is answered.
    pub fn close(&self) {
        self.head().closing.store(1, SeqCst);
        self.wake_readers();
    }

    /// Let readers that sleep look again.
    pub fn wake_readers(&self) {
        (0..self.n_readers).for_each(|reader| self.wake(reader));
    }

    /// Readers leave now.
    pub fn stop(&self) {
        self.head().stop.store(1, SeqCst);
        self.head().turns.wake();
        self.wake_readers();
        for slot in (0..self.n_slots as u32).filter(|&slot| self.code(slot) != FREE) {
            // Another generation, or who has just looked would sleep on the same word all the same.
            let state = &self.slot(slot).state;
            state.fetch_add(1 << 8, SeqCst);
            futex::wake_all(state);
        }
        self.wake_all();
    }
}
