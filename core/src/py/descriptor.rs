//! Open files and folders, as Python holds them.
//!
//! Law:
//! 1. A file is closed with its last reference, also if the code that opened it was interrupted. A
//!    number that Python holds would stay open there.

use super::child::refused;
use crate::os::descriptors::open_at;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

#[pyclass(frozen, module = "_multitables._core")]
pub struct Descriptor(Mutex<Option<OwnedFd>>);

#[pymethods]
impl Descriptor {
    /// Open a file, which may be below an open folder.
    #[staticmethod]
    #[pyo3(signature = (name, flags, folder=None))]
    fn open(
        py: Python<'_>,
        name: PathBuf,
        flags: i32,
        folder: Option<&Descriptor>,
    ) -> PyResult<Descriptor> {
        let name = CString::new(name.into_os_string().into_vec())?;
        let folder = folder.map(Descriptor::fileno).transpose()?;
        loop {
            match py.detach(|| open_at(folder, &name, flags)) {
                Ok(fd) => return Ok(Descriptor(Mutex::new(Some(fd)))),
                Err(error) if error.kind() == ErrorKind::Interrupted => py.check_signals()?,
                Err(error) => return Err(refused(error)),
            }
        }
    }

    fn fileno(&self) -> PyResult<i32> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fd = open.as_ref().map(AsRawFd::as_raw_fd);
        fd.ok_or_else(|| PyValueError::new_err("the file is closed"))
    }

    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
