//! Races over shares: rows of three datasets go where an order says.
//!
//! Law:
//! 1. Dataset 0 is contiguous, dataset 1 comes from the library, dataset 2 has a filter: whole rows, or
//!    parts of rows that are kept.
//! 2. Rows that are listed twice are delivered twice.

use super::{PLAIN, ROW_BYTES, Race};
use testing::fixtures::{
    ROW_WORDS, TestDataset, TestFile, TestOrder, TestPlan, fill_rows, payload,
};

/// What is delivered instead of all rows in their order.
#[derive(Clone, Copy)]
pub struct Mixed {
    pub shuffle: u64,
    pub window_rows: u64,
    /// Of each window, for each dataset.
    pub shares: u64,
    /// 0: without end.
    pub laps: u64,
    pub twice: bool,
    pub kept: bool,
}

impl Race {
    pub fn order(&self, mixed: Mixed) -> TestOrder {
        let n = self.n_rows;
        // As many as the rows from the first to the last: a gap for each repeat.
        let listed = (0..n).map(|row| row - u64::from(row % 3 == 1));
        let step = u64::from(!mixed.twice);
        let chunk = self.chunk_rows;
        TestOrder {
            words: [mixed.shuffle, 3, 9, n, chunk, mixed.window_rows, 0, step],
            listed: listed.filter(|_| mixed.twice).collect(),
            ranges: vec![(0, n / 2), (n / 2 + 1, n)],
            laps: mixed.laps,
        }
    }

    pub fn mixed_plan(&self, mixed: Mixed) -> (TestPlan, TestFile) {
        let order = self.order(mixed);
        let mut stored = vec![0; (self.n_rows * ROW_BYTES) as usize];
        fill_rows(0, 0, &mut stored);
        let mut chunks: Vec<[u64; 4]> = Vec::new();
        for row in (0..self.n_rows).step_by(self.chunk_rows as usize) {
            let rows = self.chunk_rows.min(self.n_rows - row);
            chunks.push([chunks.len() as u64, row * ROW_BYTES, rows * ROW_BYTES, 0]);
        }
        let turns = 4 * u64::from(self.turnstile);
        let filtered = TestDataset {
            chunk_words: ROW_WORDS as u64 / if mixed.kept { 2 } else { 1 },
            filters: vec![(2, 8)],
            chunks_at: chunks.len() as u64,
            ..TestDataset::new(
                4,
                (8 * u64::from(mixed.kept)) | u64::from(self.direct) | turns,
            )
        };
        let inner = ROW_WORDS as u64 / filtered.chunk_words;
        for grid in 0..self.n_rows.div_ceil(filtered.chunk_rows) * inner {
            let bytes = shuffled(&filtered, grid / inner, grid % inner);
            chunks.push([grid, stored.len() as u64, bytes.len() as u64, 0]);
            stored.extend(bytes);
        }
        let plan = TestPlan {
            n_rows: self.n_rows,
            datasets: vec![
                TestDataset::new(self.chunk_rows, 2 | u64::from(self.direct) | turns),
                TestDataset::new(self.chunk_rows + 1, 16 | turns),
                filtered,
            ],
            tasks: order.tasks(&[mixed.shares; 3]),
            chunks,
            n_readers: self.n_readers,
            block_rows: self.block_rows,
            capacity_rows: mixed.window_rows + 2 * self.block_rows + self.extra_rows,
            cyclic: false,
            order: Some(order),
            cache_bytes: 1 << 14,
        };
        (plan, TestFile::new(self.name, &stored))
    }
}

/// A chunk of dataset 2 as the filter shuffle stores it.
fn shuffled(dataset: &TestDataset, group: u64, part: u64) -> Vec<u8> {
    let row = group * dataset.chunk_rows;
    let first = (part * dataset.chunk_words) as usize;
    let columns = first..first + dataset.chunk_words as usize;
    let words: Vec<[u8; 8]> = (row..row + dataset.chunk_rows)
        .flat_map(|row| {
            columns
                .clone()
                .map(move |word| payload(2, row, word).to_le_bytes())
        })
        .collect();
    (0..8)
        .flat_map(|at| words.iter().map(move |word| word[at]))
        .collect()
}

const MIXED: Mixed = Mixed {
    shuffle: 2,
    window_rows: 60,
    shares: 3,
    laps: 3,
    twice: false,
    kept: false,
};
const SHARES: Race = Race {
    name: "shares",
    n_rows: 3_001,
    mixed: Some(MIXED),
    ..PLAIN
};

#[test]
fn rows_are_mixed() {
    SHARES.run();
}

#[test]
fn rows_that_are_listed_twice() {
    for (name, shuffle) in [
        ("twice-0", 0),
        ("twice-1", 1),
        ("twice-2", 2),
        ("twice-3", 3),
    ] {
        let twice = true;
        Race {
            name,
            n_rows: 1_001,
            mixed: Some(Mixed {
                shuffle,
                twice,
                ..MIXED
            }),
            ..SHARES
        }
        .run();
    }
}

#[test]
fn chunks_are_kept_for_later_windows() {
    for (name, shuffle) in [("kept-1", 1), ("kept-3", 3)] {
        let kept = true;
        Race {
            name,
            mixed: Some(Mixed {
                shuffle,
                kept,
                ..MIXED
            }),
            ..SHARES
        }
        .run();
    }
}

#[test]
fn shares_of_dead_readers_run_again() {
    let kept = true;
    for (name, turnstile) in [("shares-deaths", false), ("shares-turns", true)] {
        Race {
            name,
            n_rows: 1_501,
            deaths: true,
            turnstile,
            mixed: Some(Mixed { kept, ..MIXED }),
            ..SHARES
        }
        .run();
    }
}

#[test]
fn epochs_follow_each_other_without_end() {
    Race {
        name: "shares-endless",
        n_rows: 101,
        cyclic_blocks: Some(600),
        mixed: Some(Mixed { laps: 0, ..MIXED }),
        ..SHARES
    }
    .run();
}

#[test]
fn direct_readers_hold_several_shares() {
    for (name, turnstile) in [("shares-direct", false), ("shares-direct-turns", true)] {
        let race = Race {
            name,
            direct: true,
            turnstile,
            deaths: true,
            extra_rows: 500,
            mixed: Some(Mixed {
                shuffle: 3,
                shares: 7,
                ..MIXED
            }),
            ..SHARES
        };
        if race.direct_works() {
            race.run();
        }
    }
}
