//! What the operating system and the CPU give: memory, sleep and wake, processes, clocks, hints.
//!
//! Law:
//! 1. Knows no plan, file format or Python; everything else may use it.
//! 2. Each `unsafe` is argued where it stands.

pub mod child;
pub mod clock;
pub mod descriptors;
pub mod fork;
pub mod futex;
pub mod idle_threads;
pub mod interrupt;
pub mod limits;
pub mod memory;
pub mod parent;
pub mod plugin;
pub mod prefetch;
pub mod recycled;
pub mod spawn;
pub mod sync;
pub mod turns;
pub mod unlinked;
pub mod workers;
