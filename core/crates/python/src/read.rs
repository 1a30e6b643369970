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
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods, dtype};
use os::interrupt;
use os::recycled::{self, Recycled};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PySlice, PyTuple};
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

    /// Read the selection of a key of numbers and slices into the array that `new` returns for its shape.
    /// None: the key is of another kind, out of bounds, or selects nothing.
    fn read_key<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        new: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let (py, of) = (key.py(), self.0.dataset());
        let n = of.dims.len();
        let mut words = [0u64; HEAD_WORDS + AXIS_WORDS * MAX_DIMS];
        if n > MAX_DIMS {
            return Ok(None);
        }
        words[0] = KIND_NATIVE;
        words[6] = n as u64;
        words[8] = of.field_bytes as u64;
        let Some(shape) = ranges_of(key, &of.dims, &mut words[HEAD_WORDS..])? else {
            return Ok(None);
        };
        let out = new.call1((PyTuple::new(py, shape)?,))?;
        let words = &words[..HEAD_WORDS + AXIS_WORDS * n];
        self.read_words(py, words, out.cast::<PyUntypedArray>()?)?;
        Ok(Some(out))
    }
}

/// Write the ranges of a key to the words of the axes, and return the shape of its result.
fn ranges_of(key: &Bound<'_, PyAny>, dims: &[u64], axes: &mut [u64]) -> PyResult<Option<Vec<u64>>> {
    let several = key.cast_exact::<PyTuple>();
    let n_items = match several {
        Ok(items) => items.len(),
        Err(_) => usize::from(!key.is(key.py().Ellipsis())),
    };
    if n_items > dims.len() {
        return Ok(None);
    }
    let mut shape = Vec::with_capacity(dims.len());
    for (number, (axis, &dim)) in axes.chunks_exact_mut(AXIS_WORDS).zip(dims).enumerate() {
        let item = match several {
            Ok(items) if number < n_items => Some(items.get_borrowed_item(number)?.to_owned()),
            Err(_) if number < n_items => Some(key.clone()),
            _ => None,
        };
        let Some(item) = item else {
            axis.copy_from_slice(&[0, 1, dim, 0]);
            shape.push(dim);
            continue;
        };
        if let Ok(slice) = item.cast_exact::<PySlice>() {
            let found = slice.indices(isize::try_from(dim)?)?;
            let count = found.slicelength as u64;
            axis.copy_from_slice(&[found.start as u64, found.step as u64, count, 0]);
            shape.push(count);
        } else {
            let Some(index) = whole_number(&item) else {
                return Ok(None);
            };
            let at = if index < 0 {
                index.wrapping_add(dim as i64)
            } else {
                index
            };
            if at < 0 || at as u64 >= dim {
                return Ok(None);
            }
            axis.copy_from_slice(&[at as u64, 1, 1, 0]);
        }
    }
    Ok(if shape.contains(&0) {
        None
    } else {
        Some(shape)
    })
}

/// A number of Python, or an int64 of NumPy. Subclasses mean other things: a boolean is a mask.
fn whole_number(item: &Bound<'_, PyAny>) -> Option<i64> {
    let is_number = item.is_exact_instance_of::<PyInt>()
        || item.get_type().is(dtype::<i64>(item.py()).typeobj());
    is_number.then(|| item.extract().ok())?
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
