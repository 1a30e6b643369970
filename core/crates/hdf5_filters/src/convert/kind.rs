//! The kinds of conversions: strings' ends, numbers with unused bits, other floats, truth values,
//! times, pictures.
//!
//! Law:
//! 1. A value is converted as a whole: its bytes are read before any is written, so both sides may be the
//!    same memory.
//! 2. Bits are counted from the lowest one of a number, in either byte order.

use super::float_format::FloatFormat;
use super::picture::Picture;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Copy,
    /// What follows the first NUL becomes NUL.
    NulTerminated,
    /// What follows the last byte that is no space becomes NUL.
    SpacePadded,
    /// Only some bits count; the highest of them is the sign, or zeros go before them.
    Number {
        bits: Bits,
        signed: bool,
    },
    /// Whether any of these bits is set.
    Truth(Bits),
    Float(FloatFormat),
    /// PyTables' Time64: microseconds and, above them, seconds, both signed, become a float of seconds.
    Time {
        big_endian: bool,
    },
    /// Bytes of a JPEG or PNG. `ElementConversion` decodes them, as that may fail.
    Picture(Picture),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bits {
    offset: u32,
    count: u32,
    big_endian: bool,
}

/// Bytes of the longest number.
const MAX_BYTES: usize = 8;

impl Bits {
    fn of_word(word: u64, size: u64) -> Option<Bits> {
        let (count, offset) = (word >> 8 & 0xffff, word >> 24 & 0xffff);
        let is_inside = count > 0 && offset + count <= 8 * size && size <= MAX_BYTES as u64;
        is_inside.then_some(Bits {
            offset: offset as u32,
            count: count as u32,
            big_endian: word & 2 != 0,
        })
    }

    /// The bits of a number, at the upper end.
    fn high(self, value: &[u8]) -> u64 {
        let mut number = [0; MAX_BYTES];
        for (place, &byte) in number.iter_mut().zip(value) {
            *place = byte;
        }
        if self.big_endian {
            number[..value.len()].reverse();
        }
        u64::from_le_bytes(number) << (64 - self.count - self.offset)
    }
}

impl Kind {
    /// As a plan writes it: `Conversion` in `_multitables/index/types/element_type.py`. None: there is no such
    /// kind for values of these sizes.
    pub fn parse(word: u64, bias: u64, size: u64, to_size: u64) -> Option<Kind> {
        let is_alone = word >> 8 == 0;
        let (low, alike) = (word & 0xff, is_alone && size == to_size);
        match low {
            0 if alike => Some(Kind::NulTerminated),
            1 if alike => Some(Kind::Copy),
            2 if alike => Some(Kind::SpacePadded),
            3 => FloatFormat::of_words(word >> 8, bias, size, to_size).map(Kind::Float),
            4..8 if (size..=MAX_BYTES as u64).contains(&to_size) => Some(Kind::Number {
                bits: Bits::of_word(word, size)?,
                signed: low & 1 != 0,
            }),
            8 | 9 if alike && size == 8 => Some(Kind::Time {
                big_endian: low == 9,
            }),
            16 => Picture::parse(word >> 8, bias, to_size).map(Kind::Picture),
            12..16 if to_size == 1 => Some(Kind::Truth(Bits::of_word(word, size)?)),
            _ => None,
        }
    }

    #[inline]
    pub fn convert(self, from: &[u8], to: &mut [u8]) {
        match self {
            Kind::Float(format) => format.convert(from, to),
            Kind::Number { bits, signed } => extend(bits, signed, bits.high(from), to),
            Kind::Truth(bits) => to[0] = u8::from(bits.high(from) != 0),
            Kind::Picture(_) => {}
            _ => {
                to.copy_from_slice(from);
                self.apply(to);
            }
        }
    }

    #[inline]
    pub fn apply(self, value: &mut [u8]) {
        let end = match self {
            Kind::Copy | Kind::Picture(_) => return,
            Kind::NulTerminated => value.iter().position(|&byte| byte == 0),
            Kind::SpacePadded => {
                let last = value.iter().rposition(|&byte| byte != b' ');
                Some(last.map_or(0, |last| last + 1))
            }
            Kind::Number { bits, signed } => return extend(bits, signed, bits.high(value), value),
            Kind::Truth(bits) => return value[0] = u8::from(bits.high(value) != 0),
            Kind::Float(format) => return format.apply(value),
            Kind::Time { big_endian } => return seconds(value, big_endian),
        };
        let end = end.unwrap_or(value.len());
        value[end..].fill(0);
    }
}

/// Write a number whose bits are at the upper end.
fn extend(bits: Bits, signed: bool, high: u64, to: &mut [u8]) {
    let extended = match signed {
        true => (high as i64 >> (64 - bits.count)) as u64,
        false => high >> (64 - bits.count),
    };
    let size = to.len().min(MAX_BYTES);
    to.copy_from_slice(&extended.to_le_bytes()[..size]);
    if bits.big_endian {
        to.reverse();
    }
}

fn seconds(value: &mut [u8], big_endian: bool) {
    if let Some(&bytes) = value.first_chunk() {
        let both = match big_endian {
            true => i64::from_be_bytes(bytes),
            false => i64::from_le_bytes(bytes),
        };
        let time = 1e-6 * f64::from(both as i32) + (both >> 32) as f64;
        value.copy_from_slice(&match big_endian {
            true => time.to_be_bytes(),
            false => time.to_le_bytes(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        for (micros, whole, expected) in [(0, 0, 0.0), (500_000, 1, 1.5), (-250_000, -1, -1.25)] {
            let (micros, whole) = (i32::to_le_bytes(micros), i32::to_le_bytes(whole));
            let mut value: Vec<u8> = [micros, whole].concat();
            let mut swapped = value.clone();
            swapped.reverse();
            Kind::parse(8, 0, 8, 8).unwrap().apply(&mut value);
            Kind::parse(9, 0, 8, 8).unwrap().apply(&mut swapped);
            assert_eq!(value, f64::to_le_bytes(expected));
            assert_eq!(swapped, f64::to_be_bytes(expected));
        }
    }

    #[test]
    fn bits_that_do_not_count_become_the_sign() {
        for (word, stored, expected) in [
            (0x0c04, [0x34, 0xf2], [0x34, 0x02, 0, 0]),
            (0x0c04, [0x34, 0xf8], [0x34, 0x08, 0, 0]),
            (0x0c05, [0x34, 0xf2], [0x34, 0x02, 0, 0]),
            (0x0c05, [0x34, 0x08], [0x34, 0xf8, 0xff, 0xff]),
            (0x0c07, [0x08, 0x34], [0xff, 0xff, 0xf8, 0x34]),
            (0x0c06, [0xf8, 0x34], [0, 0, 0x08, 0x34]),
            (0x1005, [0x34, 0xf2], [0x34, 0xf2, 0xff, 0xff]),
            (0x0400_0805, [0x30, 0xf8], [0x83, 0xff, 0xff, 0xff]),
        ] {
            let (mut value, mut wide) = (stored, [9; 4]);
            let kind = |to_size| Kind::parse(word, 0, 2, to_size).unwrap();
            kind(4).convert(&stored, &mut wide);
            assert_eq!(wide, expected, "{word:x}");
            kind(2).apply(&mut value);
            let narrow = if word & 2 == 0 { 0..2 } else { 2..4 };
            assert_eq!(value, expected[narrow], "{word:x}");
        }
        let truth = Kind::parse(0x0000_030c, 0, 2, 1).unwrap();
        for (stored, expected) in [([8, 1], 0), ([4, 0], 1)] {
            let mut value = [9];
            truth.convert(&stored, &mut value);
            assert_eq!(value, [expected]);
        }
        for (word, size, to_size) in [
            (1, 2, 4),
            (0x0100, 2, 2),
            (4, 2, 2),
            (0x1104, 2, 2),
            (0x0100_1004, 2, 2),
            (0x0804, 9, 9),
            (0x0804, 2, 1),
            (8, 1, 1),
            (10, 8, 8),
            (0x080c, 1, 2),
        ] {
            assert_eq!(Kind::parse(word, 0, size, to_size), None, "{word:x}");
        }
    }
}
