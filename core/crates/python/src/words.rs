//! Requests and tables as Python packs them: bytes that are words.
//!
//! Law:
//! 1. What is odd is a ValueError; memory that is not there, an OSError.

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serve::requests::shared_dataset::ShareError;

/// The words of a request.
pub fn words_of(bytes: &[u8]) -> PyResult<Vec<u64>> {
    let words = bytes.chunks(8);
    let words = words.map(|word| word.try_into().map(u64::from_le_bytes));
    let words: Result<_, _> = words.collect();
    words.map_err(|_| PyValueError::new_err("a request is whole words"))
}

/// The exception for a table that cannot be shared with readers.
pub fn not_shared(error: ShareError) -> PyErr {
    match error {
        ShareError::Memory(error) => PyOSError::new_err(error),
        ShareError::Refused(reason) => PyValueError::new_err(reason),
    }
}
