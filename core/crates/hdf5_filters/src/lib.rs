//! The filter pipeline of HDF5: stored bytes of one chunk in, decoded bytes out.
//!
//! Owns: the table `FILTERS`, the order of stages, the filter mask, the sizes between
//! stages and the scratch memory. One file per filter owns that filter's format.
//!
//! Law:
//! 1. Stored bytes are untrusted: whatever they hold, `decode` returns bytes or an error. It
//!    never panics, never reads or writes outside the slices it was given, and its memory stays
//!    under a bound that follows from the decoded size.
//! 2. `decode` fills exactly the output that it is given and keeps no reference to it.
//! 3. After the first chunks it allocates nothing: scratch and contexts are kept and reused.
//! 4. A checksum that the file holds is always verified.
//! 5. What a filter does not support is `FilterErrorKind::Unsupported`, so that the caller may
//!    ask an HDF5 library instead; it is never guessed.
//! 6. A new filter is one file and one line in `FILTERS`.
//!
//! It must never know of Python, files, datasets, rings or readers.
//!
//! ```
//! use hdf5_filters::{FilterSpec, Pipeline};
//!
//! // Shuffle, of elements of two bytes.
//! let shuffle = FilterSpec { id: 2, flags: 0, values: vec![2] };
//! let mut pipeline = Pipeline::new(&[shuffle], 4, || 0).unwrap();
//! let mut out = [0; 4];
//! pipeline.decode(0, &[1, 2, 3, 4], &mut out, || 4).unwrap();
//! assert_eq!(out, [1, 3, 2, 4]);
//! ```

pub mod autotune;
mod bits;
mod bitshuffle;
mod blosc;
mod blosc2;
mod blosc_format;
mod blosc_partial;
mod bzip2;
mod codecs;
pub mod convert;
mod converted;
mod decoder;
mod deflate;
mod fault;
mod fletcher32;
mod lz4;
mod lzf;
mod nbit;
mod partial;
mod pipeline;
pub mod plugin;
mod scaleoffset;
mod shuffle;
mod szip;
mod zstd;

#[cfg(test)]
mod tests;

pub use decoder::FilterSpec;
pub(crate) use decoder::{Decoder, OutputSize};
pub(crate) use fault::Fault;
pub use fault::{FilterError, FilterErrorKind};
pub use multi_inflate::MAX_STREAMS as MAX_GROUP;
pub use partial::{Blocks, Fetched, Fetches, Parts};
pub use pipeline::{GroupItem, MAX_GROUP_BYTES, Pipeline};

use std::fmt;

impl FilterError {
    /// Bytes that a plugin and HDF5 fail with: they break the filter's format.
    pub fn of_plugin(self) -> Option<FilterError> {
        let is_plugin = self.filter != 0 && filter_name(self.filter).is_none();
        is_plugin.then_some(FilterError {
            kind: FilterErrorKind::Malformed,
            ..self
        })
    }
}

impl fmt::Display for FilterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = filter_name(self.filter).unwrap_or("unknown filter");
        let (expected, got) = (self.expected, self.got);
        match self.kind {
            FilterErrorKind::Checksum => write!(
                f,
                "{name} does not match (stored {expected:#010x}, computed {got:#010x})"
            ),
            FilterErrorKind::WrongSize => {
                write!(
                    f,
                    "{name} gave the wrong size (expected {expected} bytes, got {got})"
                )
            }
            FilterErrorKind::Truncated => {
                write!(
                    f,
                    "{name} data is cut short (expected {expected} bytes, got {got})"
                )
            }
            FilterErrorKind::Malformed => {
                write!(f, "{name} data is malformed (code {})", got as i64)
            }
            FilterErrorKind::Unsupported => {
                write!(
                    f,
                    "{name} data uses a feature not handled here (code {got})"
                )
            }
            FilterErrorKind::OtherPicture => {
                write!(f, "element {expected} has a picture of another size")
            }
            FilterErrorKind::NoPicture => write!(f, "element {expected} has no picture"),
            FilterErrorKind::DamagedPicture => {
                write!(f, "element {expected} has a damaged picture")
            }
        }
    }
}

/// A filter that this crate decodes.
pub struct Filter {
    pub id: u32,
    pub name: &'static str,
    /// None: these parameters are not handled, so the whole filter counts as unknown.
    make: fn(&FilterSpec) -> Option<Box<dyn Decoder>>,
}

/// Every filter decoded here; ids are HDF5's registered ones.
#[rustfmt::skip]
pub static FILTERS: [Filter; 13] = [
    Filter { id: 1, name: "deflate", make: deflate::make },
    Filter { id: 2, name: "shuffle", make: shuffle::make },
    Filter { id: 3, name: "fletcher32", make: fletcher32::make },
    Filter { id: 4, name: "szip", make: szip::make },
    Filter { id: 5, name: "nbit", make: nbit::make },
    Filter { id: 6, name: "scaleoffset", make: scaleoffset::make },
    Filter { id: 307, name: "bzip2", make: bzip2::make },
    Filter { id: 32000, name: "lzf", make: lzf::make },
    Filter { id: 32001, name: "blosc", make: blosc::make },
    Filter { id: 32004, name: "lz4", make: lz4::make },
    Filter { id: 32008, name: "bitshuffle", make: bitshuffle::make },
    Filter { id: 32015, name: "zstd", make: zstd::make },
    Filter { id: 32026, name: "blosc2", make: blosc2::make },
];

/// The name of a filter in `FILTERS`.
pub fn filter_name(id: u32) -> Option<&'static str> {
    FILTERS.iter().find(|f| f.id == id).map(|f| f.name)
}
