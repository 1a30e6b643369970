//! Any bytes as two to four streams: decoded as libdeflate decodes them, or refused.
//!
//! Law: a group that decodes equals its streams alone. A refusal is no finding, as it costs time only.
#![no_main]

use libdeflater::Decompressor;
use libfuzzer_sys::fuzz_target;
use multi_inflate::{MAX_STREAMS, Tables, decode_group};

fuzz_target!(|input: (u8, [u16; MAX_STREAMS], [&[u8]; MAX_STREAMS])| {
    let (n, sizes, stored) = input;
    let n = 2 + usize::from(n) % (MAX_STREAMS - 1);
    let memory = || sizes[..n].iter().map(|&size| vec![0; size.into()]);
    let (mut together, mut alone): (Vec<Vec<u8>>, Vec<Vec<u8>>) = (memory().collect(), memory().collect());
    let mut outs: Vec<_> = together.iter_mut().map(Vec::as_mut_slice).collect();
    if decode_group(&mut Tables::new(), &stored[..n], &mut outs).is_none() {
        return;
    }
    for (stored, out) in stored.iter().zip(&mut alone) {
        let made = Decompressor::new().zlib_decompress(stored, out);
        assert_eq!(made.ok(), Some(out.len()));
    }
    assert!(together == alone);
});
