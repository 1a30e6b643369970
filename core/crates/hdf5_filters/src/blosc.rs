//! HDF5 filter 32001, blosc: one blosc buffer per chunk.
//!
//! Law:
//! 1. The header's sizes are checked against the stored and the wanted size first.
//!
//! It must never know the format of a blosc buffer: that is `blosc_format`.

use super::blosc_format::{BloscChunk, Codecs};
use super::partial::{BlockDecoder, Blocks, Fetched, Fetches};
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

    fn is_sparse(&self, stored: &[u8], fetches: &Fetches) -> Result<bool, Fault> {
        BloscChunk::parse(stored).map(|chunk| chunk.is_sparse(fetches))
    }

    fn next_fetch(
        &self,
        stored: &[u8],
        fetches: &mut Fetches,
    ) -> Result<Option<Range<usize>>, Fault> {
        BloscChunk::parse(stored)?.next_fetch(fetches)
    }

    fn decode_block(
        &mut self,
        stored: &[u8],
        block: (usize, Range<usize>, Fetched),
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        BloscChunk::parse(stored)?.decode_part(&mut self.0, block, wanted, out)
    }
}
