//! Which row stands where: orders of an epoch, permutations, and the rows of a window.
//!
//! Law:
//! 1. Pure: numbers in, numbers out, the same in every process and on every machine.
//! 2. Knows no tasks, files or bytes.

pub mod order;
pub mod permutation;
pub mod row_map;
pub mod splitmix;
