//! Reading in the user's own process, as Python sees it.
//!
//! Law:
//! 1. A read releases the GIL, unless all that it takes is a copy of a little that is kept.
//! 2. What a signal's handler raises ends a read early; it returns when no thread writes any more.

use super::store::waited;
use super::table::Table;
use engine::select::selection::{AXIS_WORDS, HEAD_WORDS, Hyperslab, KIND_NATIVE, MAX_DIMS};
use engine::task_error::TaskError;
use numpy::npyffi::{_PyArray_GET_ITEM_DATA, NPY_ARRAY_WRITEABLE};
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use os::interrupt;
use os::recycled::{self, Recycled};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serve::process::threads::{LocalDataset as Inner, LocalReader as Threads};
use std::ptr::NonNull;
use std::sync::Arc;
use tables::dataset::Memory;

create_exception!(
    _core,
    ReadFailed,
    PyException,
    "A read failed: kind, filter, detail, task (0), chunk, expected, got, text."
);

fn read_failed(error: TaskError) -> PyErr {
    ReadFailed::new_err(error.told(0))
}

/// As much is copied with the GIL held, and of requests with few words.
const KEPT_BYTES: usize = 64 << 10;
const KEPT_WORDS: usize = 256;

/// Threads and decoded chunks that datasets share.
#[pyclass(frozen, module = "_multitables._core")]
pub struct LocalReader(Arc<Threads>);

#[pymethods]
impl LocalReader {
    #[new]
    fn new(n_threads: usize, cache_bytes: usize) -> PyResult<LocalReader> {
        Ok(LocalReader(Threads::new(n_threads, cache_bytes)?))
    }

    #[getter]
    fn n_threads(&self) -> usize {
        self.0.n_threads
    }

    #[getter]
    fn cache_bytes(&self) -> usize {
        self.0.cache_bytes
    }

    /// Know the dataset of a table.
    fn dataset(&self, table: &Table) -> PyResult<LocalDataset> {
        let (words, len) = table.words();
        let dataset = self.0.dataset(Memory::Private(words.clone()), len);
        dataset.map(LocalDataset).map_err(PyValueError::new_err)
    }

    /// What was done in this process, in the order of `COUNTERS`.
    fn counters(&self) -> PyResult<[u64; 15]> {
        self.0.counters().map_err(PyOSError::new_err)
    }
}

/// A dataset, or one field of it, that is read in this process.
#[pyclass(frozen, module = "_multitables._core")]
pub struct LocalDataset(Inner);

#[pymethods]
impl LocalDataset {
    #[getter]
    fn row_bytes(&self) -> usize {
        self.0.dataset().row_bytes
    }

    /// A stored chunk, by its number in the table: (grid index, byte offset, stored size).
    fn chunk(&self, number: usize) -> Option<(u64, u64, u64)> {
        let chunk = self.0.table().chunks().get(number)?;
        Some((chunk.grid_index, chunk.byte_offset, chunk.stored_size))
    }

    /// Read what `words` say (`wire.encode_hyperslab`) into an array of as many bytes.
    fn read(&self, py: Python<'_>, words: &[u8], out: &Bound<'_, PyUntypedArray>) -> PyResult<()> {
        let words: Vec<u64> = words
            .chunks(8)
            .map(|word| word.try_into().map(u64::from_le_bytes))
            .collect::<Result<_, _>>()
            .map_err(|_| PyValueError::new_err("a request is whole words"))?;
        self.read_words(py, &words, out)
    }

    /// Read whole rows `start`, `start + step`, ...
    fn read_rows(
        &self,
        py: Python<'_>,
        start: u64,
        step: i64,
        count: u64,
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let of = self.0.dataset();
        let mut words = [0u64; HEAD_WORDS + AXIS_WORDS * MAX_DIMS];
        let n = of.dims.len();
        if n > MAX_DIMS {
            return Err(PyValueError::new_err("too many dimensions"));
        }
        words[0] = KIND_NATIVE;
        words[6] = n as u64;
        words[8] = of.field_bytes as u64;
        for (axis, &dim) in words[HEAD_WORDS..]
            .chunks_exact_mut(AXIS_WORDS)
            .zip(&of.dims)
        {
            axis.copy_from_slice(&[0, 1, dim, 0]);
        }
        words[HEAD_WORDS..][..3].copy_from_slice(&[start, step as u64, count]);
        self.read_words(py, &words[..HEAD_WORDS + AXIS_WORDS * n], out)
    }
}

impl LocalDataset {
    fn read_words(
        &self,
        py: Python<'_>,
        words: &[u64],
        out: &Bound<'_, PyUntypedArray>,
    ) -> PyResult<()> {
        let slab = Hyperslab::parse(words, self.0.dataset()).map_err(PyValueError::new_err)?;
        // SAFETY: the bytes of an array that the caller keeps alive. If others use it meanwhile, as they
        // may use one that NumPy fills, its numbers may be any.
        let out = unsafe { &mut *bytes_of(out)? };
        if out.len() != slab.out_bytes() {
            let (expected, got) = (slab.out_bytes(), out.len());
            let text = format!("out must have {expected} bytes, got {got}");
            return Err(PyValueError::new_err(text));
        }
        let is_little = out.len() <= KEPT_BYTES && words.len() <= KEPT_WORDS;
        if is_little && self.0.read_at_once(&slab, out) {
            return Ok(());
        }
        let read = || self.0.read(&slab, out, interrupt::is_stopped);
        waited(py, read)?.map_err(read_failed)
    }
}

/// Memory for a large result, which later results use again: `numpy.asarray` of it is an array of bytes
/// that keeps it.
#[pyclass(frozen, module = "_multitables._core")]
pub struct ResultMemory {
    memory: Recycled,
    len: usize,
}

#[pymethods]
impl ResultMemory {
    /// Smaller results are NumPy's.
    #[classattr]
    const MIN_BYTES: usize = recycled::MIN_BYTES;

    #[new]
    pub(super) fn new(n_bytes: usize) -> PyResult<ResultMemory> {
        Ok(ResultMemory {
            memory: Recycled::new(n_bytes)?,
            len: n_bytes,
        })
    }

    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (self.len,))?;
        interface.set_item("typestr", "|u1")?;
        interface.set_item("data", (self.memory.base() as usize, false))?;
        Ok(interface)
    }
}

impl ResultMemory {
    pub(super) fn base(&self) -> *mut u8 {
        self.memory.base()
    }
}

/// The memory of an array, to be filled.
fn bytes_of(out: &Bound<'_, PyUntypedArray>) -> PyResult<*mut [u8]> {
    let dtype = out.dtype();
    // SAFETY: a live array.
    let (data, flags) = unsafe {
        let array = _PyArray_GET_ITEM_DATA(out.as_array_ptr().cast_const());
        ((*array).data, (*array).flags)
    };
    if !out.is_c_contiguous() || flags & NPY_ARRAY_WRITEABLE == 0 || dtype.has_object() {
        return Err(PyValueError::new_err(
            "out must be a writable and C-contiguous array without objects",
        ));
    }
    let len = out.len() * dtype.itemsize();
    let data = NonNull::new(data.cast()).unwrap_or(NonNull::dangling());
    Ok(std::ptr::slice_from_raw_parts_mut(data.as_ptr(), len))
}
