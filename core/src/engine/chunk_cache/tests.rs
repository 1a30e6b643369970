//! The cache against models of it, and what it keeps under several ways of asking.

use super::*;
use crate::fixtures::XorShift64;

fn key(byte_offset: u64) -> Key {
    Key {
        source: 1,
        byte_offset,
    }
}

/// Against a list in the order of use, with chunks of several sizes.
#[test]
fn it_is_least_recently_used_within_its_bound() {
    for limit in [0, 100, 1000, 5000, 11_000] {
        let (mut cache, mut model) = (ChunkCache::new(limit), Vec::<(u64, usize)>::new());
        let mut random = XorShift64(limit as u64 + 1);
        for _ in 0..3000 {
            let number = random.below(30);
            let len = [700, 1000, 1100, 40][number as usize % 4];
            let known = model.iter().position(|&(n, _)| n == number);
            assert_eq!(cache.holds(key(number)), known.is_some());
            if let Some(at) = known {
                let used = model.remove(at);
                model.push(used);
                let found = cache.find(key(number)).unwrap();
                assert!(found.len() == len && found.iter().all(|&b| b == number as u8));
                continue;
            }
            assert!(cache.find(key(number)).is_none());
            let Some(mut bytes) = cache.room(len) else {
                assert!(len + ENTRY_BYTES > limit);
                continue;
            };
            let taken = |model: &[(u64, usize)]| -> usize {
                model.iter().map(|(_, len)| len + ENTRY_BYTES).sum()
            };
            while taken(&model) + len + ENTRY_BYTES > limit {
                model.remove(0);
            }
            let with_room = taken(&model) + len + ENTRY_BYTES;
            assert_eq!((bytes.len(), cache.bytes()), (len, with_room));
            if random.below(10) > 0 {
                bytes.fill(number as u8);
                assert_eq!(cache.keep(key(number), bytes, false).len(), len);
                model.push((number, len));
            } else {
                cache.give_back(&bytes);
            }
            assert!(cache.bytes() <= limit);
        }
    }
}

#[test]
fn memory_is_used_again() {
    let mut cache = ChunkCache::new(2 * (1000 + ENTRY_BYTES));
    let mut seen = std::collections::HashSet::new();
    for number in 0..100 {
        let bytes = cache.room(1000).unwrap();
        seen.insert(bytes.as_ptr() as usize);
        cache.keep(key(number), bytes, false);
    }
    assert_eq!(seen.len(), 2);
}

#[test]
fn a_source_is_forgotten() {
    let mut cache = ChunkCache::new(100_000);
    for number in 0..40 {
        let bytes = cache.room(100).unwrap();
        let source = number % 2;
        cache.keep(
            Key {
                source,
                byte_offset: number,
            },
            bytes,
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
    let mut cache = ChunkCache::new(10_000);
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
    let mut small = ChunkCache::new(500);
    assert!((0..9).all(|_| !touch(&mut small, 1, 1000)));
}

/// Of a full cache newcomers go, but those that are asked for again stay.
#[test]
fn a_full_cache_takes_newcomers_on_trial() {
    let mut cache = ChunkCache::new(100 * (1000 + ENTRY_BYTES));
    let touch = |cache: &mut ChunkCache, number: u64| {
        if cache.find(key(number)).is_some() {
            return true;
        }
        let worth = cache.is_worth_it(key(number), 1000);
        let bytes = cache.room(1000).unwrap();
        cache.keep(key(number), bytes, worth);
        false
    };
    (0..100).for_each(|number| assert!(!touch(&mut cache, number)));
    assert!((0..100).all(|number| cache.holds(key(number))));
    // Seen once each: in the place of what came last, and of one another.
    (1000..2000).for_each(|number| assert!(!touch(&mut cache, number)));
    let kept = (0..100).filter(|&number| cache.holds(key(number))).count();
    assert!(kept >= 100 - TRIALS - 1, "{kept}");
    // Found again while on trial.
    assert!(!touch(&mut cache, 5000) && touch(&mut cache, 5000));
    (2000..2100).for_each(|number| assert!(!touch(&mut cache, number)));
    assert!(touch(&mut cache, 5000));
    // Asked for again soon after.
    assert!(!touch(&mut cache, 6000));
    (2100..2105).for_each(|number| assert!(!touch(&mut cache, number)));
    assert!(!touch(&mut cache, 6000));
    (2105..2200).for_each(|number| assert!(!touch(&mut cache, number)));
    assert!(touch(&mut cache, 6000));
    // A new liking, as large as half the cache, is kept in time.
    let mut random = XorShift64(3);
    for _ in 0..3000 {
        touch(&mut cache, 9000 + random.below(50));
    }
    let hits = (0..500).filter(|_| touch(&mut cache, 9000 + random.below(50)));
    assert!(hits.count() > 490);
}

/// Nothing is gained by replacing chunks that are as likely as those that come.
#[test]
fn a_full_cache_hardly_changes_under_uniform_access() {
    let mut cache = ChunkCache::new(500 * (1000 + ENTRY_BYTES));
    let (mut random, mut hits, mut whole) = (XorShift64(11), 0, 0);
    for turn in 0..40_000 {
        let number = random.below(1000);
        if cache.find(key(number)).is_some() {
            hits += usize::from(turn >= 20_000);
        } else if cache.is_worth_it(key(number), 1000) {
            whole += usize::from(turn >= 20_000);
            let bytes = cache.room(1000).unwrap();
            cache.keep(key(number), bytes, true);
        } else {
            cache.note(key(number), 500);
        }
    }
    assert!((9_500..10_500).contains(&hits), "{hits}");
    assert!(whole < 2_000, "{whole}");
}
