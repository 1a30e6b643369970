//! The core as Python sees it; the only place that knows Python.
//!
//! Law:
//! 1. No lock is held while Python code can run. Waiting releases the GIL.
//! 2. Each binding says what it binds; the work is done in the other folders.

pub mod arrange;
mod arrays;
pub mod child;
mod chunks;
pub mod codec_limit;
pub mod convert;
pub mod datatype;
pub mod descriptor;
pub mod format_error;
pub mod lease;
mod links;
mod machine;
pub mod many_files;
pub mod mappings;
pub mod metadata;
mod module;
mod order;
pub mod pieces;
pub mod read;
mod reader;
pub mod request_handle;
pub mod requests;
pub mod ring;
pub mod saved_index;
mod selections;
pub mod stages;
pub mod store;
pub mod stored;
pub mod survey;
pub mod table;
mod views;
pub mod whole_ring;
mod words;
