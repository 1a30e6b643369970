//! Chunks as NumPy has them: records.
//!
//! Law: the fields of the dtype are those of `Chunk`, without gaps.

use hdf5_format::chunk::Chunk;
use numpy::{Element, PyArray1, PyArrayDescr};
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

/// A chunk as an element of an array.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ChunkRecord(pub Chunk);

// SAFETY: the dtype has the size, the fields and the byte order (the library is for little-endian
// machines) of the type, which is plain words and valid for any bytes.
unsafe impl Element for ChunkRecord {
    const IS_COPY: bool = true;

    fn get_dtype(py: Python<'_>) -> Bound<'_, PyArrayDescr> {
        let made = || PyArrayDescr::new(py, FIELDS.to_vec()).map(Bound::unbind);
        let dtype = DTYPE.get_or_try_init(py, made);
        dtype.expect("NumPy knows its own types").bind(py).clone()
    }

    fn clone_ref(&self, _: Python<'_>) -> ChunkRecord {
        *self
    }
}

/// The dtype of chunks. Asked for, as readers import the core without NumPy.
#[pyfunction]
pub fn chunk_dtype(py: Python<'_>) -> Bound<'_, PyArrayDescr> {
    ChunkRecord::get_dtype(py)
}

/// Chunks as an array, without a copy.
pub fn array(py: Python<'_>, chunks: Vec<Chunk>) -> Bound<'_, PyArray1<ChunkRecord>> {
    PyArray1::from_vec(py, chunks.into_iter().map(ChunkRecord).collect())
}

/// Chunks of an array.
pub fn plain(records: &[ChunkRecord]) -> &[Chunk] {
    // SAFETY: a record is a chunk and nothing else (repr(transparent)).
    unsafe { &*(std::ptr::from_ref(records) as *const [Chunk]) }
}
