//! HDF5 filter 32004, lz4: LZ4 blocks behind a header of two big-endian numbers.
//!
//! Format: decoded size (8 bytes), block size (4 bytes), then for each block its stored size
//! (4 bytes) and its bytes; a block whose stored size is its decoded size is raw.
//!
//! Law:
//! 1. Both sizes are checked against the output before a block is touched.
//!
//! It must never know what the data is.

use super::{Decoder, Fault, FilterSpec, OutputSize, codecs};

pub(super) const HEADER: usize = 12;

struct Lz4;

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(Lz4))
}

impl Decoder for Lz4 {
    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        header(stored).map(|(size, _)| OutputSize::Exactly(size))
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let (size, block_size) = header(stored)?;
        let room = out.len();
        let out = out.get_mut(..size).ok_or(Fault::wrong_size(room, size))?;
        let mut rest = &stored[HEADER..];
        for place in out.chunks_mut(block_size) {
            let data = next_block(&mut rest)?;
            if data.len() == place.len() {
                place.copy_from_slice(data);
            } else if codecs::lz4(data, place) != Some(place.len()) {
                return Err(Fault::malformed(1));
            }
        }
        Ok(size)
    }
}

/// Decoded size and block size, which is never 0; bitshuffle's chunks begin likewise.
pub(super) fn header(stored: &[u8]) -> Result<(usize, usize), Fault> {
    let short = Fault::truncated(HEADER, stored.len());
    let (size, rest) = stored.split_first_chunk::<8>().ok_or(short)?;
    let (block, _) = rest.split_first_chunk::<4>().ok_or(short)?;
    let size = usize::try_from(u64::from_be_bytes(*size)).map_err(|_| Fault::malformed(2))?;
    match u32::from_be_bytes(*block) as usize {
        0 if size > 0 => Err(Fault::malformed(2)),
        block => Ok((size, block.max(1))),
    }
}

/// Takes the next block, with its size in front, off `rest`.
pub(super) fn next_block<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], Fault> {
    let bytes = *rest;
    let short = |wanted| Fault::truncated(wanted, bytes.len());
    let (size, body) = bytes.split_first_chunk::<4>().ok_or(short(4))?;
    let size = u32::from_be_bytes(*size) as usize;
    let (data, behind) = body.split_at_checked(size).ok_or(short(size))?;
    *rest = behind;
    Ok(data)
}
