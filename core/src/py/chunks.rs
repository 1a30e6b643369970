//! Chunks as NumPy has them: records.
//!
//! Law: the fields of the dtype are those of `Chunk`, without gaps.

use crate::format::chunk::Chunk;
use numpy::{Element, PyArrayDescr};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

const FIELDS: [(&str, &str); 5] = [
    ("grid_index", "<u8"),
    ("byte_offset", "<u8"),
    ("stored_size", "<u8"),
    ("filter_mask", "<u4"),
    ("source", "<u4"),
];
static DTYPE: PyOnceLock<Py<PyArrayDescr>> = PyOnceLock::new();

// SAFETY: the dtype has the size, the fields and the byte order (the library is for little-endian
// machines) of the type, which is plain words and valid for any bytes.
unsafe impl Element for Chunk {
    const IS_COPY: bool = true;

    fn get_dtype(py: Python<'_>) -> Bound<'_, PyArrayDescr> {
        let made = || PyArrayDescr::new(py, FIELDS.to_vec()).map(Bound::unbind);
        let dtype = DTYPE.get_or_try_init(py, made);
        dtype.expect("NumPy knows its own types").bind(py).clone()
    }

    fn clone_ref(&self, _: Python<'_>) -> Chunk {
        *self
    }
}

/// The dtype of chunks. Asked for, as readers import the core without NumPy.
#[pyfunction]
pub fn chunk_dtype(py: Python<'_>) -> Bound<'_, PyArrayDescr> {
    Chunk::get_dtype(py)
}
