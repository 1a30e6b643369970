//! Memory as Python sees it, for the time of a call, and what the call raised.
//!
//! Law:
//! 1. A view is released when the call ends, since its memory is used again.

use engine::counters::Mark;
use pyo3::prelude::*;

/// CPython's PyBUF_WRITE, which the limited API of 3.10 does not name.
const WRITABLE: std::ffi::c_int = 0x200;

/// Call `act` with views of memory and of a mark, which are released when it returns. A view that
/// Python still holds then is an error.
pub(super) fn lent(
    py: Python<'_>,
    out: &mut [u8],
    mark: Mark<'_>,
    act: impl FnOnce(&Bound<'_, PyAny>, Option<&Bound<'_, PyAny>>) -> PyResult<Py<PyAny>>,
) -> PyResult<Py<PyAny>> {
    // SAFETY: both are released below, before `out` is used again. A mark is an atomic, whose memory
    // may be written through a shared reference; the parent reads it when this process is dead.
    let (out, mark) = unsafe {
        let mark = mark.map(|mark| view(py, mark.as_ptr().cast(), size_of::<u64>()));
        (view(py, out.as_mut_ptr(), out.len())?, mark.transpose()?)
    };
    let done = act(&out, mark.as_ref());
    for view in mark.iter().chain([&out]) {
        view.call_method0("release")?;
    }
    done
}

/// A memoryview of some memory.
///
/// # Safety
/// The view must be released before the memory is used or freed.
unsafe fn view(py: Python<'_>, base: *mut u8, len: usize) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: the caller's promise.
    unsafe {
        let view = pyo3::ffi::PyMemoryView_FromMemory(base.cast(), len as isize, WRITABLE);
        Bound::from_owned_ptr_or_err(py, view)
    }
}

/// "module\0type\0text" of an exception.
pub(super) fn describe(py: Python<'_>, error: &PyErr) -> String {
    let kind = error.get_type(py);
    let module = kind
        .module()
        .map(|name| name.to_string())
        .unwrap_or_default();
    let name = kind.name().map(|name| name.to_string()).unwrap_or_default();
    let text = error
        .value(py)
        .str()
        .map(|text| text.to_string())
        .unwrap_or_default();
    format!("{module}\0{name}\0{text}")
}
