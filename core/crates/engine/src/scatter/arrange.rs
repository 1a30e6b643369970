//! Bytes of rows, copied to where an arrangement has them.
//!
//! Law:
//! 1. Pure copying between memory that the caller gives. Bytes outside the windows are left out.
//! 2. Bytes come as they lie in the rows that are read, from any byte to any other.

use crate::scatter::out::Out;
use crate::scatter::strided::Axis;
use crate::select::arrangement::{Arrangement, PlacedRow, RowAxis};

/// Copy `bytes`, which are those of the rows as they are read from byte `at` on.
pub fn arrange(to: &Arrangement<'_>, mut at: usize, mut bytes: &[u8], mut out: Out<'_>) {
    while !bytes.is_empty() {
        let (number, within) = (at / to.read_bytes, at % to.read_bytes);
        let (here, rest) = bytes.split_at(bytes.len().min(to.read_bytes - within));
        let block = Block {
            of: to,
            row: to.row(number),
            axis: 0,
        };
        block.copy(within, here, to.begin(number), out.lend());
        (at, bytes) = (at + here.len(), rest);
    }
}

/// The axes of a row from one on.
#[derive(Clone, Copy)]
struct Block<'a> {
    of: &'a Arrangement<'a>,
    row: PlacedRow<'a>,
    axis: usize,
}

/// Some indices of an axis: of those that are there the ones in the window.
struct Part {
    skipped: usize,
    count: usize,
    /// The lowest index in the result.
    first: usize,
    is_mirrored: bool,
}

impl Part {
    /// How to copy them in the order of the result, and from which byte on.
    fn along(&self, from: usize, to: usize) -> (Axis, usize) {
        let (step, first) = match self.is_mirrored {
            true => (-(from as isize), self.skipped + self.count - 1),
            false => (from as isize, self.skipped),
        };
        let axis = Axis {
            count: self.count,
            from: step,
            to,
        };
        (axis, first * from)
    }
}

impl<'a> Block<'a> {
    fn axis(&self) -> Option<&RowAxis> {
        self.of.axes().get(self.axis)
    }

    fn inner(self) -> Block<'a> {
        Block {
            axis: self.axis + 1,
            ..self
        }
    }

    /// The part of `count` indices from `first` on that lies in the window.
    fn part(&self, axis: &RowAxis, first: usize, count: usize) -> Option<Part> {
        let begin = self.row.begin(self.axis);
        let low = first.max(begin);
        let high = (first + count).min(begin + axis.window);
        let is_mirrored = self.row.is_mirrored(self.axis);
        (low < high).then(|| Part {
            skipped: low - first,
            count: high - low,
            first: match is_mirrored {
                true => begin + axis.window - high,
                false => low - begin,
            },
            is_mirrored,
        })
    }

    /// Copy bytes of one block, from byte `at` of it on; in the result it begins at byte `to`.
    fn copy(self, at: usize, bytes: &[u8], to: usize, mut out: Out<'_>) {
        let Some(axis) = self.axis() else {
            let to = to + at;
            return out.part(to..to + bytes.len()).copy_from_slice(bytes);
        };
        let (first, within) = (at / axis.from, at % axis.from);
        let cut = (axis.from - within) % axis.from;
        let (head, rest) = bytes.split_at(cut.min(bytes.len()));
        if !head.is_empty() {
            self.copy_one(axis, first, within, head, to, out.lend());
        }
        let first = first + usize::from(within > 0);
        let count = rest.len() / axis.from;
        let (whole, tail) = rest.split_at(count * axis.from);
        if count > 0 {
            self.copy_whole(axis, first, whole, to, out.lend());
        }
        if !tail.is_empty() {
            self.copy_one(axis, first + count, 0, tail, to, out);
        }
    }

    /// Copy bytes of one index.
    fn copy_one(
        self,
        axis: &RowAxis,
        index: usize,
        within: usize,
        bytes: &[u8],
        to: usize,
        out: Out<'_>,
    ) {
        if let Some(part) = self.part(axis, index, 1) {
            let to = to + part.first * axis.to;
            self.inner().copy(within, bytes, to, out);
        }
    }

    /// Copy all bytes of some indices.
    fn copy_whole(self, axis: &RowAxis, first: usize, bytes: &[u8], to: usize, mut out: Out<'_>) {
        let Some(part) = self.part(axis, first, bytes.len() / axis.from) else {
            return;
        };
        let (along, from) = part.along(axis.from, axis.to);
        let (item, to) = (self.of.item_bytes, to + part.first * axis.to);
        let inner = self.inner();
        let Some(next) = inner.axis() else {
            return along.copy_items(item, from, bytes, to, out);
        };
        let is_last = inner.inner().axis().is_none();
        if is_last && next.to > axis.to {
            // What follows in the result is copied in the innermost loop.
            let Some(part) = inner.part(next, 0, axis.from / next.from) else {
                return;
            };
            let (line, at) = part.along(next.from, next.to);
            let to = to + part.first * next.to;
            for number in 0..line.count {
                let at = (from + at).wrapping_add_signed(number as isize * line.from);
                along.copy_items(item, at, bytes, to + number * line.to, out.lend());
            }
            return;
        }
        for number in 0..along.count {
            let at = from.wrapping_add_signed(number as isize * along.from);
            let block = &bytes[at..at + axis.from];
            inner.copy_whole(next, 0, block, to + number * along.to, out.lend());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::fixtures::XorShift64;

    /// A drawn arrangement: its words, and where each byte of the rows is placed, if anywhere.
    struct Drawn {
        words: Vec<u64>,
        places: Vec<Option<usize>>,
        out_bytes: usize,
    }

    fn drawn(random: &mut XorShift64) -> Drawn {
        let n = random.below(5) as usize;
        let item = [1, 2, 3, 4, 8][random.below(5) as usize];
        let behind = random.below(n as u64 + 1) as usize;
        let group = if behind == 0 { 1 + random.below(3) } else { 1 };
        let n_rows = group * (1 + random.below(3));
        let parts = 1 + random.below(3);
        let part = random.below(parts);
        let mut order: Vec<usize> = (0..n).collect();
        for at in 1..n {
            order.swap(at, random.below(at as u64 + 1) as usize);
        }
        let extents: Vec<u64> = (0..n).map(|_| 1 + random.below(5)).collect();
        let windows: Vec<u64> = extents.iter().map(|&n| 1 + random.below(n)).collect();
        let mut words = vec![n as u64, parts, part, behind as u64, group];
        for axis in 0..n {
            let place = order.iter().position(|&one| one == axis).unwrap() as u64;
            words.extend([extents[axis], windows[axis], place]);
        }
        let row_items: u64 = windows.iter().product();
        let (mut places, out_bytes) = (Vec::new(), (n_rows * parts * row_items) as usize * item);
        for row in 0..n_rows {
            let mirrored = random.below(1 << n);
            let begins: Vec<u64> = (0..n)
                .map(|axis| random.below(extents[axis] - windows[axis] + 1))
                .collect();
            words.push(mirrored);
            words.extend(&begins);
            for element in 0..extents.iter().product() {
                let (mut rest, mut place) = (element, vec![None; n]);
                for axis in (0..n).rev() {
                    let index = (rest % extents[axis]).checked_sub(begins[axis]);
                    rest /= extents[axis];
                    place[axis] = index.filter(|at| *at < windows[axis]).map(|at| {
                        match mirrored >> axis & 1 {
                            1 => windows[axis] - 1 - at,
                            _ => at,
                        }
                    });
                }
                // As the index of an array with all parts, axis by axis.
                let mut sum = match behind {
                    0 => (row / group * parts + part) * group + row % group,
                    _ => row,
                };
                let mut is_placed = true;
                for (number, &axis) in order.iter().enumerate() {
                    is_placed &= place[axis].is_some();
                    sum = sum * windows[axis] + place[axis].unwrap_or(0);
                    sum = if number + 1 == behind {
                        sum * parts + part
                    } else {
                        sum
                    };
                }
                let first = is_placed.then_some(sum);
                let at = |byte| first.map(|first| first as usize * item + byte);
                places.extend((0..item).map(at));
            }
        }
        Drawn {
            words,
            places,
            out_bytes,
        }
    }

    #[test]
    fn each_byte_comes_to_its_place_in_any_parts() {
        let mut random = XorShift64(3);
        for _ in 0..3000 {
            let Drawn {
                words,
                places,
                out_bytes,
            } = drawn(&mut random);
            let to = Arrangement::parse(&words, places.len()).unwrap().unwrap();
            assert_eq!(to.out_bytes(), out_bytes);
            let rows: Vec<u8> = places.iter().map(|_| random.below(256) as u8).collect();
            let mut expected = vec![0; out_bytes];
            for (byte, place) in rows.iter().zip(&places) {
                if let Some(place) = place {
                    expected[*place] = *byte;
                }
            }
            let mut out = vec![0; out_bytes];
            let mut at = 0;
            while at < rows.len() {
                let len = (rows.len() - at).min(1 + random.below(40) as usize);
                arrange(&to, at, &rows[at..at + len], Out::of(&mut out));
                at += len;
            }
            assert_eq!(out, expected, "{words:?}");
            let mut at_once = vec![0; out_bytes];
            arrange(&to, 0, &rows, Out::of(&mut at_once));
            assert_eq!(at_once, expected, "{words:?}");
        }
    }

    #[test]
    fn malformed_words_are_refused() {
        // The second of three parts; two rows of 4 x 3 items of 2 bytes: a window of 2 x 3, its axes
        // exchanged.
        let good = [2, 3, 1, 0, 2, 4, 2, 1, 3, 3, 0, 0, 2, 0, 3, 1, 0];
        let parsed = Arrangement::parse(&good, 48).unwrap().unwrap();
        assert_eq!((parsed.out_bytes(), parsed.begin(1)), (72, 24 + 12));
        assert!(Arrangement::parse(&[], 48).unwrap().is_none());
        for bytes in [0, 1, 47, 50, 2 * 13] {
            assert!(Arrangement::parse(&good, bytes).is_err(), "{bytes}");
        }
        for len in 1..good.len() {
            assert!(Arrangement::parse(&good[..len], 48).is_err(), "{len}");
        }
        for (at, value) in [
            (0, 9),
            (0, u64::MAX),
            (1, 1),
            (1, u64::MAX),
            (2, 3),
            (3, 1),
            (3, 3),
            (4, 0),
            (4, 3),
            (4, u64::MAX),
            (5, 0),
            (5, 5),
            (5, u64::MAX),
            (6, 0),
            (6, 5),
            (7, 0),
            (7, 2),
            (7, u64::MAX),
            (12, 3),
            (13, 1),
            (16, u64::MAX),
        ] {
            let mut bad = good;
            bad[at] = value;
            assert!(Arrangement::parse(&bad, 48).is_err(), "{at} {value}");
        }
    }
}
