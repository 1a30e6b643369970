//! The codec limit as Python sees it: one trial of it.
//!
//! Law:
//! 1. What a trial is stands in serve's process/trial.rs.

use crate::child::{Child, refused};
use engine::task_error::Failure;
use pyo3::prelude::*;
use serve::process::codec_limit::TRIAL;
use serve::process::trial;
use std::time::Duration;

/// The parent's side of one measurement of the codec limit.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Trial(trial::Trial);

#[pymethods]
impl Trial {
    #[new]
    fn new(plan: &[u8]) -> PyResult<Trial> {
        Ok(Trial(trial::Trial::open(plan)?))
    }

    /// Send it to a reader, which has this number in it.
    fn send_to(&self, child: &Child, number: u32) -> PyResult<()> {
        child.0.send(number | TRIAL, &self.0.fds()).map_err(refused)
    }

    /// `look`, for this many seconds.
    fn wait(&self, py: Python<'_>, timeout_seconds: f64) -> bool {
        let limit = Duration::from_secs_f64(timeout_seconds.clamp(0.0, 3600.0));
        py.detach(|| self.0.look(limit))
    }

    /// Seconds from the first start to the last end.
    fn seconds(&self) -> f64 {
        self.0.elapsed_seconds()
    }

    /// Why a reader failed, as `Ring.failure`.
    fn failure(&self) -> Option<Failure> {
        self.0.first_failure()
    }

    /// Where a task lies, as `Ring.address`.
    #[pyo3(signature = (task, chunk = None))]
    fn address(&self, task: u64, chunk: Option<u64>) -> (u32, u64, u64, Option<(u64, u64, u64)>) {
        self.0.parts().0.address(task, chunk)
    }
}
