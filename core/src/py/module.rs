//! The module `_multitables._core`: its classes, functions and numbers.
//!
//! Law:
//! 1. What Python may call is named here, and nowhere else.

use super::{
    child, codec_limit, convert, datatype, descriptor, format_error, metadata, pieces, read,
    request_handle, requests, ring, saved_parts, store, survey,
};
use crate::engine::counters::{self, COUNTERS, Mark};
use crate::engine::heap_read;
use crate::engine::pieces as read_pieces;
use crate::fetch::direct::io_uring_available;
use crate::fetch::remote::metadata::FIRST_BYTES;
use crate::filters::{FILTERS, MAX_GROUP, MAX_GROUP_BYTES, plugin};
use crate::format::survey::{ALONE, NO_DATASET};
use crate::os::limits;
use crate::os::memory::page_bytes;
use crate::process::serve;
use crate::requests::server;
use crate::ring::{control, leases};
use crate::scatter::interleave;
use crate::select::selection;
use crate::shuffle::order::{self, Order, SHUFFLES};
use crate::tables::dataset;
use crate::tables::plan;
use crate::tables::source;
use crate::task_error::{ERROR_KINDS, NO_CHUNK};
use numpy::PyArray1;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};
use std::ffi::OsString;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

/// CPython's PyBUF_WRITE, which the limited API of 3.10 does not name.
const WRITABLE: std::ffi::c_int = 0x200;

/// Limits, numbers and layouts that Python plans with, or lays out for the core.
const NUMBERS: &[(&str, u64)] = &[
    ("MAX_READERS", plan::MAX_READERS),
    ("ENDLESS", plan::ENDLESS),
    ("TASK_LIBRARY", plan::KIND_LIBRARY as u64),
    ("TASK_SHARE", plan::KIND_SHARE as u64),
    ("SOURCE_DIRECT", source::SOURCE_DIRECT),
    ("SOURCE_TURNSTILE", source::SOURCE_TURNSTILE),
    ("SOURCE_GROWS", source::SOURCE_GROWS),
    ("DATASET_CLIPPED", dataset::FLAG_CLIPPED),
    ("DATASET_WINDOWS", dataset::FLAG_WINDOWS),
    ("DATASET_JOINED", dataset::FLAG_JOINED),
    ("DATASET_LIBRARY", dataset::FLAG_LIBRARY),
    ("REMOTE_FIRST_BYTES", FIRST_BYTES),
    ("NO_CHUNK", NO_CHUNK),
    ("STATE_FINISHED", counters::STATE_FINISHED as u64),
    ("STATE_FAILED", counters::STATE_FAILED as u64),
    ("GROUP_CHUNKS", MAX_GROUP as u64),
    ("GROUP_BYTES", MAX_GROUP_BYTES as u64),
    ("LITTLE_BYTES", interleave::LITTLE_BYTES as u64),
    ("ORDER_BY_ROWS", order::BY_ROWS),
    ("MAX_ORDER_ROWS", order::MAX_ROWS),
    ("MAX_ORDER_CHUNKS", order::MAX_CHUNKS),
    ("REQUEST_NATIVE", selection::KIND_NATIVE),
    ("REQUEST_LIBRARY", server::KIND_LIBRARY),
    ("REQUEST_HEAP", heap_read::KIND_HEAP),
    ("REQUEST_PIECES", read_pieces::KIND_PIECES),
    ("REQUEST_HEAD_WORDS", selection::HEAD_WORDS as u64),
    ("SURVEY_ALONE", ALONE as u64),
    ("SURVEY_NO_DATASET", NO_DATASET as u64),
    ("REQUEST_AXIS_WORDS", selection::AXIS_WORDS as u64),
];

/// Run a reader on its control socket until the parent closes it. `read(call, rows, memory, mark)`
/// reads through an HDF5 library and returns the bytes of the result and its shape. `rows` are
/// (begin, end) for a stream and None for a request. `mark` is None, or 8 bytes for the number + 1 of
/// the chunk in hand (counters.rs). `files(filter)` names the files that may be its plugin.
#[pyfunction]
fn serve_reader(
    py: Python<'_>,
    socket: i32,
    parent: i32,
    read: Py<PyAny>,
    files: Py<PyAny>,
) -> PyResult<()> {
    plugin::search_by(Box::new(move |filter| {
        Python::attach(|py| files.call1(py, (filter,))?.extract(py)).unwrap_or_default()
    }));
    let mut rows = |call: &str, start: u64, stop: u64, out: &mut [u8], mark: Mark<'_>| {
        Python::attach(|py| {
            let done = lent(py, out, mark, |out, mark| {
                read.call1(py, (call, (start, stop), out, mark))
            });
            done.map(drop).map_err(|error| describe(py, &error))
        })
    };
    let mut request = |call: &[u8], out: &mut [u8], mark: Mark<'_>| {
        Python::attach(|py| {
            let call = PyBytes::new(py, call);
            let done = lent(py, out, mark, |out, mark| {
                read.call1(py, (call, py.None(), out, mark))
            });
            done.and_then(|done| done.extract(py))
                .map_err(|error| describe(py, &error))
        })
    };
    // SAFETY: the caller hands its only use of this descriptor over.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    py.detach(|| {
        let mut library = serve::Library {
            rows: &mut rows,
            request: &mut request,
        };
        serve::serve(socket, parent, &mut library)
    })
    .map_err(PyOSError::new_err)
}

/// Call `act` with views of memory and of a mark, which are released when it returns: a view that was
/// kept is an error of its own.
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

/// Bytes that this process may still take, or might within the last second.
#[pyfunction]
fn available_bytes() -> u64 {
    limits::available_bytes()
}

/// CPUs that quotas allow this process; 0 without a quota.
#[pyfunction]
fn cpu_quota() -> u64 {
    limits::cpu_quota()
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

/// Filters that are decoded natively: id -> name.
#[pyfunction]
fn native_filters(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let names = PyDict::new(py);
    for filter in &FILTERS {
        names.set_item(filter.id, filter.name)?;
    }
    Ok(names)
}

/// Load the first of some files that is the plugin of a filter, and return its number among them.
#[pyfunction]
fn load_plugin(number: u32, files: Vec<OsString>) -> Option<usize> {
    Some(plugin::load(number, &files)?.0)
}

/// Bytes of a ring's control header.
#[pyfunction]
fn control_bytes(n_readers: usize, n_slots: usize, n_consumers: usize) -> usize {
    control::control_bytes(n_readers, n_slots, n_consumers)
}

/// The rows at positions `[begin, end)` of an order; words and listed rows are those of a plan.
#[pyfunction]
fn order_rows<'py>(
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
fn order_positions<'py>(
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

/// Versions and features, for `multitables.build_info()`.
#[pyfunction]
fn build_info(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let info = PyDict::new(py);
    info.set_item("core", env!("CARGO_PKG_VERSION"))?;
    info.set_item("io_uring", io_uring_available())?;
    let blosc2 = std::str::from_utf8(blosc2_sys::BLOSC2_VERSION_STRING).unwrap_or_default();
    info.set_item("c-blosc2", blosc2.trim_end_matches('\0'))?;
    Ok(info)
}

#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<metadata::MetadataFile>()?;
    module.add_class::<metadata::OpenedFile>()?;
    module.add_class::<ring::Ring>()?;
    module.add_class::<ring::Guard>()?;
    module.add_class::<ring::Guards>()?;
    module.add_class::<ring::Lease>()?;
    module.add_class::<child::Child>()?;
    module.add_class::<descriptor::Descriptor>()?;
    module.add_class::<codec_limit::Trial>()?;
    module.add_class::<requests::Arena>()?;
    module.add_class::<requests::Stages>()?;
    module.add_class::<requests::Dataset>()?;
    module.add_class::<requests::WorkQueue>()?;
    module.add_class::<pieces::Table>()?;
    module.add_class::<request_handle::RequestHandle>()?;
    module.add_class::<request_handle::StageLease>()?;
    module.add_class::<read::LocalReader>()?;
    module.add_class::<read::LocalDataset>()?;
    module.add_class::<read::ResultMemory>()?;
    let py = module.py();
    module.add("Corrupt", py.get_type::<format_error::Corrupt>())?;
    module.add("Unknown", py.get_type::<format_error::Unknown>())?;
    module.add("Forbidden", py.get_type::<format_error::Forbidden>())?;
    module.add("StoreFailed", py.get_type::<format_error::StoreFailed>())?;
    module.add("ReadFailed", py.get_type::<read::ReadFailed>())?;
    module.add("Refused", py.get_type::<requests::Refused>())?;
    module.add("Closed", py.get_type::<requests::Closed>())?;
    module.add("Exhausted", py.get_type::<requests::Exhausted>())?;
    module.add("TooSmall", py.get_type::<requests::TooSmall>())?;
    for (name, value) in [
        ("ENDED", leases::ENDED),
        ("EMPTY", leases::EMPTY),
        ("FAILED", leases::FAILED),
        ("HELD", leases::HELD),
        ("CLOSED", leases::CLOSED),
        ("HANDLE_PENDING", request_handle::PENDING),
        ("HANDLE_DONE", request_handle::DONE),
        ("HANDLE_FAILED", request_handle::FAILED),
        ("HANDLE_MORE", request_handle::MORE),
        ("HANDLE_CANCELLED", request_handle::CANCELLED),
        ("HANDLE_CLOSED", request_handle::CLOSED),
    ] {
        module.add(name, value)?;
    }
    store::init();
    module.add("PAGE_BYTES", page_bytes())?;
    for (name, value) in NUMBERS {
        module.add(name, value)?;
    }
    module.add("SHUFFLES", PyTuple::new(py, SHUFFLES)?)?;
    module.add("COUNTERS", PyTuple::new(py, COUNTERS)?)?;
    let kinds = PyDict::new(py);
    for (number, name) in ERROR_KINDS {
        kinds.set_item(number, name.to_lowercase())?;
    }
    module.add("ERROR_KINDS", kinds)?;
    module.add_function(wrap_pyfunction!(serve_reader, module)?)?;
    module.add_function(wrap_pyfunction!(child::start_together, module)?)?;
    module.add_function(wrap_pyfunction!(child::end_children, module)?)?;
    module.add_function(wrap_pyfunction!(available_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(cpu_quota, module)?)?;
    module.add_function(wrap_pyfunction!(native_filters, module)?)?;
    module.add_function(wrap_pyfunction!(metadata::name_of_unlinked, module)?)?;
    module.add_function(wrap_pyfunction!(load_plugin, module)?)?;
    module.add_function(wrap_pyfunction!(control_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(order_rows, module)?)?;
    module.add_function(wrap_pyfunction!(order_positions, module)?)?;
    module.add_function(wrap_pyfunction!(build_info, module)?)?;
    module.add_function(wrap_pyfunction!(datatype::describe_datatype, module)?)?;
    module.add_function(wrap_pyfunction!(convert::converted, module)?)?;
    module.add_function(wrap_pyfunction!(survey::survey, module)?)?;
    module.add_function(wrap_pyfunction!(saved_parts::saved_parts, module)?)?;
    module.add_function(wrap_pyfunction!(store::check_cache_folder, module)?)?;
    Ok(())
}
