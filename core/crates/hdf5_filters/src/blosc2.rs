//! HDF5 filter 32026, blosc2: a c-blosc2 frame per chunk, or a bare blosc2 buffer.
//!
//! Owns: the contiguous frame (header, chunk offsets) and the n-dimensional layout ("b2nd",
//! once "caterva") inside it, as PyTables and hdf5plugin write them: one frame holds the one
//! blosc buffer of the HDF5 chunk.
//!
//! Law:
//! 1. A frame is read here and not by C, whose reader trusts lengths inside the frame.
//! 2. A b2nd buffer holds whole blocks, so edge blocks carry padding that must not come out.
//! 3. Frames of several buffers, sparse frames and the like are `Unsupported`.
//!
//! It must never know the format of the blosc buffer: that is `blosc_format`.

use super::blosc_format::{BloscChunk, Codecs};
use super::{Decoder, Fault, FilterSpec, OutputSize};

/// Codes of `Fault::malformed`, apart from those of `blosc_format`.
const BAD_FRAME: i64 = 11;
const BAD_METALAYER: i64 = 12;
const BAD_SHAPE: i64 = 13;

const MIN_FRAME_HEADER: usize = 87;
/// c-blosc2 makes arrays of up to 8 dimensions; a msgpack fixarray ends at 15.
const MAX_DIMS: usize = 15;

struct Blosc2 {
    codecs: Codecs,
    block: Vec<u8>,
}

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(Blosc2 {
        codecs: Codecs::new(),
        block: Vec::new(),
    }))
}

impl Decoder for Blosc2 {
    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        let size = match Frame::parse(stored)? {
            None => BloscChunk::parse(stored)?.nbytes,
            Some(frame) => match frame.grid()? {
                Some(grid) => grid.decoded_size,
                None => frame.nbytes,
            },
        };
        Ok(OutputSize::Exactly(size))
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let codecs = &mut self.codecs;
        let Some(frame) = Frame::parse(stored)? else {
            return BloscChunk::parse(stored)?.decode(codecs, out);
        };
        let grid = frame.grid()?;
        let size = grid.as_ref().map_or(frame.nbytes, |g| g.decoded_size);
        let room = out.len();
        let out = out.get_mut(..size).ok_or(Fault::wrong_size(room, size))?;
        match (frame.chunk(codecs)?, grid) {
            // The whole frame is zeros (or was never set), without any buffer.
            (None, _) => out.fill(0),
            (Some(chunk), None) => {
                if chunk.nbytes != size {
                    return Err(Fault::wrong_size(size, chunk.nbytes));
                }
                chunk.decode(codecs, out)?;
            }
            (Some(chunk), Some(grid)) if grid.is_linear() && chunk.nbytes == size => {
                chunk.decode(codecs, out)?;
            }
            (Some(chunk), Some(grid)) => grid.decode(&chunk, codecs, &mut self.block, out)?,
        }
        Ok(size)
    }
}

/// A contiguous frame whose header has been checked.
struct Frame<'a> {
    bytes: &'a [u8],
    header_size: usize,
    /// Bytes of all buffers, which stand right behind the header.
    cbytes: usize,
    nbytes: usize,
    typesize: usize,
}

impl<'a> Frame<'a> {
    /// None when the bytes do not begin as a frame does.
    fn parse(stored: &'a [u8]) -> Result<Option<Frame<'a>>, Fault> {
        if stored.get(2..10) != Some(b"b2frame\0") {
            return Ok(None);
        }
        if stored.len() < MIN_FRAME_HEADER {
            return Err(Fault::truncated(MIN_FRAME_HEADER, stored.len()));
        }
        let bad = Fault::malformed(BAD_FRAME);
        let header_size = big_endian(stored, 11, 4).ok_or(bad)?;
        let frame_size = big_endian(stored, 16, 8).ok_or(bad)?;
        let nbytes = big_endian(stored, 30, 8).ok_or(bad)?;
        let cbytes = big_endian(stored, 39, 8).ok_or(bad)?;
        let typesize = big_endian(stored, 48, 4).ok_or(bad)?;
        let chunk_size = big_endian(stored, 58, 4).ok_or(bad)?;
        if frame_size > stored.len() {
            return Err(Fault::truncated(frame_size, stored.len()));
        }
        let buffers_end = header_size.checked_add(cbytes).ok_or(bad)?;
        if header_size < MIN_FRAME_HEADER || buffers_end > frame_size || typesize == 0 {
            return Err(bad);
        }
        // Low half: 0 for contiguous frames, 1 for directories. Then: one buffer, or none.
        if stored[26] & 0x0f != 0 || (chunk_size != nbytes && nbytes > 0) {
            return Err(Fault::unsupported(stored[26].into()));
        }
        Ok(Some(Frame {
            bytes: &stored[..frame_size],
            header_size,
            cbytes,
            nbytes,
            typesize,
        }))
    }

    /// The one buffer of the frame; None when the frame stands for zeros without any.
    fn chunk(&self, codecs: &mut Codecs) -> Result<Option<BloscChunk<'a>>, Fault> {
        let (buffers, behind) = self.bytes[self.header_size..].split_at(self.cbytes);
        if self.nbytes == 0 {
            return Ok(None);
        }
        // A buffer of offsets, one int64 here, stands behind the buffers.
        let offsets = BloscChunk::parse(behind)?;
        let mut offset = [0u8; 8];
        if offsets.nbytes != 8 {
            return Err(Fault::malformed(BAD_FRAME));
        }
        offsets.decode(codecs, &mut offset)?;
        let offset = i64::from_le_bytes(offset);
        if offset < 0 {
            // No buffer; the highest byte has a bit for what the data is.
            return match (offset >> 56) & 0x7f {
                1 | 4 => Ok(None),
                other => Err(Fault::unsupported(other as u64)),
            };
        }
        let place = usize::try_from(offset).ok().and_then(|o| buffers.get(o..));
        BloscChunk::parse(place.ok_or(Fault::malformed(BAD_FRAME))?).map(Some)
    }

    /// The n-dimensional layout, if the frame has one.
    fn grid(&self) -> Result<Option<Grid>, Fault> {
        let bad = Fault::malformed(BAD_METALAYER);
        let header = &self.bytes[..self.header_size];
        // fixarray, uint16 size, then map16: names with offsets of their contents.
        if header.len() < MIN_FRAME_HEADER + 7 {
            return Ok(None);
        }
        let n_layers = big_endian(header, MIN_FRAME_HEADER + 5, 2).ok_or(bad)?;
        let mut at = MIN_FRAME_HEADER + 7;
        for _ in 0..n_layers {
            let name_len = usize::from(*header.get(at).ok_or(bad)? & 0x1f);
            let name = header.get(at + 1..at + 1 + name_len).ok_or(bad)?;
            at += 1 + name_len;
            let offset = big_endian(header, at + 1, 4).ok_or(bad)?;
            at += 5;
            if name == b"b2nd" || name == b"caterva" {
                let size = offset
                    .checked_add(1)
                    .and_then(|o| big_endian(header, o, 4))
                    .ok_or(bad)?;
                let content = header
                    .get(offset + 5..)
                    .and_then(|rest| rest.get(..size))
                    .ok_or(bad)?;
                return Grid::parse(content, self.typesize, self.nbytes).map(Some);
            }
        }
        Ok(None)
    }
}

/// How the blocks of a b2nd buffer lie in the array.
struct Grid {
    n_dims: usize,
    /// The array's, which is the HDF5 chunk's, in elements.
    shape: [usize; MAX_DIMS],
    block_shape: [usize; MAX_DIMS],
    typesize: usize,
    block_bytes: usize,
    n_blocks: usize,
    decoded_size: usize,
}

impl Grid {
    fn parse(content: &[u8], typesize: usize, nbytes: usize) -> Result<Grid, Fault> {
        let bad = Fault::malformed(BAD_METALAYER);
        // fixarray(7), version, dimensions, then three arrays of int64, int32, int32.
        let n_dims = usize::from(*content.get(2).ok_or(bad)?);
        if n_dims == 0 || n_dims > MAX_DIMS {
            return Err(Fault::unsupported(n_dims as u64));
        }
        let mut at = 3;
        let mut array = |width: usize| -> Result<[usize; MAX_DIMS], Fault> {
            let mut values = [1; MAX_DIMS];
            at += 1;
            for value in &mut values[..n_dims] {
                *value = big_endian(content, at + 1, width).ok_or(bad)?;
                at += 1 + width;
            }
            Ok(values)
        };
        let (shape, chunk_shape, block_shape) = (array(8)?, array(4)?, array(4)?);
        if shape != chunk_shape {
            return Err(Fault::unsupported(n_dims as u64));
        }
        let bad = Fault::malformed(BAD_SHAPE);
        let (mut block_bytes, mut n_blocks, mut decoded_size) = (typesize, 1usize, typesize);
        for (&extent, &block) in shape.iter().zip(&block_shape).take(n_dims) {
            if block == 0 || block > extent.max(1) {
                return Err(bad);
            }
            block_bytes = block_bytes.checked_mul(block).ok_or(bad)?;
            n_blocks = n_blocks.checked_mul(extent.div_ceil(block)).ok_or(bad)?;
            decoded_size = decoded_size.checked_mul(extent).ok_or(bad)?;
        }
        if block_bytes.checked_mul(n_blocks) != Some(nbytes) {
            return Err(bad);
        }
        Ok(Grid {
            n_dims,
            shape,
            block_shape,
            typesize,
            block_bytes,
            n_blocks,
            decoded_size,
        })
    }

    /// True when the blocks, one after the other, are the array: only leading dimensions are
    /// cut, and without padding.
    fn is_linear(&self) -> bool {
        let dims = self.shape.iter().zip(&self.block_shape).take(self.n_dims);
        let mut whole = true;
        for (&extent, &block) in dims.rev() {
            if !whole && block != 1 {
                return false;
            }
            if extent % block != 0 {
                return false;
            }
            whole &= block == extent;
        }
        true
    }

    /// Decodes block by block, each copied to its place while it is in cache.
    fn decode(
        &self,
        chunk: &BloscChunk,
        codecs: &mut Codecs,
        scratch: &mut Vec<u8>,
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let padded = self.block_bytes * self.n_blocks;
        if chunk.nbytes != padded {
            return Err(Fault::wrong_size(padded, chunk.nbytes));
        }
        if self.n_blocks == 0 {
            return Ok(());
        }
        // Blocks of the buffer are blocks of the grid, but for buffers made otherwise.
        let by_block = chunk.block_size == self.block_bytes;
        let needed = if by_block { self.block_bytes } else { padded };
        if needed > out.len().saturating_mul(self.max_padding()) {
            return Err(Fault::malformed(BAD_SHAPE));
        }
        if scratch.len() < needed {
            scratch.resize(needed, 0);
        }
        if !by_block {
            chunk.decode(codecs, &mut scratch[..padded])?;
        }
        for n in 0..self.n_blocks {
            let start = if by_block { 0 } else { n * self.block_bytes };
            let block = &mut scratch[start..start + self.block_bytes];
            if by_block {
                chunk.decode_block(codecs, n, block)?;
            }
            self.place(n, block, out);
        }
        Ok(())
    }

    /// A block is not longer than the array in any dimension, so padding less than doubles it.
    fn max_padding(&self) -> usize {
        1 << self.n_dims
    }

    /// Copies what block `n` holds of the array, row by row.
    fn place(&self, n: usize, block: &[u8], out: &mut [u8]) {
        let last = self.n_dims - 1;
        // First element of the block, and how much of it lies inside the array.
        let (mut origin, mut extent) = ([0; MAX_DIMS], [1; MAX_DIMS]);
        let mut index = n;
        for d in (0..self.n_dims).rev() {
            let across = self.shape[d].div_ceil(self.block_shape[d]);
            origin[d] = index % across * self.block_shape[d];
            index /= across;
            extent[d] = self.block_shape[d].min(self.shape[d] - origin[d]);
        }
        let row_bytes = extent[last] * self.typesize;
        let mut at = [0; MAX_DIMS];
        loop {
            let (mut from, mut to) = (0, 0);
            for d in 0..self.n_dims {
                from = from * self.block_shape[d] + at[d];
                to = to * self.shape[d] + origin[d] + at[d];
            }
            let (from, to) = (from * self.typesize, to * self.typesize);
            out[to..to + row_bytes].copy_from_slice(&block[from..from + row_bytes]);
            // The next row: count up all dimensions but the last.
            let mut d = last;
            loop {
                if d == 0 {
                    return;
                }
                d -= 1;
                at[d] += 1;
                if at[d] < extent[d] {
                    break;
                }
                at[d] = 0;
            }
        }
    }
}

/// A big-endian number of `width` bytes that is not negative; msgpack's numbers are such.
fn big_endian(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let field = bytes.get(at..)?.get(..width)?;
    let value = field.iter().fold(0u64, |v, &b| v << 8 | u64::from(b));
    let sign = 1u64 << (8 * width - 1);
    usize::try_from(value).ok().filter(|_| value & sign == 0)
}
