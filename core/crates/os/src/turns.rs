//! Turns at a rotating disk: a number goes when all smaller ones have gone.
//!
//! Law:
//! 1. Atomics in shared memory; all zero is the beginning. A process may die between any two.
//! 2. A turn may be passed twice, and by a process that did not wait for it.

use crate::futex;
use crate::sync::{AtomicU32, AtomicU64};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// A process that waits looks again after this time.
const LOOK: Duration = Duration::from_millis(200);

#[repr(C)]
#[derive(Debug, Default)]
pub struct Turns {
    next: AtomicU64,
    word: AtomicU32,
    waiting: AtomicU32,
}

impl Turns {
    /// Wait for a number's turn, as long as `patient`.
    pub fn wait(&self, number: u64, patient: impl Fn() -> bool) {
        while self.next.load(SeqCst) < number && patient() {
            self.waiting.fetch_add(1, SeqCst);
            let word = self.word.load(SeqCst);
            if self.next.load(SeqCst) < number && patient() {
                futex::wait(&self.word, word, LOOK);
            }
            self.waiting.fetch_sub(1, SeqCst);
        }
    }

    /// The next number may go.
    pub fn pass(&self, number: u64) {
        self.next.fetch_max(number + 1, SeqCst);
        if self.waiting.load(SeqCst) > 0 {
            self.wake();
        }
    }

    /// Wake all that wait, so that they ask `patient` again.
    pub fn wake(&self) {
        self.word.fetch_add(1, SeqCst);
        futex::wake_all(&self.word);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn numbers_go_in_their_order() {
        let (turns, gone) = (Turns::default(), Mutex::new(Vec::new()));
        std::thread::scope(|scope| {
            for number in (0..20).rev() {
                let (turns, gone) = (&turns, &gone);
                scope.spawn(move || {
                    turns.wait(number, || true);
                    gone.lock().unwrap().push(number);
                    turns.pass(number);
                    turns.pass(number);
                });
            }
        });
        assert_eq!(*gone.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[test]
    fn who_is_not_patient_goes_before_its_turn() {
        let turns = Turns::default();
        turns.wait(3, || false);
        turns.pass(3);
        turns.wait(2, || unreachable!("it has gone"));
    }
}
