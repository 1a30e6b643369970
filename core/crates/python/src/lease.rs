//! Blocks as Python sees them: lent by a lease, and on their way through a `with` statement.
//!
//! Law:
//! 1. A block is lent by a `Lease`. Views have the lease as their base; its rows go back to the
//!    readers when the last view is gone, in any order.
//! 2. No lock is held while Python code can run: arrays are made, and leases dropped, outside of it.

use super::views::{Container, View};
use numpy::PyArrayDescrMethods;
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use pyo3::{PyTraverseError, PyVisit};
use serve::ring::leases::Leases;
use serve::ring::tape::tape_rows;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Inner {
    pub(super) leases: Arc<Leases>,
    pub(super) views: Vec<View>,
    pub(super) container: Container,
    /// Rows of the stream before this ring's.
    pub(super) first_row: u64,
}

/// The rows of one block, lent until this is dropped.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Lease {
    inner: Arc<Inner>,
    block: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.inner.leases.release(self.block);
    }
}

impl Lease {
    fn arrays<'py>(lease: &Bound<'py, Lease>) -> PyResult<Bound<'py, PyAny>> {
        let py = lease.py();
        let inner = &lease.get().inner;
        let tapes = 0..inner.views.len();
        match &inner.container {
            Container::Single => Lease::array(lease, 0),
            Container::Tuple => {
                let arrays = tapes.map(|tape| Lease::array(lease, tape));
                Ok(PyTuple::new(py, arrays.collect::<PyResult<Vec<_>>>()?)?.into_any())
            }
            Container::Dict(keys) => {
                let dict = PyDict::new(py);
                for (key, tape) in keys.iter().zip(tapes) {
                    dict.set_item(key.bind(py), Lease::array(lease, tape)?)?;
                }
                Ok(dict.into_any())
            }
        }
    }

    fn array<'py>(lease: &Bound<'py, Lease>, tape: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = lease.py();
        let this = lease.get();
        let inner = &this.inner;
        let view = &inner.views[tape];
        let leases = &inner.leases;
        let (begin, end) = leases.block_rows(this.block);
        let (map, tape) = (&leases.maps.tapes[tape], &leases.plan.tapes[tape]);
        let of_tape = leases.plan.rows(tape, begin..end);
        let n_rows = of_tape.end - of_tape.start;
        // SAFETY: the lease holds these rows: they are published and not given back.
        let mut rows = unsafe { tape_rows(map, tape, of_tape.start, n_rows) };
        let mut dims = view.dims;
        dims[0] = n_rows as npy_intp;
        // SAFETY: NumPy's C API with the GIL held. `rows` has the size that dtype and dims give
        // (checked when the ring was made) and stays mapped and lent as long as the base lives,
        // which is this lease. Both calls steal the reference that they are given.
        unsafe {
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                get_type_object(py, NpyTypes::PyArray_Type),
                view.dtype.bind(py).clone().into_dtype_ptr(),
                view.n_dims as i32,
                dims.as_mut_ptr(),
                std::ptr::null_mut(),
                rows.base().cast(),
                NPY_ARRAY_WRITEABLE,
                std::ptr::null_mut(),
            );
            let array = Bound::from_owned_ptr_or_err(py, array)?;
            let base = lease.clone().into_any().into_ptr();
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base) != 0 {
                return Err(PyErr::fetch(py));
            }
            Ok(array)
        }
    }
}

/// One block on its way through ``with guard as block``.
#[pyclass(frozen, module = "multitables")]
pub struct Guard {
    lease: Mutex<Option<Py<Lease>>>,
}

impl Guard {
    fn kept(&self) -> MutexGuard<'_, Option<Py<Lease>>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, Lease>> {
        let lease = self.kept().as_ref().map(|lease| lease.clone_ref(py));
        lease
            .map(|lease| lease.into_bound(py))
            .ok_or_else(|| closed_error(py))
    }
}

#[pymethods]
impl Guard {
    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Lease::arrays(&self.lease(py)?)
    }

    fn __exit__(
        &self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        let lease = self.kept().take();
        drop(lease); // not while the lock is held
    }

    /// Rows `(first, end)` of this block, counted from the start of the stream.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let lease = self.lease(py)?;
        let lease = lease.get();
        let (begin, end) = lease.inner.leases.block_rows(lease.block);
        let first = lease.inner.first_row;
        Ok((first + begin, first + end))
    }
}

pub(super) fn guard(py: Python<'_>, inner: &Arc<Inner>, block: u64) -> PyResult<Py<PyAny>> {
    let inner = inner.clone();
    let lease = Mutex::new(Some(Py::new(py, Lease { inner, block })?));
    Ok(Py::new(py, Guard { lease })?.into_any())
}

/// The guards of a stream, one after the other. One that is ready costs no Python code.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Guards {
    pub(super) inner: Arc<Inner>,
    /// Waits for a guard, and returns anything else when the stream is over.
    pub(super) get: Py<PyAny>,
}

#[pymethods]
impl Guards {
    fn __iter__(this: PyRef<'_, Guards>) -> PyRef<'_, Guards> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if let Ok(block) = self.inner.leases.try_next() {
            return guard(py, &self.inner, block).map(Some);
        }
        let got = self.get.call0(py)?;
        Ok(got.bind(py).is_instance_of::<Guard>().then_some(got))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.get)
    }
}

fn closed_error(py: Python<'_>) -> PyErr {
    let happened = "the guard was used after its with block: its rows went back to the ring";
    let advice = "Copy what you keep inside the with block, or get the next guard";
    let made = py
        .import("_multitables.errors")
        .and_then(|errors| errors.getattr("ClosedError"))
        .and_then(|class| {
            let options = PyDict::new(py);
            options.set_item("advice", advice)?;
            class.call((happened,), Some(&options))
        });
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
