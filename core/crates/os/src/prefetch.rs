//! Telling the CPU's caches what will be wanted.
//!
//! Law:
//! 1. A hint changes nothing but time.

/// Ask for the cache line in which this lies, which is to be written soon.
#[cfg(target_arch = "x86_64")]
pub fn prefetch<T>(item: *mut T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which reads and writes nothing.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(item.cast_const().cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
pub fn prefetch<T>(_item: *mut T) {}

/// Ask for all lines of some bytes.
#[inline]
pub fn prefetch_bytes(begin: *mut u8, len: usize) {
    for line in (0..len).step_by(64) {
        prefetch(begin.wrapping_add(line));
    }
}
