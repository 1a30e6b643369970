//! HDF5's own packings, nbit and scaleoffset, whose parameters tell the chunk's size.

use super::*;
use os::clock::thread_ns;

/// Numbers, each with its count of bits, from the highest bit on.
fn pack(numbers: &[(u64, usize)]) -> Vec<u8> {
    let (mut bytes, mut bits) = (Vec::new(), 0);
    for &(number, width) in numbers {
        for bit in (0..width).rev() {
            if bits % 8 == 0 {
                bytes.push(0);
            }
            *bytes.last_mut().unwrap() |= ((number >> bit & 1) as u8) << (7 - bits % 8);
            bits += 1;
        }
    }
    bytes
}

/// A chunk of `scaleoffset`.
fn scaled(bits: usize, least: u64, numbers: &[u64]) -> Vec<u8> {
    let mut stored = (bits as u32).to_le_bytes().to_vec();
    stored.push(8);
    stored.extend(least.to_le_bytes());
    stored.resize(21, 0);
    let numbers: Vec<_> = numbers.iter().map(|&number| (number, bits)).collect();
    [stored, pack(&numbers)].concat()
}

fn scaleoffset(kind: [u32; 2], elements: usize, width: usize, order: u32) -> FilterSpec {
    let class = u32::from(kind[0] == 0);
    let mut values = [0; 20];
    let given = [
        kind[0],
        kind[1],
        elements as u32,
        class,
        width as u32,
        1,
        order,
    ];
    values[..7].copy_from_slice(&given);
    spec(6, &values)
}

fn in_order(value: u64, width: usize, order: u32) -> Vec<u8> {
    match order {
        0 => value.to_le_bytes()[..width].to_vec(),
        _ => value.to_be_bytes()[8 - width..].to_vec(),
    }
}

#[test]
fn integers_above_the_least() {
    let mut random = Random(29);
    for (width, order) in (0..8).map(|i| (1 << (i / 2), i % 2)) {
        for bits in 0..8 * width {
            let (elements, least) = (1 + random.below(40), random.next());
            let mask = (1u64 << bits) - 1;
            let numbers: Vec<_> = (0..elements).map(|_| random.next() & mask).collect();
            let stored = scaled(bits, least, &numbers);
            for fill in [None, Some(0x0102_0304_0506_0708)] {
                let mut spec = scaleoffset([2, 0], elements, width, order as u32);
                if let Some(fill) = fill {
                    spec.values[7..10].copy_from_slice(&[1, fill as u32, (fill >> 32) as u32]);
                }
                let value = |&number: &u64| match fill {
                    Some(fill) if number == mask => fill,
                    _ => number.wrapping_add(least),
                };
                let element = |number| in_order(value(number), width, order as u32);
                let expected: Vec<u8> = numbers.iter().flat_map(element).collect();
                let decoded = decode(&[spec], 0, &stored, expected.len());
                assert_eq!(
                    decoded,
                    Ok(expected),
                    "{bits} of {width}, {order}, {fill:?}"
                );
            }
        }
        let numbers: Vec<_> = (0..9).map(|_| random.next()).collect();
        let raw = |order| numbers.iter().flat_map(move |&n| in_order(n, width, order));
        let stored = [scaled(8 * width, 0, &[]), raw(0).collect()].concat();
        let decoded = decode(
            &[scaleoffset([2, 0], 9, width, order as u32)],
            0,
            &stored,
            9 * width,
        );
        assert_eq!(decoded, Ok(raw(order as u32).collect::<Vec<u8>>()));
    }
}

#[test]
fn floats_of_some_digits() {
    let numbers = [0, 1, 2, 50, 127, 126];
    let least = 1.25f32;
    let stored = scaled(7, least.to_bits().into(), &numbers);
    let element = |&n: &u64| (n as f32 / 100.0 + least).to_le_bytes();
    let expected: Vec<u8> = numbers.iter().flat_map(element).collect();
    assert_eq!(
        decode(&[scaleoffset([0, 2], 6, 4, 0)], 0, &stored, 24),
        Ok(expected)
    );
    let least = -3.5f64;
    let stored = scaled(7, least.to_bits(), &numbers);
    let element = |&n: &u64| (n as f64 / 0.1 + least).to_be_bytes();
    let expected: Vec<u8> = numbers.iter().flat_map(element).collect();
    let digits = -1i32 as u32;
    assert_eq!(
        decode(&[scaleoffset([0, digits], 6, 8, 1)], 0, &stored, 48),
        Ok(expected)
    );
}

/// A compound of 16 bytes: 20 bits of a number, big-endian pairs of 11 bits, three bytes as they are.
const NBIT: [u32; 23] = [
    23, 0, 0, 3, 16, 3, 0, 1, 4, 0, 20, 3, 5, 2, 4, 1, 2, 1, 11, 5, 12, 4, 3,
];

fn nbit(elements: usize) -> FilterSpec {
    let mut values = NBIT.to_vec();
    values[2] = elements as u32;
    spec(5, &values)
}

fn nbit_chunk(elements: usize, random: &mut Random) -> (Vec<u8>, Vec<u8>) {
    let (mut numbers, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..elements {
        let mut bits = |n: usize| random.next() & ((1 << n) - 1);
        let (a, pair, rest) = (bits(20), [bits(11), bits(11)], [bits(8), bits(8), bits(8)]);
        numbers.push((a, 20));
        numbers.extend(pair.map(|n| (n, 11)));
        numbers.extend(rest.map(|n| (n, 8)));
        expected.extend(((a as u32) << 3).to_le_bytes());
        expected.push(0);
        expected.extend(pair.map(|n| ((n as u16) << 5).to_be_bytes()).concat());
        expected.extend([0; 3]);
        expected.extend(rest.map(|n| n as u8));
        expected.push(0);
    }
    (pack(&numbers), expected)
}

#[test]
fn bits_that_count() {
    for elements in [1, 2, 7, 100] {
        let (stored, expected) = nbit_chunk(elements, &mut Random(31));
        let decoded = decode(&[nbit(elements)], 0, &stored, expected.len());
        assert_eq!(decoded, Ok(expected), "{elements}");
    }
    let mut noop = nbit(3);
    noop.values[1] = 1;
    assert!(
        Pipeline::new(&[noop], 48, thread_ns)
            .unwrap()
            .is_identity(0)
    );
    let noop = scaleoffset([2, 32], 12, 4, 0);
    assert!(
        Pipeline::new(&[noop], 48, thread_ns)
            .unwrap()
            .is_identity(0)
    );
}

/// Each with parameters for 30 elements, a chunk of them, and its decoded size.
fn chunks() -> Vec<(FilterSpec, Vec<u8>, usize)> {
    let (stored, expected) = nbit_chunk(30, &mut Random(37));
    let numbers: Vec<u64> = (0..30).collect();
    let float = f64::to_bits(0.5);
    vec![
        (nbit(30), stored, expected.len()),
        (scaleoffset([2, 0], 30, 4, 0), scaled(5, 9, &numbers), 120),
        (
            scaleoffset([0, 3], 30, 8, 1),
            scaled(5, float, &numbers),
            240,
        ),
    ]
}

/// Blocks of zeros, of pairs, of split samples and of samples as they are, after a reference.
#[test]
fn szip_blocks() {
    let specs = [spec(4, &[128 | 32 | 8, 4, 8, 20])];
    let packed = pack(&[
        (1, 3), // No lower bits: 10, then 1 above, 1 below, 0.
        (10, 8),
        (0b001, 3),
        (0b01, 2),
        (1, 1),
        (0, 3), // Two blocks of zeros.
        (0, 1),
        (0b01, 2),
        (0, 3), // Pairs: 1 and 0, 0 and 1.
        (1, 1),
        (0b01, 2),
        (0b001, 3),
        (7, 3), // As they are: 0, 4, 250, 2.
        (0, 8),
        (4, 8),
        (250, 8),
        (2, 8),
    ]);
    let stored = [&20u32.to_le_bytes()[..], &packed].concat();
    let expected = [
        10, 11, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 9, 9, 9, 8, 8, 10, 250, 251,
    ];
    assert_eq!(decode(&specs, 0, &stored, 20), Ok(expected.to_vec()));
    for n in 0..stored.len() {
        assert!(decode(&specs, 0, &stored[..n], 20).is_err());
    }
    let mut random = Random(47);
    for _ in 0..3000 {
        let mut broken = stored.clone();
        broken[random.below(stored.len())] ^= 1 << random.below(8);
        let _ = decode(&specs, 0, &broken, 20);
        let values = [
            176,
            2 + 2 * random.below(3) as u32,
            random.below(70) as u32,
            9,
        ];
        if Pipeline::new(&[spec(4, &values)], 20, thread_ns).is_ok() {
            let _ = decode(&[spec(4, &values)], 0, &broken, 20);
        }
    }
}

#[test]
fn cut_short_or_of_another_size_is_an_error() {
    for (spec, stored, size) in chunks() {
        assert!(decode(std::slice::from_ref(&spec), 0, &stored, size).is_ok());
        for n in 0..stored.len() {
            let error = decode(std::slice::from_ref(&spec), 0, &stored[..n], size).unwrap_err();
            assert_eq!(error.kind, FilterErrorKind::Truncated);
        }
        for other in [0, size - 1, size + 1, 2 * size] {
            let error = decode(std::slice::from_ref(&spec), 0, &stored, other).unwrap_err();
            assert_eq!(error.kind, FilterErrorKind::WrongSize);
        }
    }
}

#[test]
fn broken_parameters_and_chunks_never_panic() {
    let mut random = Random(41);
    for (spec, stored, size) in chunks() {
        for round in 0..2_000 {
            let (mut spec, mut stored) = (spec.clone(), stored.clone());
            let at = random.below(stored.len().min(24));
            stored[at] = random.next() as u8;
            for _ in 0..round % 3 {
                let at = random.below(spec.values.len());
                let words = [
                    random.next() as u32,
                    random.below(6) as u32,
                    u32::MAX,
                    1 << 31,
                ];
                spec.values[at] = words[random.below(4)];
            }
            if Pipeline::new(std::slice::from_ref(&spec), size, thread_ns).is_ok() {
                let _ = decode(&[spec], 0, &stored, size);
            }
        }
    }
    // Arrays of arrays, and an array of very many empty compounds.
    let deep = [[2, 1]; 10_000].concat();
    let empty = [2, u32::MAX, 3, 1, 0];
    let wide = [2, u32::MAX, 4, 1];
    for types in [&deep[..], &empty, &wide] {
        let values = [&[0, 0, 1], types].concat();
        assert_eq!(
            Pipeline::new(&[super::spec(5, &values)], 1, thread_ns).err(),
            Some(5)
        );
    }
}
