//! Random access against a naive loop over indices.
//!
//! Law:
//! 1. Datasets, requests and damage are pseudo-random from fixed seeds: a failure repeats.
//! 2. The model looks up one element at a time and shares no arithmetic with what is tested.
//! 3. What a part writes is found by answering into two different memories.

pub(crate) mod datasets;
mod pieces;
pub(crate) mod random_requests;

use crate::requests::answer::Answerer;
use datasets::{Layout, TestDataset};
use engine::counters::Record;
use engine::fetch::error::FetchError;
use engine::scatter::out::Out;
use engine::select::selection::Hyperslab;
use engine::task_error::TaskError;
use hdf5_filters::FilterErrorKind;
use random_requests::Request;
use std::sync::atomic::Ordering::Relaxed;
use testing::fixtures::XorShift64;

fn record() -> Box<Record> {
    // SAFETY: a record is atomics, for which zeros are valid.
    Box::new(unsafe { std::mem::zeroed() })
}

fn answer(
    answerer: &mut Answerer,
    words: &[u64],
    part: (u64, u64),
    len: usize,
    with: u8,
) -> Result<Vec<u8>, TaskError> {
    let mut out = vec![with; len];
    answerer.answer(words, part, Out::of(&mut out), &record(), None)?;
    Ok(out)
}

/// Answer in parts; each byte is written by exactly one, and only owners write.
fn check_parts(dataset: &TestDataset, answerer: &mut Answerer, request: &Request, n_parts: u64) {
    let words = request.words(dataset);
    let expected = request.expected(dataset);
    let of = dataset.dataset();
    let slab = Hyperslab::parse(&words, &of).unwrap();
    assert_eq!(slab.out_bytes(), expected.len());
    let owners = slab.owners(&of, n_parts as usize);
    let mut writers = vec![0; expected.len()];
    for part in 0..n_parts {
        let outs = [0xA5, 0x5A].map(|with| {
            answer(answerer, &words, (part, n_parts), expected.len(), with)
                .unwrap_or_else(|error| panic!("{error:?} for {request:?} of {dataset:?}"))
        });
        let mut wrote = false;
        for (at, writer) in writers.iter_mut().enumerate() {
            if outs[0][at] == outs[1][at] {
                assert_eq!(
                    outs[0][at], expected[at],
                    "byte {at}, {request:?} of {dataset:?}"
                );
                *writer += 1;
                wrote = true;
            }
        }
        assert_eq!(
            owners.contains(&(part as usize)),
            wrote,
            "{request:?} of {dataset:?}"
        );
    }
    assert!(
        writers.iter().all(|&n| n == 1),
        "{writers:?} {request:?} of {dataset:?}"
    );
}

#[test]
fn every_ask_equals_the_model() {
    for seed in 1..120 {
        let mut random = XorShift64(seed * 0x9e37_79b9);
        let dataset = TestDataset::new(&mut random);
        let limit = [0, 3000, 1 << 20][random.below(3) as usize];
        let mut answerer = Answerer::new(dataset.arena.clone(), limit);
        for _ in 0..20 {
            let request = Request::new(&mut random, &dataset);
            let n_parts = 1 + random.below(4);
            check_parts(&dataset, &mut answerer, &request, n_parts);
        }
    }
}

#[test]
fn malformed_asks_are_refused_and_never_panic() {
    for seed in 1..80 {
        let mut random = XorShift64(seed * 0x51_7cc1);
        let dataset = TestDataset::new(&mut random);
        let mut answerer = Answerer::new(dataset.arena.clone(), 1 << 16);
        for _ in 0..60 {
            let mut words = Request::new(&mut random, &dataset).words(&dataset);
            for _ in 0..1 + random.below(3) {
                // The table's place is the parent's own.
                let at = 4 + random.below(words.len() as u64 - 4) as usize;
                words[at] = match random.below(6) {
                    0 => u64::MAX,
                    1 => 1 << 63,
                    2 => 0,
                    3 => words[at].wrapping_add(1),
                    4 => words[at].wrapping_sub(1),
                    _ => random.below(1 << 40),
                };
            }
            if random.below(4) == 0 {
                words.truncate(random.below(words.len() as u64 + 1) as usize);
            }
            let len = match Hyperslab::parse(&words, &dataset.dataset()) {
                Ok(slab) if slab.out_bytes() < 1 << 20 => {
                    slab.owners(&dataset.dataset(), 3);
                    slab.out_bytes()
                }
                Ok(_) => continue,
                Err(_) => 1 << 12,
            };
            let _ = answer(&mut answerer, &words, (0, 1), len, 0);
            let _ = answer(&mut answerer, &words, (7, 2), len, 0);
        }
    }
}

#[test]
fn too_little_room_is_an_internal_error() {
    let mut random = XorShift64(5);
    let dataset = TestDataset::with(&mut random, &[10], &[3], Layout::Deflate);
    let mut answerer = Answerer::new(dataset.arena.clone(), 1 << 16);
    let request = Request::rows(0, 1, 5);
    let len = request.expected(&dataset).len() - 1;
    let refused = answer(&mut answerer, &request.words(&dataset), (0, 1), len, 0);
    assert!(matches!(refused, Err(TaskError::Internal(_))));
}

#[test]
fn what_is_wrong_with_a_chunk_is_told_with_its_number() {
    let mut seen_absurd = false;
    for (seed, layout) in (1..).zip(Layout::ALL.repeat(4)) {
        let mut random = XorShift64(seed * 77);
        let dataset = TestDataset::with(&mut random, &[60, 7], &[10, 7], layout);
        // Grid index 2 may have another number: unallocated chunks have none.
        let Some(number) = dataset.number_of(2) else {
            continue;
        };
        let told = |dataset: &TestDataset, rows: u64| {
            let mut answerer = Answerer::new(dataset.arena.clone(), 1 << 16);
            let request = Request::rows(20, 1, rows);
            let len = request.expected(dataset).len();
            answer(&mut answerer, &request.words(dataset), (0, 1), len, 0)
        };
        for rows in [1, 10] {
            assert!(told(&dataset, rows).is_ok());
            let beyond = dataset.lie(2, 1, 1 << 40);
            let error = told(&beyond, rows).unwrap_err();
            assert!(
                matches!(error, TaskError::Fetch(at, FetchError::Short { .. }) if at == number),
                "{error:?}"
            );
            if matches!(layout, Layout::Contiguous | Layout::DirectContiguous) {
                continue;
            }
            let short = dataset.lie(2, 2, 9);
            let error = told(&short, rows).unwrap_err();
            assert!(
                matches!(error, TaskError::Filter(at, _) if at == number),
                "{error:?}"
            );
            let absurd = dataset.lie(2, 2, 90_000).lie(2, 1, 0);
            let absurd = match dataset.file_bytes() > 90_000 {
                true => told(&absurd, rows).unwrap_err(),
                false => continue,
            };
            let kinds = [FilterErrorKind::Unsupported, FilterErrorKind::WrongSize];
            assert!(
                matches!(absurd, TaskError::Filter(at, error)
                    if at == number && kinds.contains(&error.kind)),
                "{absurd:?}"
            );
            seen_absurd = true;
        }
    }
    assert!(seen_absurd);
}

#[test]
fn damaged_chunks_are_errors_or_bytes_and_never_panic() {
    for seed in 1..60 {
        let mut random = XorShift64(seed * 91);
        let layout = Layout::ALL[random.below(Layout::ALL.len() as u64) as usize];
        let dataset =
            TestDataset::with(&mut random, &[40, 9], &[7, 4], layout).damaged(&mut random);
        let mut answerer = Answerer::new(dataset.arena.clone(), 4000);
        for _ in 0..20 {
            let request = Request::new(&mut random, &dataset);
            let len = request.expected(&dataset).len();
            match answer(&mut answerer, &request.words(&dataset), (0, 1), len, 0) {
                Err(TaskError::Internal(reason)) => panic!("{reason}"),
                Err(TaskError::Filter(at, _)) => assert!(at < dataset.n_chunks()),
                _ => {}
            }
        }
    }
}

#[test]
fn a_file_that_changed_is_neither_answered_nor_kept() {
    let mut random = XorShift64(3);
    let dataset = TestDataset::with(&mut random, &[100], &[10], Layout::Deflate);
    let mut answerer = Answerer::new(dataset.arena.clone(), 1 << 20);
    let request = Request::rows(0, 1, 1);
    let len = request.expected(&dataset).len();
    assert!(answer(&mut answerer, &request.words(&dataset), (0, 1), len, 0).is_ok());
    dataset.touch();
    for row in [50, 0] {
        let words = Request::rows(row, 1, 1).words(&dataset);
        let changed = answer(&mut answerer, &words, (0, 1), len, 0).unwrap_err();
        let is_it = matches!(changed, TaskError::Fetch(_, FetchError::Changed { .. }));
        assert!(is_it, "{changed:?}");
    }
}

#[test]
fn chunks_are_kept_within_the_limit_and_counted() {
    let mut random = XorShift64(4);
    for layout in [Layout::Deflate, Layout::ShuffleDeflate, Layout::Blosc] {
        let dataset = TestDataset::with(&mut random, &[1000], &[100], layout);
        let chunk_bytes = dataset.dataset().decoded_size;
        let limit = 3 * (chunk_bytes + 128);
        let mut answerer = Answerer::new(dataset.arena.clone(), limit);
        let record = record();
        let mut row = |row: u64| {
            let words = Request::rows(row, 1, 1).words(&dataset);
            let mut out = vec![0; Request::rows(row, 1, 1).expected(&dataset).len()];
            answerer
                .answer(&words, (0, 1), Out::of(&mut out), &record, None)
                .unwrap();
            assert!(record.cache_bytes.load(Relaxed) <= limit as u64);
            let count = [&record.cache_hits, &record.cache_misses];
            count.map(|count| count.load(Relaxed))
        };
        let misses = (0..5).map(|at| row(150 + at)).last().unwrap()[1];
        // At the fourth touch at the latest it is kept.
        assert!(misses <= 4 && (misses == 1 || layout == Layout::Blosc));
        let before = row(155);
        assert_eq!(row(156), [before[0] + 1, before[1]]);
        for at in 0..50 {
            row(at * 37 % 1000);
        }
        assert_eq!(record.chunk.load(Relaxed), 0);
    }
}

/// Up to four neighbours are decoded at once; one of them may be bad, or kept already.
#[test]
fn neighbours_equal_the_model_and_the_bad_one_is_named() {
    for layout in [Layout::Deflate, Layout::ShuffleDeflate] {
        for seed in 1..30 {
            let mut random = XorShift64(seed * 31);
            let dataset = TestDataset::with(&mut random, &[1000], &[50], layout);
            let chunk_bytes = dataset.dataset().decoded_size;
            let limit = random.below(10) as usize * (chunk_bytes + 128);
            let mut answerer = Answerer::new(dataset.arena.clone(), limit);
            for _ in 0..20 {
                let rows = random.below(1000);
                check_parts(
                    &dataset,
                    &mut answerer,
                    &Request::rows(999 - rows, 1, rows),
                    1,
                );
                let step = 1 + random.below(120);
                let count = rows / step + 1;
                check_parts(
                    &dataset,
                    &mut answerer,
                    &Request::rows(rows % step, step as i64, count),
                    1,
                );
            }
            let bad = random.below(20);
            let number = dataset.number_of(bad).unwrap();
            let lying = dataset.lie(bad, 2, 30);
            for request in [Request::rows(0, 1, 1000), Request::rows(0, 40, 25)] {
                let mut answerer = Answerer::new(lying.arena.clone(), limit);
                let len = request.expected(&lying).len();
                let error =
                    answer(&mut answerer, &request.words(&lying), (0, 1), len, 0).unwrap_err();
                assert!(
                    matches!(error, TaskError::Filter(at, _) if at == number),
                    "{error:?}"
                );
            }
        }
    }
}

#[test]
fn many_datasets_share_one_answerer() {
    let mut random = XorShift64(9);
    let arena = datasets::arena(4 << 20);
    let all: Vec<TestDataset> = (0..70)
        .map(|n| {
            let mut dataset = TestDataset::with(&mut random, &[50, 3], &[8, 3], Layout::Deflate);
            dataset.move_to(&arena, n);
            dataset
        })
        .collect();
    let mut answerer = Answerer::new(arena, 20_000);
    for _ in 0..300 {
        let dataset = &all[random.below(70) as usize];
        let request = Request::new(&mut random, dataset);
        check_parts(dataset, &mut answerer, &request, 1);
    }
}

/// Readers use the copy that was checked, also if another process overwrites the arena.
#[test]
fn a_table_that_another_process_overwrites_stays_as_it_was() {
    let mut random = XorShift64(11);
    for layout in Layout::ALL {
        let dataset = TestDataset::with(&mut random, &[60, 7], &[10, 7], layout);
        let mut answerer = Answerer::new(dataset.arena.clone(), 0);
        let request = Request::rows(0, 1, 60);
        let (words, expected) = (request.words(&dataset), request.expected(&dataset));
        for value in [0, u8::MAX] {
            let got = answer(&mut answerer, &words, (0, 1), expected.len(), 0);
            assert_eq!(got.unwrap(), expected);
            // SAFETY: inside the mapping, of which nobody has a borrow.
            unsafe { std::ptr::write_bytes(dataset.arena.base(), value, dataset.arena.len()) };
        }
        let mut words = words;
        for at in [7, dataset.arena.len() as u64 - 8, u64::MAX - 7] {
            (words[1], words[2]) = (words[1] + 1, at);
            let refused = answer(&mut answerer, &words, (0, 1), 1 << 16, 0);
            assert!(
                matches!(refused, Err(TaskError::Internal(_))),
                "{refused:?}"
            );
        }
    }
}
