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

mod bits;
mod bitshuffle;
mod blosc;
mod blosc2;
mod blosc_format;
mod blosc_partial;
mod bzip2;
mod codecs;
mod converted;
mod deflate;
mod fletcher32;
mod lz4;
mod lzf;
mod nbit;
mod partial;
mod pipeline;
pub mod plugin;
mod scaleoffset;
mod shuffle;
mod snappy;
mod szip;
mod zstd;

#[cfg(test)]
pub(crate) mod tests;

pub use multi_inflate::MAX_STREAMS as MAX_GROUP;
pub use partial::{Blocks, Fetched, Fetches, Parts};
pub use pipeline::{GroupItem, MAX_GROUP_BYTES, Pipeline};

use std::fmt;

/// One filter of a dataset's pipeline, as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilterSpec {
    pub id: u32,
    pub flags: u32,
    pub values: Vec<u32>,
}

/// What went wrong; says what `expected` and `got` of the error mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterErrorKind {
    /// `expected` is the checksum that is stored, `got` the one computed.
    Checksum,
    /// `expected` bytes had to come out, `got` bytes did (at least, where the filter stopped).
    WrongSize,
    /// `expected` bytes had to be stored, `got` were.
    Truncated,
    /// The stored bytes break the filter's format; `got` is the decoder's code, as an i64.
    Malformed,
    /// Perhaps valid, but not handled here; `got` is what was met. A library may read it.
    Unsupported,
}

/// One stage of a pipeline failed on one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError {
    pub filter: u32,
    pub kind: FilterErrorKind,
    pub expected: u64,
    pub got: u64,
}

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
        }
    }
}

impl std::error::Error for FilterError {}

/// A `FilterError` before the pipeline has put the filter's id on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub kind: FilterErrorKind,
    pub expected: u64,
    pub got: u64,
}

impl Fault {
    pub fn wrong_size(expected: usize, got: usize) -> Fault {
        Fault::new(FilterErrorKind::WrongSize, expected as u64, got as u64)
    }

    pub fn truncated(expected: usize, got: usize) -> Fault {
        Fault::new(FilterErrorKind::Truncated, expected as u64, got as u64)
    }

    pub fn malformed(code: i64) -> Fault {
        Fault::new(FilterErrorKind::Malformed, 0, code as u64)
    }

    pub fn unsupported(what: u64) -> Fault {
        Fault::new(FilterErrorKind::Unsupported, 0, what)
    }

    /// The same, of a filter.
    pub fn of(self, filter: u32) -> FilterError {
        FilterError {
            filter,
            kind: self.kind,
            expected: self.expected,
            got: self.got,
        }
    }

    pub fn checksum(stored: u32, computed: u32) -> Fault {
        Fault::new(FilterErrorKind::Checksum, stored.into(), computed.into())
    }

    fn new(kind: FilterErrorKind, expected: u64, got: u64) -> Fault {
        Fault {
            kind,
            expected,
            got,
        }
    }
}

/// How many bytes a stage makes of some stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputSize {
    /// Known before decoding: from the stored size or from a header.
    Exactly(usize),
    /// Only decoding tells.
    Unknown,
}

/// One filter's decoder, with the contexts it reuses from chunk to chunk.
pub(crate) trait Decoder: Send {
    /// True when these parameters make the filter do nothing.
    fn is_noop(&self) -> bool {
        false
    }

    /// The size of the stored bytes, where it follows from the decoded size alone.
    fn stored_size(&self, _decoded_size: usize) -> Option<usize> {
        None
    }

    /// The size of the decoded bytes, where header or stored size tell it.
    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault>;

    /// The part of `stored` that is the decoded data, for filters that change no byte.
    /// None: `decode` has to be called.
    fn unwrap<'a>(&self, _stored: &'a [u8]) -> Option<Result<&'a [u8], Fault>> {
        None
    }

    /// Decodes into `out` and returns how many bytes were made. More bytes than `out` holds
    /// are a `WrongSize` fault.
    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault>;

    /// For filters whose chunks are made of blocks that can be decoded alone.
    fn by_block(&mut self) -> Option<&mut dyn partial::BlockDecoder> {
        None
    }

    /// Whether there is a `decode_group`, which may be quicker than `decode` of each chunk.
    fn decodes_groups(&self) -> bool {
        false
    }

    /// Decodes two to four chunks, each to exactly the size of its out. False: at least one may be
    /// bad, or this is not done here, and `decode` has to be called for each.
    fn decode_group(&mut self, _stored: &[&[u8]], _outs: &mut [&mut [u8]]) -> bool {
        false
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
