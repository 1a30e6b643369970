//! HDF5 filter 3, fletcher32: four bytes of checksum behind the data.
//!
//! Law:
//! 1. The checksum is HDF5's own reading of Fletcher-32: sums of big-endian 16-bit words, the
//!    odd last byte being the high half of a word, with sums folded so that a sum that is not
//!    zero never becomes zero. It is stored little-endian.
//! 2. HDF5 before 1.6.3 stored it with the bytes of each half swapped on some machines; HDF5
//!    still accepts that, and so does this.
//! 3. It changes no byte of the data, so the pipeline goes on with a part of its input.
//!
//! It must never know what the data is.

use super::{Decoder, Fault, FilterSpec, OutputSize};

struct Fletcher32;

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(Fletcher32))
}

impl Decoder for Fletcher32 {
    fn stored_size(&self, decoded_size: usize) -> Option<usize> {
        decoded_size.checked_add(4)
    }

    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault> {
        verify(stored).map(|data| OutputSize::Exactly(data.len()))
    }

    fn unwrap<'a>(&self, stored: &'a [u8]) -> Option<Result<&'a [u8], Fault>> {
        Some(verify(stored))
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let data = verify(stored)?;
        let size = out.len();
        let place = out
            .get_mut(..data.len())
            .ok_or(Fault::wrong_size(size, data.len()))?;
        place.copy_from_slice(data);
        Ok(data.len())
    }
}

/// The data in front of a checksum that matches.
fn verify(stored: &[u8]) -> Result<&[u8], Fault> {
    let (data, tail) = stored
        .split_last_chunk::<4>()
        .ok_or(Fault::truncated(4, stored.len()))?;
    let (wanted, computed) = (u32::from_le_bytes(*tail), checksum(data));
    let [a, b, c, d] = computed.to_le_bytes();
    match wanted == computed || wanted == u32::from_le_bytes([b, a, d, c]) {
        true => Ok(data),
        false => Err(Fault::checksum(wanted, computed)),
    }
}

/// 32-bit lanes that are summed together; a multiple of every vector width.
const LANES: usize = 32;
/// Steps before a lane's second sum could overflow: 360 * 361 / 2 * 65535 < 2**32.
const STEPS: usize = 360;

/// HDF5's checksum of some bytes.
pub(super) fn checksum(data: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the machine has AVX2, the only thing that the function asks for.
        return unsafe { checksum_avx2(data) };
    }
    checksum_portable(data)
}

/// # Safety
/// The machine must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn checksum_avx2(data: &[u8]) -> u32 {
    checksum_portable(data)
}

#[inline(always)]
fn checksum_portable(data: &[u8]) -> u32 {
    // With n words w[0..n]: sum1 = w[0] + ... and sum2 = n w[0] + (n-1) w[1] + ...
    let (mut sum1, mut sum2) = (0u64, 0u64);
    for block in data.chunks(2 * LANES * STEPS) {
        let steps = block.chunks_exact(2 * LANES);
        let rest = steps.remainder();
        let n_steps = steps.len() as u64;
        let mut a = [0u32; LANES];
        let mut b = [0u32; LANES];
        for step in steps {
            for k in 0..LANES {
                a[k] += u32::from(u16::from_be_bytes([step[2 * k], step[2 * k + 1]]));
                b[k] += a[k];
            }
        }
        // b[k] weighs a word by its steps to the end; the words to the end are LANES times
        // those, less its place k in the step.
        sum2 += sum1 * (n_steps * LANES as u64);
        for k in 0..LANES {
            sum1 += u64::from(a[k]);
            sum2 += LANES as u64 * u64::from(b[k]) - k as u64 * u64::from(a[k]);
        }
        for word in rest.chunks(2) {
            let low = word.get(1).copied().unwrap_or(0);
            sum1 += u64::from(u16::from_be_bytes([word[0], low]));
            sum2 += sum1;
        }
        // Fold per block: keeps sums small, and a sum that is not zero stays so.
        sum1 = fold(sum1);
        sum2 = fold(sum2);
    }
    ((sum2 as u32) << 16) | sum1 as u32
}

/// The sum modulo 65535, but 65535 in place of 0 where the sum itself is not 0.
fn fold(sum: u64) -> u64 {
    match sum {
        0 => 0,
        sum => (sum - 1) % 65535 + 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, word by word.
    fn plain(data: &[u8]) -> u32 {
        let (mut sum1, mut sum2) = (0u32, 0u32);
        let reduce = |s: u32| (s & 0xffff) + (s >> 16);
        for words in data.chunks(720) {
            for word in words.chunks(2) {
                let low = word.get(1).copied().unwrap_or(0);
                sum1 += u32::from(u16::from_be_bytes([word[0], low]));
                sum2 += sum1;
            }
            sum1 = reduce(sum1);
            sum2 = reduce(sum2);
        }
        (reduce(sum2) << 16) | reduce(sum1)
    }

    #[test]
    fn equals_the_definition_at_every_length() {
        for fill in [None, Some(0u8), Some(0xff), Some(1)] {
            let data: Vec<u8> = (0..100_000u32)
                .map(|i| fill.unwrap_or((i.wrapping_mul(2_654_435_761) >> 13) as u8))
                .collect();
            let lengths = (0..400).chain([23_039, 23_040, 23_041, 46_080, 99_999, 100_000]);
            for n in lengths {
                assert_eq!(checksum(&data[..n]), plain(&data[..n]), "{n} of {fill:?}");
            }
        }
    }

    #[test]
    fn the_old_swapped_form_is_accepted() {
        let mut stored = b"some data".to_vec();
        let [a, b, c, d] = checksum(&stored).to_le_bytes();
        stored.extend([b, a, d, c]);
        assert_eq!(verify(&stored), Ok(&b"some data"[..]));
    }
}
