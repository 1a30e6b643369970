//! HDF5 filter 1, deflate: one zlib stream (RFC 1950) per chunk.
//!
//! 1. Adler-32, which every zlib stream ends in, is verified.
//! 2. Bytes after the stream are ignored, as zlib and so HDF5 ignore them.
//!
//! It must never know what the data is.

use libdeflater::{DecompressionError, Decompressor};

use super::{Decoder, Fault, FilterSpec, OutputSize};

struct Deflate(Decompressor);

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(Deflate(Decompressor::new())))
}

impl Decoder for Deflate {
    fn output_size(&self, _stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(OutputSize::Unknown)
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        zlib_decode(&mut self.0, stored, out)
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
