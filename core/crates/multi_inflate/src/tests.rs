//! Groups of streams against libdeflate: equal bytes or a refusal, whatever they are.
//!
//! Law: knows this crate's functions and libdeflate only; no pipeline, no file.

use super::*;
use libdeflater::{CompressionLvl, Compressor, Decompressor};

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11
    }

    fn below(&mut self, n: usize) -> usize {
        self.next() as usize % n
    }
}

const KINDS: usize = 13;

/// Data that make blocks of every sort, codes and offsets of every length.
fn data(random: &mut Random, kind: usize, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size + 300);
    while out.len() < size {
        let any = random.next();
        match kind {
            0 => out.push(any as u8),
            // Numbers between 0 and 1, as float64.
            1 => out.extend((any as f64 / (1u64 << 53) as f64).to_le_bytes()),
            2 => out.push((any % 50) as u8),
            // Codes of all lengths: each value is half as frequent as the one before,
            3 => out.push(any.trailing_zeros() as u8),
            // or only a little less.
            4 => out.push((any as u8).min((any >> 8) as u8).min((any >> 16) as u8)),
            5 => out.push(7),
            6 => out.push((out.len() / 50) as u8),
            // Copies of every length and from anywhere, between literals.
            7 | 8 => {
                let far = 1 << random.below(16);
                let from = out.len().saturating_sub(1 + random.below(far));
                let length = 1 + random.below(if kind == 7 { 9 } else { 290 });
                (from..from + length).for_each(|i| match out.get(i) {
                    Some(&byte) => out.push(byte),
                    None => out.push(any as u8),
                });
                out.extend(&any.to_le_bytes()[..random.below(4)]);
            }
            // Literals, matches and noise, long enough for blocks of their own.
            9 => {
                let kind = [2, 8, 0][out.len() / 12_000 % 3];
                out.extend(data(random, kind, 12_000));
            }
            // Small whole numbers, as int64: literals between short matches,
            11 => out.extend((any % 1000).to_le_bytes()),
            // and here such as copy themselves, and a few longer ones.
            12 => {
                let far = if any % 8 == 0 { 300 } else { 30 };
                let from = out.len().saturating_sub(1 + random.below(far));
                let length = 3 + random.below(if any % 64 == 0 { 60 } else { 14 });
                (from..from + length).for_each(|i| match out.get(i) {
                    Some(&byte) => out.push(byte),
                    None => out.push(any as u8),
                });
                (0..random.below(4)).for_each(|i| out.push((any >> (8 * i)) as u8 % 50));
            }
            // Noise and zeros.
            _ => {
                let noise = out.len() / 9000 % 2 == 0;
                out.push(if noise { any as u8 } else { 0 });
            }
        }
    }
    out.truncate(size);
    out
}

fn compress(data: &[u8], level: i32) -> Vec<u8> {
    let mut compressor = Compressor::new(CompressionLvl::new(level).unwrap());
    let mut out = vec![0; compressor.zlib_compress_bound(data.len())];
    let size = compressor.zlib_compress(data, &mut out).unwrap();
    out.truncate(size);
    out
}

/// What libdeflate makes of a stream that shall give this many bytes.
fn alone(stored: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut out = vec![0; size];
    let made = Decompressor::new().zlib_decompress(stored, &mut out);
    made.is_ok_and(|made| made == size).then_some(out)
}

/// Memory that ends at an unmapped page: the kernel ends a process that reads on.
struct Wall {
    base: *mut u8,
    len: usize,
}

impl Wall {
    fn new(size: usize) -> Wall {
        let (len, page) = (size.next_multiple_of(1 << 16), 1 << 16);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, of which the last page is nobody's.
        unsafe {
            let base = libc::mmap(std::ptr::null_mut(), len + page, access, kind, -1, 0);
            assert!(base != libc::MAP_FAILED);
            assert_eq!(libc::mprotect(base.add(len), page, libc::PROT_NONE), 0);
            let base = base.cast();
            Wall { base, len }
        }
    }

    /// The bytes, moved to where they end at the wall.
    fn put(&mut self, bytes: &[u8]) -> &[u8] {
        assert!(bytes.len() <= self.len);
        // SAFETY: the mapping is this one's own, and as large.
        unsafe {
            let at = self.base.add(self.len - bytes.len());
            at.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            std::slice::from_raw_parts(at, bytes.len())
        }
    }
}

impl Drop for Wall {
    fn drop(&mut self) {
        // SAFETY: nothing borrows it any more.
        unsafe { libc::munmap(self.base.cast(), self.len + (1 << 16)) };
    }
}

struct Trial {
    tables: Tables,
    walls: [Wall; MAX_STREAMS],
}

impl Trial {
    fn new() -> Trial {
        Trial {
            tables: Tables::new(),
            walls: std::array::from_fn(|_| Wall::new(200_000)),
        }
    }

    /// What streams give, each before a wall, between bytes that have to stay. It is the same with
    /// and without `bextr`.
    fn together<const N: usize>(
        &mut self,
        stored: [&[u8]; N],
        sizes: [usize; N],
    ) -> Option<[Vec<u8>; N]> {
        const GUARD: usize = 300;
        let Trial { tables, walls } = self;
        let mut walls = walls.iter_mut();
        let stored = stored.map(|stored| walls.next().unwrap().put(stored));
        let mut way = |bextr| {
            tables.bextr = bextr;
            let mut memory = sizes.map(|size| vec![0xA5; size + 2 * GUARD]);
            let mut outs = memory.each_mut().map(|memory| {
                let end = memory.len() - GUARD;
                &mut memory[GUARD..end]
            });
            let done = decode_group(tables, &stored, &mut outs).is_some();
            let made = memory.map(|mut memory| {
                let back = memory.split_off(memory.len() - GUARD);
                let made = memory.split_off(GUARD);
                assert!(memory.iter().chain(&back).all(|&byte| byte == 0xA5));
                made
            });
            done.then_some(made)
        };
        let made = way(None);
        if let Some(bextr) = Bextr::detect() {
            assert!(way(Some(bextr)) == made);
        }
        made
    }

    /// Accepts and refuses as libdeflate does.
    fn check<const N: usize>(&mut self, stored: [&[u8]; N], sizes: [usize; N]) {
        let alone = std::array::from_fn::<_, N, _>(|i| alone(stored[i], sizes[i]));
        let expected = alone.iter().all(Option::is_some);
        let expected = expected.then(|| alone.map(Option::unwrap));
        assert!(self.together(stored, sizes) == expected, "{sizes:?}");
    }

    /// Also among good streams, before, after and between them.
    fn check_among(&mut self, stored: &[u8], size: usize, other: &[u8], its: usize) {
        self.check([stored, other], [size, its]);
        self.check([other, stored], [its, size]);
        self.check([other, stored, other], [its, size, its]);
        self.check([other, other, stored, other], [its, its, size, its]);
    }
}

#[test]
fn equals_libdeflate_for_all_kinds_levels_and_sizes() {
    let (mut random, mut trial) = (Random(1), Trial::new());
    let mut last = [6, 0, 1].map(|level| (compress(&[], level), 0));
    for size in [
        0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 31, 64, 100, 255, 258, 259, 1000, 4095, 8192, 8193,
        20_000, 65_535, 65_536, 70_000,
    ] {
        for kind in 0..KINDS {
            let data = data(&mut random, kind, size);
            for level in 0..=9 {
                let stored = compress(&data, level);
                let [(one, its), (two, twos), (three, threes)] = &last;
                let got = trial.together([one, two, &stored, three], [*its, *twos, size, *threes]);
                let got = got.unwrap_or_else(|| panic!("kind {kind}, level {level}, {size}"));
                assert!(got[2] == data, "kind {kind}, level {level}, {size} bytes");
                for (place, (stored, size)) in [0, 1, 3].into_iter().zip(&last) {
                    assert_eq!(Some(&got[place]), alone(stored, *size).as_ref());
                }
                let got = trial.together([&stored, one, two], [size, *its, *twos]);
                let got = got.unwrap_or_else(|| panic!("kind {kind}, level {level}, {size}"));
                assert!(got[0] == data, "kind {kind}, level {level}, {size} bytes");
                assert_eq!(Some(&got[1]), alone(one, *its).as_ref());
                assert_eq!(Some(&got[2]), alone(two, *twos).as_ref());
                let got = trial.together([&stored, one], [size, *its]).unwrap();
                assert!(got[0] == data, "kind {kind}, level {level}, {size} bytes");
                let [one, two, _] = last;
                last = [(stored, size), one, two];
            }
        }
    }
}

#[test]
fn streams_end_anywhere_in_a_group() {
    let (mut random, mut trial) = (Random(6), Trial::new());
    let streams: Vec<_> = (0..48)
        .map(|size| compress(&data(&mut random, 2, size), 6))
        .collect();
    for (size, stored) in streams.iter().enumerate() {
        for (its, other) in streams.iter().enumerate() {
            trial.check([stored, other], [size, its]);
            let third = (size + 7 * its) % 48;
            trial.check([stored, other, &streams[third]], [size, its, third]);
            let (a, b) = (&streams[third], &streams[47 - size]);
            trial.check([stored, a, other, b], [size, third, its, 47 - size]);
        }
    }
}

#[test]
fn groups_of_all_blocks_good_and_bad() {
    let (mut random, mut trial) = (Random(7), Trial::new());
    let stream = |random: &mut Random| {
        let most = 1 << (4 + random.below(14));
        let size = random.below(most);
        let level = random.below(10) as i32;
        let kind = random.below(KINDS);
        (compress(&data(random, kind, size), level), size)
    };
    for _ in 0..400 {
        let (mut stored, size) = stream(&mut random);
        let (other, its) = stream(&mut random);
        trial.check_among(&stored, size, &other, its);
        let end = random.below(stored.len());
        trial.check_among(&stored[..end], size, &other, its);
        stored[end] ^= 1 << random.below(8);
        trial.check_among(&stored, size, &other, its);
    }
}

#[test]
fn blocks_are_decoded_together_where_their_codes_say_so() {
    let (mut random, mut trial) = (Random(8), Trial::new());
    let mut decoded = |kinds: &[usize]| {
        let size = 36_000;
        let stored = kinds.iter().map(|&kind| data(&mut random, kind, size));
        let stored: Vec<_> = stored.map(|data| compress(&data, 6)).collect();
        let mut outs = vec![vec![0; size]; kinds.len()];
        let stored: Vec<_> = stored.iter().map(Vec::as_slice).collect();
        let mut outs: Vec<_> = outs.iter_mut().map(Vec::as_mut_slice).collect();
        decode_group(&mut trial.tables, &stored, &mut outs).unwrap()
    };
    assert!(decoded(&[2, 2]) > 70_000);
    assert!(decoded(&[2, 2, 2]) > 105_000);
    assert!(decoded(&[2, 2, 2, 2]) > 140_000);
    for kinds in [&[2, 8][..], &[8, 8], &[11, 8], &[8, 8, 7]] {
        assert_eq!(decoded(kinds), 0, "{kinds:?}");
    }
    // The others go on without one that goes alone, or has come to its end.
    assert!(decoded(&[2, 8, 2]) > 70_000);
    assert!(decoded(&[8, 2, 2, 2]) > 105_000);
    assert!(decoded(&[2, 5, 8, 2]) > 70_000);
    // Two thirds of the one, wherever in the others.
    let literals = 23_000..25_000;
    for kinds in [&[9, 2][..], &[2, 9], &[9, 9], &[9, 9, 9, 9]] {
        let count = decoded(kinds);
        assert!(
            literals.contains(&(count / kinds.len())),
            "{kinds:?} {count}"
        );
    }
    assert!(decoded(&[2, 9, 2]) > 93_000);
    // Sequences make five bytes or so each.
    let some = 3000..9000;
    for kinds in [
        &[11, 11][..],
        &[11, 12],
        &[12, 12, 12],
        &[12, 11, 2, 11],
        &[7, 7],
        &[7, 2],
        &[7, 11, 7],
    ] {
        let sequences = decoded(kinds);
        assert!(
            some.contains(&(sequences / kinds.len())),
            "{kinds:?} {sequences}"
        );
    }
}

#[test]
fn every_truncation_is_judged_as_by_libdeflate() {
    let (mut random, mut trial) = (Random(2), Trial::new());
    let other = compress(&data(&mut random, 1, 700), 6);
    for (kind, size, level) in [
        (0, 300, 0),
        (1, 600, 4),
        (2, 900, 1),
        (7, 900, 9),
        (8, 9, 6),
        (11, 2500, 6),
        (12, 1500, 6),
    ] {
        let stored = compress(&data(&mut random, kind, size), level);
        for end in 0..stored.len() {
            trial.check_among(&stored[..end], size, &other, 700);
        }
        let longer = [&stored[..], &[0x5A; 9]].concat();
        trial.check_among(&longer, size, &other, 700);
    }
}

#[test]
fn another_size_than_asked_for_is_refused() {
    let (mut random, mut trial) = (Random(3), Trial::new());
    let other = compress(&data(&mut random, 4, 700), 6);
    for kind in 0..KINDS {
        let stored = compress(&data(&mut random, kind, 1000), 6);
        for size in (0..40).chain(960..1040).chain([65_536]) {
            trial.check_among(&stored, size, &other, 700);
        }
    }
}

#[test]
fn every_flipped_bit_is_judged_as_by_libdeflate() {
    let (mut random, mut trial) = (Random(4), Trial::new());
    let other = compress(&data(&mut random, 1, 300), 6);
    for (kind, size, level) in [
        (1, 300, 4),
        (3, 900, 6),
        (7, 500, 9),
        (8, 2000, 6),
        (10, 30, 0),
        (11, 2500, 6),
        (12, 1500, 6),
    ] {
        let mut stored = compress(&data(&mut random, kind, size), level);
        for bit in 0..8 * stored.len() {
            stored[bit / 8] ^= 1 << (bit % 8);
            trial.check([&stored, &other], [size, 300]);
            trial.check([&other, &other, &stored], [300, 300, size]);
            trial.check([&stored, &other, &other, &other], [size, 300, 300, 300]);
            stored[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

/// Any change is told by Adler-32 at last. With one that fits, all else has to tell, or to
/// make the same bytes.
#[test]
fn streams_with_flipped_bits_and_a_fitting_checksum_are_equal_or_refused() {
    let (mut random, mut trial) = (Random(5), Trial::new());
    let (mut equal, mut odd) = (0, 0);
    for round in 0..3000 {
        let size = 1 + random.below(if round % 50 == 0 { 9000 } else { 600 });
        let kind = random.below(KINDS);
        let mut stored = compress(&data(&mut random, kind, size), round % 10);
        for _ in 0..1 + random.below(3) {
            let at = 2 + random.below(stored.len() - 2);
            stored[at] ^= 1 << random.below(8);
        }
        let mut out = vec![0; 2 * size];
        let made = Decompressor::new().deflate_decompress(&stored[2..], &mut out);
        let Ok(made) = made else {
            trial.check([&stored; MAX_STREAMS], [size; MAX_STREAMS]);
            continue;
        };
        // Nothing tells where the stream ended: wherever the checksum makes it a good one.
        let checksum = adler32(&out[..made]).to_be_bytes();
        let ends = (2..=stored.len()).rev();
        let mut streams = ends.map(|end| [&stored[..end], &checksum].concat());
        let stream = streams
            .find(|stream| alone(stream, made).is_some())
            .unwrap();
        match trial.together([&stream; MAX_STREAMS], [made; MAX_STREAMS]) {
            Some(got) => {
                assert!(got.iter().all(|got| got[..] == out[..made]));
                equal += 1;
            }
            // Lengths and offsets that RFC 1951 does not know, and codes without an end.
            None => odd += 1,
        }
    }
    assert!(equal > 1000 && odd < equal / 20, "{equal} equal, {odd} odd");
}
