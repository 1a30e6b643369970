//! Which elements are wanted, and in which chunks they lie.
//!
//! Law:
//! 1. A selection is checked where it is parsed: whatever it says, nothing panics.
//! 2. Pure: touches no file and copies no element.

pub mod arrangement;
pub mod chunk_iter;
pub mod selection;
