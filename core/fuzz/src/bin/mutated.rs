//! A target with mutations of its corpus, where there is no libFuzzer:
//! `mutated TARGET CORPUS FAULT SECONDS SEED`.
//!
//! Law:
//! 1. First the corpus as it is, then mutations, drawn from the seed: a run repeats but for its end.
//! 2. Before each input is tried it is written to the file FAULT, which is removed at the end: an input that kills is left there.

use multitables_fuzz::body;
use std::fs;
use std::time::{Duration, Instant};

const MAX_LEN: usize = 1 << 17;

struct XorShift64(u64);

impl XorShift64 {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n.max(1) as u64) as usize
    }
}

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [name, corpus, fault, seconds, seed] = &given[..] else {
        panic!("mutated TARGET CORPUS FAULT SECONDS SEED");
    };
    let body = body(name).unwrap_or_else(|| panic!("no target {name}"));
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let mut random = XorShift64(number(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let end = Instant::now() + Duration::from_secs(number(seconds));
    let mut paths: Vec<_> = fs::read_dir(corpus)
        .expect("a corpus")
        .map(|one| one.unwrap().path())
        .collect();
    paths.sort();
    let seeds: Vec<Vec<u8>> = paths.iter().map(|path| fs::read(path).unwrap()).collect();
    let try_one = |bytes: &[u8]| {
        fs::write(fault, bytes).expect("a file for faults");
        body(bytes);
    };
    seeds.iter().for_each(|bytes| try_one(bytes));
    let mut count = 0u64;
    while Instant::now() < end {
        try_one(&mutated(&mut random, &seeds));
        count += 1;
    }
    fs::remove_file(fault).expect("the file for faults");
    println!("{name}: {} seeds, {count} mutations", seeds.len());
}

/// One seed, changed in one place to four.
fn mutated(random: &mut XorShift64, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[random.below(seeds.len())].clone();
    for _ in 0..1 + random.below(4) {
        let (at, len) = (random.below(bytes.len() + 1), random.below(9));
        let end = (at + len).min(bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let other = &seeds[random.below(seeds.len())];
                let from = random.below(other.len());
                let some = other[from..].iter().take(random.below(64)).copied();
                bytes.splice(at..end, some.collect::<Vec<_>>());
            }
            3 => {
                let odd = [0u64, 1, 2, 255, 1 << 31, 1 << 32, 1 << 63, u64::MAX];
                let odd = odd[random.below(odd.len())].to_le_bytes();
                bytes[at..end].copy_from_slice(&odd[..end - at]);
            }
            4 => {
                let sign = [1, 255][random.below(2)];
                bytes[at..end.min(at + 1)]
                    .iter_mut()
                    .for_each(|byte| *byte = byte.wrapping_add(sign));
            }
            5 => bytes[at..end.min(at + 1)]
                .iter_mut()
                .for_each(|byte| *byte ^= 1 << random.below(8)),
            _ => bytes[at..end]
                .iter_mut()
                .for_each(|byte| *byte = random.below(256) as u8),
        }
    }
    bytes.truncate(MAX_LEN);
    bytes
}
