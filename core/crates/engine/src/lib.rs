//! A read: stored chunks are fetched, decoded, and placed into memory that is given.
//!
//! Law:
//! 1. Each chunk is fetched and decoded once, and an error names it by its number.
//! 2. Knows neither who asks for it (a stream's ring, a request) nor Python.

pub mod assemble;
pub mod chunk_cache;
pub mod chunk_read;
pub mod counters;
mod elements;
pub mod fetch;
pub mod heap_read;
pub mod open_dataset;
mod partial_decode;
pub mod pieces;
pub mod place_rows;
pub mod place_selected;
pub mod place_shuffled;
pub mod read_ahead;
pub mod read_context;
pub mod scatter;
pub mod select;
pub mod selected_read;
pub mod shared;
pub mod shuffle_task;
mod sieve;
pub mod task_error;
pub mod transfer;

#[cfg(test)]
mod shuffle_tasks;
