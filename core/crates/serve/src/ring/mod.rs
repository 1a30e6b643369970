//! A stream's ring: tapes in shared memory, who has claimed, published and released what, and the
//! loop of the readers that fill it.
//!
//! Law:
//! 1. A process may die at any time; what it had claimed is found, and run again.
//! 2. Knows nothing of requests.

mod claimed;
pub mod control;
pub mod fallback;
pub mod kept_rings;
pub mod leases;
pub mod maps;
pub mod reader_loop;
pub mod tape;
pub mod window;

#[cfg(all(test, feature = "races"))]
mod races;
#[cfg(test)]
mod ring_stress;
