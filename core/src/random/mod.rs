//! Random access: requests for chosen rows, answered into memory that the user lends.
//!
//! Law:
//! 1. The parent: face -> dispatch -> board. A reader: serve_board -> answer -> hyperslab -> cover
//!    -> cache -> gather, lattice -> stage. Data never flows back, and only face knows Python.
//! 2. An ask is checked where it is read: whatever it says, nothing panics and nothing outside the
//!    dataset or the stage is touched.

pub mod answer;
pub mod arena;
pub mod board;
pub mod dispatch;
pub mod flight;
pub mod serve_board;
pub mod stage;

#[cfg(test)]
mod tests;
