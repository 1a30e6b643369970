//! One request on its way, as Python sees it.
//!
//! Law:
//! 1. A result is a view of its stage, with a `StageLease` as its base: the memory is used again when the
//!    handle was released and the last view is gone, whatever the order.
//! 2. No lock is held while Python code can run, so a garbage collection that drops a view or a
//!    handle cannot deadlock. Waiting releases the GIL.

use super::read::ResultMemory;
use engine::scatter::out::Out;
use engine::task_error::Failure;
use numpy::npyffi::{
    NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, PyArrayObject, get_type_object, npy_intp,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use os::recycled;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serve::requests::dispatcher::Dispatcher;
use serve::requests::handle::{Outcome, RequestHandle as Inner};
use serve::requests::in_process;
use serve::requests::stage_pool::StageLease as Lease;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Who waits does no more than this itself: meanwhile it hears of no signal.
pub const HELP_BYTES: usize = 64 << 20;

/// When a wait of this many seconds ends; None: it does not begin.
pub(super) fn deadline_in(seconds: f64) -> Option<Instant> {
    (seconds > 0.0).then(|| Instant::now() + Duration::from_secs_f64(seconds.min(3600.0)))
}

/// What `RequestHandle.poll` says.
pub const PENDING: i32 = 0;
pub const DONE: i32 = 1;
pub const FAILED: i32 = 2;
pub const MORE: i32 = 3;
pub const CANCELLED: i32 = 4;
pub const CLOSED: i32 = 5;

/// A stage in use, as the base of views.
#[pyclass(frozen, module = "_multitables._core")]
pub struct StageLease(
    #[expect(dead_code, reason = "held, and given back when dropped")] Arc<Lease>,
);

/// One request on its way.
#[pyclass(frozen, module = "_multitables._core")]
pub struct RequestHandle {
    pub(super) of: Arc<Dispatcher>,
    pub(super) inner: Arc<Inner>,
    pub(super) dtype: Py<PyArrayDescr>,
    /// None: the library tells it.
    pub(super) shape: Option<Vec<npy_intp>>,
    pub(super) out_bytes: usize,
}

impl Drop for RequestHandle {
    fn drop(&mut self) {
        self.inner.release();
    }
}

fn code(outcome: Option<Outcome>) -> i32 {
    match outcome {
        None => PENDING,
        Some(Outcome::Done) => DONE,
        Some(Outcome::Failed(_)) => FAILED,
        Some(Outcome::More(_)) => MORE,
        Some(Outcome::Cancelled) => CANCELLED,
        Some(Outcome::Closed) => CLOSED,
    }
}

impl RequestHandle {
    pub(super) fn check_shape(&self, py: Python<'_>) -> PyResult<()> {
        let shape = self.shape.as_deref().unwrap_or_default();
        let size = self.dtype.bind(py).itemsize();
        let bytes = shape
            .iter()
            .try_fold(size, |all, &n| all.checked_mul(usize::try_from(n).ok()?));
        match bytes == Some(self.out_bytes) {
            true => Ok(()),
            false => Err(PyValueError::new_err(
                "a result has another size than its shape",
            )),
        }
    }
}

impl RequestHandle {
    /// The result's shape, and its bytes, which the stage has.
    fn dims(&self, py: Python<'_>, lease: &Lease) -> PyResult<(Vec<npy_intp>, usize)> {
        let dims: Vec<npy_intp> = match &self.shape {
            Some(shape) => shape.clone(),
            None => self.inner.shape().iter().map(|&n| n as npy_intp).collect(),
        };
        let size = self.dtype.bind(py).itemsize();
        let bytes = dims
            .iter()
            .try_fold(size, |all, &n| all.checked_mul(usize::try_from(n).ok()?));
        match bytes.filter(|&bytes| bytes <= lease.len()) {
            Some(bytes) => Ok((dims, bytes)),
            None => Err(PyValueError::new_err("a result is larger than its stage")),
        }
    }

    /// An array with memory of its own; large memory is of a result that went, if there is any.
    fn new_result<'py>(
        &self,
        py: Python<'py>,
        dims: &mut [npy_intp],
        bytes: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        if bytes < recycled::MIN_BYTES {
            return self.new_array(py, dims, std::ptr::null_mut());
        }
        let memory = ResultMemory::new(bytes)?;
        let data = memory.base();
        let array = self.new_array(py, dims, data)?;
        with_base(py, array, Py::new(py, memory)?.into_any())
    }

    /// An array over `data`, or with memory of its own.
    fn new_array<'py>(
        &self,
        py: Python<'py>,
        dims: &mut [npy_intp],
        data: *mut u8,
    ) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: NumPy's C API with the GIL held. `data` is null or has room for what dtype and
        // dims give (`dims`), and the caller keeps it. The dtype's reference is stolen.
        unsafe {
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                get_type_object(py, NpyTypes::PyArray_Type),
                self.dtype.bind(py).clone().into_dtype_ptr(),
                dims.len() as i32,
                dims.as_mut_ptr(),
                std::ptr::null_mut(),
                data.cast(),
                if data.is_null() {
                    0
                } else {
                    NPY_ARRAY_WRITEABLE
                },
                std::ptr::null_mut(),
            );
            Bound::from_owned_ptr_or_err(py, array)
        }
    }
}

/// An array over memory that `base` keeps.
fn with_base<'py>(
    py: Python<'py>,
    array: Bound<'py, PyAny>,
    base: Py<PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: NumPy's C API with the GIL held. The bytes stay mapped and lent as long as the base
    // lives; the reference to it is stolen.
    let set =
        unsafe { PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) };
    match set {
        0 => Ok(array),
        _ => Err(PyErr::fetch(py)),
    }
}

#[pymethods]
impl RequestHandle {
    /// PENDING, DONE, FAILED, MORE, CANCELLED or CLOSED.
    fn poll(&self) -> i32 {
        code(self.inner.poll())
    }

    /// The same after it has ended, or after `timeout_seconds`.
    fn wait(&self, py: Python<'_>, timeout_seconds: f64) -> i32 {
        match (self.inner.poll(), deadline_in(timeout_seconds)) {
            (None, Some(deadline)) => code(py.detach(|| self.inner.wait(deadline))),
            (outcome, _) => code(outcome),
        }
    }

    /// Bytes of its result, or of the stage that a library fills.
    #[getter]
    fn out_bytes(&self) -> usize {
        self.out_bytes
    }

    /// Answer here what nobody has begun of it, if this process answers: who waits has the time.
    fn help(&self, py: Python<'_>) {
        if self.out_bytes <= HELP_BYTES {
            py.detach(|| in_process::help(&self.of, &self.inner));
        }
    }

    /// Read the result into memory of its own, if nobody has begun it and this process answers; the
    /// stage is given back. None: it has to be waited for.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(mut dims) = self.shape.clone().filter(|_| self.out_bytes <= HELP_BYTES) else {
            return Ok(None);
        };
        let Some(claimed) = in_process::claim(&self.of, &self.inner) else {
            self.help(py);
            return Ok(None);
        };
        let array = match self.new_result(py, &mut dims, self.out_bytes) {
            Ok(array) => array,
            Err(error) => {
                py.detach(|| claimed.read(None));
                return Err(error);
            }
        };
        // SAFETY: the array was just made with room for the result, and nobody else knows it. It is
        // as aligned as a stage need not be: bytes are copied.
        let to = unsafe {
            let to = (*array.as_ptr().cast::<PyArrayObject>()).fields.data;
            Out::new(to.cast(), self.out_bytes)
        };
        py.detach(|| claimed.read(Some(to)));
        match self.inner.poll() {
            Some(Outcome::Done) => {
                self.inner.release();
                Ok(Some(array))
            }
            _ => Ok(None),
        }
    }

    /// The result, a view of the stage; None before it is there, and after it was taken.
    fn array<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(lease) = self.inner.lease() else {
            return Ok(None);
        };
        let (mut dims, _) = self.dims(py, &lease)?;
        let base = lease.base();
        let lease = Py::new(py, StageLease(lease))?;
        let array = self.new_array(py, &mut dims, base)?;
        with_base(py, array, lease.into_any()).map(Some)
    }

    /// A copy of the result, which gives the stage back; None before it is there, and after it was taken.
    fn copy<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some(lease) = self.inner.lease() else {
            return Ok(None);
        };
        let (mut dims, bytes) = self.dims(py, &lease)?;
        let array = self.new_result(py, &mut dims, bytes)?;
        // SAFETY: the array was just made with room for `bytes`, which the stage has too; nobody
        // writes to either.
        unsafe {
            let to = (*array.as_ptr().cast::<PyArrayObject>()).fields.data;
            std::ptr::copy_nonoverlapping(lease.base(), to.cast(), bytes);
        }
        drop(lease);
        self.inner.release();
        Ok(Some(array))
    }

    /// The shape that a library told; for ragged data the lengths of its parts.
    fn shape(&self) -> Vec<u64> {
        self.inner.shape()
    }

    /// Bytes of a library's result that did not fit the stage.
    #[getter]
    fn needed_bytes(&self) -> Option<u64> {
        match self.inner.poll() {
            Some(Outcome::More(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// Why it failed: (kind, filter, detail, slot, chunk, expected, got, text), or None.
    fn failure(&self) -> Option<Failure> {
        match self.inner.poll() {
            Some(Outcome::Failed(failure)) => Some(failure),
            _ => None,
        }
    }

    /// Take it back if no reader has begun it.
    fn cancel(&self) -> bool {
        self.inner.cancel()
    }

    /// The result was taken: the stage takes other memory for as long as a view is kept.
    fn release(&self) {
        self.inner.release();
    }
}
