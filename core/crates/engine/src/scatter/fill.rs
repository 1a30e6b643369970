//! What no filter does in the rows of a chunk: fill values of chunks that were never stored, and the
//! ends of strings.
//!
//! Law:
//! 1. Pure; nothing is allocated or kept.
//! 2. What is written is exactly the rows `[lo, hi)` of the dataset, whole rows as the tape holds them.
//! 3. Elements that lie together are treated at once.

use crate::scatter::out::Out;
use tables::plan::Dataset;

/// The part of a chunk that is wanted: dataset rows `[lo, hi)` of the chunk at `offset`.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub offset: &'a [u64],
    pub lo: u64,
    pub hi: u64,
}

/// A repeated value is copied from a pattern of about this size, which stays in the first cache.
const PATTERN_BYTES: usize = 4096;

/// Repeat a value; the last copy is cut where there is no more room.
pub fn repeat(value: &[u8], dst: &mut [u8]) {
    let Some((&first, rest)) = value.split_first() else {
        return;
    };
    if rest.iter().all(|&byte| byte == first) {
        return dst.fill(first);
    }
    let mut done = value.len().min(dst.len());
    dst[..done].copy_from_slice(&value[..done]);
    let pattern = PATTERN_BYTES.max(done).min(dst.len());
    while done < pattern {
        let more = done.min(pattern - done);
        dst.copy_within(..more, done);
        done += more;
    }
    // From here on in whole values.
    let pattern = pattern / value.len() * value.len();
    let (head, tail) = dst.split_at_mut(pattern);
    if pattern > 0 {
        tail.chunks_mut(pattern)
            .for_each(|part| part.copy_from_slice(&head[..part.len()]));
    }
}

/// Change what HDF5's conversion changes.
pub fn apply_fixes(dataset: &Dataset, at: Place<'_>, mut dst: Out<'_>) {
    if dataset.fixes.is_empty() {
        return;
    }
    each_run(dataset, at, |to, count| {
        let run = dst.part(to..to + count * dataset.field_bytes);
        for element in run.chunks_exact_mut(dataset.field_bytes) {
            dataset.fixes.iter().for_each(|fix| fix.apply(element));
        }
    });
}

/// Call `run(byte in dst, elements)` for each contiguous run.
fn each_run(dataset: &Dataset, at: Place<'_>, mut run: impl FnMut(usize, usize)) {
    let n = dataset.dims.len();
    let shown = |axis: usize| dataset.windows[axis - 1].count;
    let overlap =
        |axis: usize| dataset.windows[axis - 1].overlap(at.offset[axis], dataset.chunk_dims[axis]);
    let extent = |axis: usize| -> u64 {
        if axis == 0 {
            at.hi.saturating_sub(at.lo)
        } else {
            overlap(axis).count
        }
    };
    if (0..n).any(|axis| extent(axis) == 0) {
        return;
    }
    // Trailing axes of which the chunk has all that is shown lie in one run with the axis before them.
    let mut split = n - 1;
    while split > 0 && extent(split) == shown(split) {
        split -= 1;
    }
    let tail: u64 = (split + 1..n).map(shown).product();
    let count = extent(split) * tail;

    let outer: u64 = (0..split).map(extent).product();
    for step in 0..outer {
        let (mut rest, mut to, mut stride) = (step, 0, tail);
        for axis in (0..=split).rev() {
            let index = if axis == split {
                0
            } else {
                rest % extent(axis)
            };
            if axis != split {
                rest /= extent(axis);
            }
            let begin = if axis == 0 { 0 } else { overlap(axis).to };
            to += (begin + index) * stride;
            if axis > 0 {
                stride *= shown(axis);
            }
        }
        run(to as usize * dataset.field_bytes, count as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scatter::rows::tests::dataset;
    use hdf5_filters::convert::Conversion;

    #[test]
    fn a_value_is_repeated_to_the_last_byte() {
        for value in [
            &b"a"[..],
            b"aaaa",
            b"abc",
            b"1234567",
            &[7; 5000],
            &[&[1; 4999][..], &[2]].concat(),
        ] {
            for len in [0, 1, 2, 6, 7, 8, 4095, 4096, 4097, 5000, 5001, 12287, 20000] {
                let mut dst = vec![0; len];
                repeat(value, &mut dst);
                let expected: Vec<u8> = value.iter().copied().cycle().take(len).collect();
                assert!(dst == expected, "{} bytes, {len} times", value.len());
            }
        }
    }

    #[test]
    fn strings_end_where_hdf5_ends_them() {
        let mut dataset = dataset(&[2], &[2], 8, (0, 8));
        let fix = |at, kind| Conversion::parse(&[at, 4, 4, at, 4, 4, 1, kind, 0], 8, 8);
        dataset.fixes = vec![fix(0, 0).unwrap(), fix(4, 2).unwrap()];
        let mut dst = *b"a\0xyb c abcd    ";
        apply_fixes(
            &dataset,
            Place {
                offset: &[0],
                lo: 0,
                hi: 2,
            },
            Out::of(&mut dst),
        );
        assert_eq!(&dst, b"a\0\0\0b c\0abcd\0\0\0\0");
    }
}
