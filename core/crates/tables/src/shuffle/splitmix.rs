//! SplitMix64: the numbers that all shuffles are made of.
//!
//! Law:
//! 1. A seed, an epoch and a stream give the same numbers everywhere, forever.

/// Streams of numbers that one seed and epoch have: for chunks, for all rows, one for each window.
pub(super) const STREAM_CHUNKS: u64 = 0;
pub(super) const STREAM_FULL: u64 = 1;
pub(super) const STREAM_WINDOWS: u64 = 2;

/// The generator of Steele, Lea and Flood (2014), begun anew for each seed, epoch and stream.
pub(super) struct SplitMix64(u64);

impl SplitMix64 {
    pub(super) fn new(seed: u64, epoch: u64, stream: u64) -> SplitMix64 {
        let key = keyed(keyed(keyed(seed) ^ epoch) ^ stream);
        SplitMix64(key)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix64(self.0)
    }

    /// Below `n`; no number is likelier than another by more than n / 2^64.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        scaled(self.next(), n)
    }
}

fn keyed(value: u64) -> u64 {
    mix64(value.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

pub(super) fn mix64(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A number of 64 bits, scaled to `[0, n)`.
pub(super) fn scaled(value: u64, n: u64) -> u64 {
    ((u128::from(value) * u128::from(n)) >> 64) as u64
}
