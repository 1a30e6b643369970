//! Tests of whole pipelines: round trips, odd orders, masks, hostile bytes.
//!
//! Law:
//! 1. Data and corruptions are pseudo-random from fixed seeds: a failure repeats.
//! 2. No test looks at a clock.

mod packed;
mod parts;

use super::*;
use os::clock::thread_ns;
use testing::encoders as enc;

/// A small generator (xorshift), so that the tests need no crate for it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 32) as usize % n
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| (self.next() >> 56) as u8).collect()
    }
}

/// Noise, a slow ramp, zeros, and a mixture.
fn samples(size: usize) -> [Vec<u8>; 4] {
    let noise = Random(7).bytes(size);
    let ramp: Vec<u8> = (0..size).map(|i| (i / 50) as u8).collect();
    let mix = (0..size).map(|i| if i % 4 < 2 { noise[i] } else { ramp[i] });
    [mix.collect(), vec![0; size], ramp, noise]
}

fn spec(id: u32, values: &[u32]) -> FilterSpec {
    FilterSpec {
        id,
        flags: 0,
        values: values.to_vec(),
    }
}

/// Nothing of a chunk may be missing.
fn whole() -> usize {
    usize::MAX
}

/// Decodes between guard bytes, which have to stay.
fn decode(
    specs: &[FilterSpec],
    mask: u32,
    stored: &[u8],
    size: usize,
) -> Result<Vec<u8>, FilterError> {
    const GUARD: usize = 64;
    let mut memory = vec![0xA5; size + 2 * GUARD];
    let mut pipeline = Pipeline::new(specs, size, thread_ns).expect("known filters");
    let result = pipeline.decode(mask, stored, &mut memory[GUARD..GUARD + size], whole);
    assert!(memory[..GUARD].iter().all(|&b| b == 0xA5), "wrote in front");
    assert!(
        memory[GUARD + size..].iter().all(|&b| b == 0xA5),
        "wrote behind"
    );
    result.map(|()| memory[GUARD..GUARD + size].to_vec())
}

type Encode = Box<dyn Fn(&[u8]) -> Vec<u8>>;

/// A pipeline with one way to write its bytes.
struct Case {
    name: String,
    specs: Vec<FilterSpec>,
    encode: Encode,
}

fn case(
    name: impl Into<String>,
    specs: &[&FilterSpec],
    encode: impl Fn(&[u8]) -> Vec<u8> + 'static,
) -> Case {
    Case {
        name: name.into(),
        specs: specs.iter().map(|&s| s.clone()).collect(),
        encode: Box::new(encode),
    }
}

/// Every filter and many orders; each takes any number of bytes that 48 divides.
fn cases() -> Vec<Case> {
    let deflate = spec(1, &[4]);
    let (shuffle, sum) = (spec(2, &[8]), spec(3, &[]));
    let mut all = vec![
        case("none", &[], |d| d.to_vec()),
        case("deflate", &[&deflate], enc::deflate),
        case("deflate with bytes behind", &[&deflate], |d| {
            [enc::deflate(d), vec![9; 5]].concat()
        }),
        case("fletcher32", &[&sum], enc::fletcher32),
        case("shuffle, deflate", &[&shuffle, &deflate], |d| {
            enc::deflate(&enc::shuffle(8, d))
        }),
        case("deflate, shuffle", &[&deflate, &shuffle], |d| {
            enc::shuffle(8, &enc::deflate(d))
        }),
        case("sum, shuffle, deflate", &[&sum, &shuffle, &deflate], |d| {
            enc::deflate(&enc::shuffle(8, &enc::fletcher32(d)))
        }),
        case("shuffle, deflate, sum", &[&shuffle, &deflate, &sum], |d| {
            enc::fletcher32(&enc::deflate(&enc::shuffle(8, d)))
        }),
        case("deflate twice", &[&deflate, &deflate], |d| {
            enc::deflate(&enc::deflate(d))
        }),
        case("sum twice", &[&sum, &sum], |d| {
            enc::fletcher32(&enc::fletcher32(d))
        }),
        case("blosc, deflate", &[&spec(32001, &[]), &deflate], |d| {
            enc::deflate(&enc::blosc1(4, 4800, true, d))
        }),
        case("lzf", &[&spec(32000, &[])], enc::lzf),
        case("lz4", &[&spec(32004, &[])], |d| enc::lz4(1000, d)),
        case("zstd, sum", &[&spec(32015, &[]), &sum], |d| {
            enc::fletcher32(&enc::zstd(d))
        }),
    ];
    for width in [1, 2, 3, 4, 6, 8, 12, 16] {
        let values = |pack| [0, 4, width as u32, 64, pack];
        all.push(case(
            format!("bitshuffle {width}"),
            &[&spec(32008, &values(0))],
            move |d| enc::bitshuffle_blocks(width, 64, None, d),
        ));
        all.push(case(
            format!("bitshuffle lz4 {width}"),
            &[&spec(32008, &values(2))],
            move |d| enc::bitshuffle_blocks(width, 64, Some(enc::lz4_block), d),
        ));
        all.push(case(
            format!("bitshuffle zstd {width}"),
            &[&spec(32008, &values(3))],
            move |d| enc::bitshuffle_blocks(width, 64, Some(enc::zstd), d),
        ));
        for split in [false, true] {
            all.push(case(
                format!("blosc {width} {split}"),
                &[&spec(32001, &[])],
                move |d| enc::blosc1(width, 2400.max(128 * width), split, d),
            ));
        }
        // blosclz, lz4, zlib, zstd by none, bytes, bits.
        for (codec, filter) in (0..12).map(|i| ([0u8, 1, 4, 5][i / 3], (i % 3) as u8)) {
            let (id, name) = (spec(32026, &[]), format!("{width} {codec} {filter}"));
            all.push(case(format!("blosc2 buffer {name}"), &[&id], move |d| {
                enc::blosc2_buffer(width, codec, filter, d)
            }));
            all.push(case(format!("blosc2 frame {name}"), &[&id], move |d| {
                enc::blosc2_frame(width, codec, filter, d)
            }));
            all.push(case(format!("b2nd {name}"), &[&id], move |d| {
                let rows = d.len() / 48;
                let shape = [rows, 48 / width];
                let blocks = [rows.div_ceil(3), (48 / width).min(5)];
                enc::b2nd(width, codec, filter, &shape, &blocks, d)
            }));
        }
    }
    all
}

#[test]
fn round_trips() {
    for size in [48, 480, 48 * 401] {
        for data in samples(size) {
            for case in cases() {
                let stored = (case.encode)(&data);
                let decoded = decode(&case.specs, 0, &stored, size);
                assert_eq!(decoded.as_ref(), Ok(&data), "{} of {size}", case.name);
            }
        }
    }
}

#[test]
fn n_dimensional_edges() {
    let shapes: [(&[usize], &[usize]); 6] = [
        (&[7], &[3]),
        (&[10, 7], &[4, 7]),
        (&[10, 7], &[5, 3]),
        (&[5, 6, 7], &[2, 3, 7]),
        (&[5, 1, 7, 3], &[2, 1, 2, 2]),
        (&[6, 8], &[1, 4]),
    ];
    for (shape, blocks) in shapes {
        for width in [1, 3, 8] {
            let size = shape.iter().product::<usize>() * width;
            for data in samples(size) {
                let stored = enc::b2nd(width, 1, 1, shape, blocks, &data);
                let decoded = decode(&[spec(32026, &[])], 0, &stored, size);
                assert_eq!(decoded, Ok(data), "{shape:?} by {blocks:?}");
            }
        }
    }
}

#[test]
fn masks_skip_filters_as_written() {
    let specs = [spec(3, &[]), spec(2, &[8]), spec(1, &[4])];
    let [data, ..] = samples(960);
    for mask in 0..8u32 {
        let mut stored = data.clone();
        if mask & 1 == 0 {
            stored = enc::fletcher32(&stored);
        }
        if mask & 2 == 0 {
            stored = enc::shuffle(8, &stored);
        }
        if mask & 4 == 0 {
            stored = enc::deflate(&stored);
        }
        assert_eq!(
            decode(&specs, mask, &stored, 960).as_ref(),
            Ok(&data),
            "mask {mask}"
        );
        let pipeline = Pipeline::new(&specs, 960, thread_ns).unwrap();
        assert_eq!(pipeline.is_identity(mask), mask == 7);
    }
    // Bits beyond the pipeline mean nothing.
    assert!(decode(&specs[..1], !1, &enc::fletcher32(&data), 960).is_ok());
}

#[test]
fn no_pipeline_and_a_shuffle_of_bytes_are_identity() {
    assert!(Pipeline::new(&[], 10, thread_ns).unwrap().is_identity(0));
    assert!(
        Pipeline::new(&[spec(2, &[1])], 10, thread_ns)
            .unwrap()
            .is_identity(0)
    );
    assert!(
        !Pipeline::new(&[spec(2, &[2])], 10, thread_ns)
            .unwrap()
            .is_identity(0)
    );
    assert!(
        !Pipeline::new(&[spec(3, &[])], 10, thread_ns)
            .unwrap()
            .is_identity(0)
    );
}

#[test]
fn unknown_filters_are_named() {
    assert_eq!(
        Pipeline::new(&[spec(1, &[]), spec(305, &[])], 8, thread_ns).err(),
        Some(305)
    );
    // A shuffle without its parameter is left out of chunks, or is the library's.
    let mut pipeline = Pipeline::new(&[spec(2, &[])], 8, thread_ns).unwrap();
    let mut out = [0; 8];
    assert!(pipeline.decode(1, &[1; 8], &mut out, whole).is_ok());
    let error = pipeline.decode(0, &[1; 8], &mut out, whole).unwrap_err();
    assert_eq!(error.kind, FilterErrorKind::Unsupported);
}

#[test]
fn a_pipeline_is_reused_after_errors() {
    let [a, _, b, _] = samples(9600);
    let mut pipeline = Pipeline::new(&[spec(2, &[8]), spec(1, &[])], 9600, thread_ns).unwrap();
    let mut out = vec![0; 9600];
    for data in [&a, &b, &a] {
        let stored = enc::deflate(&enc::shuffle(8, data));
        pipeline.decode(0, &stored, &mut out, whole).unwrap();
        assert_eq!(&out, data);
        assert!(
            pipeline
                .decode(0, &stored[..stored.len() / 2], &mut out, whole)
                .is_err()
        );
    }
}

#[test]
fn every_flipped_byte_under_a_checksum_is_an_error() {
    let [data, ..] = samples(480);
    let stored = enc::fletcher32(&data);
    for i in 0..stored.len() {
        let mut broken = stored.clone();
        broken[i] ^= 0x40;
        let error = decode(&[spec(3, &[])], 0, &broken, 480).unwrap_err();
        assert_eq!(error.kind, FilterErrorKind::Checksum);
    }
}

#[test]
fn truncations_are_errors_and_never_panic() {
    for case in cases() {
        let [data, ..] = samples(48 * 61);
        let stored = (case.encode)(&data);
        for n in 0..stored.len() {
            if n > 200 && n % 13 != 0 && n + 40 < stored.len() {
                continue;
            }
            let cut = stored[..n].to_vec();
            let decoded = decode(&case.specs, 0, &cut, data.len());
            // Deflate may only miss what it ignores: bytes behind its stream.
            if let Ok(decoded) = decoded {
                assert!(
                    decoded == data && case.name.contains("behind"),
                    "{} at {n}",
                    case.name
                );
            }
        }
    }
}

#[test]
fn corruptions_never_panic_or_write_outside() {
    let mut random = Random(11);
    for case in cases() {
        for data in samples(48 * 61) {
            let stored = (case.encode)(&data);
            for round in 0..150 {
                let mut broken = stored.clone();
                for _ in 0..1 + round % 3 {
                    // Headers are where the lengths are: hit them more often.
                    let reach = if round % 2 == 0 { 160 } else { usize::MAX };
                    let i = random.below(broken.len().min(reach));
                    broken[i] = match random.below(4) {
                        0 => 0xff,
                        1 => 0,
                        2 => broken[i] ^ (1 << random.below(8)),
                        _ => random.next() as u8,
                    };
                }
                let _ = decode(&case.specs, 0, &broken, data.len());
            }
        }
    }
}

#[test]
fn noise_never_panics() {
    let mut random = Random(13);
    let mut pipelines = cases();
    pipelines.dedup_by(|a, b| a.specs == b.specs);
    for case in pipelines {
        for _ in 0..60 {
            let n = random.below(300);
            let _ = decode(&case.specs, 0, &random.bytes(n), 480);
        }
    }
}

#[test]
fn another_size_than_the_chunk_is_an_error() {
    for case in cases().iter().filter(|c| c.name != "none") {
        let [data, ..] = samples(480);
        let stored = (case.encode)(&data);
        for size in [0, 1, 432, 479, 481, 5000] {
            let error = decode(&case.specs, 0, &stored, size).expect_err(&case.name);
            assert_ne!(
                error.kind,
                FilterErrorKind::Checksum,
                "{} as {size}",
                case.name
            );
        }
    }
}

/// Apart from the other filters' cases, as each chunk takes milliseconds without optimisation.
#[test]
fn bzip2_streams() {
    let specs = [spec(307, &[9])];
    let mut random = Random(43);
    for data in samples(1921) {
        let stored = enc::bzip2(&data);
        let behind = [&stored[..], &[9; 5]].concat();
        for stored in [&stored, &behind] {
            assert_eq!(decode(&specs, 0, stored, 1921).as_ref(), Ok(&data));
        }
        for size in [0, 1, 1920, 1922, 5000] {
            let error = decode(&specs, 0, &stored, size).unwrap_err();
            assert_eq!(error.kind, FilterErrorKind::WrongSize, "{size}");
        }
        for n in (0..stored.len()).step_by(1 + stored.len() / 20) {
            let error = decode(&specs, 0, &stored[..n], 1921).unwrap_err();
            assert_eq!(error.kind, FilterErrorKind::Truncated, "{n}");
        }
        for _ in 0..20 {
            let mut broken = stored.clone();
            broken[random.below(stored.len())] ^= 1 << random.below(8);
            let decoded = decode(&specs, 0, &broken, 1921);
            assert!(decoded.is_err() || decoded.as_ref() == Ok(&data));
        }
        let _ = decode(&specs, 0, &random.bytes(300), 1921);
    }
    // A bomb: zeros, for a chunk of a few bytes.
    let error = decode(&specs, 0, &enc::bzip2(&vec![0; 1 << 20]), 480).unwrap_err();
    assert_eq!((error.kind, error.got), (FilterErrorKind::WrongSize, 481));
}

#[test]
fn a_bomb_between_two_stages_is_refused() {
    // 64 MiB of zeros, packed twice, for a chunk of 480 bytes.
    let bomb = enc::deflate(&enc::deflate(&vec![0; 64 << 20]));
    let specs = [spec(1, &[]), spec(1, &[])];
    assert!(decode(&specs, 0, &bomb, 480).is_err());
    // A stage in between whose output is far larger than any chunk needs.
    let specs = [spec(32015, &[]), spec(1, &[])];
    let error = decode(&specs, 0, &enc::deflate(&vec![0; 64 << 20]), 480).unwrap_err();
    assert_eq!((error.filter, error.kind), (1, FilterErrorKind::WrongSize));
    assert!(error.got < 1 << 20);
}

#[test]
fn errors_read_well() {
    let [data, ..] = samples(480);
    let mut stored = enc::fletcher32(&data);
    stored[3] ^= 1;
    let text = decode(&[spec(3, &[])], 0, &stored, 480)
        .unwrap_err()
        .to_string();
    assert!(
        text.starts_with("fletcher32 does not match (stored 0x"),
        "{text}"
    );
}
