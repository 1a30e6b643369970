//! Plans with a malformed order or malformed shares.
//!
//! Law:
//! 1. An impossible order is refused when the plan is opened, with its reason.
//! 2. What is not refused can be run: nothing is written outside, and nothing panics.
//! 3. A file that is wrong about its chunks has the errors that it has without an order.

use crate::malformed_plan::{direct_works, with_each_word};
use crate::ring::reader_loop::{End, Reader};
use crate::shared_ring::Shared;
use engine::counters::Mark;
use engine::task_error::error_kind;
use os::memory::sealed_memfd;
use std::os::fd::AsFd;
use std::sync::Arc;
use tables::plan::{Plan, UNALLOCATED};
use tables::shuffle::order::Order;
use testing::fixtures::{ROW_WORDS, TestDataset, TestFile, TestOrder, TestPlan, fill_rows};

const ROW_BYTES: u64 = 8 * ROW_WORDS as u64;

/// 16 rows: contiguous pieces of 12, chunks of four half rows with a filter, and the library's.
fn honest(name: &str, listed: bool, flags: u64) -> (TestPlan, TestFile) {
    let mut stored = vec![0; 16 * ROW_BYTES as usize];
    fill_rows(0, 0, &mut stored);
    let mut chunks = vec![
        [0, 0, 12 * ROW_BYTES, 0],
        [1, 12 * ROW_BYTES, 4 * ROW_BYTES, 0],
    ];
    let half = 2 * ROW_BYTES;
    chunks.extend((0..8).map(|grid| [grid, grid * half, half, 0]));
    let order = TestOrder {
        words: [2, 1, 0, 12, 4, 8, 3, u64::from(!listed)],
        listed: (0..12).filter(|_| listed).map(|i| i + i / 4).collect(),
        ranges: vec![(0, 5), (6, 12)],
        laps: 2,
    };
    let filtered = TestDataset {
        chunk_words: ROW_WORDS as u64 / 2,
        filters: vec![(2, 8)],
        chunks_at: 2,
        ..TestDataset::new(4, 8 | flags)
    };
    let plan = TestPlan {
        n_rows: 16,
        datasets: vec![
            TestDataset::new(12, 2 | flags),
            filtered,
            TestDataset::new(4, 16),
        ],
        tasks: order.tasks(&[2, 2, 1]),
        chunks,
        n_readers: 1,
        block_rows: 4,
        capacity_rows: 22,
        cyclic: false,
        order: Some(order),
        cache_bytes: 3 * half,
    };
    (plan, TestFile::new(name, &stored))
}

/// Run the only reader; the kind of its failure.
fn outcome(plan: &TestPlan, file: &TestFile) -> (End, u32) {
    let shared = Shared::new(&plan.encode(file));
    let (plan, maps) = shared.map();
    let mut library = |_: &str, _: u64, _: u64, _: &mut [u8], _: Mark<'_>| Ok(());
    let end = Reader::new(&plan, &maps, 0).run(&mut library);
    let failure = maps.control.record(0).failure();
    (end, failure.map_or(0, |failure| failure.0))
}

/// Why a plan is refused; "" when it is not.
fn reason(encoded: &[u8]) -> &'static str {
    let fd = sealed_memfd(c"lie", encoded).unwrap();
    Plan::open(fd.as_fd()).err().unwrap_or("")
}

#[test]
fn orders_that_cannot_be_are_refused() {
    let (plan, file) = honest("order-words", false, 0);
    assert_eq!(outcome(&plan, &file), (End::Done, 0));
    let order = plan.order.clone().unwrap();
    let lie = |at: usize, value: u64| {
        let mut order = order.clone();
        order.words[at] = value;
        let mut plan = plan.clone();
        plan.order = Some(order);
        reason(&plan.encode(&file))
    };
    for (at, value, expected) in [
        (0, 4, "there is no such shuffle"),
        (0, u64::MAX, "there is no such shuffle"),
        (3, 14, "the order's rows lie outside the datasets"),
        (3, 1 << 47, "the order's rows lie outside the datasets"),
        (3, 1 << 48, "the order is out of range"),
        (3, u64::MAX, "the order is out of range"),
        (3, 11, "a task of the plan is out of range"),
        (3, 0, "a task of the plan is out of range"),
        (4, 0, "the order is out of range"),
        (5, 0, "the order is out of range"),
        (5, 7, "a task of the plan is out of range"),
        (6, 5, "the order's rows lie outside the datasets"),
        (6, u64::MAX, "the order's rows lie outside the datasets"),
        (7, 0, "the order's rows are not in order"),
        (7, 2, "the order's rows lie outside the datasets"),
        (7, u64::MAX, "the order's rows lie outside the datasets"),
        (1, u64::MAX, ""),
        (2, u64::MAX, ""),
        (4, u64::MAX, ""),
        (5, u64::MAX, ""),
        (6, 4, ""),
    ] {
        assert_eq!(lie(at, value), expected, "word {at} is {value}");
    }
}

#[test]
fn windows_with_more_places_than_there_are_numbers_are_refused() {
    let words = |shuffle, n_rows, window| [shuffle, 1, 0, n_rows, 1 << 20, window, 0, 1];
    let refused = |words| Order::from_words(words, Arc::new([]), u64::MAX).is_err();
    assert!(refused(words(2, 1 << 33, 1 << 32)));
    assert!(!refused(words(2, 1 << 33, (1 << 32) - 1)));
    assert!(!refused(words(2, (1 << 32) - 1, u64::MAX)));
    for shuffle in [0, 1, 3] {
        assert!(!refused(words(shuffle, 1 << 33, 1 << 33)));
    }
}

#[test]
fn listed_rows_that_cannot_be_are_refused() {
    let (plan, file) = honest("order-rows", true, 0);
    assert_eq!(outcome(&plan, &file), (End::Done, 0));
    let lie = |change: &dyn Fn(&mut Vec<u64>)| {
        let mut plan = plan.clone();
        change(&mut plan.order.as_mut().unwrap().listed);
        reason(&plan.encode(&file))
    };
    let unordered = "the order's rows are not in order";
    assert_eq!(lie(&|rows| rows.truncate(11)), unordered);
    assert_eq!(lie(&|rows| rows.push(15)), unordered);
    assert_eq!(lie(&|rows| rows.clear()), unordered);
    assert_eq!(lie(&|rows| rows.swap(3, 4)), unordered);
    let outside = "the order's rows lie outside the datasets";
    assert_eq!(lie(&|rows| rows[11] = 16), outside);
    assert_eq!(lie(&|rows| rows[11] = u64::MAX), outside);
    assert_eq!(lie(&|rows| rows.fill(15)), "");
}

#[test]
fn shares_that_cannot_be_are_refused() {
    let (plan, file) = honest("order-tasks", false, 0);
    let lie = |at: usize, value: u64| {
        let mut plan = plan.clone();
        plan.tasks[0][at] = value;
        reason(&plan.encode(&file))
    };
    let expected = "a task of the plan is out of range";
    // Dataset, kind, first row, end, position, share, and of how many.
    for (at, value) in [
        (0, 3),
        (1, 0),
        (2, 5),
        (2, 1 << 40),
        (3, 0),
        (3, 12),
        (3, 1 << 40),
        (4, 4),
        (4, 8),
        (4, u64::MAX),
        (5, 2),
        (5, u64::from(u32::MAX)),
        (6, 0),
    ] {
        assert_eq!(lie(at, value), expected, "{at} is {value}");
    }
    assert_eq!(lie(1, 1), "rows of the plan have no task");
    let mut without = plan.clone();
    without.order = None;
    assert_eq!(reason(&without.encode(&file)), expected);
}

#[test]
fn grids_that_are_not_there_are_refused() {
    let (plan, file) = honest("order-grids", false, 0);
    for (dataset, chunks_at) in [(0, u64::MAX), (1, 11), (2, 11)] {
        let mut lie = plan.clone();
        lie.datasets[dataset].chunks_at = chunks_at;
        assert_eq!(
            reason(&lie.encode(&file)),
            "the chunks of a dataset are out of range"
        );
    }
    // What another dataset's chunks are is no chunk of this one.
    let mut other = plan.clone();
    other.datasets[0].chunks_at = 9;
    let expected = "a chunk of the plan lies outside its grid";
    assert_eq!(reason(&other.encode(&file)), expected);
    let mut larger = plan.clone();
    larger.datasets[1].chunk_rows = 5;
    assert_eq!(reason(&larger.encode(&file)), "");
    larger.datasets[1].chunk_rows = 6;
    assert_eq!(reason(&larger.encode(&file)), expected);
    // A chunk without a record was never stored.
    let mut less = plan;
    less.chunks.pop();
    assert_eq!(reason(&less.encode(&file)), "");
}

/// Whatever stood in the ring before, every row of a window is written before it is published.
#[test]
fn no_row_is_what_stood_in_the_ring() {
    const STALE: u8 = 0xA5;
    let (plan, file) = honest("order-stale", false, 0);
    for missing in 0..1u32 << plan.chunks.len() {
        if missing % 37 > 2 || missing & 3 == 3 {
            continue;
        }
        let mut some = plan.clone();
        let mut kept = 0..;
        some.chunks
            .retain(|_| missing >> kept.next().unwrap() & 1 == 0);
        some.datasets[1].chunks_at -= u64::from((missing & 3).count_ones());
        let shared = Shared::new(&some.encode(&file));
        let (plan, maps) = shared.map();
        for (map, tape) in maps.tapes.iter().zip(&plan.tapes) {
            // SAFETY: this test alone has the ring.
            unsafe { map.base().write_bytes(STALE, tape.bytes) };
        }
        let mut library = |_: &str, _: u64, _: u64, _: &mut [u8], _: Mark<'_>| Ok(());
        let end = Reader::new(&plan, &maps, 0).run(&mut library);
        assert_eq!(end, End::Done);
        for (number, tape) in maps.tapes.iter().enumerate() {
            let len = (plan.end_row() * ROW_BYTES) as usize;
            // SAFETY: the reader is done.
            let got = unsafe { std::slice::from_raw_parts(tape.base(), len) };
            let stale = got.chunks(8).any(|word| word == [STALE; 8]);
            assert!(!stale, "dataset {number}, without {missing:b}");
        }
    }
}

#[test]
fn an_order_of_other_words_is_refused() {
    let (plan, file) = honest("order-count", false, 0);
    let encoded = plan.encode(&file);
    // How many words the order has, and how many rows are listed.
    for (word, value, expected) in [
        (4, 7, "a dataset table's header does not fit its bytes"),
        (4, 9, "a dataset table's header does not fit its bytes"),
        (4, 0, "a dataset table's header does not fit its bytes"),
        (4, u64::MAX, "a table of the plan is too large"),
        (5, 1 << 40, "the plan's tables do not fill it"),
    ] {
        let mut lie = encoded.clone();
        lie[8 * word..8 * word + 8].copy_from_slice(&u64::to_le_bytes(value));
        assert_eq!(reason(&lie), expected, "{word} is {value}");
    }
}

#[test]
fn lies_about_chunks_are_told_apart() {
    for flags in [0, 1] {
        let (plan, file) = honest("order-chunks", false, flags);
        if flags == 1 && !direct_works(&file) {
            continue;
        }
        assert_eq!(outcome(&plan, &file), (End::Done, 0));
        let lie = |chunk: usize, at: usize, value: u64| {
            let mut plan = plan.clone();
            plan.chunks[chunk][at] = value;
            outcome(&plan, &file)
        };
        // A piece of which much is wanted, one of which little is, and a chunk.
        for chunk in [0, 1, 5] {
            for byte_offset in [1 << 40, UNALLOCATED - 1, 1 << 63, 16 * ROW_BYTES - 8] {
                assert_eq!(lie(chunk, 1, byte_offset), (End::Failed, error_kind::SHORT));
            }
            assert_eq!(lie(chunk, 1, UNALLOCATED), (End::Done, 0));
        }
        for chunk in [0, 5] {
            for stored_size in [1 << 40, u64::MAX] {
                assert_eq!(lie(chunk, 2, stored_size), (End::Failed, error_kind::SHORT));
            }
            for stored_size in [0, 8] {
                let expected = (End::Failed, error_kind::FILTER_SIZE);
                assert_eq!(lie(chunk, 2, stored_size), expected);
            }
        }
    }
}

#[test]
fn rows_without_elements_are_no_chunks() {
    let (mut plan, file) = honest("order-empty", false, 0);
    plan.tasks.retain(|task| task[0] == 0);
    plan.datasets.truncate(1);
    plan.chunks.clear();
    let mut encoded = plan.encode(&file);
    // The inner extent is the second of the plan's words; a row then has no bytes.
    let blob = 8 + file.0.to_str().unwrap().len() + 1;
    let words = encoded.len() - blob - 8 * (2 + 2);
    encoded[words + 8..words + 16].fill(0);
    let row_bytes = words - 8 * 21 + 8;
    encoded[row_bytes..row_bytes + 8].fill(0);
    let shared = Shared::new(&encoded);
    let (plan, maps) = shared.map();
    assert_eq!(
        (plan.table.datasets[0].dims[1], plan.tapes[0].row_bytes),
        (0, 0)
    );
    let mut library = |_: &str, _: u64, _: u64, _: &mut [u8], _: Mark<'_>| Ok(());
    let end = Reader::new(&plan, &maps, 0).run(&mut library);
    assert_eq!(end, End::Done);
}

#[test]
fn any_word_of_a_plan_with_an_order_may_lie() {
    let values = [0, 1, 3, 12, 1 << 20, 1 << 32, 1 << 63];
    let accepted = [false, true].map(|listed| {
        let (plan, file) = honest("order-lies", listed, 0);
        with_each_word(&plan.encode(&file), &values)
    });
    assert!(accepted.iter().sum::<usize>() > 200, "{accepted:?}");
}
