//! Objects of a store, such as S3 or an HTTP server, as sources of stored bytes and of metadata.
//!
//! Law:
//! 1. How a store is asked is the client's (`client.rs`), which is handed in; here is when, and how much.
//! 2. Many requests are in flight, within a bound of requests and of bytes.

pub mod client;
pub mod metadata;
pub mod object;
mod pool;
pub mod queue;

#[cfg(test)]
mod tests;
