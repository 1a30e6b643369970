//! Random access: requests for chosen rows, answered into memory that the user lends.
//!
//! Law:
//! 1. The parent: dispatcher -> work queue. A reader: server -> answer -> engine. Data never flows back.
//!    Threads of the parent may be readers, too, and who waits for an answer (in_process.rs).
//! 2. A request is checked where it is read: whatever it says, nothing panics and nothing outside the
//!    dataset or the stage is touched.
//! 3. Knows nothing of rings.

pub mod answer;
pub mod arena;
pub mod dispatcher;
pub mod handle;
pub mod here;
pub mod in_process;
pub mod server;
pub mod shared_dataset;
pub mod stage_pool;
pub mod work_queue;

#[cfg(all(test, feature = "races"))]
mod races;
#[cfg(test)]
pub(crate) mod tests;
