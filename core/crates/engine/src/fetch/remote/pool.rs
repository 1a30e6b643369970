//! Threads that wait for a store's answers.
//!
//! Law:
//! 1. One pool for a process, as long as somebody holds it. A thread starts when a job finds none idle,
//!    up to the bound of the caller, and ends with the pool. Where no thread can start, jobs are done
//!    by the threads that send them.
//! 2. A dropped pool does not wait for its jobs: a store may take long to answer.
//! 3. A process that was forked makes a pool of its own, as its parent's threads are not there.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The pool of this process, and the process.
static POOL: Mutex<(u32, Weak<Pool>)> = Mutex::new((0, Weak::new()));

pub(super) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

impl Pool {
    pub(super) fn of_process() -> Arc<Pool> {
        let make = || Arc::new(Pool(Arc::default()));
        let mut known = match POOL.try_lock() {
            Ok(known) => known,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            // Another thread makes one, or had the lock when this process was forked.
            Err(TryLockError::WouldBlock) => return make(),
        };
        let me = std::process::id();
        if let Some(pool) = known.1.upgrade().filter(|_| known.0 == me) {
            return pool;
        }
        let pool = make();
        *known = (me, Arc::downgrade(&pool));
        pool
    }

    /// Have a thread do a job, with at most `limit` threads; the caller does it where none can start.
    pub(super) fn send(&self, job: Job, limit: usize) {
        let mut state = self.0.lock();
        state.jobs.push_back(job);
        if state.idle < state.jobs.len() && state.threads < limit {
            let shared = self.0.clone();
            let started = std::thread::Builder::new()
                .name("remote".into())
                .spawn(move || shared.serve());
            match started {
                Ok(_) => state.threads += 1,
                Err(_) if state.threads == 0 => {
                    let job = state.jobs.pop_back();
                    drop(state);
                    return job.into_iter().for_each(|job| job());
                }
                Err(_) => {} // the others do it
            }
        }
        drop(state);
        self.0.changed.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self) {
        let mut state = self.lock();
        while !state.is_closed {
            let Some(job) = state.jobs.pop_front() else {
                state.idle += 1;
                let woken = self.changed.wait(state);
                state = woken.unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                continue;
            };
            drop(state);
            job();
            state = self.lock();
        }
    }
}
