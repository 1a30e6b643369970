//! Two processes' views of the same memory: what one adds, the other finds, or nothing.

use super::*;
use os::memory::sparse_memfd;

/// Two processes' views of the same memory.
fn both(limit: usize) -> (ProcessCache, ProcessCache) {
    let one = ProcessCache::new(limit).unwrap();
    let other = ProcessCache::open(one.fd().try_clone_to_owned().unwrap()).unwrap();
    (one, other)
}

fn key(number: u64) -> Key {
    Key {
        source: 7,
        byte_offset: number * 4096,
    }
}

fn chunk(number: u64, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (number as usize * 31 + at) as u8)
        .collect()
}

fn found(cache: &ProcessCache, number: u64, len: usize) -> Option<Vec<u8>> {
    let mut room = vec![0; len];
    cache.copy(key(number), &mut room).then_some(room)
}

#[test]
fn what_one_adds_the_other_finds() {
    let (one, other) = both(1 << 20);
    assert_eq!(other.known(key(1)), Known::Nothing);
    one.begin(key(1));
    assert_eq!(other.known(key(1)), Known::Begun);
    one.add(key(1), &chunk(1, 5000));
    assert_eq!(other.known(key(1)), Known::Ready);
    assert_eq!(found(&other, 1, 5000), Some(chunk(1, 5000)));
    assert_eq!(found(&other, 1, 4999), None);
    assert_eq!(found(&other, 2, 5000), None);
    // Both number the same thing alike, and another memory does not.
    assert_eq!(one.number_of("file"), other.number_of("file"));
    assert_ne!(one.number_of("file"), both(1 << 20).0.number_of("file"));
}

#[test]
fn what_is_begun_and_not_done_is_another_ones_after_a_while() {
    let (one, other) = both(1 << 20);
    one.begin(key(1));
    one.begin(key(2));
    one.abandon(key(2));
    assert_eq!(other.known(key(2)), Known::Nothing);
    assert_eq!(other.known(key(1)), Known::Begun);
    std::thread::sleep(2 * DECODED_WITHIN);
    assert_eq!(other.known(key(1)), Known::Nothing);
    other.begin(key(1));
    assert_eq!(one.known(key(1)), Known::Begun);
    // The one that was late may add it all the same.
    one.add(key(1), &chunk(1, 100));
    other.add(key(1), &chunk(1, 100));
    assert_eq!(found(&other, 1, 100), Some(chunk(1, 100)));
}

#[test]
fn the_oldest_go_and_no_copy_is_another_chunks() {
    let (one, other) = both(RESERVED_STEP);
    let len = 40_000;
    let fit = RESERVED_STEP / len;
    for number in 0..5 * fit as u64 {
        one.add(key(number), &chunk(number, len));
        assert_eq!(found(&other, number, len), Some(chunk(number, len)));
    }
    let left: Vec<u64> = (0..5 * fit as u64)
        .filter(|&number| found(&other, number, len).is_some_and(|it| it == chunk(number, len)))
        .collect();
    let lost = (0..5 * fit as u64).filter(|number| !left.contains(number));
    assert!(
        lost.clone()
            .all(|number| found(&other, number, len).is_none())
    );
    assert!(left.len() <= fit && left.len() > fit / 2, "{}", left.len());
    assert!(left.iter().all(|&number| number >= 4 * fit as u64 - 1));
}

#[test]
fn a_chunk_that_takes_most_of_it_is_not_added() {
    let (one, other) = both(RESERVED_STEP);
    let len = RESERVED_STEP / LARGEST_PART + 1;
    one.add(key(1), &chunk(1, len));
    assert_eq!(found(&other, 1, len), None);
}

#[test]
fn bytes_that_another_wrote_over_are_no_chunk() {
    let (one, other) = both(1 << 20);
    one.add(key(1), &chunk(1, 5000));
    // SAFETY: the first bytes of the log.
    unsafe { *one.address(17) ^= 1 };
    assert_eq!(found(&other, 1, 5000), None);
    // Who does not find it decodes it and adds it again.
    other.begin(key(1));
    other.add(key(1), &chunk(1, 5000));
}

#[test]
fn threads_that_add_and_copy_get_whole_chunks() {
    let (one, other) = both(RESERVED_STEP);
    let n_found = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for cache in [&one, &other, &one, &other] {
            let n_found = &n_found;
            scope.spawn(move || {
                for turn in 0..4000u64 {
                    let number = turn * 7919 % 97;
                    let len = 30_000 + number as usize * 1000;
                    match found(cache, number, len) {
                        Some(it) => {
                            assert!(it == chunk(number, len));
                            n_found.fetch_add(1, Relaxed);
                        }
                        None => cache.add(key(number), &chunk(number, len)),
                    }
                }
            });
        }
    });
    assert!(n_found.into_inner() > 1000);
}

#[test]
fn memory_of_another_kind_is_refused() {
    let odd = |len: usize, words: &[(usize, u64)]| {
        let fd = sparse_memfd(c"test", len).unwrap();
        let map = Mapping::sparse(fd.as_fd(), len).unwrap();
        for &(at, word) in words {
            // SAFETY: inside the mapping, aligned.
            unsafe { map.base().cast::<u64>().add(at).write(word) };
        }
        ProcessCache::open(fd).is_err()
    };
    let len = bytes_of(8, 4096);
    assert!(!odd(len, &[(0, MAGIC), (1, 8), (2, 4096)]));
    assert!(odd(16, &[]) && odd(len, &[]));
    assert!(odd(len, &[(0, MAGIC), (1, 8), (2, 4095)]));
    assert!(odd(len, &[(0, MAGIC), (1, 0), (2, 4096 + 8 * 64)]));
    assert!(odd(len, &[(0, MAGIC), (1, u64::MAX), (2, u64::MAX)]));
}

#[test]
fn odd_words_of_places_are_no_chunks() {
    let (one, other) = both(1 << 20);
    one.add(key(1), &chunk(1, 5000));
    let (place, _) = one.place(key(1)).unwrap();
    for (word, values) in [
        (&place.at, [1u64 << 40, u64::MAX, (1 << 22) - 100]),
        (&place.len, [0, u64::MAX, 5001]),
        (&place.source, [0, 1, u64::MAX]),
    ] {
        let before = word.load(SeqCst);
        for value in values {
            word.store(value, SeqCst);
            assert_eq!(found(&other, 1, 5000), None);
        }
        word.store(before, SeqCst);
    }
    assert_eq!(found(&other, 1, 5000), Some(chunk(1, 5000)));
}
