//! What a reader process does: it serves streams, requests and trials, and ends with its parent.
//!
//! Law:
//! 1. No panic leaves a reader: it becomes a failed task.

pub mod codec_limit;
pub mod serve;
