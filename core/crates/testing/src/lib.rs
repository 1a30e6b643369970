//! What tests of several crates share: plans and data files, and encoders of filters.
//!
//! Law:
//! 1. Shares no code with what it tests: a change of one alone is seen.
//! 2. Only tests use it; what fails here is a panic.

pub mod encoders;
pub mod fixtures;
