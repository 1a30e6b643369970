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

    /// As `zeros` for each of these, several from one look at the bytes.
    pub fn zeros_of_all(&mut self, counts: &mut [u32]) -> Option<()> {
        let mut window = self.ahead();
        for count in counts {
            if window == 0 {
                window = self.ahead();
            }
            // Zeros that were shifted in from below end nothing, so these bits have a whole count.
            if window != 0 {
                let zeros = window.leading_zeros();
                *count = zeros;
                window = window << zeros << 1;
                self.at += zeros as usize + 1;
            } else {
                *count = u32::try_from(self.zeros()?).ok()?;
            }
        }
        Some(())
    }

    /// Puts a number of less than 32 bits below what each of these is.
    pub fn append_to_all(&mut self, bits: usize, numbers: &mut [u32]) -> Option<()> {
        if bits == 0 {
            return Some(());
        }
        // What one look at the bytes has, whatever bits of the first one are taken.
        for some in numbers.chunks_mut((u64::BITS as usize - 7) / bits) {
            if self.bytes.len() < self.at / 8 + 8 {
                for number in some {
                    *number = *number << bits | self.take(bits)? as u32;
                }
                continue;
            }
            let mut window = self.ahead();
            self.at += bits * some.len();
            for number in some {
                *number = *number << bits | (window >> (64 - bits)) as u32;
                window <<= bits;
            }
        }
        Some(())
    }

    /// At least the next 57 bits, highest first, with zeros behind; zeros only near the end.
    #[inline(always)]
    fn ahead(&self) -> u64 {
        let next = self
            .bytes
            .get(self.at / 8..)
            .and_then(|left| left.first_chunk());
        next.map_or(0, |next| u64::from_be_bytes(*next) << (self.at % 8))
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
    fn all_at_once_is_one_after_the_other() {
        let bytes: Vec<u8> = (0..60u8).map(|i| i.wrapping_mul(i) & 0x12).collect();
        let bytes = [&[0; 20][..], &bytes, &[0; 9], &[1, 0, 0]].concat();
        for bits in 0..32 {
            for (before, n) in [(0, 1), (3, 7), (5, 33), (200, 16), (600, 8)] {
                let mut readers = [BitReader::new(&bytes), BitReader::new(&bytes)];
                readers.iter_mut().for_each(|reader| reader.at = before);
                let [one, all] = &mut readers;
                let expected: Option<Vec<u32>> = (0..n)
                    .map(|_| one.zeros().map(|count| count as u32))
                    .collect();
                let mut found = vec![0; n];
                let counted = all.zeros_of_all(&mut found).map(|()| found.clone());
                assert_eq!(counted, expected);
                let Some(counts) = expected else { continue };
                let lowest =
                    |count: &u32| Some((u64::from(*count) << bits | one.take(bits)?) as u32);
                let expected: Option<Vec<u32>> = counts.iter().map(lowest).collect();
                let appended = all.append_to_all(bits, &mut found).map(|()| found);
                assert_eq!(appended, expected, "{bits} bits, {n} from {before}");
            }
        }
    }

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
