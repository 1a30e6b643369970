//! The checksum of HDF5's metadata: `hashlittle` of Bob Jenkins' lookup3 (public domain), with 0 as
//! its first value.

/// The checksum of some bytes.
pub fn lookup3(bytes: &[u8]) -> u32 {
    let mut a = 0xdead_beef_u32.wrapping_add(bytes.len() as u32);
    let (mut b, mut c) = (a, a);
    let Some(full) = bytes.len().checked_sub(1).map(|last| last / 12 * 12) else {
        return c;
    };
    let (blocks, tail) = bytes.split_at(full);
    for block in blocks.chunks_exact(12) {
        let (x, y, z) = words(block);
        (a, b, c) = (a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z));
        mix(&mut a, &mut b, &mut c);
    }
    let mut last = [0; 12];
    last[..tail.len()].copy_from_slice(tail);
    let (x, y, z) = words(&last);
    (a, b, c) = (a.wrapping_add(x), b.wrapping_add(y), c.wrapping_add(z));
    for (from, turn) in [14, 11, 25, 16, 4, 14, 24].into_iter().zip(0..) {
        let [to, with] = match turn % 3 {
            0 => [&mut c, &mut b],
            1 => [&mut a, &mut c],
            _ => [&mut b, &mut a],
        };
        *to = (*to ^ *with).wrapping_sub(with.rotate_left(from));
    }
    c
}

fn words(block: &[u8]) -> (u32, u32, u32) {
    let word = |at: usize| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&block[at..at + 4]);
        u32::from_le_bytes(bytes)
    };
    (word(0), word(4), word(8))
}

fn mix(a: &mut u32, b: &mut u32, c: &mut u32) {
    let turn = |x: &mut u32, y: &mut u32, z: &mut u32, bits: u32| {
        *x = x.wrapping_sub(*z) ^ z.rotate_left(bits);
        *z = z.wrapping_add(*y);
    };
    turn(a, b, c, 4);
    turn(b, c, a, 6);
    turn(c, a, b, 8);
    turn(a, b, c, 16);
    turn(b, c, a, 19);
    turn(c, a, b, 4);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values that lookup3.c gives in its own self-test, and for no bytes.
    #[test]
    fn known_sums() {
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
