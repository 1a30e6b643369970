//! Selections of elements, as Python takes them.
//!
//! Law: many selections become arrays, a single one a tuple.

use crate::format::virtual_layout::Selection;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

pub type MappingArrays<'py> = (
    Vec<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>,
    Bound<'py, PyArray1<u32>>,
    SelectionArrays<'py>,
    SelectionArrays<'py>,
);

pub type SelectionArrays<'py> = (
    Bound<'py, PyArray1<u8>>,
    Bound<'py, PyArray1<u64>>,
    Bound<'py, PyArray1<u64>>,
);

pub fn selection_arrays<'a, 'py>(
    py: Python<'py>,
    selections: impl Iterator<Item = &'a Selection>,
) -> SelectionArrays<'py> {
    let (mut kinds, mut ends, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
    for selection in selections {
        kinds.push(match selection {
            Selection::None => 0,
            Selection::All => 1,
            Selection::Points { .. } => 2,
            Selection::Regular(axes) => {
                numbers.extend_from_slice(axes.as_flattened());
                3
            }
            Selection::Blocks { bounds, .. } => {
                numbers.extend_from_slice(bounds);
                4
            }
        });
        ends.push(numbers.len() as u64);
    }
    (
        PyArray1::from_vec(py, kinds),
        PyArray1::from_vec(py, ends),
        PyArray1::from_vec(py, numbers),
    )
}

pub fn selection(py: Python<'_>, selection: Selection) -> PyResult<Bound<'_, PyTuple>> {
    match selection {
        Selection::None => ("none",).into_pyobject(py),
        Selection::All => ("all",).into_pyobject(py),
        Selection::Points { rank, coordinates } => ("points", rank, coordinates).into_pyobject(py),
        Selection::Regular(axes) => ("regular", axes.to_vec()).into_pyobject(py),
        Selection::Blocks { rank, bounds } => ("blocks", rank, bounds).into_pyobject(py),
    }
}
