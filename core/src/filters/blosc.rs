//! HDF5 filter 32001, blosc: one blosc buffer per chunk.
//!
//! 1. The header's sizes are checked against the stored and the wanted size first.
//!
//! It must never know the format of a blosc buffer: that is `blosc_chunk`.

use super::blocks::{BlockDecoder, Blocks};
use super::blosc_chunk::{BloscChunk, Codecs};
use super::{Decoder, Fault, FilterSpec, OutputSize};
use std::ops::Range;

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

    fn by_block(&mut self) -> Option<&mut dyn BlockDecoder> {
        Some(self)
    }
}

impl BlockDecoder for Blosc {
    fn blocks(&self, stored: &[u8]) -> Result<Blocks, Fault> {
        let chunk = BloscChunk::parse(stored)?;
        Ok(Blocks {
            head_bytes: chunk.head_bytes(),
            block_size: chunk.block_size,
            n_blocks: chunk.n_blocks(),
            decoded_size: chunk.nbytes,
        })
    }

    fn span(&self, stored: &[u8], n: usize) -> Result<Range<usize>, Fault> {
        BloscChunk::parse(stored)?.block_span(n)
    }

    fn decode_block(
        &mut self,
        stored: &[u8],
        n: usize,
        span: Range<usize>,
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        BloscChunk::parse(stored)?.decode_part(&mut self.0, n, span, wanted, out)
    }
}
