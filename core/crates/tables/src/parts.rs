//! The parts of a virtual dataset: which elements of which other datasets it shows, and where.
//!
//! Law:
//! 1. A part is a box with a step along each axis, on both sides. It is read in row-major order: an axis
//!    of the source that is longer than one element belongs to one of the virtual dataset.
//! 2. Where parts overlap, the later one is shown.
//! 3. `parse` and `check` refuse what lies outside its dataset; later code indexes freely.

use super::words::Refused;
use std::ops::Range;

/// The axis of the virtual dataset to which an axis of a source belongs, if it has one element.
const NO_AXIS: u64 = u64::MAX;
/// Words of an axis.
const AXIS: usize = 3;

/// Sorted by their first rows.
#[derive(Debug, Default)]
pub struct Parts {
    words: Vec<u64>,
    n_dims: usize,
    /// Words of a part: its dataset, its place in the order, the axes of the virtual dataset and those
    /// of the source.
    len: usize,
    /// Behind which row this part and all before it end.
    ends: Vec<u64>,
}

/// One part.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    words: &'a [u64],
    n_dims: usize,
}

impl Part<'_> {
    /// The number of the dataset that it shows.
    pub fn dataset(&self) -> usize {
        self.words[0] as usize
    }

    /// First element, step and count along an axis of the virtual dataset.
    pub fn axis(&self, axis: usize) -> (u64, u64, u64) {
        let words = &self.words[2 + axis * AXIS..][..AXIS];
        (words[0], words[1], words[2])
    }

    /// First element and step along an axis of the source, and the axis to which it belongs.
    pub fn source_axis(&self, axis: usize) -> (u64, u64, Option<usize>) {
        let words = &self.words[2 + (self.n_dims + axis) * AXIS..][..AXIS];
        let belongs = (words[2] != NO_AXIS).then_some(words[2] as usize);
        (words[0], words[1], belongs)
    }

    /// Which of its elements lie in these of the virtual dataset, along an axis.
    pub fn steps(&self, axis: usize, within: Range<u64>) -> Range<u64> {
        let (start, step, count) = self.axis(axis);
        let before = |at: u64| at.saturating_sub(start).div_ceil(step).min(count);
        before(within.start)..before(within.end)
    }

    /// It names elements of its source, as many as it shows.
    fn fits(&self, dims: &[u64], source: &[u64]) -> bool {
        let inside = |start: u64, step: u64, count: u64, dim: u64| {
            let last = count.checked_sub(1).and_then(|n| n.checked_mul(step));
            let last = last.and_then(|last| last.checked_add(start));
            step > 0 && last.is_some_and(|last| last < dim)
        };
        let shown = (0..dims.len()).all(|axis| {
            let (start, step, count) = self.axis(axis);
            inside(start, step, count, dims[axis])
        });
        let mut next = 0;
        let named = (0..source.len()).all(|number| {
            let (start, step, axis) = self.source_axis(number);
            let count = match axis {
                None => 1,
                Some(axis) if axis >= next && axis < dims.len() => {
                    let alone = (next..axis).all(|axis| self.axis(axis).2 == 1);
                    next = axis + 1;
                    if alone { self.axis(axis).2 } else { 0 }
                }
                Some(_) => 0,
            };
            inside(start, step, count, source[number])
        });
        shown && named && (next..dims.len()).all(|axis| self.axis(axis).2 == 1)
    }
}

impl Parts {
    /// The parts in these words, of which the first says how many axes of sources each has.
    pub fn parse(words: &[u64], n_dims: usize) -> Result<Parts, Refused> {
        let Some((&source_dims, words)) = words.split_first() else {
            return Ok(Parts::default());
        };
        const ODD: Refused = "the parts of a virtual dataset are odd";
        let len = usize::try_from(source_dims)
            .ok()
            .and_then(|n| n.checked_add(n_dims)?.checked_mul(AXIS)?.checked_add(2));
        let len = len.filter(|&len| words.len() % len == 0).ok_or(ODD)?;
        let mut parts = Parts {
            words: words.to_vec(),
            n_dims,
            len,
            ends: Vec::new(),
        };
        let (mut end, mut last) = (0u64, 0);
        for number in 0..words.len() / len {
            let (start, step, count) = parts.part(number).axis(0);
            let reach = count.saturating_sub(1).saturating_mul(step);
            if start < last {
                return Err(ODD);
            }
            (last, end) = (
                start,
                end.max(start.saturating_add(reach).saturating_add(1)),
            );
            parts.ends.push(end);
        }
        Ok(parts)
    }

    /// All parts of a dataset with these dims fit those that they show. `shown` gives the dims of a
    /// dataset by its number, if its elements may be shown.
    pub fn check<'a>(
        &self,
        dims: &[u64],
        has_elements: bool,
        shown: impl Fn(usize) -> Option<&'a [u64]>,
    ) -> Result<(), Refused> {
        if !has_elements && !self.is_empty() {
            return Err("a virtual dataset of parts has no elements, or chunks that go beyond it");
        }
        let fits = (0..self.ends.len()).all(|n| {
            let part = self.part(n);
            shown(part.dataset()).is_some_and(|source| {
                self.len >= 2 + AXIS * (self.n_dims + source.len()) && part.fits(dims, source)
            })
        });
        match fits {
            true => Ok(()),
            false => Err("a part of a virtual dataset lies outside of what it shows"),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub fn part(&self, number: usize) -> Part<'_> {
        Part {
            words: &self.words[number * self.len..][..self.len],
            n_dims: self.n_dims,
        }
    }

    /// The parts that show elements in rows, in their order.
    pub fn in_rows(&self, rows: Range<u64>, found: &mut Vec<usize>) {
        found.clear();
        // A binary search for the first part behind the rows.
        let (mut low, mut high) = (0, self.ends.len());
        while low < high {
            let middle = low.midpoint(high);
            match self.part(middle).axis(0).0 < rows.end {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        for number in (0..low).rev() {
            if self.ends[number] <= rows.start {
                break;
            }
            if !self.part(number).steps(0, rows.clone()).is_empty() {
                found.push(number);
            }
        }
        found.sort_unstable_by_key(|&number| self.part(number).words[1]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts in two dims, in the order of their rows: start, step and count, and start and step shown.
    fn parts(rows: &[[u64; 5]]) -> Vec<u64> {
        let axes = |&[start, step, count, first, stride]: &[u64; 5]| {
            [
                [1, start, start, step, count, 0, 1, 4],
                [first, stride, 0, 0, 1, 1, 0, 0],
            ]
            .concat()[..14]
                .to_vec()
        };
        [vec![2], rows.iter().flat_map(axes).collect()].concat()
    }

    #[test]
    fn parts_are_found_by_rows() {
        let words = parts(&[[0, 1, 4, 0, 1], [2, 5, 3, 0, 1], [9, 1, 2, 7, 1]]);
        let found = Parts::parse(&words, 2).unwrap();
        let mut numbers = Vec::new();
        for (rows, expected) in [
            (0..1, vec![0]),
            (3..4, vec![0]),
            (2..3, vec![0, 1]),
            (4..7, vec![]),
            (7..8, vec![1]),
            (8..13, vec![1, 2]),
            (13..99, vec![]),
        ] {
            found.in_rows(rows.clone(), &mut numbers);
            assert_eq!(numbers, expected, "{rows:?}");
        }
        assert_eq!(found.part(1).steps(0, 3..13), 1..3);
        assert_eq!(found.part(2).source_axis(0), (7, 1, Some(0)));
    }

    #[test]
    fn odd_parts_are_refused() {
        let words = parts(&[[4, 1, 4, 0, 1], [2, 1, 1, 0, 1]]);
        assert!(Parts::parse(&words, 2).is_err()); // not sorted
        assert!(Parts::parse(&words[..8], 2).is_err());
        assert!(Parts::parse(&[u64::MAX, 1], 2).is_err());
        assert!(Parts::parse(&[], 2).unwrap().is_empty());
    }
}
