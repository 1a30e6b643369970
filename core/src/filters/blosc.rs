//! HDF5 filter 32001, blosc: one blosc buffer per chunk.
//!
//! 1. The header's sizes are checked against the stored and the wanted size first.
//!
//! It must never know the format of a blosc buffer: that is `blosc_chunk`.

use super::blosc_chunk::{BloscChunk, Codecs};
use super::{Decoder, Fault, FilterSpec, OutputSize};

struct Blosc(Codecs);

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(Blosc(Codecs::new())))
}

impl Decoder for Blosc {
    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        BloscChunk::parse(stored).map(|chunk| OutputSize::Exactly(chunk.nbytes))
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        BloscChunk::parse(stored)?.decode(&mut self.0, out)
    }
}
