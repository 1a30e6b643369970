//! The C functions of the bundled c-blosc2 that its Rust bindings leave out, made safe.
//!
//! Owns: every `extern "C"` declaration of this folder and the contexts behind them.
//!
//! Law:
//! 1. Each wrapper checks all lengths before it calls, and hands C only whole slices.
//! 2. lz4 and zstd are the copies inside the static c-blosc2, so that the core links each once.
//!
//! It must never know of filters, frames or chunks.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

// Linked for its static library.
use blosc2_sys as _;

unsafe extern "C" {
    fn blosclz_decompress(
        input: *const c_void,
        length: c_int,
        out: *mut c_void,
        max: c_int,
    ) -> c_int;
    fn LZ4_decompress_safe(src: *const u8, dst: *mut u8, n_src: c_int, n_dst: c_int) -> c_int;
    fn LZ4_decompress_safe_partial(
        src: *const u8,
        dst: *mut u8,
        n_src: c_int,
        target: c_int,
        n_dst: c_int,
    ) -> c_int;
    fn ZSTD_createDCtx() -> *mut c_void;
    fn ZSTD_freeDCtx(context: *mut c_void) -> usize;
    fn ZSTD_decompressDCtx(
        context: *mut c_void,
        dst: *mut c_void,
        n_dst: usize,
        src: *const c_void,
        n_src: usize,
    ) -> usize;
    fn ZSTD_isError(code: usize) -> u32;
    fn ZSTD_getErrorCode(code: usize) -> u32;
    fn ZSTD_getFrameContentSize(src: *const c_void, n_src: usize) -> u64;
    fn bitunshuffle(typesize: i32, size: i32, src: *const u8, dst: *mut u8, version: u8) -> i32;
}

/// zstd's error code for an output that is too small.
const ZSTD_DST_SIZE_TOO_SMALL: u32 = 70;

/// Decodes blosclz into `out`; how many bytes were made, None for malformed data.
pub(super) fn blosclz(stored: &[u8], out: &mut [u8]) -> Option<usize> {
    let (n, max) = (stored.len().try_into().ok()?, out.len().try_into().ok()?);
    if n == 0 {
        return None;
    }
    // SAFETY: pointers and lengths are those of the slices.
    let made =
        unsafe { blosclz_decompress(stored.as_ptr().cast(), n, out.as_mut_ptr().cast(), max) };
    usize::try_from(made).ok().filter(|&m| m > 0)
}

/// Decodes an LZ4 block into `out`; how many bytes were made, None for malformed data.
pub(super) fn lz4(stored: &[u8], out: &mut [u8]) -> Option<usize> {
    let (n, max) = (stored.len().try_into().ok()?, out.len().try_into().ok()?);
    // SAFETY: pointers and lengths are those of the slices.
    let made = unsafe { LZ4_decompress_safe(stored.as_ptr(), out.as_mut_ptr(), n, max) };
    usize::try_from(made).ok()
}

/// Decodes an LZ4 block as far as `out` goes; how many bytes were made, None for malformed data.
pub(super) fn lz4_prefix(stored: &[u8], out: &mut [u8]) -> Option<usize> {
    let (n, max) = (stored.len().try_into().ok()?, out.len().try_into().ok()?);
    // SAFETY: pointers and lengths are those of the slices.
    let made =
        unsafe { LZ4_decompress_safe_partial(stored.as_ptr(), out.as_mut_ptr(), n, max, max) };
    usize::try_from(made).ok()
}

/// A zstd decompression context.
pub(super) struct Zstd(NonNull<c_void>);

// SAFETY: a context belongs to its owner and is tied to no thread.
unsafe impl Send for Zstd {}

impl Zstd {
    pub fn new() -> Zstd {
        // SAFETY: takes nothing; null means that there is no memory.
        Zstd(NonNull::new(unsafe { ZSTD_createDCtx() }).expect("memory for a zstd context"))
    }

    /// Decodes zstd frames into `out`. `Err(true)`: `out` is too small.
    pub fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, bool> {
        // SAFETY: the context lives; pointers and lengths are those of the slices.
        let made = unsafe {
            ZSTD_decompressDCtx(
                self.0.as_ptr(),
                out.as_mut_ptr().cast(),
                out.len(),
                stored.as_ptr().cast(),
                stored.len(),
            )
        };
        // SAFETY: both only look at a number.
        match unsafe { ZSTD_isError(made) } {
            0 => Ok(made),
            // SAFETY: as above.
            _ => Err(unsafe { ZSTD_getErrorCode(made) } == ZSTD_DST_SIZE_TOO_SMALL),
        }
    }
}

impl Drop for Zstd {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { ZSTD_freeDCtx(self.0.as_ptr()) };
    }
}

/// The decoded size that the first zstd frame states, if it does.
pub(super) fn zstd_content_size(stored: &[u8]) -> Option<u64> {
    // SAFETY: pointer and length are those of the slice.
    let size = unsafe { ZSTD_getFrameContentSize(stored.as_ptr().cast(), stored.len()) };
    // The two highest values mean "not stated" and "no frame".
    (size < u64::MAX - 1).then_some(size)
}

/// Undoes blosc's bit shuffle of one block; `version` is the blosc format's.
/// False: the sizes are not ones that the function can take.
pub(super) fn blosc_bitunshuffle(
    typesize: usize,
    version: u8,
    stored: &[u8],
    out: &mut [u8],
) -> bool {
    static INIT: std::sync::Once = std::sync::Once::new();
    // The first call picks the code for this CPU, and other threads must not see it half picked.
    INIT.call_once(|| {
        let (bits, mut bytes) = ([0; 8], [0; 8]);
        // SAFETY: eight elements of one byte, on both sides.
        unsafe { bitunshuffle(1, 8, bits.as_ptr(), bytes.as_mut_ptr(), version) };
    });
    let (Ok(width), Ok(size)) = (i32::try_from(typesize), i32::try_from(stored.len())) else {
        return false;
    };
    if width == 0 || stored.len() != out.len() {
        return false;
    }
    // SAFETY: both slices hold `size` bytes and the element width is not zero.
    unsafe { bitunshuffle(width, size, stored.as_ptr(), out.as_mut_ptr(), version) >= 0 }
}
