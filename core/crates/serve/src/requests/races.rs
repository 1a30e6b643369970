//! Small work queues and stage pools in every order of steps (os/sync/races.rs).
//!
//! Law:
//! 1. Readers do what server.rs does with the work queue, and the parent what dispatcher.rs and
//!    handle.rs do: who submits or recovers holds a lock.
//! 2. A task that is submitted is answered once, and its waiter wakes.
//! 3. A stage is lent to one at a time.

use crate::requests::arena::Arena;
use crate::requests::stage_pool::{Refusal, StagePool};
use crate::requests::work_queue::{DONE, FAILED, Next, WorkQueue};
use os::sync::races::{explore, until_killed};
use shuttle::sync::Mutex;
use shuttle::thread;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
const ALL: u64 = u64::MAX;

struct Work {
    queue: WorkQueue,
    /// Of those that submit and recover.
    lock: Mutex<()>,
    /// How often each slot's task was done.
    done: [AtomicU64; 2],
}

impl Work {
    fn new(n_readers: usize) -> Arc<Work> {
        let (_, queue) = WorkQueue::new(n_readers, 2, 0).unwrap();
        Arc::new(Work {
            queue,
            lock: Mutex::new(()),
            done: Default::default(),
        })
    }

    /// What a reader does; it is killed after `steps`, and another takes its number.
    fn serve(
        self: &Arc<Work>,
        me: usize,
        steps: u64,
        killed: &Arc<AtomicBool>,
    ) -> thread::JoinHandle<()> {
        let (this, killed) = (self.clone(), killed.clone());
        thread::spawn(move || {
            if until_killed(steps, || this.tasks(me)).is_none() {
                killed.store(true, SeqCst);
                let lock = this.lock.lock().unwrap();
                for slot in this.queue.claimed(me) {
                    this.queue.recover(slot, me, |deaths| deaths > 2);
                }
                this.queue.tell_answered();
                drop(lock);
                this.tasks(me);
            }
        })
    }

    fn tasks(&self, me: usize) {
        loop {
            let mut next = self.queue.next(me);
            if next == Next::Nothing {
                next = self.queue.wait_for_task(me, HOUR);
            }
            match next {
                Next::Task(slot) => {
                    self.done[slot as usize].fetch_add(1, SeqCst);
                    self.queue.answer(slot, me, DONE);
                }
                Next::Nothing => {}
                Next::Over => return,
            }
        }
    }

    fn submit(&self, slot: u32, reader: usize) {
        let _lock = self.lock.lock().unwrap();
        self.queue.submit(slot, reader);
    }

    fn answer(&self, slot: u32) -> u32 {
        loop {
            if let Some(code) = self.queue.answered(slot) {
                self.queue.free(slot);
                return code;
            }
            self.queue.wait_for_answer(slot, HOUR);
        }
    }

    fn close(&self) {
        let _lock = self.lock.lock().unwrap();
        self.queue.close();
    }
}

fn all_end(threads: Vec<thread::JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn each_task_is_answered_once() {
    for (n_readers, interruptions) in [(1, 2), (2, 1)] {
        explore(interruptions, move || {
            let (work, killed) = (Work::new(n_readers), Arc::new(AtomicBool::new(false)));
            let readers = (0..n_readers)
                .map(|me| work.serve(me, ALL, &killed))
                .collect();
            work.submit(0, 0);
            work.submit(1, 0);
            assert_eq!([1, 0].map(|slot| work.answer(slot)), [DONE; 2]);
            work.close();
            all_end(readers);
            assert_eq!(
                [0, 1].map(|slot: usize| work.done[slot].load(SeqCst)),
                [1, 1]
            );
        });
    }
}

/// A reader dies before each of its steps: its task is done again, and no other one.
#[test]
fn death_at_any_step_loses_no_task() {
    let killed = Arc::new(AtomicBool::new(true));
    let mut steps = 0;
    while killed.swap(false, SeqCst) {
        let killed = killed.clone();
        explore(1, move || {
            let work = Work::new(2);
            let readers = vec![work.serve(0, steps, &killed), work.serve(1, ALL, &killed)];
            work.submit(0, 0);
            work.submit(1, 1);
            assert_eq!([0, 1].map(|slot| work.answer(slot)), [DONE; 2]);
            work.close();
            all_end(readers);
            let done = [0, 1].map(|slot: usize| work.done[slot].load(SeqCst));
            assert!(done.iter().all(|n| (1..=2).contains(n)) && done.iter().sum::<u64>() <= 3);
        });
        steps += 1;
    }
    assert!(steps > 20, "{steps}");
}

#[test]
fn a_task_is_cancelled_or_done() {
    explore(2, || {
        let (work, killed) = (Work::new(1), Arc::new(AtomicBool::new(false)));
        let reader = work.serve(0, ALL, &killed);
        work.submit(0, 0);
        let cancelled = work.queue.cancel(0);
        assert_eq!(work.answer(0), DONE);
        work.close();
        all_end(vec![reader]);
        assert_eq!(work.done[0].load(SeqCst), u64::from(!cancelled));
    });
}

/// Who watches all answers sleeps through none.
#[test]
fn a_watcher_sees_each_answer() {
    explore(2, || {
        let (work, killed) = (Work::new(1), Arc::new(AtomicBool::new(false)));
        let reader = work.serve(0, ALL, &killed);
        work.submit(0, 0);
        let seen = work.queue.watch();
        if work.queue.answered(0).is_none() {
            work.queue.wait_for_answers(seen, HOUR);
        }
        work.queue.unwatch();
        assert_eq!(work.queue.answered(0), Some(DONE));
        work.close();
        all_end(vec![reader]);
    });
}

#[test]
fn all_end_when_the_queue_is_stopped() {
    explore(1, || {
        let (work, killed) = (Work::new(2), Arc::new(AtomicBool::new(false)));
        let readers = [0, 1].map(|me| work.serve(me, ALL, &killed));
        work.submit(0, 0);
        let waits = work.clone();
        let waits = thread::spawn(move || {
            while waits.queue.answered(0).is_none() && !waits.queue.stopped() {
                waits.queue.wait_for_answer(0, HOUR);
            }
        });
        work.queue.stop();
        all_end(readers.into_iter().chain([waits]).collect());
    });
}

/// The deaths of a task are counted: it fails, and its waiter wakes.
#[test]
fn a_task_that_kills_fails() {
    explore(2, || {
        let work = Work::new(1);
        work.submit(0, 0);
        let dies = work.clone();
        let dies = thread::spawn(move || {
            let lock = dies.lock.lock().unwrap();
            if dies.queue.next(0) == Next::Task(0) {
                dies.queue.recover(0, 0, |_| true);
            }
            drop(lock);
        });
        assert_eq!(work.answer(0), FAILED);
        all_end(vec![dies]);
    });
}

/// A page, lent to three in turn; a kept view gives way, and closing ends who waits.
#[test]
fn a_stage_is_lent_to_one_at_a_time() {
    static ARENA: OnceLock<Arc<Arena>> = OnceLock::new();
    for closes in [false, true] {
        explore(2, move || {
            let arena = ARENA.get_or_init(|| Arena::new(16 << 20).unwrap());
            let pool = StagePool::fixed(arena, 8, 1).unwrap();
            let users = Arc::new(AtomicU64::new(0));
            let threads = [0, 1, 2].map(|number| {
                let (pool, users) = (pool.clone(), users.clone());
                thread::spawn(move || match pool.take(8, Some(Instant::now() + HOUR)) {
                    Ok(lease) => {
                        assert_eq!(users.fetch_add(1, SeqCst), 0);
                        users.fetch_sub(1, SeqCst);
                        if number == 0 {
                            lease.detach();
                        }
                        drop(lease);
                    }
                    Err(why) => assert!(closes && matches!(why, Refusal::Closed), "{why:?}"),
                })
            });
            if closes {
                pool.close();
            }
            all_end(threads.into());
            pool.close();
            assert_eq!((pool.lent().0, arena.used_bytes()), (0, 0));
        });
    }
}
