//! Why a structure of a file cannot be read.

use std::fmt;
use std::io;

#[derive(Debug)]
pub enum FormatError {
    /// The bytes contradict the specification.
    Corrupt {
        /// Absolute in the file.
        address: u64,
        expected: String,
        got: String,
    },
    /// Valid as far as this reader can tell, which does not know it.
    Unknown { address: u64, what: String },
    /// Valid, and forbids to read the object without knowing it.
    Forbidden { address: u64, what: String },
    /// The bytes cannot be read.
    Io { address: u64, error: io::Error },
}

pub type Result<T> = std::result::Result<T, FormatError>;

/// What contradicts the specification at an address.
pub fn corrupt<T>(address: u64, expected: impl fmt::Display, got: impl fmt::Display) -> Result<T> {
    Err(FormatError::Corrupt {
        address,
        expected: expected.to_string(),
        got: got.to_string(),
    })
}

pub fn unknown<T>(address: u64, what: impl fmt::Display) -> Result<T> {
    Err(FormatError::Unknown {
        address,
        what: what.to_string(),
    })
}

pub fn forbidden<T>(address: u64, what: impl fmt::Display) -> Result<T> {
    Err(FormatError::Forbidden {
        address,
        what: what.to_string(),
    })
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::Corrupt {
                address,
                expected,
                got,
            } => write!(f, "expected {expected} at byte {address}, got {got}"),
            FormatError::Unknown { address, what } | FormatError::Forbidden { address, what } => {
                write!(f, "{what} at byte {address}")
            }
            FormatError::Io { address, error } => write!(f, "{error} at byte {address}"),
        }
    }
}

impl std::error::Error for FormatError {}
