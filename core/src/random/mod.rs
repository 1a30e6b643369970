//! Random access: requests for chosen rows, answered into memory that the user lends.
//!
//! Law:
//! 1. The parent: face -> dispatch -> board. A reader: serve_board -> answer -> hyperslab -> cover
//!    -> cache -> gather, lattice -> stage. Data never flows back, and only face knows Python.
//! 2. An ask is checked where it is read: whatever it says, nothing panics and nothing outside the
//!    dataset or the stage is touched.

mod abreast;
pub mod answer;
pub mod arena;
pub mod board;
pub mod chunk_cache;
pub mod dataset;
pub mod dispatch;
pub mod face;
pub mod flight;
mod part;
pub mod serve_board;
pub mod stage;
mod stored;
mod task;
mod window;

#[cfg(test)]
mod tests;
