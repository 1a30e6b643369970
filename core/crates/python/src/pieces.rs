//! Requests for rows of many datasets as Python sees them.
//!
//! Law: readers get a table once, for all requests of its datasets.

use super::request_handle::RequestHandle;
use super::requests::WorkQueue;
use super::stages::Stages;
use super::table::Table;
use super::words::{not_shared, words_of};
use engine::pieces::Pieces;
use numpy::npyffi::npy_intp;
use numpy::{PyArrayDescr, dtype};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serve::requests::dispatcher::Request;
use serve::requests::shared_dataset::SharedDataset;
use std::sync::Arc;

/// Many datasets as the readers of one work queue know them.
#[pyclass(frozen, module = "_multitables._core")]
pub struct SharedTable(Arc<SharedDataset>);

#[pymethods]
impl SharedTable {
    /// Give readers the datasets of a table.
    #[new]
    fn new(queue: &WorkQueue, table: &Table) -> PyResult<SharedTable> {
        let shared = SharedDataset::new(&queue.0.arena, table.bytes()).map_err(not_shared)?;
        Ok(SharedTable(Arc::new(shared)))
    }

    /// A chunk by its number in the table: (grid index, byte offset, stored size).
    fn chunk(&self, number: usize) -> Option<(u64, u64, u64)> {
        let chunk = self.0.chunks().get(number)?;
        Some((chunk.grid_index, chunk.byte_offset, chunk.stored_size))
    }

    /// Ask for pieces (`wire.encode_pieces`), which this many readers share. The result is bytes.
    fn pieces(
        &self,
        py: Python<'_>,
        queue: &WorkQueue,
        words: &[u8],
        n_shares: usize,
        stages: &Stages,
        timeout: f64,
    ) -> PyResult<RequestHandle> {
        let mut words = words_of(words)?;
        if words.len() < 4 || !self.0.region.is_of(&queue.0.arena) {
            return Err(PyValueError::new_err("a table of another arena"));
        }
        words[1] = self.0.id;
        words[2] = self.0.region.at() as u64;
        words[3] = self.0.len as u64;
        let wanted = Pieces::parse(&words).map_err(PyValueError::new_err)?;
        wanted
            .check(self.0.table())
            .map_err(PyValueError::new_err)?;
        let n_shares = n_shares.clamp(1, queue.0.work_queue.n_readers());
        let (request, out_bytes) = (Request::Shares(&words, n_shares), wanted.out_bytes);
        let inner = queue.send(py, &request, Some(&self.0), stages, out_bytes, timeout)?;
        let bytes: Bound<'_, PyArrayDescr> = dtype::<u8>(py);
        Ok(RequestHandle {
            of: queue.0.clone(),
            inner,
            dtype: bytes.unbind(),
            shape: Some(vec![out_bytes as npy_intp]),
            out_bytes,
        })
    }
}
