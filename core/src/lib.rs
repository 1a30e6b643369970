//! The native core of multitables, importable as `_multitables._core`.
//!
//! Law:
//! 1. This file only lists modules; each part says its own law, and `py` what Python may call.
//! 2. os, convert -> filters, shuffle, format -> tables, mappings -> fetch, select -> scatter -> engine -> ring or requests -> process
//!    -> py: what stands further left knows nothing of what stands further right
//!    (tests/test_laws_rust.py).

#![deny(unsafe_op_in_unsafe_fn)]

pub mod autotune;
pub mod convert;
pub mod engine;
pub mod fetch;
pub mod filters;
pub mod format;
pub mod mappings;
pub mod os;
pub mod process;
pub mod py;
pub mod requests;
pub mod ring;
pub mod scatter;
pub mod select;
pub mod shuffle;
pub mod tables;
pub mod task_error;

#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod malformed_order;
#[cfg(test)]
mod malformed_plan;
