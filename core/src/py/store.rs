//! The client of stores, which is Python's: `_multitables/remote/client.py`.
//!
//! Law:
//! 1. Its module is imported when the first range is asked for: most processes never do.
//! 2. It fills the memory that it is lent, and keeps no view of it.

use super::module::{describe, lent};
use crate::fetch::data_file::FetchError;
use crate::fetch::disk_cache::DiskCache;
use crate::fetch::remote::client::{Client, set_client};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

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

/// Have stores asked by Python's client.
pub fn init() {
    set_client(Box::new(PythonClient));
}
