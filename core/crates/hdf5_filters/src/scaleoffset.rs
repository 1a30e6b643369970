//! HDF5 filter 6, scaleoffset: each chunk is its least value and, packed, how far above it others lie.
//!
//! Format: the bits of a number (4 bytes), the size of the least value (1 byte, which is 8) and that
//! value, all little-endian, zeros up to byte 21, then the numbers, each from its highest bit on. Where
//! a fill value is defined, a number of ones alone stands for it. Floats were multiplied by a power of
//! ten and rounded. A number of all bits stands for itself.
//!
//! Law:
//! 1. The element's type and the count of elements are those of the filter's parameters; the chunk
//!    has to have that many.
//! 2. Floats are computed as HDF5 computes them, in their own precision, so that every bit is the same.
//!
//! It must never know what the data is.

use super::bits::BitReader;
use super::{Decoder, Fault, FilterSpec, OutputSize};

const HEADER: usize = 21;
const N_VALUES: usize = 20;
const FILL_AT: usize = 8;

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Integer,
    /// The power of ten by which values were multiplied.
    Float(f64),
}

struct ScaleOffset {
    kind: Kind,
    elements: usize,
    width: usize,
    big_endian: bool,
    fill: Option<u64>,
    is_noop: bool,
}

pub(super) fn make(spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    let values: &[u32; N_VALUES] = spec.values.as_slice().try_into().ok()?;
    let [
        scaling,
        factor,
        elements,
        class,
        width,
        _signed,
        order,
        has_fill,
        ..,
    ] = *values;
    let width = usize::try_from(width).ok()?;
    let kind = match (scaling, class, width) {
        (2, 0, 1 | 2 | 4 | 8) => Kind::Integer,
        (0, 1, 4 | 8) => Kind::Float(10f64.powf(f64::from(factor as i32))),
        _ => return None,
    };
    let fill = u64::from(values[FILL_AT]) | u64::from(values[FILL_AT + 1]) << 32;
    Some(Box::new(ScaleOffset {
        kind,
        elements: usize::try_from(elements).ok()?,
        width,
        big_endian: order == 1,
        fill: (has_fill == 1).then_some(fill),
        is_noop: kind == Kind::Integer && factor as usize == 8 * width,
    }))
}

impl Decoder for ScaleOffset {
    fn is_noop(&self) -> bool {
        self.is_noop
    }

    fn output_size(&self, _stored: &[u8]) -> Result<OutputSize, Fault> {
        let size = self.elements.checked_mul(self.width);
        size.map(OutputSize::Exactly).ok_or(Fault::malformed(1))
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let size = self.elements.saturating_mul(self.width);
        let room = out.len();
        let out = out.get_mut(..size).ok_or(Fault::wrong_size(room, size))?;
        let short = Fault::truncated(HEADER, stored.len());
        let (header, packed) = stored.split_at_checked(HEADER).ok_or(short)?;
        let bits = u32::from_le_bytes(header[..4].try_into().expect("four bytes")) as usize;
        if bits > 8 * self.width {
            return Err(Fault::malformed(2));
        }
        let mut least = [0; 8];
        let least_size = usize::from(header[4]).min(8);
        least[..least_size].copy_from_slice(&header[5..5 + least_size]);
        let least = u64::from_le_bytes(least);
        // Checked for all of them here, so that none is missing below.
        let needed = (bits * self.elements).div_ceil(8);
        if packed.len() < needed {
            return Err(Fault::truncated(HEADER + needed, stored.len()));
        }
        if bits == 8 * self.width {
            // As they are in the memory of a little-endian machine.
            out.copy_from_slice(&packed[..size]);
            if self.big_endian {
                out.chunks_exact_mut(self.width).for_each(<[u8]>::reverse);
            }
            return Ok(size);
        }
        let numbers = Numbers {
            packed: BitReader::new(packed),
            bits,
            fill: self.fill.map(|fill| ((1 << bits) - 1, fill)),
            big_endian: self.big_endian,
        };
        match (self.kind, self.width) {
            (Kind::Integer, 1) => numbers.place::<1>(out, |n| n.wrapping_add(least)),
            (Kind::Integer, 2) => numbers.place::<2>(out, |n| n.wrapping_add(least)),
            (Kind::Integer, 4) => numbers.place::<4>(out, |n| n.wrapping_add(least)),
            (Kind::Integer, _) => numbers.place::<8>(out, |n| n.wrapping_add(least)),
            (Kind::Float(scale), 4) => {
                let (scale, least) = (scale as f32, f32::from_bits(least as u32));
                numbers.place::<4>(out, |n| (n as f32 / scale + least).to_bits().into());
            }
            (Kind::Float(scale), _) => {
                let least = f64::from_bits(least);
                numbers.place::<8>(out, |n| (n as f64 / scale + least).to_bits());
            }
        }
        Ok(size)
    }
}

/// Packed numbers on their way to elements.
struct Numbers<'a> {
    packed: BitReader<'a>,
    bits: usize,
    /// The number that stands for the fill value, and the fill value.
    fill: Option<(u64, u64)>,
    big_endian: bool,
}

impl Numbers<'_> {
    /// Writes an element of `W` bytes for each number, of which the caller knows that they are there.
    fn place<const W: usize>(mut self, out: &mut [u8], value: impl Fn(u64) -> u64) {
        for place in out.chunks_exact_mut(W) {
            let number = self.packed.take(self.bits).unwrap_or(0);
            let element = match self.fill {
                Some((mark, fill)) if number == mark => fill,
                _ => value(number),
            };
            let mut bytes: [u8; W] = element.to_le_bytes()[..W].try_into().expect("W bytes");
            if self.big_endian {
                bytes.reverse();
            }
            place.copy_from_slice(&bytes);
        }
    }
}
