//! HDF5 filter 1, deflate: one zlib stream (RFC 1950) per chunk.
//!
//! Law:
//! 1. Adler-32, which every zlib stream ends in, is verified.
//! 2. Bytes after the stream are ignored, as zlib and so HDF5 ignore them.
//! 3. Two to four chunks can be inflated as a group. Chunks and errors are the same either way.
//!
//! It must never know what the data is.

use libdeflater::{DecompressionError, Decompressor};

use super::{Decoder, Fault, FilterSpec, OutputSize};
use multi_inflate::{Tables, decode_group};

struct Deflate {
    alone: Decompressor,
    tables: Option<Box<Tables>>,
}

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(Deflate {
        alone: Decompressor::new(),
        tables: None,
    }))
}

impl Decoder for Deflate {
    fn output_size(&self, _stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(OutputSize::Unknown)
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        zlib_decode(&mut self.alone, stored, out)
    }

    fn decodes_groups(&self) -> bool {
        true
    }

    fn decode_group(&mut self, stored: &[&[u8]], outs: &mut [&mut [u8]]) -> bool {
        let tables = self.tables.get_or_insert_with(|| Box::new(Tables::new()));
        decode_group(tables, stored, outs).is_some()
    }
}

/// Decodes one zlib stream; blosc's zlib streams come through here too.
pub(super) fn zlib_decode(
    decompressor: &mut Decompressor,
    stored: &[u8],
    out: &mut [u8],
) -> Result<usize, Fault> {
    match decompressor.zlib_decompress(stored, out) {
        Ok(made) => Ok(made),
        // All that is known is that there is at least one byte more.
        Err(DecompressionError::InsufficientSpace) => {
            Err(Fault::wrong_size(out.len(), out.len() + 1))
        }
        Err(DecompressionError::BadData) => Err(Fault::malformed(1)),
    }
}
