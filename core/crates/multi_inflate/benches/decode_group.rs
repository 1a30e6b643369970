//! Groups of streams against one stream after the other with libdeflate: ns per decoded byte.
//!
//! Law:
//! 1. Both ways take turns in one run, and medians are compared.
//! 2. The bytes are compared before any time is taken.
//!
//! Run it with `cargo bench -p multi_inflate --manifest-path core/Cargo.toml`.

use libdeflater::{CompressionLvl, Compressor, Decompressor};
use multi_inflate::{MAX_STREAMS, Tables, decode_group};
use std::time::Instant;

const ROUNDS: usize = 31;
const ROUND_BYTES: usize = 4 << 20;

fn data(kind: &str, size: usize) -> Vec<u8> {
    let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed >> 11
    };
    let bytes = (0..size.div_ceil(8)).flat_map(|_| match kind {
        "noise" => [random() % 50; 8].map(|_| (random() % 50) as u8),
        "float64" => (random() as f64 / (1u64 << 53) as f64).to_le_bytes(),
        "int64" => (random() % 1000).to_le_bytes(),
        _ => [7; 8],
    });
    bytes.take(size).collect()
}

fn compress(data: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(4).expect("a level"));
    let mut out = vec![0; compressor.zlib_compress_bound(data.len())];
    let size = compressor
        .zlib_compress(data, &mut out)
        .expect("room for it");
    out.truncate(size);
    out
}

/// Seconds of decoding about `ROUND_BYTES`, for each byte in ns.
fn ns_per_byte(bytes: usize, mut decode: impl FnMut()) -> f64 {
    let calls = ROUND_BYTES / bytes;
    let start = Instant::now();
    (0..calls).for_each(|_| decode());
    start.elapsed().as_nanos() as f64 / (calls * bytes) as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    println!(
        "{:10} {:>8} {:>8} {:>8} {:>8}  ns per byte",
        "data", "bytes", "streams", "alone", "group"
    );
    let (mut tables, mut alone) = (Tables::new(), Decompressor::new());
    for kind in ["noise", "float64", "int64", "constant"] {
        for size in [8 << 10, 128 << 10] {
            let data = data(kind, size);
            let one = compress(&data);
            for n in 2..=MAX_STREAMS {
                let stored = vec![&one[..]; n];
                let mut memory = vec![vec![0; size]; n];
                let mut outs: Vec<_> = memory.iter_mut().map(Vec::as_mut_slice).collect();
                decode_group(&mut tables, &stored, &mut outs).expect("good streams");
                assert!(outs.iter().all(|out| **out == data[..]), "{kind}");
                let (mut apart, mut together) = (Vec::new(), Vec::new());
                for _ in 0..ROUNDS {
                    apart.push(ns_per_byte(n * size, || {
                        for (stored, out) in stored.iter().zip(&mut outs) {
                            alone.zlib_decompress(stored, out).expect("a good stream");
                        }
                    }));
                    together.push(ns_per_byte(n * size, || {
                        decode_group(&mut tables, &stored, &mut outs).expect("good streams");
                    }));
                }
                let (apart, together) = (median(apart), median(together));
                println!("{kind:10} {size:8} {n:8} {apart:8.3} {together:8.3}");
            }
        }
    }
}
