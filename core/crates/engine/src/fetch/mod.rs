//! Stored bytes on their way out of files.
//!
//! Law:
//! 1. Says which bytes, never what they mean: filters, rows and tapes are unknown here.
//! 2. A file is what the parent indexed, or it is an error.

pub mod buffer;
pub mod coalesce;
pub mod data_file;
pub mod direct;
pub mod disk_cache;
pub mod error;
pub mod local_file;
pub mod queue;
pub mod recent;
pub mod remote;
