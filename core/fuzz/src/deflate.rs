//! Two to four deflate streams as a group: decoded as libdeflate decodes them, or refused.
//!
//! Law: a group that decodes equals its streams alone. A refusal is no finding, as it costs time only.
//!
//! Input: how many, and for each its decoded size and its length in two bytes each; the streams.

use crate::input::Input;
use libdeflater::Decompressor;
use multi_inflate::{MAX_STREAMS, Tables, decode_group};

pub fn group(input: &[u8]) {
    let mut input = Input(input);
    let n = 2 + input.number(1) % (MAX_STREAMS - 1);
    let sizes: Vec<_> = (0..n).map(|_| (input.number(2), input.number(2))).collect();
    let stored: Vec<&[u8]> = sizes.iter().map(|size| input.bytes(size.1)).collect();
    let memory = || sizes.iter().map(|size| vec![0; size.0]);
    let (mut together, mut alone): (Vec<Vec<u8>>, Vec<Vec<u8>>) =
        (memory().collect(), memory().collect());
    let mut outs: Vec<_> = together.iter_mut().map(Vec::as_mut_slice).collect();
    if decode_group(&mut Tables::new(), &stored, &mut outs).is_none() {
        return;
    }
    for (stored, out) in stored.iter().zip(&mut alone) {
        let made = Decompressor::new().zlib_decompress(stored, out);
        assert_eq!(made.ok(), Some(out.len()));
    }
    assert!(together == alone);
}
