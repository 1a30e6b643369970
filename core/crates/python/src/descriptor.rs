//! Open files, folders and shared memory, as Python holds them.
//!
//! Law:
//! 1. A file is closed with its last reference, also if the code that opened it was interrupted. A
//!    number that Python holds would stay open there.

use super::child::refused;
use engine::chunk_cache::processes::{self, ProcessCache};
use os::descriptors::{copy_of, open_at, receive_with_descriptors};
use os::memory::sealed_memfd;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::CString;
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
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
                Ok(fd) => return Ok(Descriptor::of(fd)),
                Err(error) if error.kind() == ErrorKind::Interrupted => py.check_signals()?,
                Err(error) => return Err(refused(error)),
            }
        }
    }

    /// A copy of a number, above the standard input and outputs.
    #[staticmethod]
    fn copy_of(number: i32) -> PyResult<Descriptor> {
        copy_of(number).map(Descriptor::of).map_err(refused)
    }

    /// Memory that has these bytes for ever.
    #[staticmethod]
    fn holding(py: Python<'_>, data: &[u8]) -> PyResult<Descriptor> {
        let made = py.detach(|| sealed_memfd(c"multitables-message", data));
        made.map(Descriptor::of).map_err(refused)
    }

    /// Memory for `n_bytes` of decoded chunks, which readers of several processes share.
    #[staticmethod]
    fn for_chunks(n_bytes: usize) -> PyResult<Descriptor> {
        let made = ProcessCache::new(n_bytes).and_then(|chunks| chunks.fd().try_clone_to_owned());
        made.map(Descriptor::of).map_err(refused)
    }

    /// Before a child is started: the memory in which children share the chunks that they decode, of
    /// `n_bytes` if it is new. Forked ones have it then.
    #[staticmethod]
    fn for_children(n_bytes: usize) -> PyResult<Descriptor> {
        let chunks = processes::for_children(n_bytes).map_err(refused)?;
        (chunks.fd().try_clone_to_owned())
            .map_or_else(|error| Err(refused(error)), |fd| Ok(Descriptor::of(fd)))
    }

    /// In a child that was not forked: share chunks in memory of its parent.
    fn join_siblings(&self) -> PyResult<()> {
        processes::join(self.taken()?).map_err(refused)
    }

    /// Take a message of at most `most` bytes from a socket, without waiting: the bytes, the
    /// descriptors that came along, and whether more was sent.
    #[staticmethod]
    fn received<'py>(
        py: Python<'py>,
        socket: i32,
        most: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Vec<Descriptor>, bool)> {
        let mut bytes = vec![0; most];
        // SAFETY: used for this call only; a number that is closed is an error of the call.
        let socket = unsafe { BorrowedFd::borrow_raw(socket) };
        let came = receive_with_descriptors(socket, &mut bytes, libc::MSG_DONTWAIT);
        let came = came.map_err(refused)?;
        let descriptors = came.descriptors.into_iter().map(Descriptor::of);
        let bytes = PyBytes::new(py, &bytes[..came.len]);
        Ok((bytes, descriptors.collect(), came.is_cut))
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

impl Descriptor {
    /// A copy of it.
    pub fn copied(&self) -> PyResult<OwnedFd> {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let copy = open.as_ref().map(OwnedFd::try_clone).transpose()?;
        copy.ok_or_else(|| PyValueError::new_err("the file is closed"))
    }

    fn of(fd: OwnedFd) -> Descriptor {
        Descriptor(Mutex::new(Some(fd)))
    }

    /// Hand it over.
    pub(super) fn taken(&self) -> PyResult<OwnedFd> {
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        open.take()
            .ok_or_else(|| PyValueError::new_err("the file is closed"))
    }
}
