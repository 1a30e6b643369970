//! Elements that Python has, converted as those of chunks are.
//!
//! Law: the words of a conversion are those of a plan.

use hdf5_filters::convert::{CONVERSION_WORDS, Conversion, ElementConversion};
use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Convert whole elements of `size` bytes each to elements of `delivered` bytes, by conversions of these
/// words.
#[pyfunction]
pub fn converted<'py>(
    py: Python<'py>,
    stored: &[u8],
    size: usize,
    delivered: usize,
    words: Vec<u64>,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    let all = words
        .chunks(CONVERSION_WORDS)
        .map(|words| Conversion::parse(words, size as u64, delivered as u64));
    let all = all.collect::<Option<Vec<Conversion>>>();
    let wrong = || PyValueError::new_err("a conversion does not fit its element");
    let conversion = ElementConversion::new(size, 0, delivered, all.ok_or_else(wrong)?);
    let bytes = conversion.delivered_size(stored.len()).ok_or_else(wrong)?;
    let mut made = vec![0; bytes];
    let done = py.detach(|| conversion.convert(0, stored, &mut made));
    done.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(PyArray1::from_vec(py, made))
}
