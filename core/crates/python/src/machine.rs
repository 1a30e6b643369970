//! What this machine allows, and what this build has.
//!
//! Law:
//! 1. A limit is read each time: it changes while the process runs.

use engine::chunk_cache::processes;
use engine::fetch::direct::io_uring_available;
use os::{limits, recycled};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serve::process::ring_threads;

/// Bytes that this process may still take, or might within the last second.
#[pyfunction]
pub fn available_bytes() -> u64 {
    limits::available_bytes()
}

/// End the threads that are free, and give the memory back that is kept for more streams and results.
#[pyfunction]
pub fn release_memory(py: Python<'_>) {
    py.detach(|| {
        ring_threads::release();
        recycled::release();
        processes::release();
    });
}

/// Cores that this process may use, or might within the last second.
#[pyfunction]
pub fn available_cores() -> u64 {
    limits::cores()
}

/// Versions and features, for `multitables.build_info()`.
#[pyfunction]
pub fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("core", env!("CARGO_PKG_VERSION"))?;
    info.set_item("io_uring", io_uring_available())?;
    let blosc2 = std::str::from_utf8(blosc2_sys::BLOSC2_VERSION_STRING).unwrap_or_default();
    info.set_item("c-blosc2", blosc2.trim_end_matches('\0'))?;
    Ok(info)
}
