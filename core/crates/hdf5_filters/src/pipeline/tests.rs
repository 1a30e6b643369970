//! Groups of chunks: the same bytes and refusals as one after the other, in sizes that leave none over.

use super::super::fletcher32::checksum;
use super::*;
use libdeflater::{CompressionLvl, Compressor};
use os::clock::thread_ns;

const SIZE: usize = 4000;

fn spec(id: u32, values: &[u32]) -> FilterSpec {
    FilterSpec {
        id,
        flags: 0,
        values: values.to_vec(),
    }
}

/// Literals for the most part, so that a pair pays.
fn noise(mut seed: u64) -> Vec<u8> {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 40) as u8 % 200
    };
    (0..SIZE).map(|_| next()).collect()
}

fn deflate(data: &[u8]) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(4).unwrap());
    let mut out = vec![0; compressor.zlib_compress_bound(data.len())];
    let size = compressor.zlib_compress(data, &mut out).unwrap();
    out.truncate(size);
    out
}

fn with_checksum(data: &[u8]) -> Vec<u8> {
    [data, &checksum(data).to_le_bytes()].concat()
}

type Encode = fn(&[u8]) -> Vec<u8>;

/// Pipelines around deflate; shuffle is nothing to the data, which is noise anyway.
fn pipelines() -> [(Vec<FilterSpec>, Encode); 4] {
    let (deflate_spec, sum) = (spec(1, &[4]), spec(3, &[]));
    let shuffle = spec(2, &[8]);
    [
        (vec![deflate_spec.clone()], deflate),
        (vec![shuffle.clone(), deflate_spec.clone()], deflate),
        (vec![shuffle, deflate_spec.clone(), sum.clone()], |data| {
            with_checksum(&deflate(data))
        }),
        (vec![sum, deflate_spec], |data| {
            deflate(&with_checksum(data))
        }),
    ]
}

/// Nothing of a chunk may be missing.
fn whole() -> usize {
    usize::MAX
}

fn alone(specs: &[FilterSpec], stored: &[u8]) -> Result<Vec<u8>, FilterError> {
    let mut out = vec![0; SIZE];
    let mut pipeline = Pipeline::new(specs, SIZE, thread_ns).expect("known filters");
    pipeline.decode(0, stored, &mut out, whole).map(|()| out)
}

fn group<const N: usize>(pipeline: &mut Pipeline, stored: [&[u8]; N]) -> Option<[Vec<u8>; N]> {
    let mut outs = stored.map(|_| vec![0; SIZE]);
    let pairs = stored.into_iter().zip(&mut outs);
    let mut items: Vec<_> = pairs
        .map(|(stored, out)| GroupItem { stored, out })
        .collect();
    pipeline.decode_group(0, &mut items).then_some(outs)
}

#[test]
fn what_is_needed_may_be_all_that_is_stored() {
    for (specs, encode) in pipelines() {
        let (data, mut out) = (noise(3), vec![7; SIZE]);
        let stored = encode(&data[..SIZE / 2]);
        let mut pipeline = Pipeline::new(&specs, SIZE, thread_ns).expect("known filters");
        let mut decode = |needed| pipeline.decode(0, &stored, &mut out, || needed);
        let error = decode(SIZE / 2 + 1).unwrap_err();
        assert_eq!(error.kind, FilterErrorKind::WrongSize);
        assert_eq!((error.expected, error.got), (SIZE as u64, SIZE as u64 / 2));
        decode(SIZE / 2).unwrap();
        if specs.iter().all(|spec| spec.id != 2) {
            assert_eq!(out[..SIZE / 2], data[..SIZE / 2]);
        }
        assert!(out[SIZE / 2..].iter().all(|&byte| byte == 7));
    }
}

#[test]
fn no_chunk_is_left_over_where_groups_may_be_of_three() {
    let deflate = |size| Pipeline::new(&[spec(1, &[4])], size, thread_ns).unwrap();
    let groups = |size, chunks: usize| {
        let (pipeline, mut left, mut groups) = (deflate(size), chunks, vec![]);
        while left > 0 {
            groups.push(pipeline.even_group(left));
            left -= groups.last().unwrap();
        }
        groups
    };
    for chunks in 2..100 {
        for most in 3..=MAX_STREAMS {
            let groups = groups(MAX_GROUP_BYTES / most, chunks);
            assert!(groups.iter().all(|count| (2..=most).contains(count)));
        }
    }
    assert_eq!(groups(0, 9), [3, 3, 3]);
    assert_eq!(groups(SIZE, 7), [4, 3]);
    assert_eq!(groups(MAX_GROUP_BYTES / 2, 5), [2, 2, 1]);
    assert_eq!(groups(MAX_GROUP_BYTES / 2 + 1, 3), [1, 1, 1]);
    assert_eq!(deflate(SIZE).even_group(0), 0);
}

#[test]
fn chunks_in_a_group_are_what_they_are_alone() {
    for (specs, encode) in pipelines() {
        let mut pipeline = Pipeline::new(&specs, SIZE, thread_ns).expect("known filters");
        for seed in 1..5 {
            let all = [0, 100, 200, 300].map(|more| encode(&noise(seed + more)));
            let expected = all.each_ref().map(|stored| alone(&specs, stored).unwrap());
            let [a, b, c, d] = all.each_ref().map(Vec::as_slice);
            let check = |made: Option<Vec<Vec<u8>>>, count| {
                assert_eq!(made.as_deref(), Some(&expected[..count]));
            };
            check(group(&mut pipeline, [a, b, c, d]).map(Vec::from), 4);
            check(group(&mut pipeline, [a, b, c]).map(Vec::from), 3);
            check(group(&mut pipeline, [a, b]).map(Vec::from), 2);
        }
    }
}

#[test]
fn groups_with_a_bad_chunk_are_refused_and_the_chunks_alone_tell() {
    for (specs, encode) in pipelines() {
        let mut pipeline = Pipeline::new(&specs, SIZE, thread_ns).expect("known filters");
        let [good, mut bad] = [encode(&noise(1)), encode(&noise(2))];
        bad[1000] ^= 1;
        assert!(alone(&specs, &bad).is_err());
        for stored in [[&good[..], &bad], [&bad, &good], [&bad, &bad], [&good, &[]]] {
            assert_eq!(group(&mut pipeline, stored), None);
            let mut out = vec![0; SIZE];
            for stored in stored {
                let got = pipeline
                    .decode(0, stored, &mut out, whole)
                    .map(|()| out.clone());
                assert_eq!(got, alone(&specs, stored));
            }
        }
        for stored in [
            [&good[..], &good, &bad],
            [&good, &bad, &good],
            [&bad, &good, &good],
        ] {
            assert_eq!(group(&mut pipeline, stored), None);
        }
        assert!(group(&mut pipeline, [&good, &good]).is_some());
        assert!(group(&mut pipeline, [&good, &good, &good]).is_some());
    }
}

/// As readers go: which way is the quicker one is the machine's matter.
#[test]
fn both_ways_are_tried_and_make_the_same() {
    for (specs, encode) in pipelines() {
        let mut pipeline = Pipeline::new(&specs, SIZE, thread_ns).expect("known filters");
        let (a, b) = (encode(&noise(1)), encode(&[0; SIZE]));
        let expected = [&a, &b].map(|stored| alone(&specs, stored).unwrap());
        let (mut groups, mut chunks) = (0, 0);
        for _ in 0..100 {
            if pipeline.wants_group(0) {
                groups += 1;
                assert_eq!(group(&mut pipeline, [&a, &b]).as_ref(), Some(&expected));
                continue;
            }
            for (stored, expected) in [&a, &b].into_iter().zip(&expected) {
                chunks += 1;
                let mut out = vec![0; SIZE];
                pipeline.decode(0, stored, &mut out, whole).unwrap();
                assert_eq!(&out, expected);
            }
        }
        assert!(groups > 4 && chunks > 8, "{groups} groups, {chunks} chunks");
    }
}

#[test]
fn company_is_for_small_chunks_and_active_stages() {
    let specs = [spec(2, &[8]), spec(1, &[4])];
    let wants = |size, mask| {
        Pipeline::new(&specs, size, thread_ns)
            .unwrap()
            .wants_group(mask)
    };
    assert!(wants(SIZE, 0) && wants(SIZE, 0b01) && wants(MAX_GROUP_BYTES / 2, 0));
    assert!(!wants(SIZE, 0b10) && !wants(MAX_GROUP_BYTES / 2 + 1, 0));
    let mut lzf = Pipeline::new(&[spec(32000, &[])], SIZE, thread_ns).expect("a known filter");
    assert!(!lzf.wants_group(0));
    assert_eq!(group(&mut lzf, [&[1, 2], &[3, 4]]), None);
}
