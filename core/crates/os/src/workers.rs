//! Threads that help others with their work.
//!
//! Law:
//! 1. Work is done by the thread that has it, and by those that are free; it returns when no thread
//!    is at it any more, so that it may borrow what it likes.
//! 2. Nobody waits for a thread to become free. One that is free looks for more work for a moment, in
//!    which others have the core if they want it, and then sleeps until it is woken.
//! 3. A panic of a helper ends its help, and nothing else. The threads end with their `Workers`.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle, yield_now};
use std::time::{Duration, Instant};

/// To be woken takes a thread longer than most loops take between two reads.
const MOMENT: Duration = Duration::from_micros(50);

/// What helpers do; they borrow it from the `run` that waits for them.
#[derive(Clone, Copy)]
struct Help(*const (dyn Fn() + Sync));

// SAFETY: what it points to may be called by several threads at once (Sync), and lives until none
// does (`Workers::run`).
unsafe impl Send for Help {}

struct Job {
    number: u64,
    help: Help,
    /// Helpers that may still join, and that are at it.
    wanted: usize,
    running: usize,
}

#[derive(Default)]
struct Jobs {
    all: VecDeque<Job>,
    next_number: u64,
    free: usize,
    closed: bool,
}

#[derive(Default)]
struct Room {
    jobs: Mutex<Jobs>,
    /// There is a job, or none will be any more.
    work: Condvar,
    /// A helper has left a job.
    left: Condvar,
    /// Changes with each job that is new, and with each that its last helper has left.
    turn: AtomicU64,
}

impl Room {
    /// Nothing panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Look for a moment whether anything changes, with the lock given back.
    fn look<'a>(&'a self, jobs: MutexGuard<'a, Jobs>) -> MutexGuard<'a, Jobs> {
        let turn = self.turn.load(Relaxed);
        drop(jobs);
        let start = Instant::now();
        while self.turn.load(Relaxed) == turn && start.elapsed() < MOMENT {
            yield_now();
        }
        self.lock()
    }

    fn help(&self) {
        let mut jobs = self.lock();
        let mut looked = false;
        while !jobs.closed {
            let Some(job) = jobs.all.iter_mut().find(|job| job.wanted > 0) else {
                if !std::mem::replace(&mut looked, true) {
                    jobs = self.look(jobs);
                    continue;
                }
                jobs.free += 1;
                jobs = self.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
                jobs.free -= 1;
                continue;
            };
            looked = false;
            (job.wanted, job.running) = (job.wanted - 1, job.running + 1);
            let (number, help) = (job.number, job.help);
            drop(jobs);
            // SAFETY: this helper counts as running, so its `run` has not returned.
            let done = catch_unwind(AssertUnwindSafe(|| unsafe { (*help.0)() }));
            drop(done);
            jobs = self.lock();
            if let Some(job) = jobs.all.iter_mut().find(|job| job.number == number) {
                job.running -= 1;
                if job.running == 0 {
                    self.turn.fetch_add(1, Relaxed);
                    self.left.notify_all();
                }
            }
        }
    }
}

pub struct Workers {
    room: Arc<Room>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    pub fn new(n_threads: usize) -> io::Result<Workers> {
        let mut workers = Workers {
            room: Arc::default(),
            threads: Vec::new(),
        };
        for _ in 0..n_threads {
            let room = workers.room.clone();
            let thread = Builder::new().name("multitables".into()).spawn(move || {
                // Signals are for the program's own threads.
                block_signals();
                room.help();
            })?;
            workers.threads.push(thread);
        }
        Ok(workers)
    }

    /// Do `mine`, while up to `helpers` threads that are free call `help`. What is waited for them
    /// afterwards is interrupted by `waiting`, now and then.
    pub fn run(
        &self,
        helpers: usize,
        help: &(dyn Fn() + Sync),
        mine: impl FnOnce(),
        mut waiting: impl FnMut(),
    ) {
        // SAFETY: only the lifetime is taken away. Below, `help` is borrowed until nobody calls it.
        let help = Help(unsafe {
            std::mem::transmute::<*const (dyn Fn() + Sync + '_), *const (dyn Fn() + Sync + 'static)>(
                help,
            )
        });
        let mut jobs = self.room.lock();
        let number = jobs.next_number;
        jobs.next_number += 1;
        let free = jobs.free;
        jobs.all.push_back(Job {
            number,
            help,
            wanted: helpers,
            running: 0,
        });
        self.room.turn.fetch_add(1, Relaxed);
        drop(jobs);
        for _ in 0..helpers.min(free) {
            self.room.work.notify_one();
        }
        let done = catch_unwind(AssertUnwindSafe(mine));
        let mut looked = false;
        loop {
            let mut jobs = self.room.lock();
            let at = jobs.all.iter().position(|job| job.number == number);
            let Some(at) = at else {
                break;
            };
            jobs.all[at].wanted = 0;
            if jobs.all[at].running == 0 {
                jobs.all.remove(at);
                break;
            }
            if !std::mem::replace(&mut looked, true) {
                drop(self.room.look(jobs));
                continue;
            }
            let wait = self.room.left.wait_timeout(jobs, PULSE);
            let (jobs, timeout) = wait.unwrap_or_else(PoisonError::into_inner);
            drop(jobs);
            if timeout.timed_out() {
                waiting();
            }
        }
        if let Err(panic) = done {
            resume_unwind(panic);
        }
    }
}

/// How long is waited at a time.
pub const PULSE: Duration = Duration::from_millis(50);

impl Drop for Workers {
    fn drop(&mut self) {
        self.room.lock().closed = true;
        self.room.work.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

pub(super) fn block_signals() {
    // SAFETY: plain data, filled before it is used; affects the calling thread alone.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn work_that_is_shared_is_done_once_by_those_who_are_there() {
        let workers = Workers::new(3).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..200 {
                        let (next, sum) = (AtomicUsize::new(0), AtomicUsize::new(0));
                        let work = || {
                            while let Some(left) = 50usize.checked_sub(next.fetch_add(1, SeqCst)) {
                                sum.fetch_add(left, SeqCst);
                            }
                        };
                        workers.run(round % 4, &work, work, || {});
                        assert_eq!(sum.load(SeqCst), 50 * 51 / 2);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_is_waited_for_and_harms_nobody_else() {
        let workers = Workers::new(2).unwrap();
        for _ in 0..20 {
            let helped = AtomicUsize::new(0);
            let help = || {
                helped.fetch_add(1, SeqCst);
                resume_unwind(Box::new("a helper"));
            };
            let mine = || resume_unwind(Box::new("mine"));
            let run = AssertUnwindSafe(|| workers.run(2, &help, mine, || {}));
            assert!(catch_unwind(run).is_err());
            let after = helped.load(SeqCst);
            std::thread::yield_now();
            assert_eq!(helped.load(SeqCst), after);
        }
        let (ran, mut waited) = (AtomicUsize::new(0), 0);
        let help = || {
            std::thread::sleep(3 * PULSE);
            ran.fetch_add(1, SeqCst);
        };
        let until_it_runs = || std::thread::sleep(PULSE);
        workers.run(1, &help, until_it_runs, || waited += 1);
        assert!(ran.load(SeqCst) == 1 && waited > 0);
    }
}
