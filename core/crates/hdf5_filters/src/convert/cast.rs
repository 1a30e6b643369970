//! The last step of a conversion: numbers become those of another type, scaled or not.
//!
//! Law:
//! 1. The words of a cast are written by `Cast` in `_multitables/index/types/cast.py`.
//! 2. Numbers are made in blocks that stay in the first cache.

use super::numbers::{Loop, Number, converter, swap};
use super::scale::{Axis, Scale};
use std::hash::{Hash, Hasher};

/// Numbers of a block.
const BLOCK: usize = 1 << 10;
const MAX_BYTES: usize = 8;
/// Words before those of axes: the type of stored numbers, the delivered type, the type for scaling (0:
/// no scaling), whether the byte order is the other one, and the numbers of an element.
const HEAD_WORDS: usize = 5;

#[derive(Clone, Debug)]
enum Scaled {
    Single(Scale<f32>),
    Double(Scale<f64>),
}

#[derive(Clone, Debug)]
pub struct Cast {
    /// The words it was made from.
    words: Vec<u64>,
    from: Number,
    to: Number,
    swaps: bool,
    per_element: usize,
    first: Loop,
    /// The loop from the type for scaling to the delivered type, if they differ.
    last: Option<Loop>,
    scaled: Option<Scaled>,
    /// Elements of a row are scaled alike.
    is_even: bool,
}

impl PartialEq for Cast {
    fn eq(&self, other: &Cast) -> bool {
        self.words == other.words
    }
}

impl Eq for Cast {}

impl Hash for Cast {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.words.hash(state);
    }
}

impl Cast {
    /// The axes behind the first have these dims, and chunks these extents. None: there is no such cast.
    pub fn parse(words: &[u64], dims: &[u64], extents: &[u64]) -> Option<Cast> {
        let (head, rest) = words.split_at_checked(HEAD_WORDS)?;
        let (from, to) = (Number::of_word(head[0])?, Number::of_word(head[1])?);
        let between = match head[2] {
            0 => None,
            4 => Some(Number::F32),
            8 => Some(Number::F64),
            _ => return None,
        };
        let per_element = usize::try_from(head[4]).ok().filter(|&n| n > 0)?;
        let scaled = match between {
            None if rest.is_empty() => None,
            None => return None,
            Some(_) => {
                let (varies, values) = rest.split_at_checked(dims.len() + 1)?;
                let values: Vec<f64> = values.iter().map(|&bits| f64::from_bits(bits)).collect();
                let (means, deviations) = values.split_at(values.len() / 2);
                let dims = dims.iter().chain(&head[4..]);
                let each = dims.zip(extents.iter().chain(&head[4..])).zip(varies);
                let axes = each.map(|((&dim, &extent), &varies)| Axis {
                    dim: dim as usize,
                    extent: extent as usize,
                    varies: varies != 0,
                });
                let axes: Vec<Axis> = axes.collect();
                Some(match between {
                    Some(Number::F32) => Scaled::Single(Scale::new(&axes, means, deviations)?),
                    _ => Scaled::Double(Scale::new(&axes, means, deviations)?),
                })
            }
        };
        let is_even = match &scaled {
            None => true,
            Some(Scaled::Single(scale)) => scale.is_even(dims.len()),
            Some(Scaled::Double(scale)) => scale.is_even(dims.len()),
        };
        let last = match between.filter(|&between| between != to) {
            Some(between) => Some(converter(between, to)?),
            None => None,
        };
        Some(Cast {
            words: words.iter().chain(dims).chain(extents).copied().collect(),
            first: converter(from, between.unwrap_or(to))?,
            swaps: head[3] != 0,
            from,
            to,
            per_element,
            last,
            scaled,
            is_even,
        })
    }

    /// Bytes of the numbers of an element, before and behind this.
    pub fn element_bytes(&self) -> Option<(usize, usize)> {
        let bytes = |number: Number| number.bytes().checked_mul(self.per_element);
        bytes(self.from).zip(bytes(self.to))
    }

    pub fn is_even(&self) -> bool {
        self.is_even
    }

    /// The table of the chunk that begins with this element of a row.
    pub fn table(&self, offset: &[u64]) -> usize {
        match &self.scaled {
            None => 0,
            Some(Scaled::Single(scale)) => scale.table(offset),
            Some(Scaled::Double(scale)) => scale.table(offset),
        }
    }

    /// Convert numbers, of which the first belongs to the chunk's element `element`.
    pub fn convert(&self, table: usize, element: usize, from: &[u8], to: &mut [u8]) {
        let (size, made) = (self.from.bytes(), self.to.bytes());
        let mut at = element * self.per_element;
        let (mut swapped, mut room) = ([0; BLOCK * MAX_BYTES], [0; BLOCK * MAX_BYTES]);
        let blocks = from.chunks(BLOCK * size);
        for (mut from, to) in blocks.zip(to.chunks_mut(BLOCK * made)) {
            let n = from.len() / size;
            if self.swaps {
                swap(size, from, &mut swapped[..from.len()]);
                from = &swapped[..from.len()];
            }
            match self.last {
                None => {
                    (self.first)(from, to);
                    self.scale(table, at, to);
                }
                Some(last) => {
                    let between = &mut room[..n * self.between_bytes()];
                    (self.first)(from, between);
                    self.scale(table, at, between);
                    last(between, to);
                }
            }
            at += n;
        }
    }

    fn between_bytes(&self) -> usize {
        match self.scaled {
            Some(Scaled::Double(_)) => size_of::<f64>(),
            _ => size_of::<f32>(),
        }
    }

    fn scale(&self, table: usize, at: usize, bytes: &mut [u8]) {
        match &self.scaled {
            None => {}
            Some(Scaled::Single(scale)) => scale.apply(table, at, bytes),
            Some(Scaled::Double(scale)) => scale.apply(table, at, bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_numbers_become_others() {
        // Big-endian i16 -> f32 -> u8, per column of two.
        let bits = |numbers: [f64; 4]| numbers.map(f64::to_bits);
        let head = [6, 1, 4, u64::from(cfg!(target_endian = "little")), 1, 1, 0];
        let words = [&head[..], &bits([10.0, 20.0, 2.0, 4.0])].concat();
        let cast = Cast::parse(&words, &[2], &[1]).unwrap();
        assert!(!cast.is_even());
        assert_eq!(cast.element_bytes(), Some((2, 1)));
        let mut made = [0; 2];
        cast.convert(cast.table(&[1]), 0, &[0, 40, 0, 20], &mut made);
        assert_eq!(made, [5, 0]);
        cast.convert(cast.table(&[0]), 1, &[0, 40, 0, 20], &mut made);
        assert_eq!(made, [15, 5]);
    }

    #[test]
    fn long_inputs_are_converted_block_by_block() {
        let cast = Cast::parse(&[1, 11, 0, 0, 1], &[], &[]).unwrap();
        let from: Vec<u8> = (0..5000).map(|n| n as u8).collect();
        let mut made = vec![0; 8 * 5000];
        cast.convert(0, 0, &from, &mut made);
        let expected = from.iter().flat_map(|&n| f64::from(n).to_ne_bytes());
        assert!(made.iter().copied().eq(expected));
    }

    #[test]
    fn other_words_are_refused() {
        for words in [
            &[1, 10, 0, 0][..],
            &[13, 10, 0, 0, 1],
            &[1, 0, 0, 0, 1],
            &[1, 10, 0, 0, 0],
            &[1, 10, 0, 0, 1, 0],
            &[1, 10, 5, 0, 1, 0, 0, 0, 0],
            &[1, 10, 4, 0, 1],
            &[1, 10, 4, 0, 1, 1, 0, 0, 0],
        ] {
            assert_eq!(Cast::parse(words, &[2], &[2]), None, "{words:?}");
        }
        assert!(Cast::parse(&[1, 10, 4, 0, 1, 0, 0, 0, 0], &[2], &[2]).is_some());
    }
}
