//! Snappy's raw format, in which old releases of blosc could pack their streams.
//!
//! Format: the decoded size as a varint, then elements: literals (tag 0) and copies of earlier output
//! with 11, 16 or 32 bits of distance (tags 1 to 3).
//!
//! Law:
//! 1. Literals and copies are checked against both slices.
//!
//! It must never know of blosc.

/// Decodes into `out`; how many bytes were made, None for malformed data or more than `out` holds.
pub(super) fn snappy(stored: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut rest = stored;
    let (mut size, mut shift) = (0u64, 0);
    loop {
        let byte = number(&mut rest, 1)? as u64;
        size |= (byte & 127) << shift;
        shift += 7;
        if byte < 128 {
            break;
        }
        if shift > 28 {
            return None;
        }
    }
    let out = out.get_mut(..usize::try_from(size).ok()?)?;
    let mut made = 0usize;
    while !rest.is_empty() {
        let tag = number(&mut rest, 1)?;
        let (length, distance) = match tag & 3 {
            0 => {
                let length = match tag >> 2 {
                    short @ 0..60 => short,
                    long => number(&mut rest, long - 59)?,
                };
                let (literals, behind) = rest.split_at_checked(length.checked_add(1)?)?;
                let place = out.get_mut(made..made.checked_add(literals.len())?)?;
                place.copy_from_slice(literals);
                (rest, made) = (behind, made + literals.len());
                continue;
            }
            1 => ((tag >> 2 & 7) + 4, (tag >> 5) << 8 | number(&mut rest, 1)?),
            2 => ((tag >> 2) + 1, number(&mut rest, 2)?),
            _ => ((tag >> 2) + 1, number(&mut rest, 4)?),
        };
        let from = made.checked_sub(distance).filter(|_| distance > 0)?;
        if length > out.len() - made {
            return None;
        }
        if distance >= length {
            out.copy_within(from..from + length, made);
        } else {
            for at in 0..length {
                out[made + at] = out[from + at];
            }
        }
        made += length;
    }
    (made == out.len()).then_some(made)
}

/// Takes a little-endian number of up to 4 bytes off `rest`.
fn number(rest: &mut &[u8], n_bytes: usize) -> Option<usize> {
    let (bytes, behind) = rest.split_at_checked(n_bytes)?;
    *rest = behind;
    let number = bytes
        .iter()
        .rev()
        .fold(0, |n, &byte| n << 8 | usize::from(byte));
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 4 literals, a copy of each kind, one of which overlaps what it makes, 61 literals.
    fn packed() -> (Vec<u8>, Vec<u8>) {
        let long: Vec<u8> = (0..61).collect();
        let stored = [
            &[4 + 4 + 10 + 5 + 61, 3 << 2, 1, 2, 3, 4][..],
            &[1, 4],
            &[9 << 2 | 2, 2, 0],
            &[4 << 2 | 3, 18, 0, 0, 0],
            &[60 << 2, 60],
            &long,
        ];
        let expected = [
            &[1, 2, 3, 4, 1, 2, 3, 4][..],
            &[3, 4, 3, 4, 3, 4, 3, 4, 3, 4],
            &[1, 2, 3, 4, 1],
            &long,
        ];
        (stored.concat(), expected.concat())
    }

    #[test]
    fn every_kind_of_element_and_nothing_outside() {
        let (stored, expected) = packed();
        let mut out = vec![0; expected.len()];
        assert_eq!(snappy(&stored, &mut out), Some(out.len()));
        assert_eq!(out, expected);
        assert_eq!(snappy(&stored, &mut out[1..]), None);
        for n in 0..stored.len() {
            assert_eq!(snappy(&stored[..n], &mut out), None);
            for byte in 0..=255 {
                let mut broken = stored.clone();
                broken[n] = byte;
                let _ = snappy(&broken, &mut out);
            }
        }
        assert_eq!(snappy(&[0xff; 12], &mut out), None);
    }
}
