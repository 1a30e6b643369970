//! Why stored bytes could not be had.
//!
//! Law: says what went wrong with a file or an object, never for whom it was read.

use std::io;

/// Why stored bytes could not be had.
#[derive(Debug)]
pub enum FetchError {
    Open(io::Error),
    Read(io::Error),
    /// The file ends inside the range.
    Short {
        expected: u64,
        got: u64,
    },
    /// The file is not the one that was indexed, or no longer.
    Changed {
        expected: u64,
        got: u64,
    },
    /// A store refused, or did not answer: the client's exception.
    Store(String),
}
