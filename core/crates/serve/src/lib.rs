//! What goes between the user's process and its readers: streams, requests, and a reader's process.
//!
//! Law:
//! 1. `ring` and `requests` know nothing of each other; `process` uses both.
//! 2. Any process may die at any time. Memory that others may write is atomics.
//! 3. Knows no Python.

pub mod process;
pub mod requests;
pub mod ring;

#[cfg(test)]
mod malformed_order;
#[cfg(test)]
mod malformed_plan;
#[cfg(test)]
mod shared_ring;
