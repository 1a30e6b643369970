//! Every order in which threads can take their steps, of small cases.
//!
//! Law:
//! 1. A step is one use of an atomic. All that decides anything is `SeqCst`, so that what can happen is
//!    what can happen in some order of steps.
//! 2. `explore` runs every order in which threads are interrupted at most so often where they could go
//!    on, and every choice where one cannot. A sleeper that nobody wakes is a deadlock, and a failure:
//!    no wait ends by its deadline here.
//! 3. `until_killed` ends a thread before one of its steps, as SIGKILL does.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use shuttle::thread::{Thread, current, park, yield_now};
use std::any::Any;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Of a thread of a model: plans and errors of tests go deep.
const STACK_BYTES: usize = 64 << 10;
/// A case with more goes in circles.
const MAX_STEPS: usize = 20_000;

struct Killed;

shuttle::thread_local! {
    /// Steps that this thread still takes.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

fn step() {
    let left = LEFT.with(|left| left.replace(left.get().saturating_sub(1)));
    if left == 0 {
        resume_unwind(Box::new(Killed));
    }
    yield_now();
}

/// Take `steps` steps of `f` and no more; None: it was killed.
pub fn until_killed<T>(steps: u64, f: impl FnOnce() -> T) -> Option<T> {
    LEFT.with(|left| left.set(steps));
    let done = catch_unwind(AssertUnwindSafe(f));
    LEFT.with(|left| left.set(u64::MAX));
    match done {
        Ok(value) => Some(value),
        Err(why) if <dyn Any>::is::<Killed>(&*why) => None,
        Err(why) => resume_unwind(why),
    }
}

/// Which processor a thread is on: two of them share each.
pub fn processor() -> u32 {
    usize::from(shuttle::current::me()) as u32 / 2
}

macro_rules! atomic {
    ($name:ident, $of:ty) => {
        #[repr(transparent)]
        #[derive(Debug, Default)]
        pub struct $name(std::sync::atomic::$name);

        impl $name {
            pub fn load(&self, order: Ordering) -> $of {
                step();
                self.0.load(order)
            }

            pub fn store(&self, value: $of, order: Ordering) {
                step();
                self.0.store(value, order);
            }

            pub fn swap(&self, value: $of, order: Ordering) -> $of {
                step();
                self.0.swap(value, order)
            }

            pub fn compare_exchange(
                &self,
                from: $of,
                to: $of,
                done: Ordering,
                failed: Ordering,
            ) -> Result<$of, $of> {
                step();
                self.0.compare_exchange(from, to, done, failed)
            }

            pub fn fetch_add(&self, value: $of, order: Ordering) -> $of {
                step();
                self.0.fetch_add(value, order)
            }

            pub fn fetch_sub(&self, value: $of, order: Ordering) -> $of {
                step();
                self.0.fetch_sub(value, order)
            }

            pub fn fetch_max(&self, value: $of, order: Ordering) -> $of {
                step();
                self.0.fetch_max(value, order)
            }

            /// Its memory, for those who look from outside.
            pub fn as_ptr(&self) -> *mut $of {
                self.0.as_ptr()
            }

            pub fn fetch_min(&self, value: $of, order: Ordering) -> $of {
                step();
                self.0.fetch_min(value, order)
            }
        }
    };
}

atomic!(AtomicU32, u32);
atomic!(AtomicU64, u64);

/// Who sleeps on which word.
static SLEEPERS: Mutex<Option<HashMap<usize, Vec<Thread>>>> = Mutex::new(None);

fn sleepers<T>(word: &AtomicU32, f: impl FnOnce(&mut Vec<Thread>) -> T) -> T {
    let mut all = SLEEPERS.lock().unwrap_or_else(PoisonError::into_inner);
    let key = std::ptr::from_ref(word).addr();
    f(all.get_or_insert_default().entry(key).or_default())
}

/// As `futex::wait`, without its deadline.
pub fn wait(word: &AtomicU32, expected: u32, _: Duration) {
    if word.load(Ordering::SeqCst) == expected {
        sleepers(word, |sleepers| sleepers.push(current()));
        park();
    }
}

/// As `futex::wake_all`.
pub fn wake_all(word: &AtomicU32) {
    step();
    for sleeper in sleepers(word, std::mem::take) {
        sleeper.unpark();
    }
}

/// Depth first, with a bound on how often a thread is interrupted.
struct Orders {
    most: usize,
    interrupted: usize,
    at: usize,
    /// Of each choice which was made, of how many.
    path: Vec<(usize, usize)>,
    count: usize,
}

impl Scheduler for Orders {
    fn new_execution(&mut self) -> Option<Schedule> {
        if self.count > 0 {
            while self.path.last().is_some_and(|(made, of)| made + 1 == *of) {
                self.path.pop();
            }
            self.path.last_mut()?.0 += 1;
        }
        (self.count, self.at, self.interrupted) = (self.count + 1, 0, 0);
        Some(Schedule::new(0))
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        _: bool,
    ) -> Option<TaskId> {
        // One that sleeps may be named, too: the standard library's may wake for no reason.
        let awake = || runnable.iter().filter(|task| task.runnable());
        let goes_on = |task: &&&Task| Some(task.id()) == current;
        let same = awake().find(goes_on);
        let others = awake().filter(|task| !goes_on(task));
        let free = same.is_none() || self.interrupted < self.most;
        let choices: Vec<_> = same.into_iter().chain(others.filter(|_| free)).collect();
        if self.at == self.path.len() {
            self.path.push((0, choices.len()));
        }
        let (made, of) = self.path[self.at];
        assert_eq!(of, choices.len(), "a case that does not repeat");
        self.at += 1;
        self.interrupted += usize::from(same.is_some() && made > 0);
        Some(choices[made].id())
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("no case draws numbers")
    }
}

/// Run `case` in every order with at most that number of interruptions.
pub fn explore(interruptions: usize, case: impl Fn() + Send + Sync + 'static) {
    let orders = Orders {
        most: interruptions,
        interrupted: 0,
        at: 0,
        path: Vec::new(),
        count: 0,
    };
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    config.max_steps = shuttle::MaxSteps::FailAfter(MAX_STEPS);
    config.failure_persistence = shuttle::FailurePersistence::None;
    let count = shuttle::Runner::new(orders, config).run(case);
    println!("{count} orders");
}
