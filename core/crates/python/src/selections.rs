//! A selection of elements, as Python takes it: a tuple.

use hdf5_format::virtual_layout::Selection;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

pub fn selection(py: Python<'_>, selection: Selection) -> PyResult<Bound<'_, PyTuple>> {
    match selection {
        Selection::None => ("none",).into_pyobject(py),
        Selection::All => ("all",).into_pyobject(py),
        Selection::Points { rank, coordinates } => ("points", rank, coordinates).into_pyobject(py),
        Selection::Regular(axes) => ("regular", axes.to_vec()).into_pyobject(py),
        Selection::Blocks { rank, bounds } => ("blocks", rank, bounds).into_pyobject(py),
    }
}
