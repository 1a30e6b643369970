//! Random access: requests for chosen rows, answered into memory that the user lends.
//!
//! Law:
//! 1. Data flows ask -> hyperslab -> cover -> cache -> gather -> stage, and never back.
//! 2. An ask is checked where it is read: whatever it says, nothing panics and nothing outside the
//!    dataset or the stage is touched.

pub mod answer;
pub mod chunk_cache;
pub mod cover;
pub mod gather;
pub mod hyperslab;
