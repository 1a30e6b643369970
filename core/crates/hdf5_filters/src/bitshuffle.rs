//! HDF5 filter 32008, bitshuffle: bits of a block of elements transposed, then perhaps LZ4 or
//! zstd, block by block.
//!
//! Parameters: version (2 numbers), element size, block size in elements (0: the default),
//! compression (0 none, 2 LZ4, 3 zstd). Compressed chunks begin as those of the lz4 filter do.
//!
//! Law:
//! 1. Elements are transposed in whole groups of 8; what is left over is stored as it is.
//! 2. Every size is checked before a block is touched.
//!
//! It must never know what the data is.

use super::codecs::{self, Zstd};
use super::{Decoder, Fault, FilterSpec, OutputSize, lz4};

const GROUP: usize = 8;
/// The default block: this many bytes, but not less elements than the second number.
const DEFAULT_BLOCK_BYTES: usize = 8192;
const MIN_BLOCK_ELEMENTS: usize = 128;

/// c-blosc2's number of the format whose bit shuffle is bitshuffle's own.
const BLOSC_VERSION: u8 = 5;

enum Compression {
    No,
    Lz4,
    Zstd(Zstd),
}

struct Bitshuffle {
    element_size: usize,
    /// Bytes of a block where no header tells.
    block_bytes: usize,
    compression: Compression,
    block: Vec<u8>,
}

pub(super) fn make(spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    let value = |i: usize| spec.values.get(i).copied().unwrap_or(0) as usize;
    let element_size = value(2);
    if element_size == 0 || element_size > i32::MAX as usize / GROUP {
        return None;
    }
    let elements = match value(3) {
        0 => (DEFAULT_BLOCK_BYTES / element_size / GROUP * GROUP).max(MIN_BLOCK_ELEMENTS),
        n if n % GROUP == 0 => n,
        _ => return None,
    };
    Some(Box::new(Bitshuffle {
        element_size,
        block_bytes: elements.checked_mul(element_size)?,
        compression: match value(4) {
            0 => Compression::No,
            2 => Compression::Lz4,
            3 => Compression::Zstd(Zstd::new()),
            _ => return None,
        },
        block: Vec::new(),
    }))
}

impl Decoder for Bitshuffle {
    fn stored_size(&self, decoded_size: usize) -> Option<usize> {
        matches!(self.compression, Compression::No).then_some(decoded_size)
    }

    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(OutputSize::Exactly(match self.compression {
            Compression::No => stored.len(),
            _ => lz4::header(stored)?.0,
        }))
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let group_bytes = GROUP * self.element_size;
        let (size, block_bytes, mut rest) = match self.compression {
            Compression::No => (stored.len(), self.block_bytes, stored),
            _ => {
                let (size, block_bytes) = lz4::header(stored)?;
                (size, block_bytes, &stored[lz4::HEADER..])
            }
        };
        let room = out.len();
        let out = out.get_mut(..size).ok_or(Fault::wrong_size(room, size))?;
        if block_bytes % group_bytes != 0 {
            return Err(Fault::malformed(3));
        }
        let whole = size / group_bytes * group_bytes;
        let (body, tail) = out.split_at_mut(whole);
        for place in body.chunks_mut(block_bytes) {
            let block = match &mut self.compression {
                Compression::No => {
                    let (block, behind) = rest.split_at(place.len());
                    rest = behind;
                    block
                }
                compression => {
                    let data = lz4::next_block(&mut rest)?;
                    if self.block.len() < place.len() {
                        self.block.resize(place.len(), 0);
                    }
                    let block = &mut self.block[..place.len()];
                    let made = match compression {
                        Compression::Zstd(zstd) => zstd.decode(data, block).ok(),
                        _ => codecs::lz4(data, block),
                    };
                    if made != Some(block.len()) {
                        return Err(Fault::malformed(1));
                    }
                    &*block
                }
            };
            if !codecs::blosc_bitunshuffle(self.element_size, BLOSC_VERSION, block, place) {
                return Err(Fault::malformed(4));
            }
        }
        let left = rest.get(..tail.len());
        tail.copy_from_slice(left.ok_or(Fault::truncated(tail.len(), rest.len()))?);
        Ok(size)
    }
}
