//! Python's view of a survey: columns as arrays.
//!
//! Law: returns columns; Python finds the NumPy types.

use super::metadata::{MetadataFile, bytes};
use super::store::waited;
use super::stored::filter_values;
use crate::format::survey::{Interruption, Storage, Survey};
use crate::os::interrupt;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A signal's handler ends a survey.
struct BySignal(Arc<AtomicBool>);

impl Interruption for BySignal {
    fn helping(&self, act: &mut dyn FnMut()) {
        interrupt::helping(&self.0, act);
    }

    fn look(&self) {
        interrupt::is_stopped();
    }
}

/// What objects are, by the offsets of their headers: `kinds` (a list of dicts), and of each object
/// `kind` (its number, `ALONE` or `NO_DATASET`), `rank` and `n_chunks`; of all datasets, one behind the
/// other, `dims`, `chunk_dims`, `chunks` and `inline`; `scales`, rows of object, axis and
/// offset; `attributes`, tuples of object, name, datatype, dims and elements.
#[pyfunction]
pub fn survey<'py>(
    py: Python<'py>,
    file: &MetadataFile,
    offsets: Vec<u64>,
    with_scales: bool,
    names: Vec<Vec<u8>>,
) -> PyResult<Bound<'py, PyDict>> {
    let found = waited(py, || {
        let by_signal = BySignal(interrupt::flag());
        (file.file()).survey(&offsets, with_scales, &names, &by_signal)
    })?;
    columns(py, found)
}

/// A survey as `survey` returns it.
pub fn columns<'py>(py: Python<'py>, found: Survey) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kinds", kinds(py, &found)?)?;
    dict.set_item("kind", PyArray1::from_vec(py, found.kind))?;
    dict.set_item("rank", PyArray1::from_vec(py, found.ranks))?;
    dict.set_item("n_chunks", PyArray1::from_vec(py, found.n_chunks))?;
    dict.set_item("dims", PyArray1::from_vec(py, found.dims))?;
    dict.set_item("chunk_dims", PyArray1::from_vec(py, found.chunk_dims))?;
    dict.set_item("chunks", PyArray1::from_vec(py, found.chunks))?;
    dict.set_item("inline", bytes(py, &found.inline))?;
    let scales = found.scales.iter();
    let scales = scales.flat_map(|scale| [scale.object, scale.axis, scale.offset]);
    dict.set_item("scales", PyArray1::from_iter(py, scales))?;
    let attributes = PyList::empty(py);
    for (object, name, datatype, dims, elements) in &found.attributes {
        let dims = dims.as_ref().map(|dims| PyTuple::new(py, dims));
        let (datatype, elements) = (bytes(py, datatype), bytes(py, elements));
        attributes.append((object, name, datatype, dims.transpose()?, elements))?;
    }
    dict.set_item("attributes", attributes)?;
    Ok(dict)
}

fn kinds<'py>(py: Python<'py>, found: &Survey) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for kind in &found.kinds {
        let dict = PyDict::new(py);
        let layout = match kind.storage {
            Storage::Compact => "compact",
            Storage::Contiguous => "contiguous",
            Storage::Chunked => "chunked",
        };
        dict.set_item("layout", layout)?;
        dict.set_item("datatype", bytes(py, &kind.datatype))?;
        dict.set_item("element_bytes", kind.element_bytes)?;
        let filters = kind.filters.iter().map(|filter| filter_values(py, filter));
        dict.set_item("filters", filters.collect::<PyResult<Vec<_>>>()?)?;
        dict.set_item("fill_value", bytes(py, kind.fill.shown()))?;
        dict.set_item("class", bytes(py, &kind.class))?;
        list.append(dict)?;
    }
    Ok(list)
}
