//! One measurement of the codec limit, from the side of the parent: its plan, its processes' clocks.
//!
//! Law:
//! 1. Readers start together, when all are ready, and the time is from the first start to the last end.

use crate::ring::control::Control;
use crate::ring::maps::map_control;
use engine::fetch::queue::Turnstile;
use engine::task_error::Failure;
use os::memory::{Mapping, reserved_memfd, sealed_memfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use tables::plan::Plan;

/// The parent's side of one measurement of the codec limit.
pub struct Trial {
    plan: Plan,
    /// Keeps `control`'s memory.
    _head: Mapping,
    control: Control,
    fds: (OwnedFd, OwnedFd),
}

impl Trial {
    pub fn open(plan: &[u8]) -> io::Result<Trial> {
        let plan_fd = sealed_memfd(c"multitables-plan", plan)?;
        let plan = Plan::over(Plan::mapped(plan_fd.as_fd())?)
            .map_err(|reason| io::Error::new(io::ErrorKind::InvalidData, reason))?;
        let control_fd = reserved_memfd(c"multitables-trial", plan.control_bytes())?;
        let (head, control) = map_control(&plan, control_fd.as_fd(), plan.control_bytes())?;
        Ok(Trial {
            plan,
            _head: head,
            control,
            fds: (plan_fd, control_fd),
        })
    }

    /// The plan and the control header, for readers in this process.
    pub fn parts(&self) -> (&Plan, Control) {
        (&self.plan, self.control)
    }

    /// Wait at most so long for the readers, letting them start together when all are ready.
    /// True when all are done.
    pub fn look(&self, limit: Duration) -> bool {
        let n = self.plan.n_readers() as u64;
        for goal in [n, 2 * n] {
            let word = self.control.arm(goal, goal);
            if self.control.published() < goal {
                self.control.sleep(word, limit);
            }
            if self.control.published() < goal {
                return false;
            }
            self.control.pass_turn(0);
        }
        true
    }

    /// From the first start to the last end.
    pub fn elapsed_seconds(&self) -> f64 {
        let records = || (0..self.plan.n_readers()).map(|me| self.control.record(me));
        let begin = records().map(|r| r.begin_ns.load(SeqCst)).min();
        let end = records().map(|r| r.end_ns.load(SeqCst)).max();
        let ns = end.unwrap_or(0).saturating_sub(begin.unwrap_or(0));
        ns as f64 / 1e9
    }

    /// Why a reader failed, if one did.
    pub fn first_failure(&self) -> Option<Failure> {
        (0..self.plan.n_readers()).find_map(|me| self.control.record(me).failure())
    }

    /// The plan's descriptor and the control header's, for a reader in another process.
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.fds.0.as_fd(), self.fds.1.as_fd()]
    }
}
