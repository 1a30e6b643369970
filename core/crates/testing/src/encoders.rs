//! Encoders for the tests: each writes what an HDF5 filter of that name would store.
//!
//! Law:
//! 1. Formats come from other code than the decoders under test wherever such code is linked.
//! 2. Only tests use this; a failed encoder is a panic.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use blosc2_sys as b2;
use bzip2::{Action, Compress, Compression, Status};
use libdeflater::{CompressionLvl, Compressor};

unsafe extern "C" {
    fn LZ4_compress_default(src: *const u8, dst: *mut u8, n: c_int, room: c_int) -> c_int;
    fn ZSTD_compress(dst: *mut u8, room: usize, src: *const u8, n: usize, level: c_int) -> usize;
    fn blosclz_compress(
        level: c_int,
        src: *const u8,
        n: c_int,
        dst: *mut u8,
        room: c_int,
        ctx: *mut c_void,
    ) -> c_int;
    fn bitshuffle(typesize: i32, size: i32, src: *const u8, dst: *mut u8) -> i32;
    fn b2nd_create_ctx(
        storage: *const b2::blosc2_storage,
        n_dims: i8,
        shape: *const i64,
        chunk_shape: *const i32,
        block_shape: *const i32,
        dtype: *const c_char,
        dtype_format: i8,
        layers: *const c_void,
        n_layers: i32,
    ) -> *mut c_void;
    fn b2nd_from_cbuffer(
        ctx: *mut c_void,
        array: *mut *mut c_void,
        data: *const u8,
        size: i64,
    ) -> c_int;
    fn b2nd_to_cframe(
        array: *const c_void,
        frame: *mut *mut u8,
        size: *mut i64,
        needs_free: *mut bool,
    ) -> c_int;
    fn b2nd_free(array: *mut c_void) -> c_int;
    fn b2nd_free_ctx(ctx: *mut c_void) -> c_int;
}

/// A function that makes stored bytes of data.
pub type Encode = fn(&[u8]) -> Vec<u8>;

pub fn deflate(data: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(4).unwrap());
    let mut out = vec![0; compressor.zlib_compress_bound(data.len())];
    let n = compressor.zlib_compress(data, &mut out).unwrap();
    out.truncate(n);
    out
}

pub fn bzip2(data: &[u8]) -> Vec<u8> {
    let mut stream = Compress::new(Compression::best(), 0);
    let mut out = Vec::with_capacity(data.len() + data.len() / 50 + 1000);
    let made = stream.compress_vec(data, &mut out, Action::Finish).unwrap();
    assert_eq!(made, Status::StreamEnd);
    out
}

pub fn shuffle(element_size: usize, data: &[u8]) -> Vec<u8> {
    let n = data.len() / element_size;
    let mut out = data.to_vec();
    for i in 0..n {
        for b in 0..element_size {
            out[b * n + i] = data[i * element_size + b];
        }
    }
    out
}

pub fn fletcher32(data: &[u8]) -> Vec<u8> {
    let (mut sum1, mut sum2) = (0u64, 0u64);
    for word in data.chunks(2) {
        let word = [word[0], word.get(1).copied().unwrap_or(0)];
        sum1 += u64::from(u16::from_be_bytes(word));
        sum2 += sum1 % 0xffff;
    }
    // A sum that is not zero stays so: it is folded, not reduced.
    let fold = |sum: u64, any: bool| match (sum % 0xffff, any) {
        (0, true) => 0xffff,
        (rest, _) => rest as u32,
    };
    let any = data.iter().any(|&byte| byte != 0);
    let checksum = fold(sum2, any) << 16 | fold(sum1, any);
    [data, &checksum.to_le_bytes()].concat()
}

pub fn lz4_block(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; data.len() + data.len() / 200 + 64];
    let (n, room) = (data.len() as c_int, out.len() as c_int);
    // SAFETY: pointers and lengths are those of the slices.
    let made = unsafe { LZ4_compress_default(data.as_ptr(), out.as_mut_ptr(), n, room) };
    out.truncate(made as usize);
    out
}

pub fn zstd(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; data.len() + data.len() / 100 + 1024];
    // SAFETY: pointers and lengths are those of the slices.
    let made = unsafe { ZSTD_compress(out.as_mut_ptr(), out.len(), data.as_ptr(), data.len(), 3) };
    assert!(made <= out.len());
    out.truncate(made);
    out
}

/// Blocks of the lz4 filter; a block that does not shrink is stored raw.
pub fn lz4(block_size: usize, data: &[u8]) -> Vec<u8> {
    let mut out = (data.len() as u64).to_be_bytes().to_vec();
    out.extend((block_size as u32).to_be_bytes());
    for block in data.chunks(block_size) {
        let packed = lz4_block(block);
        let stored = if packed.len() < block.len() {
            &packed
        } else {
            block
        };
        out.extend((stored.len() as u32).to_be_bytes());
        out.extend(stored);
    }
    out
}

/// Bitshuffle's blocks, each transposed and, with `pack`, packed behind the lz4 filter's header.
pub fn bitshuffle_blocks(
    element_size: usize,
    block_elements: usize,
    pack: Option<Encode>,
    data: &[u8],
) -> Vec<u8> {
    let whole = data.len() / (8 * element_size) * (8 * element_size);
    let mut out = Vec::new();
    if pack.is_some() {
        out.extend((data.len() as u64).to_be_bytes());
        out.extend(((block_elements * element_size) as u32).to_be_bytes());
    }
    for block in data[..whole].chunks(block_elements * element_size) {
        let mut bits = vec![0; block.len()];
        let (width, n) = (element_size as i32, block.len() as i32);
        // SAFETY: both slices hold n bytes.
        assert!(unsafe { bitshuffle(width, n, block.as_ptr(), bits.as_mut_ptr()) } >= 0);
        match pack {
            None => out.extend(bits),
            Some(pack) => {
                let packed = pack(&bits);
                out.extend((packed.len() as u32).to_be_bytes());
                out.extend(packed);
            }
        }
    }
    out.extend(&data[whole..]);
    out
}

/// Literals, and one back reference for each run of a byte.
pub fn lzf(data: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let run = data[at..].iter().take_while(|&&b| b == data[at]).count();
        if run > 10 {
            let copied = (run - 1).min(264);
            out.extend([0, data[at], 7 << 5, (copied - 9) as u8, 0]);
            at += copied + 1;
        } else {
            let n = (data.len() - at).min(7);
            out.push(n as u8 - 1);
            out.extend(&data[at..at + n]);
            at += n;
        }
    }
    out
}

/// Empty where it does not shrink.
fn blosclz(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; data.len() + 100];
    let (n, room) = (data.len() as c_int, data.len() as c_int - 1);
    // SAFETY: the context is only asked for c-blosc2's splitting, which is the default's.
    let made = unsafe {
        let ctx = b2::blosc2_create_cctx(cparams(1, 0, 0));
        let made = blosclz_compress(5, data.as_ptr(), n, out.as_mut_ptr(), room, ctx.cast());
        b2::blosc2_free_ctx(ctx);
        made
    };
    out.truncate(made.max(0) as usize);
    out
}

/// c-blosc 1 leaves a block alone whose elements are not eights.
fn bits(typesize: usize, block: &[u8]) -> Vec<u8> {
    let mut out = block.to_vec();
    if block.len() / typesize % 8 == 0 {
        let (width, n) = (typesize as i32, block.len() as i32);
        // SAFETY: both slices hold n bytes.
        assert!(unsafe { bitshuffle(width, n, block.as_ptr(), out.as_mut_ptr()) } >= 0);
    }
    out
}

/// A buffer of c-blosc 1 with LZ4 (codec 1), split as `split` says.
pub fn blosc1(typesize: usize, block_size: usize, split: bool, data: &[u8]) -> Vec<u8> {
    blosc1_any(1, 1, typesize, block_size, split, data)
}

/// A buffer of c-blosc 1: blosclz, lz4, zlib or zstd; shuffled not (0), by bytes (1) or bits (2).
pub fn blosc1_any(
    codec: usize,
    filter: usize,
    typesize: usize,
    block_size: usize,
    split: bool,
    data: &[u8],
) -> Vec<u8> {
    let pack: Encode = [blosclz, lz4_block, deflate, zstd][codec];
    let block_size = block_size.min(data.len());
    let split = split && typesize <= 16 && block_size / typesize >= 128;
    let starts = 16 + 4 * data.len().div_ceil(block_size);
    let mut blocks = Vec::new();
    let mut offsets = Vec::new();
    for block in data.chunks(block_size) {
        offsets.extend(((starts + blocks.len()) as u32).to_le_bytes());
        let streams = if split && block.len() == block_size {
            typesize
        } else {
            1
        };
        let shuffled = match filter {
            1 => shuffle(typesize, block),
            2 if block_size >= typesize => bits(typesize, block),
            _ => block.to_vec(),
        };
        for stream in shuffled.chunks(block.len() / streams) {
            let packed = pack(stream);
            let shrinks = !packed.is_empty() && packed.len() < stream.len();
            let stored = if shrinks { &packed } else { stream };
            blocks.extend((stored.len() as u32).to_le_bytes());
            blocks.extend(stored);
        }
    }
    let format = [0, 1, 3, 4][codec] << 5;
    let flags = [0, 1, 4][filter] | (u8::from(!split) << 4) | format;
    let mut out = vec![2, 1, flags, typesize as u8];
    for size in [data.len(), block_size, starts + blocks.len()] {
        out.extend((size as u32).to_le_bytes());
    }
    out.extend(offsets);
    out.extend(blocks);
    out
}

/// A buffer of c-blosc 1 that holds the data as it is.
pub fn blosc1_stored(typesize: usize, data: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 1, 0x12, typesize as u8];
    for size in [data.len(), data.len().div_ceil(2), 16 + data.len()] {
        out.extend((size as u32).to_le_bytes());
    }
    out.extend(data);
    out
}

fn cparams(typesize: usize, codec: u8, filter: u8) -> b2::blosc2_cparams {
    static INIT: std::sync::Once = std::sync::Once::new();
    // SAFETY: takes nothing.
    INIT.call_once(|| unsafe { b2::blosc2_init() });
    // SAFETY: takes nothing.
    let mut cparams = unsafe { b2::blosc2_get_blosc2_cparams_defaults() };
    cparams.typesize = typesize as i32;
    cparams.compcode = codec;
    cparams.filters[5] = filter;
    cparams
}

/// A bare buffer of c-blosc2; filter 0 none, 1 bytes, 2 bits.
pub fn blosc2_buffer(typesize: usize, codec: u8, filter: u8, data: &[u8]) -> Vec<u8> {
    let mut out = vec![0; data.len() + 64];
    let (n, room) = (data.len() as i32, out.len() as i32);
    // SAFETY: pointers and lengths are those of the slices; the context is freed once.
    let made = unsafe {
        let ctx = b2::blosc2_create_cctx(cparams(typesize, codec, filter));
        let made =
            b2::blosc2_compress_ctx(ctx, data.as_ptr().cast(), n, out.as_mut_ptr().cast(), room);
        b2::blosc2_free_ctx(ctx);
        made
    };
    assert!(made > 0);
    out.truncate(made as usize);
    out
}

/// A frame with one buffer, as PyTables and hdf5plugin store one-dimensional chunks.
pub fn blosc2_frame(typesize: usize, codec: u8, filter: u8, data: &[u8]) -> Vec<u8> {
    let mut cparams = cparams(typesize, codec, filter);
    // SAFETY: the storage and what it points to outlive the super-chunk, which is freed once,
    // after the frame was copied out.
    unsafe {
        let mut storage = b2::blosc2_get_blosc2_storage_defaults();
        storage.cparams = &mut cparams;
        let schunk = b2::blosc2_schunk_new(&mut storage);
        let n = data.len() as i32;
        assert!(b2::blosc2_schunk_append_buffer(schunk, data.as_ptr() as *mut _, n) == 1);
        let (mut frame, mut needs_free) = (null_mut(), false);
        let size = b2::blosc2_schunk_to_buffer(schunk, &mut frame, &mut needs_free);
        let out = std::slice::from_raw_parts(frame, size as usize).to_vec();
        b2::blosc2_schunk_free(schunk);
        if needs_free {
            b2::libc::free(frame.cast());
        }
        out
    }
}

/// A frame with an n-dimensional buffer, as PyTables and hdf5plugin store other chunks.
pub fn b2nd(
    typesize: usize,
    codec: u8,
    filter: u8,
    shape: &[usize],
    block_shape: &[usize],
    data: &[u8],
) -> Vec<u8> {
    let mut cparams = cparams(typesize, codec, filter);
    let shape64: Vec<i64> = shape.iter().map(|&n| n as i64).collect();
    let shape32: Vec<i32> = shape.iter().map(|&n| n as i32).collect();
    let blocks: Vec<i32> = block_shape.iter().map(|&n| n as i32).collect();
    // SAFETY: all arrays hold as many numbers as there are dimensions, the data as many bytes
    // as the shape says; everything is freed once, after the frame was copied out.
    unsafe {
        let mut storage = b2::blosc2_get_blosc2_storage_defaults();
        storage.cparams = &mut cparams;
        let ctx = b2nd_create_ctx(
            &storage,
            shape.len() as i8,
            shape64.as_ptr(),
            shape32.as_ptr(),
            blocks.as_ptr(),
            null(),
            0,
            null(),
            0,
        );
        let mut array = null_mut();
        assert!(b2nd_from_cbuffer(ctx, &mut array, data.as_ptr(), data.len() as i64) >= 0);
        let (mut frame, mut size, mut needs_free) = (null_mut(), 0, false);
        assert!(b2nd_to_cframe(array, &mut frame, &mut size, &mut needs_free) >= 0);
        let out = std::slice::from_raw_parts(frame, size as usize).to_vec();
        b2nd_free(array);
        b2nd_free_ctx(ctx);
        if needs_free {
            b2::libc::free(frame.cast());
        }
        out
    }
}
