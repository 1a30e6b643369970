//! Threads of this process that do one piece of work after the other, and stay for a moment in between.
//!
//! Law:
//! 1. Work begins at once: on a thread that is free, or on a new one.
//! 2. A thread that was free for some seconds ends; the last one calls `at_rest` first, which gives
//!    back what was kept for more work. `release` ends those that are free now.
//! 3. A forked child has no thread of its parent's, and starts its own.
//! 4. Work does not panic, and knows nothing of Python.

use super::fork::ForkMark;
use super::workers::block_signals;
use std::collections::VecDeque;
use std::io;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{AcqRel, Acquire};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

/// How long a thread stays without work.
const STAY: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 5000 });

pub type Work = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Work>,
    threads: usize,
    free: usize,
    /// How often the free ones were ended.
    releases: u64,
}

/// The threads of one process.
struct Crew {
    mark: ForkMark,
    jobs: Mutex<Jobs>,
    /// There is work, or the free ones shall end.
    news: Condvar,
    /// What to do at rest.
    at_rest: Mutex<Vec<fn()>>,
}

static CREW: AtomicPtr<Crew> = AtomicPtr::new(null_mut());

/// Let a thread do `work`.
pub fn start(work: Work, at_rest: fn()) -> io::Result<()> {
    let crew = Crew::of_this_process(at_rest)?;
    let mut jobs = crew.lock();
    if jobs.free > jobs.waiting.len() {
        jobs.waiting.push_back(work);
        drop(jobs);
        crew.news.notify_one();
        return Ok(());
    }
    jobs.threads += 1;
    drop(jobs);
    let started = Builder::new().name("multitables".into()).spawn(move || {
        // Signals are for the program's own threads.
        block_signals();
        work();
        crew.stay();
    });
    if started.is_err() {
        crew.lock().threads -= 1;
    }
    started.map(drop)
}

/// Let something be called when no thread has had work for a while.
pub fn rest_later(at_rest: fn()) {
    let none = Crew::of_this_process(at_rest).is_ok_and(|crew| crew.lock().threads == 0);
    // Without a thread it is called when one has ended, or when `release` says so.
    let _ = none.then(|| start(Box::new(|| {}), at_rest));
}

/// End the threads that are free, without waiting for them.
pub fn release() {
    // SAFETY: a crew is never freed.
    let crew = unsafe { CREW.load(Acquire).as_ref() };
    if let Some(crew) = crew.filter(|crew| crew.mark.is_mine()) {
        crew.lock().releases += 1;
        crew.news.notify_all();
    }
}

impl Crew {
    fn of_this_process(at_rest: fn()) -> io::Result<&'static Crew> {
        let known = CREW.load(Acquire);
        // SAFETY: a crew is never freed: its threads, and a fork of theirs, may know it.
        match unsafe { known.as_ref() } {
            Some(crew) if crew.mark.is_mine() => {
                let mut known = crew.at_rest.lock().unwrap_or_else(PoisonError::into_inner);
                if !known.iter().any(|&one| std::ptr::fn_addr_eq(one, at_rest)) {
                    known.push(at_rest);
                }
                return Ok(crew);
            }
            _ => {}
        }
        let mine = Box::into_raw(Box::new(Crew {
            mark: ForkMark::new()?,
            jobs: Mutex::default(),
            news: Condvar::new(),
            at_rest: Mutex::new(vec![at_rest]),
        }));
        let crew = match CREW.compare_exchange(known, mine, AcqRel, Acquire) {
            Ok(_) => mine,
            Err(theirs) => {
                // SAFETY: made above, and known to nobody else.
                drop(unsafe { Box::from_raw(mine) });
                theirs
            }
        };
        // SAFETY: as above.
        Ok(unsafe { &*crew })
    }

    /// Nothing panics with the lock held.
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Do what comes, until nothing does.
    fn stay(&self) {
        let mut jobs = self.lock();
        loop {
            if let Some(work) = jobs.waiting.pop_front() {
                drop(jobs);
                work();
                jobs = self.lock();
                continue;
            }
            let releases = jobs.releases;
            jobs.free += 1;
            let waited = self.news.wait_timeout(jobs, STAY);
            let timeout;
            (jobs, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            jobs.free -= 1;
            let ends = timeout.timed_out() || jobs.releases != releases;
            if ends && jobs.waiting.is_empty() {
                break;
            }
        }
        jobs.threads -= 1;
        let is_last = jobs.threads == 0;
        drop(jobs);
        if is_last {
            let known = self
                .at_rest
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            known.iter().for_each(|at_rest| at_rest());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;
    use std::thread::yield_now;

    static RESTS: AtomicUsize = AtomicUsize::new(0);

    fn count_rest() {
        RESTS.fetch_add(1, SeqCst);
    }

    #[test]
    fn work_is_done_by_threads_that_end_when_they_are_released() {
        let (said, heard) = channel();
        for number in 0..20 {
            let said = said.clone();
            let work = Box::new(move || said.send(number).unwrap());
            start(work, count_rest).unwrap();
        }
        let mut all: Vec<i32> = (0..20).map(|_| heard.recv().unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        while RESTS.load(SeqCst) == 0 {
            release();
            yield_now();
        }
        rest_later(count_rest);
        while RESTS.load(SeqCst) == 1 {
            yield_now();
        }
    }
}
