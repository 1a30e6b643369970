//! The tables that the parent writes and readers read in shared memory, checked once.
//!
//! Law:
//! 1. Untrusted words become values here, or are refused; later code indexes freely.
//! 2. No I/O on data files, no clocks, no Python.

pub mod access;
pub mod axis_window;
pub mod builder;
pub mod dataset;
mod elements;
pub mod mappings;
pub mod parts;
pub mod plan;
mod record;
pub mod shuffle;
pub mod source;
pub mod survey_table;
mod task;
mod words;
