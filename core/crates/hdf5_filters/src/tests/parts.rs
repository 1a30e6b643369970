//! Parts of chunks: whatever is wanted of a block equals the whole chunk's bytes.

use super::*;
use crate::{Blocks, Fetched, Fetches, Parts};
use os::clock::thread_ns;
use std::ops::Range;

/// Head and one span alone; what is not there is noise.
fn sparse(stored: &[u8], head: usize, span: &std::ops::Range<usize>, noise: u8) -> Vec<u8> {
    let mut some = vec![noise; stored.len()];
    some[..head].copy_from_slice(&stored[..head]);
    some[span.clone()].copy_from_slice(&stored[span.clone()]);
    some
}

/// What `next_fetch` asks for, and `head`; what is not there is noise.
fn asked(
    parts: &Parts<'_>,
    blocks: &Blocks,
    stored: &[u8],
    (n, span, wanted): (usize, Range<usize>, Range<usize>),
    noise: u8,
) -> (Vec<u8>, usize) {
    let mut some = sparse(stored, blocks.head_bytes, &(0..0), noise);
    let mut fetches = Fetches::new(n, span.clone(), wanted, blocks.head_bytes);
    let mut bytes = 0;
    while let Some(next) = parts.next_fetch(&some, &mut fetches).unwrap() {
        assert!(!next.is_empty() && span.start <= next.start && next.end <= span.end);
        some[next.clone()].copy_from_slice(&stored[next.clone()]);
        bytes += next.len();
    }
    (some, bytes)
}

fn check(name: &str, stored: &[u8], data: &[u8], random: &mut Random) {
    let specs = [spec(32001, &[])];
    let mut pipeline = Pipeline::new(&specs, data.len(), thread_ns).unwrap();
    let mut parts = pipeline.parts(0).expect("blosc alone");
    // A guess at the head first, as a reader does.
    let first = stored.len().min(32);
    let guess = parts
        .blocks(&sparse(stored, first, &(0..0), 0x5A))
        .expect(name);
    let blocks = parts
        .blocks(&sparse(stored, guess.head_bytes, &(0..0), 0xFF))
        .expect(name);
    assert_eq!(guess, blocks);
    assert_eq!(blocks.decoded_size, data.len());
    for n in 0..blocks.n_blocks {
        let head = sparse(stored, blocks.head_bytes, &(0..0), 0);
        let span = parts.span(&head, n).expect(name);
        let some = sparse(stored, blocks.head_bytes, &span, 0xEE);
        let expected = &data[blocks.range(n)];
        for _ in 0..6 {
            let start = random.below(expected.len());
            let wanted = start..start + 1 + random.below(expected.len() - start);
            let mut out = vec![0xA5; expected.len()];
            let block = (n, span.clone(), Fetched::All);
            let made = parts.decode_block(&some, block, wanted.clone(), &mut out);
            assert!(made.expect(name).is_some_and(|work| work <= expected.len()));
            let same = out[wanted.clone()] == expected[wanted.clone()];
            assert!(same, "{name}: block {n}, {wanted:?}");

            let block = (n, span.clone(), wanted.clone());
            let (some, _) = asked(&parts, &blocks, stored, block, random.next() as u8);
            let mut out = vec![0xA5; expected.len()];
            let block = (n, span.clone(), Fetched::Asked);
            let made = parts.decode_block(&some, block, wanted.clone(), &mut out);
            let same = out[wanted.clone()] == expected[wanted.clone()];
            assert!(
                made.expect(name).is_none() || same,
                "{name}: block {n}, {wanted:?}"
            );
        }
        let mut out = vec![0xA5; expected.len()];
        let all = 0..out.len();
        let block = (n, span, Fetched::All);
        parts.decode_block(&some, block, all, &mut out).unwrap();
        assert!(out == expected, "{name}: block {n}");
    }
}

#[test]
fn parts_equal_the_whole() {
    let mut random = Random(17);
    for width in [1, 2, 3, 4, 7, 8, 12, 16, 48] {
        for size in [width, 50 * width, 1000 * width, 1000 * width + 5] {
            for data in samples(size) {
                for (codec, split) in (0..8).map(|i| (i / 2, i % 2 == 0)) {
                    for filter in 0..3 {
                        let block = (300 * width).max(16);
                        let stored = enc::blosc1_any(codec, filter, width, block, split, &data);
                        let name = format!("{codec} {filter} {width} {split} {size}");
                        check(&name, &stored, &data, &mut random);
                    }
                }
                check(
                    "stored",
                    &enc::blosc1_stored(width, &data),
                    &data,
                    &mut random,
                );
                // blosclz, lz4, zlib, zstd by none, bytes, bits; runs and special values.
                for (codec, filter) in (0..12).map(|i| ([0u8, 1, 4, 5][i / 3], (i % 3) as u8)) {
                    let stored = enc::blosc2_buffer(width, codec, filter, &data);
                    check("blosc2", &stored, &data, &mut random);
                }
            }
        }
    }
}

/// A row of a large block takes little of what is stored, and is right, or more is asked for.
#[test]
fn little_is_fetched_of_a_large_block() {
    let mut random = Random(23);
    let mut enough = 0;
    for (filter, width) in [(0, 1), (1, 2), (1, 4), (1, 8)] {
        // Whole numbers that compress, with noise in the last byte.
        let mut data = vec![0; 1 << 18];
        for (i, element) in data.chunks_exact_mut(width).enumerate() {
            element.fill(random.below(6) as u8);
            if width > 1 {
                element[width - 1] = random.next() as u8;
                element[0] = (i / 1000) as u8;
            }
        }
        let stored = enc::blosc1_any(1, filter, width, data.len(), width > 1, &data);
        let mut pipeline = Pipeline::new(&[spec(32001, &[])], data.len(), thread_ns).unwrap();
        let mut parts = pipeline.parts(0).unwrap();
        let blocks = parts.blocks(&stored).unwrap();
        let span = parts.span(&stored, 0).unwrap();
        for _ in 0..50 {
            let start = random.below(data.len() / 2);
            let wanted = start..start + 1000;
            let block = (0, span.clone(), wanted.clone());
            let (some, bytes) = asked(&parts, &blocks, &stored, block, 0x77);
            let most = stored.len() * 3 / 4 + 512 * width;
            assert!(bytes < most, "{width}: {bytes} of {}", stored.len());
            let mut out = vec![0xA5; data.len()];
            let block = (0, span.clone(), Fetched::Asked);
            let made = parts.decode_block(&some, block, wanted.clone(), &mut out);
            if made.unwrap().is_some() {
                enough += 1;
                assert!(out[wanted.clone()] == data[wanted]);
            }
        }
        let fetches = |wanted| Fetches::new(0, span.clone(), wanted, blocks.head_bytes);
        let is_sparse = |wanted| parts.is_sparse(&stored, &fetches(wanted)).unwrap();
        assert!(is_sparse(1000..2000) && !is_sparse(0..data.len()));
    }
    assert!(enough > 190, "{enough}");
}

#[test]
fn only_blosc_alone_has_parts() {
    let has = |specs: &[FilterSpec], mask| {
        Pipeline::new(specs, 8, thread_ns)
            .unwrap()
            .parts(mask)
            .is_some()
    };
    let (blosc, sum) = (spec(32001, &[]), spec(3, &[]));
    let both = [blosc, sum];
    assert!(has(&both[..1], 0) && !has(&both[..1], 1));
    assert!(!has(&both, 0) && has(&both, 2) && !has(&both, 1) && !has(&both, 3));
    assert!(!has(&[spec(1, &[])], 0) && !has(&[spec(32026, &[])], 0));
}

#[test]
fn broken_parts_never_panic() {
    let mut random = Random(19);
    let [data, ..] = samples(4800);
    for (codec, filter) in (0..12).map(|i| (i / 3, i % 3)) {
        let stored = enc::blosc1_any(codec, filter, 8, 1600, filter > 0, &data);
        for _ in 0..400 {
            let mut broken = stored.clone();
            for _ in 0..1 + random.below(3) {
                let reach = broken
                    .len()
                    .min(if random.below(2) == 0 { 60 } else { usize::MAX });
                let at = random.below(reach);
                broken[at] = random.next() as u8;
            }
            let mut pipeline = Pipeline::new(&[spec(32001, &[])], data.len(), thread_ns).unwrap();
            let mut parts = pipeline.parts(0).unwrap();
            let Ok(blocks) = parts.blocks(&broken) else {
                continue;
            };
            if blocks.decoded_size != data.len() {
                continue;
            }
            for n in 0..blocks.n_blocks.min(50) {
                let mut out = vec![0; blocks.range(n).len()];
                let wanted = out.len() / 3..out.len();
                if let Ok(span) = parts.span(&broken, n) {
                    let mut fetches = Fetches::new(n, span.clone(), wanted.clone(), 60);
                    let _ = parts.is_sparse(&broken, &fetches);
                    while let Ok(Some(next)) = parts.next_fetch(&broken, &mut fetches) {
                        assert!(!next.is_empty() && next.end <= broken.len());
                    }
                    for fetched in [Fetched::All, Fetched::Asked] {
                        let block = (n, span.clone(), fetched);
                        let _ = parts.decode_block(&broken, block, wanted.clone(), &mut out);
                    }
                }
            }
        }
    }
}
