//! Stored elements -> delivered elements: what HDF5's conversion, h5py and PyTables make of them.
//!
//! Owns: the list of conversions that an element is described by, and what each of them does to bytes.
//!
//! Law:
//! 1. Pure: bytes in, bytes out. That a conversion lies inside its element is checked in `Conversion::parse`,
//!    so later code indexes freely.
//! 2. Conversions that change neither place nor size are applied in place (`Conversion::apply`), once for
//!    each element that is placed. All others make new elements
//!    (`ElementConversion`), which numbers of another type may follow (`Cast`).
//!
//! It must never know datasets, files or filters.

mod cast;
mod element;
mod float_format;
mod kind;
mod numbers;
mod picture;
mod scale;

pub use cast::Cast;
pub use element::{CONVERSION_WORDS, Conversion, ElementConversion};
pub use kind::Kind;
