//! Telling the CPU's caches what will be wanted.
//!
//! Law:
//! 1. A hint changes nothing but time.

/// Ask for the cache line in which this lies, which is to be written soon.
#[cfg(target_arch = "x86_64")]
pub fn prefetch<T>(item: &mut T) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a hint, which reads and writes nothing.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_mut(item).cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
pub fn prefetch<T>(_item: &mut T) {}

/// Ask for all lines of these bytes.
pub fn prefetch_bytes(bytes: &mut [u8]) {
    for line in bytes.chunks_mut(64) {
        prefetch(&mut line[0]);
    }
}
