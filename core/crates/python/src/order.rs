//! Orders of rows, as a plan has them.
//!
//! Law:
//! 1. The words and listed rows are those of a plan; what they cannot be is a ValueError.

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use tables::shuffle::order::Order;

/// The rows at positions `[begin, end)` of an order; words and listed rows are those of a plan.
#[pyfunction]
pub fn order_rows<'py>(
    py: Python<'py>,
    words: [u64; 8],
    listed: &[u8],
    begin: u64,
    end: u64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    ask_order(py, words, listed, |order, epoch| {
        order.listed(epoch, begin, end)
    })
}

/// The positions of an epoch at which the rows `[begin, end)` of the dataset stand, ascending.
#[pyfunction]
pub fn order_positions<'py>(
    py: Python<'py>,
    words: [u64; 8],
    listed: &[u8],
    begin: u64,
    end: u64,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    ask_order(py, words, listed, |order, epoch| {
        order.positions(epoch, begin..end)
    })
}

fn ask_order<'py>(
    py: Python<'py>,
    words: [u64; 8],
    listed: &[u8],
    request: impl FnOnce(&Order, u64) -> Vec<u64> + Send,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let found = py.detach(move || {
        let listed: Vec<u64> = (listed.chunks_exact(8))
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        let (order, epoch) = Order::from_words(words, Arc::new(listed), 1 << 62)?;
        let found = request(&order, epoch);
        Ok(found.into_iter().map(|number| number as i64).collect())
    });
    let found: Vec<i64> = found.map_err(|text: &str| PyValueError::new_err(text))?;
    Ok(PyArray1::from_vec(py, found))
}
