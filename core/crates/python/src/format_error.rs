//! Errors in a file's structures, and errors that kept them from being read, as exceptions of Python.
//!
//! Law: an exception carries values; Python composes the message.

use engine::fetch::error::FetchError;
use engine::fetch::remote::metadata::StoreError;
use hdf5_format::error::FormatError;
use hdf5_format::saved_columns::Failure;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    _core,
    Corrupt,
    PyValueError,
    "A structure contradicts the specification of HDF5: (text, address, expected, got)."
);
create_exception!(
    _core,
    DamagedIndexError,
    PyException,
    "What is wrong with a saved index."
);
create_exception!(
    _core,
    Forbidden,
    PyValueError,
    "A structure that must not be passed over, and that the core does not know: (text, address)."
);
create_exception!(
    _core,
    StoreFailed,
    PyOSError,
    "A store did not give what was asked: the client's exception, as \"module\\0type\\0text\"."
);
create_exception!(
    _core,
    Unknown,
    PyValueError,
    "A structure that the core does not know: (text, address)."
);

/// A result whose error Python knows as an exception of its own.
pub trait Raised<T> {
    fn raised(self) -> PyResult<T>;
}

impl<T> Raised<T> for Result<T, FormatError> {
    fn raised(self) -> PyResult<T> {
        self.map_err(exception)
    }
}

impl<T> Raised<T> for Result<T, Failure> {
    fn raised(self) -> PyResult<T> {
        self.map_err(|failure| match failure {
            Failure::Damaged(what) => DamagedIndexError::new_err(what),
            Failure::Io(error) => error.into(),
        })
    }
}

fn exception(error: FormatError) -> PyErr {
    let text = error.to_string();
    match error {
        FormatError::Corrupt {
            address,
            expected,
            got,
        } => Corrupt::new_err((text, address, expected, got)),
        FormatError::Unknown { address, .. } => Unknown::new_err((text, address)),
        FormatError::Forbidden { address, .. } => Forbidden::new_err((text, address)),
        FormatError::Io { error, .. } => match error.get_ref().and_then(|e| e.downcast_ref()) {
            Some(StoreError(FetchError::Store(text))) => StoreFailed::new_err(text.clone()),
            _ => PyOSError::new_err((error.raw_os_error(), text)),
        },
    }
}
