//! Numbers of any count of bits, one after the other, each from its highest bit on.
//!
//! Owns: how HDF5's own packings, nbit and scaleoffset, lay numbers into bytes.
//!
//! Law:
//! 1. Nothing is read behind the bytes: what ends too early is `None`.
//!
//! It must never know what the numbers mean.

pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Bits taken.
    at: usize,
}

impl<'a> BitReader<'a> {
    pub fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, at: 0 }
    }

    /// The next number, of up to 64 bits.
    #[inline(always)]
    pub fn take(&mut self, bits: usize) -> Option<u64> {
        debug_assert!(bits <= 64);
        let (byte, skip) = (self.at / 8, self.at % 8);
        let window = match self.bytes.get(byte..byte + 16) {
            Some(next) => u128::from_be_bytes(next.try_into().expect("16 bytes")),
            None => self.last_window(byte, skip + bits)?,
        };
        self.at += bits;
        match bits {
            0 => Some(0),
            _ => Some((window << skip >> (128 - bits)) as u64),
        }
    }

    /// How many zeros come before the next one, which is taken, too.
    pub fn zeros(&mut self) -> Option<usize> {
        let mut zeros = 0;
        loop {
            let left = (8 * self.bytes.len())
                .checked_sub(self.at)
                .filter(|&n| n > 0)?;
            let n_bits = left.min(64);
            let ahead = self.take(n_bits)? << (64 - n_bits);
            if ahead != 0 {
                let before = ahead.leading_zeros() as usize;
                self.at -= n_bits - before - 1;
                return Some(zeros + before);
            }
            zeros += n_bits;
        }
    }

    /// The last bytes, with zeros behind; None if these bits are not among them.
    fn last_window(&self, byte: usize, bits: usize) -> Option<u128> {
        let left = self.bytes.get(byte..)?;
        let mut next = [0; 16];
        let there = left.len().min(16);
        next[..there].copy_from_slice(&left[..there]);
        (bits <= 8 * left.len()).then(|| u128::from_be_bytes(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_highest_bit_first_and_end_with_the_bytes() {
        let bytes: Vec<u8> = (0..40u8).map(|i| i.wrapping_mul(73)).collect();
        for width in 0..=64 {
            let (mut reader, mut at) = (BitReader::new(&bytes), 0);
            let bit = |at: usize| u64::from(bytes[at / 8] >> (7 - at % 8) & 1);
            while at + width <= 8 * bytes.len() && at < 300 {
                let expected = (at..at + width).fold(0, |number, at| number << 1 | bit(at));
                assert_eq!(reader.take(width), Some(expected), "{width} bits at {at}");
                at += width.max(1);
                if width == 0 {
                    reader.take(1);
                }
            }
            let left = 8 * bytes.len() - reader.at;
            assert!(left >= 64 || reader.take(left + 1).is_none());
            assert!(left > 64 || reader.take(left).is_some());
        }
    }
}
