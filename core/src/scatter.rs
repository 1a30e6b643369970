//! From a decoded chunk to its places in the rows of the tape.
//!
//! Law:
//! 1. Pure copying between two slices that the caller gives; nothing is allocated or kept.
//! 2. `dst` is exactly the rows `[lo, hi)` of the dataset, whole rows as the tape holds them.
//! 3. Runs that are contiguous on both sides are copied at once; a field is gathered by element.

use crate::plan::{Member, StringFix};

/// The part of a chunk that is wanted: dataset rows `[lo, hi)` of the chunk at `offset`.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub offset: &'a [u64],
    pub lo: u64,
    pub hi: u64,
}

/// Copy the wanted part of a decoded chunk to its rows.
pub fn place(member: &Member, at: Place<'_>, decoded: &[u8], dst: &mut [u8]) {
    each_run(member, at, |element, to, count| {
        let src =
            &decoded[element * member.element_bytes..(element + count) * member.element_bytes];
        let run = &mut dst[to..to + count * member.field_bytes];
        if member.field_bytes == member.element_bytes {
            run.copy_from_slice(src);
        } else {
            gather(
                src,
                member.element_bytes,
                member.field_offset,
                member.field_bytes,
                run,
            );
        }
    });
}

/// Write the fill value where an unallocated chunk would be.
pub fn fill(member: &Member, at: Place<'_>, dst: &mut [u8]) {
    let value = &member.fill[member.field_offset..member.field_offset + member.field_bytes];
    let zero = value.iter().all(|&byte| byte == 0);
    each_run(member, at, |_, to, count| {
        let run = &mut dst[to..to + count * member.field_bytes];
        if zero {
            run.fill(0);
        } else {
            run.chunks_exact_mut(value.len())
                .for_each(|element| element.copy_from_slice(value));
        }
    });
}

/// End strings where HDF5's conversion ends them: what follows becomes NUL.
pub fn fix_strings(member: &Member, at: Place<'_>, dst: &mut [u8]) {
    if member.fixes.is_empty() {
        return;
    }
    each_run(member, at, |_, to, count| {
        let run = &mut dst[to..to + count * member.field_bytes];
        for element in run.chunks_exact_mut(member.field_bytes) {
            member
                .fixes
                .iter()
                .for_each(|fix| fix_element(fix, element));
        }
    });
}

/// The same for one element.
pub fn fix_element(fix: &StringFix, element: &mut [u8]) {
    if fix.size == 0 {
        return;
    }
    let strings = &mut element[fix.offset..fix.offset + fix.size * fix.count];
    for string in strings.chunks_exact_mut(fix.size) {
        let end = if fix.space_padded {
            string
                .iter()
                .rposition(|&byte| byte != b' ')
                .map_or(0, |last| last + 1)
        } else {
            string
                .iter()
                .position(|&byte| byte == 0)
                .unwrap_or(string.len())
        };
        string[end..].fill(0);
    }
}

/// Call `run(first element in the chunk, byte in dst, elements)` for each contiguous run.
fn each_run(member: &Member, at: Place<'_>, mut run: impl FnMut(usize, usize, usize)) {
    let n = member.dims.len();
    let extent = |axis: usize| -> u64 {
        if axis == 0 {
            at.hi.saturating_sub(at.lo)
        } else {
            let end = (at.offset[axis] + member.chunk_dims[axis]).min(member.dims[axis]);
            end.saturating_sub(at.offset[axis])
        }
    };
    if (0..n).any(|axis| extent(axis) == 0) {
        return;
    }
    // Trailing axes that the chunk spans completely lie in one run with the axis before them.
    let mut split = n - 1;
    while split > 0 && member.chunk_dims[split] == member.dims[split] {
        split -= 1;
    }
    let tail: u64 = member.dims[split + 1..].iter().product();
    let count = extent(split) * tail;

    let outer: u64 = (0..split).map(extent).product();
    for step in 0..outer {
        let (mut rest, mut from, mut to) = (step, 0, 0);
        let (mut from_stride, mut to_stride) = (tail, tail);
        for axis in (0..=split).rev() {
            let index = if axis == split {
                0
            } else {
                rest % extent(axis)
            };
            if axis != split {
                rest /= extent(axis);
            }
            let (in_chunk, in_rows) = if axis == 0 {
                (at.lo - at.offset[0] + index, index)
            } else {
                (index, at.offset[axis] + index)
            };
            from += in_chunk * from_stride;
            to += in_rows * to_stride;
            from_stride *= member.chunk_dims[axis];
            to_stride *= member.dims[axis];
        }
        run(
            from as usize,
            to as usize * member.field_bytes,
            count as usize,
        );
    }
}

/// Copy `size` bytes at `offset` of every `stride` bytes of `src`, packed, to `dst`.
fn gather(src: &[u8], stride: usize, offset: usize, size: usize, dst: &mut [u8]) {
    // The common sizes get a loop whose copies are single moves.
    match size {
        1 => gather_sized::<1>(src, stride, offset, dst),
        2 => gather_sized::<2>(src, stride, offset, dst),
        4 => gather_sized::<4>(src, stride, offset, dst),
        8 => gather_sized::<8>(src, stride, offset, dst),
        16 => gather_sized::<16>(src, stride, offset, dst),
        _ => {
            for (element, out) in src.chunks_exact(stride).zip(dst.chunks_exact_mut(size)) {
                out.copy_from_slice(&element[offset..offset + size]);
            }
        }
    }
}

fn gather_sized<const N: usize>(src: &[u8], stride: usize, offset: usize, dst: &mut [u8]) {
    for (element, out) in src.chunks_exact(stride).zip(dst.chunks_exact_mut(N)) {
        let field: [u8; N] = element[offset..offset + N].try_into().unwrap_or([0; N]);
        out.copy_from_slice(&field);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Fingerprint;

    fn member(dims: &[u64], chunk_dims: &[u64], element: usize, field: (usize, usize)) -> Member {
        Member {
            row_bytes: dims[1..].iter().product::<u64>() as usize * field.1,
            tape_at: 0,
            tape_bytes: 0,
            element_bytes: element,
            field_offset: field.0,
            field_bytes: field.1,
            dims: dims.to_vec(),
            chunk_dims: chunk_dims.to_vec(),
            filters: Vec::new(),
            fill: (1..=element as u8).collect(),
            fixes: Vec::new(),
            filename: Vec::new(),
            fingerprint: Fingerprint {
                device: 0,
                inode: 0,
                size_bytes: 0,
                mtime_ns: 0,
            },
            direct: false,
            clipped: false,
            turnstile: false,
            kept: false,
            by_library: false,
            grid_at: 0,
            library: String::new(),
            decoded_size: chunk_dims.iter().product::<u64>() as usize * element,
        }
    }

    /// Every element of every chunk lands where its index says, for one-byte elements.
    fn check(dims: &[u64], chunk_dims: &[u64]) {
        let member = member(dims, chunk_dims, 1, (0, 1));
        let total: u64 = dims.iter().product();
        let value = |index: u64| (index % 251) as u8;
        let mut rows = vec![255; total as usize];
        let grid: u64 = dims
            .iter()
            .zip(chunk_dims)
            .map(|(d, c)| d.div_ceil(*c))
            .product();
        let mut offset = Vec::new();
        for chunk in 0..grid {
            member.chunk_offset(chunk, &mut offset);
            let decoded: Vec<u8> = (0..member.decoded_size as u64)
                .map(|inner| {
                    let (mut rest, mut flat, mut stride) = (inner, 0, 1);
                    for axis in (0..dims.len()).rev() {
                        flat += (offset[axis] + rest % chunk_dims[axis]) * stride;
                        rest /= chunk_dims[axis];
                        stride *= dims[axis];
                    }
                    value(flat)
                })
                .collect();
            let (lo, hi) = (offset[0], (offset[0] + chunk_dims[0]).min(dims[0]));
            let row = member.row_bytes;
            let dst = &mut rows[lo as usize * row..hi as usize * row];
            place(
                &member,
                Place {
                    offset: &offset,
                    lo,
                    hi,
                },
                &decoded,
                dst,
            );
        }
        let expected: Vec<u8> = (0..total).map(value).collect();
        assert_eq!(rows, expected, "{dims:?} in chunks {chunk_dims:?}");
    }

    #[test]
    fn chunks_of_any_shape_land_in_place() {
        check(&[7], &[3]);
        check(&[7], &[10]);
        check(&[6, 4], &[2, 4]);
        check(&[6, 5], &[4, 2]);
        check(&[5, 4, 3], &[2, 4, 3]);
        check(&[5, 4, 3], &[2, 3, 3]);
        check(&[5, 4, 3], &[2, 2, 2]);
        check(&[3, 4, 5, 6], &[2, 4, 3, 6]);
        check(&[3, 4, 2, 3, 4], &[1, 3, 2, 2, 4]);
    }

    #[test]
    fn a_field_is_gathered_and_filled() {
        let member = member(&[3], &[3], 7, (2, 4));
        let decoded: Vec<u8> = (0..21).collect();
        let mut dst = vec![0; 8];
        let at = Place {
            offset: &[0],
            lo: 1,
            hi: 3,
        };
        place(&member, at, &decoded, &mut dst);
        assert_eq!(dst, [9, 10, 11, 12, 16, 17, 18, 19]);
        fill(&member, at, &mut dst);
        assert_eq!(dst, [3, 4, 5, 6, 3, 4, 5, 6]);
    }

    #[test]
    fn strings_end_where_hdf5_ends_them() {
        let mut member = member(&[2], &[2], 8, (0, 8));
        member.fixes = vec![
            StringFix {
                offset: 0,
                size: 4,
                count: 1,
                space_padded: false,
            },
            StringFix {
                offset: 4,
                size: 4,
                count: 1,
                space_padded: true,
            },
        ];
        let mut dst = *b"a\0xyb c abcd    ";
        fix_strings(
            &member,
            Place {
                offset: &[0],
                lo: 0,
                hi: 2,
            },
            &mut dst,
        );
        assert_eq!(&dst, b"a\0\0\0b c\0abcd\0\0\0\0");
    }
}
