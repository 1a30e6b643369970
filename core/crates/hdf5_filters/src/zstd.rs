//! HDF5 filter 32015, zstd: one Zstandard frame per chunk.
//!
//! Law:
//! 1. A size that the frame states is checked before anything is decoded.
//!
//! It must never know what the data is.

use super::codecs::{Zstd, zstd_content_size};
use super::{Decoder, Fault, FilterSpec, OutputSize};

struct ZstdFilter(Zstd);

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(ZstdFilter(Zstd::new())))
}

impl Decoder for ZstdFilter {
    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(match zstd_content_size(stored).map(usize::try_from) {
            Some(Ok(size)) => OutputSize::Exactly(size),
            _ => OutputSize::Unknown,
        })
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        self.0.decode(stored, out).map_err(|too_small| {
            if too_small {
                Fault::wrong_size(out.len(), out.len() + 1)
            } else {
                Fault::malformed(1)
            }
        })
    }
}
