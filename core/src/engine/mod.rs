//! A read: stored chunks are fetched, decoded, and placed into memory that is given.
//!
//! Law:
//! 1. Each chunk is fetched and decoded once, and an error names it by its number.
//! 2. Knows neither who asks for it (a stream's ring, a request) nor Python.

pub mod abreast;
pub mod chunk_cache;
pub mod counters;
pub mod dataset;
pub mod kept;
pub mod open_dataset;
pub mod partial_decode;
mod place_rows;
pub mod place_selected;
pub mod place_shuffled;
pub mod read_ahead;
pub mod share_work;
pub mod shuffle_task;
pub mod sieve;
pub mod transfer;

#[cfg(test)]
mod shuffle_tasks;
