//! HDF5 filter 2, shuffle: byte `b` of element `i` is stored at `b * elements + i`.
//!
//! Owns: `interleave`, the one kernel that undoes byte shuffling; blosc uses it too.
//!
//! Law:
//! 1. Bytes behind the last whole element are not shuffled.
//! 2. `interleave` takes a slice per byte plane, so that planes may lie anywhere: raw planes
//!    of a blosc block are read where they are stored, without a copy.
//!
//! It must never know what the data is.

use super::{Decoder, Fault, FilterSpec, OutputSize};
use std::ops::Range;

struct Shuffle {
    element_size: usize,
}

pub(super) fn make(spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    // HDF5 names no size for elements of variable length, and then leaves the filter out of each chunk.
    let element_size = usize::try_from(*spec.values.first().unwrap_or(&0)).ok()?;
    Some(Box::new(Shuffle { element_size }))
}

impl Decoder for Shuffle {
    fn is_noop(&self) -> bool {
        self.element_size == 1
    }

    fn stored_size(&self, decoded_size: usize) -> Option<usize> {
        Some(decoded_size)
    }

    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(OutputSize::Exactly(stored.len()))
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        if self.element_size == 0 {
            return Err(Fault::unsupported(0));
        }
        let size = out.len();
        let out = out
            .get_mut(..stored.len())
            .ok_or(Fault::wrong_size(size, stored.len()))?;
        unshuffle(self.element_size, stored, out);
        Ok(stored.len())
    }
}

/// Undoes the shuffle of `stored` into `out`, which has the same length.
pub(super) fn unshuffle(element_size: usize, stored: &[u8], out: &mut [u8]) {
    unshuffle_part(element_size, stored, 0..stored.len(), out);
}

/// The same for the elements `wanted` at least, and what is behind the last whole one.
pub(super) fn unshuffle_part(
    element_size: usize,
    stored: &[u8],
    wanted: Range<usize>,
    out: &mut [u8],
) {
    assert_eq!(stored.len(), out.len());
    let elements = stored.len() / element_size.max(1);
    if element_size <= 1 || elements <= 1 {
        out.copy_from_slice(stored);
        return;
    }
    let (planes, tail) = stored.split_at(elements * element_size);
    let (body, out_tail) = out.split_at_mut(planes.len());
    out_tail.copy_from_slice(tail);
    let end = wanted.end.min(elements);
    let start = wanted.start.min(end);
    interleave(
        element_size,
        |b| &planes[b * elements + start..b * elements + end],
        &mut body[start * element_size..end * element_size],
    );
}

/// Writes element after element: `out[i * element_size + b] = plane(b)[i]`.
///
/// All `element_size` planes have `out.len() / element_size` bytes.
pub(super) fn interleave<'a>(
    element_size: usize,
    plane: impl Fn(usize) -> &'a [u8],
    out: &mut [u8],
) {
    let elements = out.len() / element_size;
    assert!(element_size * elements == out.len());
    // The widest kernel that fits, then once more over the last planes where it does not
    // divide the width: the planes that both cover are simply written twice.
    macro_rules! run {
        ($width:literal) => {{
            let mut first = 0;
            while first < element_size {
                let at = first.min(element_size - $width);
                let planes: [&[u8]; $width] = std::array::from_fn(|k| plane(at + k));
                transpose::<$width>(planes, element_size, at, out);
                first += $width;
            }
        }};
    }
    match element_size {
        0 => {}
        1 => out.copy_from_slice(plane(0)),
        2..4 => run!(2),
        4..8 => run!(4),
        8..16 => run!(8),
        _ => run!(16),
    }
}

/// Writes the bytes of `W` planes into each element, from its byte `at` on.
fn transpose<const W: usize>(planes: [&[u8]; W], element_size: usize, at: usize, out: &mut [u8]) {
    let elements = out.len() / element_size;
    assert!(at + W <= element_size && planes.iter().all(|p| p.len() == elements));
    let in_sixteens = if cfg!(target_arch = "x86_64") {
        elements / 16 * 16
    } else {
        0
    };
    #[cfg(target_arch = "x86_64")]
    for done in (0..in_sixteens).step_by(16) {
        // SAFETY: every plane has 16 bytes from `done` on, and `out` has all of elements
        // `done .. done + 16`, of which bytes `at .. at + W` are written.
        unsafe { sse::transpose16::<W>(&planes, done, element_size, at, out.as_mut_ptr()) };
    }
    for i in in_sixteens..elements {
        let element = &mut out[i * element_size + at..][..W];
        for (byte, plane) in element.iter_mut().zip(planes) {
            *byte = plane[i];
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod sse {
    use std::arch::x86_64::*;

    /// Transposes 16 elements of `W` planes; SSE2 is part of every x86_64.
    ///
    /// # Safety
    /// All planes hold 16 bytes from `from` on; `out` holds elements `from .. from + 16` of
    /// `element_size` bytes, and `at + W <= element_size`.
    #[inline(always)]
    pub unsafe fn transpose16<const W: usize>(
        planes: &[&[u8]; W],
        from: usize,
        element_size: usize,
        at: usize,
        out: *mut u8,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            let mut v = [_mm_setzero_si128(); W];
            for (register, plane) in v.iter_mut().zip(planes) {
                *register = _mm_loadu_si128(plane.as_ptr().add(from).cast());
            }
            // Not a loop: with a variable in the place of the constants the compiler keeps `v` on
            // the stack, which costs a factor of eight.
            v = join::<W, 1>(v);
            v = join::<W, 2>(v);
            v = join::<W, 4>(v);
            v = join::<W, 8>(v);
            let out = out.add(from * element_size + at);
            if element_size == W {
                for (i, register) in v.iter().enumerate() {
                    _mm_storeu_si128(out.add(16 * i).cast(), *register);
                }
            } else {
                let bytes = v.as_ptr().cast::<u8>();
                for i in 0..16 {
                    let place = out.add(i * element_size);
                    std::ptr::copy_nonoverlapping(bytes.add(i * W), place, W);
                }
            }
        }
    }

    /// Joins neighbouring planes: afterwards `v[group * 2 * PARTS + part]` holds the bytes of
    /// `2 * PARTS` planes for the elements of that part. Nothing, when a group holds all planes.
    #[inline(always)]
    fn join<const W: usize, const PARTS: usize>(v: [__m128i; W]) -> [__m128i; W] {
        let mut next = v;
        if PARTS < W {
            for group in 0..W / PARTS / 2 {
                for part in 0..PARTS {
                    let a = v[2 * group * PARTS + part];
                    let b = v[(2 * group + 1) * PARTS + part];
                    // SAFETY: SSE2 is part of every x86_64.
                    let (low, high) = unsafe {
                        match PARTS {
                            1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                            2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                            4 => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
                            _ => (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)),
                        }
                    };
                    next[2 * (group * PARTS + part)] = low;
                    next[2 * (group * PARTS + part) + 1] = high;
                }
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_no_bytes_are_left_to_the_library() {
        let spec = |values| FilterSpec {
            id: 2,
            flags: 0,
            values,
        };
        let decode = |values| make(&spec(values)).unwrap().decode(&[1; 8], &mut [0; 8]);
        assert!(decode(vec![4]).is_ok());
        assert!(decode(vec![0]).is_err());
        assert!(decode(vec![]).is_err());
    }

    #[test]
    fn equals_the_definition_for_every_element_size() {
        let data: Vec<u8> = (0..40_000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8)
            .collect();
        for element_size in (0..70).chain([255, 256, 300, 4000]) {
            for size in [0, 1, 2, 7, 15, 16, 17, 63, 64, 255, 256, 1000, 4096, 40_000] {
                let stored = &data[..size];
                let mut expected = stored.to_vec();
                let elements = size / element_size.max(1);
                for i in 0..elements {
                    for b in 0..element_size {
                        expected[i * element_size + b] = stored[b * elements + i];
                    }
                }
                let mut out = vec![0xAA; size];
                unshuffle(element_size, stored, &mut out);
                assert_eq!(out, expected, "size {size}, element size {element_size}");
            }
        }
    }
}
