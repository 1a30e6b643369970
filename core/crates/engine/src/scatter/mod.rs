//! Decoded elements, copied to their rows.
//!
//! Law:
//! 1. Pure copying between memory that the caller gives; a copy is checked as a whole.
//! 2. Knows no file, filter or ring.

pub mod arrange;
pub mod elements;
pub mod fill;
pub mod interleave;
pub mod out;
pub mod rows;
pub mod strided;
