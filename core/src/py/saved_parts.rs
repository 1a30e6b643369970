//! Parts of a saved index as Python reads them.
//!
//! Law: which parts there may be, Python has checked.

use crate::fetch::checked_parts::{Part, read};
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;

/// The parts of a file that begin at `begins`, have `counts` entries in each column and the CRC-32
/// `sums`: the bytes of each column, whose entries have `widths`. A `ValueError`: a sum differs, or the
/// file ends too early.
#[pyfunction]
pub fn saved_parts<'py>(
    py: Python<'py>,
    fd: i32,
    begins: PyReadonlyArray1<'_, u64>,
    counts: PyReadonlyArray1<'_, u64>,
    sums: PyReadonlyArray1<'_, u32>,
    widths: Vec<u64>,
) -> PyResult<Vec<Bound<'py, PyArray1<u8>>>> {
    let (begins, counts) = (begins.as_slice()?, counts.as_slice()?);
    let parts = begins.iter().zip(counts).zip(sums.as_slice()?);
    let parts: Vec<Part> = parts
        .map(|((&begin, &count), &sum)| Part { begin, count, sum })
        .collect();
    // SAFETY: the caller keeps it open meanwhile.
    let own = unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?;
    match py.detach(|| read(own, &parts, &widths)) {
        Ok(Some(columns)) => Ok(columns
            .into_iter()
            .map(|bytes| PyArray1::from_vec(py, bytes))
            .collect()),
        Ok(None) => Err(PyValueError::new_err("the checksum of a part differs")),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            Err(PyValueError::new_err("it ends too early"))
        }
        Err(error) => Err(error.into()),
    }
}
