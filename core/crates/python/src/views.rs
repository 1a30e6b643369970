//! What the rows of tapes are as arrays: their dtypes and shapes, and what a block puts them into.
//!
//! Law:
//! 1. A view's row has the bytes of the tape's.

use numpy::PyArrayDescr;
use numpy::PyArrayDescrMethods;
use numpy::npyffi::npy_intp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use tables::plan::Plan;

/// NumPy has no more dimensions.
const MAX_DIMS: usize = 64;

pub(super) struct View {
    pub dtype: Py<PyArrayDescr>,
    pub n_dims: usize,
    /// Of a block, but for the first.
    pub dims: [npy_intp; MAX_DIMS],
}

/// dtype and row shape of each tape.
pub(super) type Views<'py> = Vec<(Bound<'py, PyArrayDescr>, Vec<npy_intp>)>;

/// Views that fit the tapes of a plan.
pub(super) fn known(views: Views<'_>, plan: &Plan) -> PyResult<Vec<View>> {
    if views.len() != plan.tapes.len() {
        return Err(PyValueError::new_err("views and tapes differ in number"));
    }
    let mut kept = Vec::with_capacity(views.len());
    for ((dtype, row_shape), tape) in views.into_iter().zip(&plan.tapes) {
        let items: usize = row_shape.iter().map(|&n| n.max(0) as usize).product();
        if items.checked_mul(dtype.itemsize()) != Some(tape.row_bytes) {
            return Err(PyValueError::new_err(
                "a view's row has another size than the plan's",
            ));
        }
        let n_dims = 1 + row_shape.len();
        let mut dims = [0; MAX_DIMS];
        let Some(inner) = dims.get_mut(1..n_dims) else {
            return Err(PyValueError::new_err("a view has too many dimensions"));
        };
        inner.copy_from_slice(&row_shape);
        kept.push(View {
            dtype: dtype.unbind(),
            n_dims,
            dims,
        });
    }
    Ok(kept)
}

/// What the arrays of a block are put into.
pub(super) enum Container {
    Single,
    Tuple,
    Dict(Vec<Py<PyAny>>),
}

impl Container {
    /// None is one array, an empty list a tuple, and a list of keys a dict.
    pub fn of(keys: Option<Vec<Py<PyAny>>>) -> Container {
        match keys {
            None => Container::Single,
            Some(keys) if keys.is_empty() => Container::Tuple,
            Some(keys) => Container::Dict(keys),
        }
    }
}
