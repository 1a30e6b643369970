//! When an LZ4 stream is decoded only as far as it is needed.
//!
//! Law: fetching and decoding of a stream decide by the same rule.

/// Whether an LZ4 stream of this many bytes should be decoded only as far as needed. liblz4 takes
/// as long for a byte then, but many times as long where it ends in a run.
pub fn prefix_pays(stored: usize, needed: usize, decoded: usize) -> bool {
    16 * needed < 15 * decoded && 16 * stored > decoded
}

/// How many bytes of such a stream, of which only the beginning is decoded, are fetched.
pub fn likely_bytes(stored: usize, needed: usize, decoded: usize) -> usize {
    let share = (stored as u64 * needed as u64 / decoded.max(1) as u64) as usize;
    stored.min(share + stored / 16 + 64)
}
