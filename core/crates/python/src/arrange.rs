//! Rows that Python has, placed as those of requests are.
//!
//! Law: the words of an arrangement are those of a request.

use super::words::words_of;
use engine::scatter::arrange::arrange;
use engine::scatter::out::Out;
use engine::select::arrangement::Arrangement;
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Place rows as the words of an arrangement say.
#[pyfunction]
pub fn arranged<'py>(
    py: Python<'py>,
    rows: &[u8],
    words: &[u8],
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let words = words_of(words)?;
    let to = Arrangement::parse(&words, rows.len()).map_err(PyValueError::new_err)?;
    let to = to.ok_or_else(|| PyValueError::new_err("there is no arrangement"))?;
    let mut made = vec![0; to.out_bytes()];
    py.detach(|| arrange(&to, 0, rows, Out::of(&mut made)));
    Ok(PyArray1::from_vec(py, made))
}
