//! The cache against models of it, and what it keeps under several ways of asking.

use super::*;
use testing::fixtures::XorShift64;

fn key(byte_offset: u64) -> Key {
    Key {
        source: 1,
        byte_offset,
    }
}

fn cache(limit_bytes: usize) -> ChunkCache {
    ChunkCache::new(limit_bytes, Policy::S3Fifo)
}

/// Against a list of what was kept: what is there is right, and all of it is within the limit.
#[test]
fn what_is_kept_is_right_and_within_the_bound() {
    for policy in [Policy::S3Fifo, Policy::Never] {
        for limit in [0, 100, 1000, 5000, 11_000] {
            let mut cache = ChunkCache::new(limit, policy);
            let mut kept = std::collections::BTreeSet::new();
            let mut random = XorShift64(limit as u64 + 1);
            for _ in 0..3000 {
                let number = random.below(30);
                let len = [700, 1000, 1100, 40][number as usize % 4];
                let holds = cache.holds(key(number));
                if let Some(found) = cache.find(key(number)) {
                    assert!(holds && kept.contains(&number));
                    assert!(found.len() == len && found.iter().all(|&b| b == number as u8));
                    continue;
                }
                assert!(!holds && (policy == Policy::S3Fifo || !kept.contains(&number)));
                let worth = cache.is_worth_it(key(number), len);
                let before = cache.bytes();
                let Some(mut bytes) = cache.room(len) else {
                    let full = policy == Policy::Never && before + len + ENTRY_BYTES > limit;
                    assert!(full || len + ENTRY_BYTES > limit);
                    continue;
                };
                assert_eq!(bytes.len(), len);
                if random.below(10) > 0 {
                    bytes.fill(number as u8);
                    cache.keep(key(number), Arc::new(bytes), worth);
                    kept.insert(number);
                } else {
                    cache.give_back(bytes.len());
                }
                let held = (0..30).filter(|&n| cache.holds(key(n)));
                let sizes = held.map(|n| [700, 1000, 1100, 40][n as usize % 4] + ENTRY_BYTES);
                assert_eq!(cache.bytes(), sizes.sum::<usize>());
                assert!(cache.bytes() <= limit);
            }
        }
    }
}

#[test]
fn memory_is_used_again() {
    let mut cache = self::cache(2 * (1000 + ENTRY_BYTES));
    let mut seen = std::collections::HashSet::new();
    for number in 0..100 {
        let bytes = cache.room(1000).unwrap();
        seen.insert(bytes.as_ptr() as usize);
        cache.keep(key(number), Arc::new(bytes), false);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_source_is_forgotten() {
    let mut cache = self::cache(100_000);
    for number in 0..40 {
        let bytes = cache.room(100).unwrap();
        let source = number % 2;
        cache.keep(
            Key {
                source,
                byte_offset: number,
            },
            Arc::new(bytes),
            false,
        );
    }
    cache.forget(1);
    assert_eq!(cache.bytes(), 20 * (100 + ENTRY_BYTES));
    assert!((0..40).all(|n| !cache.holds(key(n))));
}

#[test]
fn a_ghost_is_kept_when_its_parts_were_work_enough() {
    let touch = |cache: &mut ChunkCache, number: u64, work: usize| {
        let worth = cache.is_worth_it(key(number), 1000);
        cache.note(key(number), work);
        worth
    };
    let mut cache = self::cache(10_000);
    let worth: Vec<bool> = (0..4).map(|_| touch(&mut cache, 1, 300)).collect();
    assert_eq!(worth, [false, false, true, true]);
    // However little it is, often is enough.
    let worth: Vec<bool> = (0..5).map(|_| touch(&mut cache, 2, 1)).collect();
    assert_eq!(worth, [false, false, false, true, true]);
    // Too long ago.
    assert!(!touch(&mut cache, 3, 900));
    (100..111).for_each(|number| assert!(!touch(&mut cache, number, 1)));
    assert!(!touch(&mut cache, 3, 900) && touch(&mut cache, 3, 900));
    // It could not be kept.
    let mut small = self::cache(500);
    assert!((0..9).all(|_| !touch(&mut small, 1, 1000)));
}

fn touch(cache: &mut ChunkCache, number: u64) -> bool {
    if cache.find(key(number)).is_some() {
        return true;
    }
    let worth = cache.is_worth_it(key(number), 1000);
    let bytes = cache.room(1000).unwrap();
    cache.keep(key(number), Arc::new(bytes), worth);
    false
}

/// What is asked for once goes before what was found again, however much of it there is.
#[test]
fn what_is_asked_for_once_replaces_nothing_that_is_used() {
    let mut cache = self::cache(100 * (1000 + ENTRY_BYTES));
    for _ in 0..3 {
        (0..80).for_each(|number| {
            touch(&mut cache, number);
        });
    }
    (1000..2000).for_each(|number| assert!(!touch(&mut cache, number)));
    let kept = (0..80).filter(|&number| cache.holds(key(number))).count();
    assert_eq!(kept, 80);
    // A new liking, as large as half the cache, is kept in time.
    let mut random = XorShift64(3);
    for _ in 0..3000 {
        touch(&mut cache, 9000 + random.below(50));
    }
    let hits = (0..500).filter(|_| touch(&mut cache, 9000 + random.below(50)));
    assert!(hits.count() > 490);
}

#[test]
fn what_never_goes_leaves_no_room() {
    let mut cache = ChunkCache::new(3 * (1000 + ENTRY_BYTES), Policy::Never);
    for number in 0..3 {
        let room = cache.room(1000).unwrap();
        cache.keep(key(number), Arc::new(room), true);
    }
    assert!(cache.room(1000).is_none());
    assert!((0..3).all(|number| cache.find(key(number)).is_some_and(|b| b.len() == 1000)));
}

/// Of chunks that are all as likely, the share that fits is found.
#[test]
fn uniform_access_finds_the_share_that_fits() {
    let mut cache = self::cache(500 * (1000 + ENTRY_BYTES));
    let (mut random, mut hits) = (XorShift64(11), 0);
    for turn in 0..40_000 {
        let number = random.below(1000);
        if cache.find(key(number)).is_some() {
            hits += usize::from(turn >= 20_000);
        } else if cache.is_worth_it(key(number), 1000) {
            let bytes = cache.room(1000).unwrap();
            cache.keep(key(number), Arc::new(bytes), true);
        } else {
            cache.note(key(number), 500);
        }
    }
    assert!((9_500..10_500).contains(&hits), "{hits}");
}
