//! What HDF5's conversion changes inside an element: strings' ends, and numbers with unused bits. And
//! what PyTables converts: its times.
//!
//! Law:
//! 1. Pure: bytes are changed in place. That a fix lies inside its element is checked where a plan is
//!    opened (`dataset`).
//! 2. A fix is applied once to each element that is placed: a time is no time before.

/// Values of the same kind that follow each other in an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fix {
    pub offset: usize,
    pub size: usize,
    pub count: usize,
    pub kind: FixKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FixKind {
    /// What follows the first NUL becomes NUL.
    NulTerminated,
    /// What follows the last byte that is no space becomes NUL.
    SpacePadded,
    /// Only the lowest bits count; the highest of them is the sign, or zeros go before them.
    Number {
        bits: u32,
        signed: bool,
        big_endian: bool,
    },
    /// PyTables' Time64, little-endian: microseconds and seconds, both signed, become a float of
    /// seconds.
    Time,
}

impl FixKind {
    /// As a plan writes it: `Fix` in `_multitables/index/element_type.py`. None: there is no such
    /// kind for values of this size.
    pub fn of_word(word: u64, size: u64) -> Option<FixKind> {
        let bits = word >> 8;
        match word & 0xff {
            0 if bits == 0 => Some(FixKind::NulTerminated),
            2 if bits == 0 => Some(FixKind::SpacePadded),
            flags @ 4..8 if size <= 8 && (1..=8 * size).contains(&bits) => Some(FixKind::Number {
                bits: bits as u32,
                signed: flags & 1 != 0,
                big_endian: flags & 2 != 0,
            }),
            8 if bits == 0 && size == 8 => Some(FixKind::Time),
            _ => None,
        }
    }

    fn apply_to(self, value: &mut [u8]) {
        let end = match self {
            FixKind::NulTerminated => value.iter().position(|&byte| byte == 0),
            FixKind::SpacePadded => {
                let last = value.iter().rposition(|&byte| byte != b' ');
                Some(last.map_or(0, |last| last + 1))
            }
            FixKind::Number {
                bits,
                signed,
                big_endian,
            } => return extend(value, bits, signed, big_endian),
            FixKind::Time => return seconds(value),
        };
        let end = end.unwrap_or(value.len());
        value[end..].fill(0);
    }
}

impl Fix {
    pub fn apply(&self, element: &mut [u8]) {
        if self.size == 0 {
            return;
        }
        let values = &mut element[self.offset..self.offset + self.size * self.count];
        for value in values.chunks_exact_mut(self.size) {
            self.kind.apply_to(value);
        }
    }
}

fn extend(value: &mut [u8], bits: u32, signed: bool, big_endian: bool) {
    let (size, mut number) = (value.len(), [0; 8]);
    if big_endian {
        value.reverse();
    }
    number[..size].copy_from_slice(value);
    let high = u64::from_le_bytes(number) << (64 - bits);
    let extended = match signed {
        true => (high as i64 >> (64 - bits)) as u64,
        false => high >> (64 - bits),
    };
    value.copy_from_slice(&extended.to_le_bytes()[..size]);
    if big_endian {
        value.reverse();
    }
}

fn seconds(value: &mut [u8]) {
    if let Some((micros, whole)) = value.split_first_chunk::<4>() {
        let whole = whole
            .first_chunk()
            .map_or(0, |&four| i32::from_le_bytes(four));
        let time = 1e-6 * f64::from(i32::from_le_bytes(*micros)) + f64::from(whole);
        value.copy_from_slice(&time.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_seconds() {
        let kind = FixKind::of_word(8, 8).unwrap();
        for (micros, whole, expected) in [(0, 0, 0.0), (500_000, 1, 1.5), (-250_000, -1, -1.25)] {
            let (micros, whole) = (i32::to_le_bytes(micros), i32::to_le_bytes(whole));
            let mut value: Vec<u8> = [micros, whole].concat();
            kind.apply_to(&mut value);
            assert_eq!(value, f64::to_le_bytes(expected));
        }
    }

    #[test]
    fn bits_that_do_not_count_become_the_sign() {
        for (word, stored, expected) in [
            (0x0c04, [0x34, 0xf2], [0x34, 0x02]),
            (0x0c04, [0x34, 0xf8], [0x34, 0x08]),
            (0x0c05, [0x34, 0xf2], [0x34, 0x02]),
            (0x0c05, [0x34, 0x08], [0x34, 0xf8]),
            (0x0c07, [0x08, 0x34], [0xf8, 0x34]),
            (0x0c06, [0xf8, 0x34], [0x08, 0x34]),
            (0x1005, [0x34, 0xf2], [0x34, 0xf2]),
        ] {
            let kind = FixKind::of_word(word, 2).unwrap();
            let (offset, size, count) = (1, 2, 2);
            let mut element = [&[9], &stored[..], &stored].concat();
            for _ in 0..2 {
                let fix = Fix {
                    offset,
                    size,
                    count,
                    kind,
                };
                fix.apply(&mut element);
                assert_eq!(element, [&[9], &expected[..], &expected].concat());
            }
        }
        for (word, size) in [
            (1, 2),
            (0x0100, 2),
            (4, 2),
            (0x1104, 2),
            (0x0804, 9),
            (8, 1),
        ] {
            assert_eq!(FixKind::of_word(word, size), None);
        }
    }
}
