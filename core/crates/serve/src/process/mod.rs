//! What a reader process does: it serves streams, requests and trials, and ends with its parent. And
//! how datasets are read in the user's own process.
//!
//! Law:
//! 1. No panic leaves a reader: it becomes a failed task.

pub mod codec_limit;
pub mod request_threads;
pub mod ring_threads;
pub mod serve;
pub mod threads;
pub mod trial;
