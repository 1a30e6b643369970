//! Children of this process, as Python sees them.
//!
//! Law:
//! 1. A child that no Python object holds any more is killed and reaped, also if the code that
//!    started it was interrupted.

use os::child::{Child as Inner, end_together};
use os::spawn;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use std::io;
use std::time::{Duration, Instant};

/// A child of this process, and the socket that controls it.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Child(pub(super) Inner);

#[pymethods]
impl Child {
    #[getter]
    fn pid(&self) -> i32 {
        self.0.pid
    }

    /// Whether somebody has stopped it, as by SIGSTOP.
    #[getter]
    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    /// Its exit status, negative for a signal; None while it runs. An `OSError`: the system does not tell.
    fn poll(&self) -> PyResult<Option<i32>> {
        self.0.poll().map_err(refused)
    }

    /// The same after it has ended, or after some seconds.
    fn wait(&self, py: Python<'_>, seconds: f64) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 3600.0));
        py.detach(|| self.0.wait(deadline))
    }

    /// Kill it, if it runs, without waiting for its end.
    fn end(&self) {
        self.0.end();
    }

    /// Send bytes and descriptors; nothing, if it was ended before.
    fn send(&self, bytes: &[u8], descriptors: Vec<i32>) -> PyResult<()> {
        self.0.send_message(bytes, &descriptors).map_err(refused)
    }
}

/// What the system refused, as Python's `OSError` with its number.
pub(super) fn refused(error: io::Error) -> PyErr {
    PyOSError::new_err((error.raw_os_error(), error.to_string()))
}

/// Start a program `count` times, each with its control socket as descriptor 3.
#[pyfunction]
pub(super) fn start_together(
    py: Python<'_>,
    path: Vec<u8>,
    arguments: Vec<Vec<u8>>,
    environment: Vec<Vec<u8>>,
    count: usize,
) -> PyResult<Vec<Child>> {
    let program = spawn::Program::new(path, arguments, environment)?;
    let started = py.detach(|| spawn::start_together(&program, count));
    Ok(started.map_err(refused)?.into_iter().map(Child).collect())
}

/// Kill children and wait for their end; those that have not ended after `seconds` are left, and
/// reaped when they have. False: some are.
#[pyfunction]
pub(super) fn end_children(py: Python<'_>, children: Vec<Py<Child>>, seconds: f64) -> bool {
    let patience = Duration::from_secs_f64(seconds);
    py.detach(|| end_together(children.iter().map(|child| &child.get().0), patience))
}
