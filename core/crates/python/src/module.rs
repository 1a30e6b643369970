//! The module `_multitables._core`: its classes, functions and numbers.
//!
//! Law:
//! 1. Only this file names what Python may call. The code of each call is in the file of its noun.

use super::{
    arrange, child, chunks, codec_limit, convert, datatype, descriptor, format_error, lease,
    machine, many_files, mappings, metadata, order as orders, pieces, read, reader, request_handle,
    requests, ring, saved_index, stages, store, stored, survey, table, whole_ring,
};
use engine::counters::{self, COUNTERS};
use engine::fetch::remote::metadata::FIRST_BYTES;
use engine::heap_read;
use engine::pieces as read_pieces;
use engine::scatter::interleave;
use engine::select::arrangement::MAX_AXES;
use engine::select::selection;
use engine::task_error::{ERROR_KINDS, NO_CHUNK};
use hdf5_filters::{MAX_GROUP, MAX_GROUP_BYTES};
use hdf5_format::many::{ELSEWHERE, NOWHERE};
use hdf5_format::survey::{ALONE, NO_DATASET};
use os::memory::page_bytes;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use serve::requests::server;
use serve::ring::leases;
use tables::dataset;
use tables::plan;
use tables::shuffle::order::{self, SHUFFLES};
use tables::source;

/// Limits, numbers and layouts that Python plans with, or lays out for the core.
const NUMBERS: &[(&str, u64)] = &[
    ("MAX_READERS", plan::MAX_READERS),
    ("ENDLESS", plan::ENDLESS),
    ("TASK_LIBRARY", plan::KIND_LIBRARY as u64),
    ("TASK_SHARE", plan::KIND_SHARE as u64),
    ("SOURCE_DIRECT", source::SOURCE_DIRECT),
    ("SOURCE_TURNSTILE", source::SOURCE_TURNSTILE),
    ("SOURCE_GROWS", source::SOURCE_GROWS),
    ("SOURCE_LISTED", source::SOURCE_LISTED),
    ("DATASET_CLIPPED", dataset::FLAG_CLIPPED),
    ("DATASET_WINDOWS", dataset::FLAG_WINDOWS),
    ("DATASET_JOINED", dataset::FLAG_JOINED),
    ("DATASET_LIBRARY", dataset::FLAG_LIBRARY),
    ("REMOTE_FIRST_BYTES", FIRST_BYTES),
    ("NO_CHUNK", NO_CHUNK),
    ("STATE_FINISHED", counters::STATE_FINISHED as u64),
    ("STATE_FAILED", counters::STATE_FAILED as u64),
    ("STATE_HANDED_OVER", counters::STATE_HANDED_OVER as u64),
    ("GROUP_CHUNKS", MAX_GROUP as u64),
    ("GROUP_BYTES", MAX_GROUP_BYTES as u64),
    ("LITTLE_BYTES", interleave::LITTLE_BYTES as u64),
    ("ORDER_BY_ROWS", order::BY_ROWS),
    ("MAX_ORDER_ROWS", order::MAX_ROWS),
    ("MAX_ORDER_CHUNKS", order::MAX_CHUNKS),
    ("REQUEST_NATIVE", selection::KIND_NATIVE),
    ("REQUEST_LIBRARY", server::KIND_LIBRARY),
    ("REQUEST_HEAP", heap_read::KIND_HEAP),
    ("REQUEST_LEFT_OUT", heap_read::LEFT_OUT as u64),
    ("REQUEST_PIECES", read_pieces::KIND_PIECES),
    ("REQUEST_HEAD_WORDS", selection::HEAD_WORDS as u64),
    ("MAX_ROW_AXES", MAX_AXES as u64),
    ("HELP_BYTES", request_handle::HELP_BYTES as u64),
    ("SURVEY_ALONE", ALONE as u64),
    ("SURVEY_NO_DATASET", NO_DATASET as u64),
    ("REQUEST_AXIS_WORDS", selection::AXIS_WORDS as u64),
];

/// What blocks are, answers to requests, and paths that lead to no object.
const STATES: &[(&str, i32)] = &[
    ("FIND_NOWHERE", NOWHERE as i32),
    ("FIND_ELSEWHERE", ELSEWHERE as i32),
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
];

fn add_exceptions(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("Corrupt", py.get_type::<format_error::Corrupt>())?;
    module.add(
        "DamagedIndexError",
        py.get_type::<format_error::DamagedIndexError>(),
    )?;
    module.add("Unknown", py.get_type::<format_error::Unknown>())?;
    module.add("Forbidden", py.get_type::<format_error::Forbidden>())?;
    module.add("StoreFailed", py.get_type::<format_error::StoreFailed>())?;
    module.add("UnfitError", py.get_type::<mappings::UnfitError>())?;
    module.add("ReadFailed", py.get_type::<read::ReadFailed>())?;
    module.add("Refused", py.get_type::<requests::Refused>())?;
    module.add("Closed", py.get_type::<requests::Closed>())?;
    module.add("Exhausted", py.get_type::<requests::Exhausted>())?;
    module.add("TooSmall", py.get_type::<requests::TooSmall>())?;
    Ok(())
}

/// It needs no GIL: each class is `Sync`, as the compiler checks, and frozen, so that what changes lies
/// behind a mutex or in atomics; statics are made once, or belong to a thread.
#[pymodule(gil_used = false)]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<metadata::MetadataFile>()?;
    module.add_class::<metadata::OpenedFile>()?;
    module.add_class::<saved_index::SavedIndex>()?;
    module.add_class::<stored::StoredDataset>()?;
    module.add_class::<datatype::Datatype>()?;
    module.add_class::<survey::Survey>()?;
    module.add_class::<survey::StoredKind>()?;
    module.add_class::<mappings::Mappings>()?;
    module.add_class::<ring::Ring>()?;
    module.add_class::<lease::Guard>()?;
    module.add_class::<lease::Guards>()?;
    module.add_class::<lease::Lease>()?;
    module.add_class::<child::Child>()?;
    module.add_class::<descriptor::Descriptor>()?;
    module.add_class::<codec_limit::Trial>()?;
    module.add_class::<stages::Arena>()?;
    module.add_class::<stages::Stages>()?;
    module.add_class::<requests::Dataset>()?;
    module.add_class::<requests::WorkQueue>()?;
    module.add_class::<pieces::SharedTable>()?;
    module.add_class::<table::Table>()?;
    module.add_class::<table::Builder>()?;
    module.add_class::<request_handle::RequestHandle>()?;
    module.add_class::<request_handle::StageLease>()?;
    module.add_class::<read::LocalReader>()?;
    module.add_class::<read::LocalDataset>()?;
    module.add_class::<read::ResultMemory>()?;
    let py = module.py();
    add_exceptions(module)?;
    for (name, value) in STATES {
        module.add(name, value)?;
    }
    store::init();
    module.add("PAGE_BYTES", page_bytes())?;
    for (name, value) in NUMBERS {
        module.add(name, value)?;
    }
    module.add("SHUFFLES", PyTuple::new(py, SHUFFLES)?)?;
    module.add("SAVED_COLUMNS", saved_index::columns(py)?)?;
    module.add("COUNTERS", PyTuple::new(py, COUNTERS)?)?;
    let kinds = PyDict::new(py);
    for (number, name) in ERROR_KINDS {
        kinds.set_item(number, name.to_lowercase())?;
    }
    module.add("ERROR_KINDS", kinds)?;
    module.add_function(wrap_pyfunction!(reader::serve_reader, module)?)?;
    module.add_function(wrap_pyfunction!(child::start_together, module)?)?;
    module.add_function(wrap_pyfunction!(child::end_children, module)?)?;
    module.add_function(wrap_pyfunction!(chunks::chunk_dtype, module)?)?;
    module.add_function(wrap_pyfunction!(machine::available_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(machine::available_cores, module)?)?;
    module.add_function(wrap_pyfunction!(machine::release_memory, module)?)?;
    module.add_function(wrap_pyfunction!(reader::native_filters, module)?)?;
    module.add_function(wrap_pyfunction!(metadata::name_of_unlinked, module)?)?;
    module.add_function(wrap_pyfunction!(reader::load_plugin, module)?)?;
    module.add_function(wrap_pyfunction!(ring::control_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(whole_ring::whole_ring, module)?)?;
    module.add_function(wrap_pyfunction!(orders::order_rows, module)?)?;
    module.add_function(wrap_pyfunction!(orders::order_positions, module)?)?;
    module.add_function(wrap_pyfunction!(machine::build_info, module)?)?;
    module.add_function(wrap_pyfunction!(datatype::datatype_of, module)?)?;
    module.add_function(wrap_pyfunction!(arrange::arranged, module)?)?;
    module.add_function(wrap_pyfunction!(convert::converted, module)?)?;
    module.add_function(wrap_pyfunction!(many_files::survey_files, module)?)?;
    module.add_function(wrap_pyfunction!(store::check_cache_folder, module)?)?;
    Ok(())
}
