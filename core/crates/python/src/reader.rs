//! A reader's process: its loop, which calls a library's reader in Python, and the filters it has.
//!
//! Law:
//! 1. The loop runs without the GIL, which is taken for a call only.

use super::arrays::{describe, lent};
use engine::counters::Mark;
use hdf5_filters::{FILTERS, plugin::load_by};
use os::plugin::{self, Made};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict};
use serve::process::serve;
use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

/// Run a reader on its control socket until the parent closes it. `read(call, rows, memory, mark)`
/// reads through an HDF5 library and returns the bytes of the result and its shape. `rows` are
/// (begin, end) for a stream and None for a request. `mark` is None, or 8 bytes for the number + 1 of
/// the chunk in hand (counters.rs). `files(filter)` names the files that may be its plugin.
#[pyfunction]
pub fn serve_reader(
    py: Python<'_>,
    socket: i32,
    parent: i32,
    read: Py<PyAny>,
    files: Py<PyAny>,
) -> PyResult<()> {
    load_by(Box::new(move |filter| {
        let named = Python::attach(|py| files.call1(py, (filter,))?.extract(py));
        let (_, plugin) = plugin::load(filter, &named.unwrap_or_default() as &Vec<_>)?;
        let made = |made: Made| Box::new(made) as _;
        Some(Arc::new(move |flags, values: &[u32], stored: &[u8]| {
            plugin.decode(flags, values, stored).map(made)
        }))
    }));
    let mut rows = |call: &str, start: u64, stop: u64, out: &mut [u8], mark: Mark<'_>| {
        Python::attach(|py| {
            let done = lent(py, out, mark, |out, mark| {
                read.call1(py, (call, (start, stop), out, mark))
            });
            done.map(drop).map_err(|error| describe(py, &error))
        })
    };
    let mut request = |call: &[u8], out: &mut [u8], mark: Mark<'_>| {
        Python::attach(|py| {
            let call = PyBytes::new(py, call);
            let done = lent(py, out, mark, |out, mark| {
                read.call1(py, (call, py.None(), out, mark))
            });
            done.and_then(|done| done.extract(py))
                .map_err(|error| describe(py, &error))
        })
    };
    // SAFETY: the caller hands its only use of this descriptor over.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    py.detach(|| {
        let mut library = serve::Library {
            rows: &mut rows,
            request: &mut request,
        };
        serve::serve(socket, parent, &mut library)
    })
    .map_err(PyOSError::new_err)
}

/// Filters that are decoded natively: id -> name.
#[pyfunction]
pub fn native_filters(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    static NAMES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let made = || {
        let names = PyDict::new(py);
        for filter in &FILTERS {
            names.set_item(filter.id, filter.name)?;
        }
        Ok::<_, PyErr>(names.unbind())
    };
    Ok(NAMES.get_or_try_init(py, made)?.bind(py).clone())
}

/// Load the first of some files that is the plugin of a filter, and return its number among them.
#[pyfunction]
pub fn load_plugin(number: u32, files: Vec<OsString>) -> Option<usize> {
    Some(plugin::load(number, &files)?.0)
}
