//! The client of stores, which is Python's: `_multitables/remote/client.py`.
//!
//! Law:
//! 1. Its module is imported when the first range is asked for: most processes never do.
//! 2. It fills the memory that it is lent, and keeps no view of it.
//! 3. What a signal's handler raises while the core waits ends the wait, and is raised when the call ends.

use super::arrays::{describe, lent};
use engine::fetch::disk_cache::DiskCache;
use engine::fetch::error::FetchError;
use engine::fetch::remote::client::{Client, set_client};
use hdf5_format::many::Interruption;
use os::interrupt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

thread_local! {
    /// What a signal's handler has raised.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

struct PythonClient;

impl Client for PythonClient {
    fn read(
        &self,
        name: &[u8],
        access: &[u8],
        begin: u64,
        out: &mut [u8],
    ) -> Result<(), FetchError> {
        let asked = Python::try_attach(|py| {
            let done = lent(py, out, None, |out, _| {
                let client = py.import("_multitables.remote.client")?;
                let (name, access) = (PyBytes::new(py, name), PyBytes::new(py, access));
                let done = client.call_method1("read", (name, access, begin, out))?;
                Ok(done.unbind())
            });
            done.map(drop).map_err(|error| describe(py, &error))
        });
        match asked {
            Some(done) => done.map_err(FetchError::Store),
            None => Err(FetchError::Store("\0Ended\0the interpreter ends".into())),
        }
    }
}

/// Raise what forbids a folder to be the cache on disk; it is created if it is missing.
#[pyfunction]
pub fn check_cache_folder(folder: std::path::PathBuf) -> PyResult<()> {
    DiskCache::check(&folder).map_err(PyErr::from)
}

/// Whether a signal's handler raises something, which is kept.
fn is_interrupted() -> bool {
    let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    let is_raised = raised.is_some();
    if is_raised {
        RAISED.set(raised);
    }
    is_raised
}

/// Release the GIL and do what may wait; raises what a signal's handler raised meanwhile.
pub(super) fn waited<T: Send>(py: Python<'_>, act: impl FnOnce() -> T + Send) -> PyResult<T> {
    let done = py.detach(act);
    interrupt::reset();
    RAISED.take().map_or(Ok(done), Err)
}

/// The same for a call of several threads: a signal's handler ends it early.
pub(super) fn waited_by_all<T: Send>(
    py: Python<'_>,
    act: impl FnOnce(&dyn Interruption) -> T + Send,
) -> PyResult<T> {
    waited(py, || act(&BySignal(interrupt::flag())))
}

/// A signal's handler ends what several threads do.
struct BySignal(Arc<AtomicBool>);

impl Interruption for BySignal {
    fn helping(&self, act: &mut dyn FnMut()) {
        interrupt::helping(&self.0, act);
    }

    fn look(&self) {
        interrupt::is_stopped();
    }
}

/// Have stores asked by Python's client.
pub fn init() {
    interrupt::set_hook(is_interrupted);
    set_client(Box::new(PythonClient));
}
