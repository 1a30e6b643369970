//! HDF5 filter 5, nbit: of each number, only the bits that count, without gaps.
//!
//! Format: no header. Elements follow each other as their numbers do, each from its highest bit that
//! counts to its lowest; fields of compounds in their order, what lies between them left out; other
//! types with all their bytes. The filter's parameters describe the type, as nested as it is.
//!
//! Law:
//! 1. A type is turned into a list of numbers once, when the dataset is opened; its length is bounded.
//! 2. Bits that were left out are zero.
//!
//! It must never know what the numbers are: HDF5's conversion extends their signs (`tables::fix`).

use super::bits::BitReader;
use super::{Decoder, Fault, FilterSpec, OutputSize};

/// Larger and deeper types are left to the library.
const MAX_TYPES: usize = 1 << 16;
const MAX_DEPTH: usize = 64;

/// Where one number lies in an element, and which of its bits are stored.
struct Number {
    offset: usize,
    size: usize,
    precision: usize,
    shift: usize,
    big_endian: bool,
}

struct Nbit {
    is_noop: bool,
    elements: usize,
    element_size: usize,
    numbers: Vec<Number>,
    element_bits: usize,
}

pub(super) fn make(spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    let [_, is_noop, elements, ref types @ ..] = *spec.values.as_slice() else {
        return None;
    };
    let element_size = *types.get(1)? as usize;
    let mut found = Types {
        rest: types,
        element_size,
        numbers: Vec::new(),
        left: MAX_TYPES,
    };
    if is_noop == 0 {
        found.add(0, 0)?;
    }
    Some(Box::new(Nbit {
        is_noop: is_noop != 0,
        elements: elements as usize,
        element_size,
        element_bits: found.numbers.iter().map(|number| number.precision).sum(),
        numbers: found.numbers,
    }))
}

/// A description of a type that is being turned into numbers.
struct Types<'a> {
    rest: &'a [u32],
    element_size: usize,
    numbers: Vec<Number>,
    /// How many more types there may be: arrays of empty compounds add no number.
    left: usize,
}

impl Types<'_> {
    fn next(&mut self) -> Option<usize> {
        let (&value, behind) = self.rest.split_first()?;
        self.rest = behind;
        Some(value as usize)
    }

    /// Adds the numbers of the type that comes next, which lies at `offset` of an element; its size,
    /// None if that type cannot be.
    fn add(&mut self, offset: usize, depth: usize) -> Option<usize> {
        let (class, size) = (self.next()?, self.next()?);
        self.left = self.left.checked_sub(1)?;
        if offset.checked_add(size)? > self.element_size || depth > MAX_DEPTH {
            return None;
        }
        match class {
            1 => {
                let (order, precision, shift) = (self.next()?, self.next()?, self.next()?);
                let fits = precision.checked_add(shift)? <= 8 * size;
                if !fits || order > 1 || precision == 0 || size > 8 {
                    return None;
                }
                let big_endian = order == 1;
                self.numbers.push(Number {
                    offset,
                    size,
                    precision,
                    shift,
                    big_endian,
                });
            }
            2 => {
                let (base, mut at) = (self.rest, 0);
                while at < size {
                    self.rest = base;
                    let step = self.add(offset + at, depth + 1)?;
                    at += (step > 0).then_some(step)?;
                }
                (at == size).then_some(())?;
            }
            3 => {
                for _ in 0..self.next()? {
                    let field = self.next()?;
                    self.add(offset.checked_add(field)?, depth + 1)?;
                }
            }
            4 => {
                self.left = self.left.checked_sub(size)?;
                self.numbers.extend((0..size).map(|at| Number {
                    offset: offset + at,
                    size: 1,
                    precision: 8,
                    shift: 0,
                    big_endian: false,
                }));
            }
            _ => return None,
        }
        Some(size)
    }
}

impl Decoder for Nbit {
    fn is_noop(&self) -> bool {
        self.is_noop
    }

    fn output_size(&self, _stored: &[u8]) -> Result<OutputSize, Fault> {
        let size = self.elements.checked_mul(self.element_size);
        size.map(OutputSize::Exactly).ok_or(Fault::malformed(1))
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let size = self.elements.saturating_mul(self.element_size);
        let room = out.len();
        let out = out.get_mut(..size).ok_or(Fault::wrong_size(room, size))?;
        let needed = (self.element_bits.saturating_mul(self.elements)).div_ceil(8);
        if stored.len() < needed {
            return Err(Fault::truncated(needed, stored.len()));
        }
        out.fill(0);
        let mut packed = BitReader::new(stored);
        for element in out.chunks_exact_mut(self.element_size.max(1)) {
            for number in &self.numbers {
                let bits = packed.take(number.precision).unwrap_or(0) << number.shift;
                let place = &mut element[number.offset..][..number.size];
                let bytes = bits.to_le_bytes();
                for (at, byte) in place.iter_mut().enumerate() {
                    *byte = match number.big_endian {
                        false => bytes[at],
                        true => bytes[number.size - 1 - at],
                    };
                }
            }
        }
        Ok(size)
    }
}
