//! Rows in pieces against the same rows as selections.

use super::answer;
use super::datasets::{Layout, TestDataset};
use super::random_requests::Request;
use crate::requests::answer::Answerer;
use engine::pieces::{KIND_PIECES, Pieces};
use engine::task_error::TaskError;
use std::ops::Range;
use testing::fixtures::XorShift64;

const GAP: usize = 24;

fn words(dataset: &TestDataset, pieces: &[(Range<u64>, usize)], len: usize) -> Vec<u64> {
    let table = dataset.table().len() as u64;
    let head = [KIND_PIECES, dataset.number, dataset.at as u64, table];
    let mut words = head.to_vec();
    words.extend([pieces.len() as u64, len as u64]);
    for (rows, at) in pieces {
        words.extend([0, rows.start, rows.end, *at as u64]);
    }
    words
}

/// Some rows of a dataset, the bytes of each piece behind a gap, and all bytes that are expected.
fn pieces(random: &mut XorShift64, of: &TestDataset) -> (Vec<(Range<u64>, usize)>, Vec<u8>) {
    let (mut pieces, mut expected) = (Vec::new(), Vec::new());
    for _ in 0..random.below(4) {
        let begin = random.below(of.dims[0] + 1);
        let rows = begin..begin + random.below(of.dims[0] - begin + 1);
        expected.resize(expected.len() + GAP, 0);
        pieces.push((rows.clone(), expected.len()));
        let count = rows.end - rows.start;
        expected.extend(Request::rows(rows.start, 1, count).expected(of));
    }
    (pieces, expected)
}

#[test]
fn pieces_equal_rows_and_each_byte_is_one_parts() {
    for seed in 1..80 {
        let mut random = XorShift64(seed * 0x9e37_79b9);
        let dataset = TestDataset::new(&mut random);
        let mut answerer = Answerer::new(dataset.arena.clone(), 0);
        for _ in 0..6 {
            let (pieces, expected) = pieces(&mut random, &dataset);
            let words = words(&dataset, &pieces, expected.len());
            let n_parts = 1 + random.below(4);
            let mut writers = vec![0; expected.len()];
            for part in 0..n_parts {
                let outs = [0xA5, 0x5A].map(|with| {
                    let part = (part, n_parts);
                    let done = answer(&mut answerer, &words, part, expected.len(), with);
                    done.unwrap_or_else(|error| panic!("{error:?} for {pieces:?} of {dataset:?}"))
                });
                for (at, writer) in writers.iter_mut().enumerate() {
                    if outs[0][at] == outs[1][at] {
                        assert_eq!(outs[0][at], expected[at], "byte {at} of {dataset:?}");
                        *writer += 1;
                    }
                }
            }
            let mut wanted = vec![1; expected.len()];
            for (_, at) in &pieces {
                wanted[at - GAP..*at].fill(0);
            }
            assert_eq!(writers, wanted, "{pieces:?} of {dataset:?}");
        }
    }
}

#[test]
fn malformed_pieces_are_refused_and_never_panic() {
    for seed in 1..80 {
        let mut random = XorShift64(seed * 0x51_7cc1);
        let dataset = TestDataset::new(&mut random);
        let mut answerer = Answerer::new(dataset.arena.clone(), 0);
        for _ in 0..60 {
            let (pieces, expected) = pieces(&mut random, &dataset);
            let mut words = words(&dataset, &pieces, expected.len());
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
            if random.below(4) == 0 {
                words.truncate(4 + random.below(words.len() as u64 - 3) as usize);
            }
            let _ = answer(&mut answerer, &words, (0, 1), expected.len(), 0);
            let _ = answer(&mut answerer, &words, (7, 2), expected.len(), 0);
        }
    }
}

#[test]
fn pieces_outside_of_their_dataset_are_refused() {
    let mut random = XorShift64(5);
    let dataset = TestDataset::with(&mut random, &[10], &[3], Layout::Deflate);
    let mut answerer = Answerer::new(dataset.arena.clone(), 0);
    let row = Request::rows(0, 1, 1).expected(&dataset).len();
    for (rows, at, len) in [
        (0..11, 0, 11 * row),
        (0..10, 1, 10 * row),
        (Range { start: 5, end: 3 }, 0, 10 * row),
        (0..10, usize::MAX, 10 * row),
    ] {
        let words = words(&dataset, &[(rows, at)], len);
        let refused = answer(&mut answerer, &words, (0, 1), len, 0);
        assert!(matches!(refused, Err(TaskError::Internal(_))));
        Pieces::parse(&words).unwrap();
    }
    let mut other = words(&dataset, &[(0..10, 0)], 10 * row);
    other[6] = 1; // a dataset that is not in the table
    let refused = answer(&mut answerer, &other, (0, 1), 10 * row, 0);
    assert!(matches!(refused, Err(TaskError::Internal(_))));
}
