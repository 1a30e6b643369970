//! Shares against a naive reading of their law.
//!
//! Law:
//! 1. Every row of a window is in one share of each dataset, and in one read of each chunk that has
//!    its row; every chunk is in one share.
//! 2. What a read's record says is where these rows are stored.
//! 3. What a share is does not depend on the shares that were asked for before.

use crate::chunk_read::{ChunkRead, NO_CHUNK};
use crate::shuffle_task::{ShuffleTask, Windows};
use os::memory::sealed_memfd;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::AsFd;
use tables::plan::{Dataset, Plan, Task, UNALLOCATED};
use tables::shuffle::order::Shuffle;
use tables::shuffle::row_map::RowMap;
use testing::fixtures::{
    ROW_WORDS, TestDataset, TestFile, TestOrder, TestPlan, TestTask, XorShift64,
};

const ROW_BYTES: u64 = 8 * ROW_WORDS as u64;
const N_ROWS: u64 = 500;
const CLIPPED: u64 = 2;
const LIBRARY: u64 = 16;

/// A dataset of each kind. Addresses are `ROW_BYTES` times the chunk's first row.
fn datasets() -> [TestDataset; 5] {
    [
        TestDataset::new(7, 0),
        // Four chunks hold the same rows.
        TestDataset {
            chunk_words: 9,
            ..TestDataset::new(30, 8)
        },
        TestDataset::new(64, CLIPPED),
        TestDataset::new(2, CLIPPED),
        TestDataset::new(25, LIBRARY),
    ]
}

/// Shuffle, rows of a window, start, step, rows listed.
fn orders() -> Vec<TestOrder> {
    let mut found = Vec::new();
    for shuffle in 0..4 {
        for (window, start, step) in [(56, 0, 1), (20, 3, 1), (100, 1, 9), (1000, 0, 40)] {
            let n_rows = (N_ROWS - start).div_ceil(step);
            let ranges = vec![(2, n_rows / 2), (n_rows / 2 + 1, n_rows)];
            found.push(TestOrder {
                words: [shuffle, 5, 1, n_rows, 7, window, start, step],
                listed: Vec::new(),
                ranges,
                laps: 3,
            });
        }
        // Windows that are short, and long ones, beside all rows.
        for (window, ranges) in [
            (14, vec![(3, 200), (201, N_ROWS)]),
            (1000, vec![(0, 400), (400, N_ROWS)]),
            (450, vec![(1, N_ROWS)]),
        ] {
            found.push(TestOrder {
                words: [shuffle, 5, 1, N_ROWS, 7, window, 0, 1],
                listed: Vec::new(),
                ranges,
                laps: 3,
            });
        }
        let listed: Vec<u64> = (0..150).map(|i| i * i / 46).collect();
        found.push(TestOrder {
            words: [shuffle, 5, 1, 150, 7, 60, 0, 0],
            listed,
            ranges: vec![(0, 150)],
            laps: 3,
        });
    }
    found
}

fn opened(order: &TestOrder, shares: &[u64], file: &TestFile) -> Plan {
    let mut datasets = datasets();
    let mut chunks = Vec::new();
    for dataset in &mut datasets {
        dataset.chunks_at = chunks.len() as u64;
        if dataset.flags == LIBRARY {
            continue;
        }
        let inner = (ROW_WORDS as u64).div_ceil(dataset.chunk_words);
        for grid in 0..N_ROWS.div_ceil(dataset.chunk_rows) * inner {
            let row = grid / inner * dataset.chunk_rows;
            let rows = match dataset.flags {
                CLIPPED => dataset.chunk_rows.min(N_ROWS - row),
                _ => dataset.chunk_rows,
            };
            chunks.push([grid, row * ROW_BYTES, rows * ROW_BYTES, 0]);
        }
    }
    // A piece that was never stored is read whole.
    chunks.remove(datasets[2].chunks_at as usize + 1);
    (datasets[3..].iter_mut()).for_each(|dataset| dataset.chunks_at -= 1);
    let plan = TestPlan {
        n_rows: N_ROWS,
        datasets: datasets.to_vec(),
        tasks: order.tasks(shares),
        chunks,
        n_readers: 1,
        block_rows: 4,
        capacity_rows: order.words[5],
        cyclic: false,
        order: Some(order.clone()),
        cache_bytes: 1 << 20,
    };
    let plan = sealed_memfd(c"shares", &plan.encode(file)).unwrap();
    Plan::open(plan.as_fd()).unwrap()
}

fn all(name: &str, check: impl Fn(&TestOrder, &Plan, &[u64])) {
    let file = TestFile::new(name, b"some");
    for order in orders() {
        for shares in [[1, 1, 1, 1, 1], [3, 2, 4, 9, 5], [30, 1, 9, 14, 40]] {
            check(&order, &opened(&order, &shares, &file), &shares);
        }
    }
}

#[test]
fn every_seat_has_one_place_in_each_dataset() {
    all("shares-every", |order, plan, _| {
        for lap in 0..3 {
            let rows = order.rows(lap);
            let mut windows = Windows::new(plan);
            // (dataset, window) -> how often each place of it was read, and the chunks read.
            let mut found: BTreeMap<(u32, u64), (Vec<u64>, Vec<u64>)> = BTreeMap::new();
            for task in plan.tasks() {
                let share = windows.task(plan, task, task.share().unwrap(), lap);
                let wanted = &rows[task.row_begin as usize..task.row_end as usize];
                let all = 0..share.rows.count();
                share.rows.each(all.clone(), |row, place| {
                    assert_eq!(row, wanted[place as usize]);
                });
                assert!(goes_by_rows(plan, task) || all.len() == wanted.len());
                let (counts, chunks) = found
                    .entry((task.tape, task.row_begin))
                    .or_insert((vec![0; wanted.len()], Vec::new()));
                check_share(plan, task.tape, &share);
                for read in &share.reads {
                    chunks.push(read.number);
                    let count = |_, place| counts[place as usize] += 1;
                    share.rows.each(rows_read(read), count);
                }
                if plan.dataset(task).by_library {
                    for span in share.spans() {
                        chunks.push(span.begin / 25);
                        let count = |_, place| counts[place as usize] += 1;
                        share.rows.each(span.wanted, count);
                    }
                }
            }
            for ((dataset, _), (counts, mut chunks)) in found {
                let inner = if dataset == 1 { 4 } else { 1 };
                assert!(counts.iter().all(|&count| count == inner), "{dataset}");
                let all = chunks.len();
                chunks.sort_unstable();
                chunks.dedup();
                // Only of rows that are stored as they are a chunk may be read in parts.
                let in_parts = is_plain(&plan.table.datasets[dataset as usize]);
                assert!(in_parts || chunks.len() == all, "{dataset}");
            }
        }
    });
}

fn rows_read(read: &ChunkRead) -> Range<usize> {
    read.wanted.start as usize..read.wanted.end as usize
}

/// A share has the rows of its own chunks alone.
fn goes_by_rows(plan: &Plan, task: &Task) -> bool {
    let order = plan.order.as_ref();
    order.is_some_and(|(order, _)| {
        order.goes_by_rows(task.row_end - task.row_begin, plan.tapes.len())
    })
}

/// Stored bytes are rows.
fn is_plain(dataset: &Dataset) -> bool {
    dataset.filters.is_empty() && dataset.spans_rows()
}

/// What the reads and their records say is true.
fn check_share(plan: &Plan, number: u32, share: &ShuffleTask) {
    let dataset = &plan.table.datasets[number as usize];
    let outer = dataset.chunk_dims[0];
    let rows = rows_of(&share.rows);
    assert!(rows.is_sorted());
    assert_eq!(share.reads.len(), share.chunks.len());
    for (read, chunk) in share.reads.iter().zip(&share.chunks) {
        let rows = &rows[rows_read(read)];
        let (first, last) = (rows[0], rows[rows.len() - 1]);
        assert_eq!(first / outer, last / outer);
        let mut offset = Vec::new();
        dataset.chunk_offset(chunk.grid_index, &mut offset);
        assert_eq!(offset[0], first / outer * outer);
        if read.number == NO_CHUNK {
            assert_eq!((number, chunk.grid_index, read.row), (2, 1, offset[0]));
            assert_eq!(chunk.byte_offset, UNALLOCATED);
            continue;
        }
        let record = &plan.table.chunks()[read.number as usize];
        assert_eq!(chunk.grid_index, record.grid_index);
        let same =
            (chunk.byte_offset, chunk.stored_size) == (record.byte_offset, record.stored_size);
        if same && read.row == offset[0] {
            continue; // the whole chunk
        }
        assert!(is_plain(dataset));
        assert_eq!(read.row, first);
        assert_eq!(chunk.byte_offset, first * ROW_BYTES);
        assert_eq!(read.size as u64, chunk.stored_size);
        assert_eq!(chunk.stored_size, (last + 1 - first) * ROW_BYTES);
        assert!(rows.windows(2).all(|two| two[1] - two[0] <= 1));
    }
    for span in share.spans() {
        let rows = &rows[span.wanted];
        let last = rows[rows.len() - 1];
        assert_eq!((span.begin, span.end), (rows[0], last + 1));
        assert_eq!(span.begin / outer, last / outer);
    }
}

fn rows_of(map: &RowMap) -> Vec<u64> {
    let mut rows = Vec::new();
    map.each(0..map.count(), |row, _| rows.push(row));
    rows
}

#[test]
fn few_rows_of_contiguous_data_are_fetched_alone() {
    all("shares-alone", |_, plan, _| {
        let mut windows = Windows::new(plan);
        for task in plan.tasks().iter().filter(|task| task.tape == 2) {
            let share = windows.task(plan, task, task.share().unwrap(), 0);
            for (read, chunk) in share.reads.iter().zip(&share.chunks) {
                let piece = read.row / 64;
                let rows = rows_of(&share.rows);
                let of_piece = rows.iter().filter(|row| **row / 64 == piece);
                let piece_rows = 64.min(N_ROWS - piece * 64);
                let sparse = (of_piece.count() as u64) * 4 < piece_rows && piece != 1;
                let piece_bytes = piece_rows * ROW_BYTES;
                if !sparse && piece != 1 {
                    assert_eq!((read.row % 64, chunk.stored_size), (0, piece_bytes));
                } else if sparse {
                    let distinct = rows[rows_read(read)].chunk_by(|a, b| a == b);
                    assert_eq!(chunk.stored_size, distinct.count() as u64 * ROW_BYTES);
                }
            }
        }
    });
}

#[test]
fn shares_are_about_equal() {
    all("shares-equal", |order, plan, shares| {
        let mut windows = Windows::new(plan);
        for task in plan.tasks() {
            let share = windows.task(plan, task, task.share().unwrap(), 0);
            let outer = plan.dataset(task).chunk_dims[0];
            let n_rows: usize = share.spans().map(|span| span.wanted.len()).sum();
            let rows = rows_of(&share.rows);
            let chunk = rows.chunk_by(|a, b| a / outer == b / outer);
            let largest = chunk.map(<[u64]>::len).max().unwrap_or(0);
            let all = match goes_by_rows(plan, task) {
                true => order.words[3], // some of these have other windows
                false => share.rows.count() as u64,
            };
            let largest = match goes_by_rows(plan, task) {
                true => outer as usize,
                false => largest,
            };
            let fair = (all / shares[task.tape as usize]) as usize;
            assert!(n_rows <= fair + 1 + largest, "{n_rows} of {fair}");
        }
    });
}

/// Readers have any tasks of any laps, in any order, and windows that are remembered or not.
#[test]
fn shares_are_the_same_whatever_was_asked_before() {
    type Told = (Vec<(u64, u64, Range<usize>)>, RowMap);
    let told = |share: &ShuffleTask| -> Told {
        let reads = share.reads.iter();
        let reads = reads.map(|read| (read.number, read.row, rows_read(read)));
        (reads.collect(), (*share.rows).clone())
    };
    all("shares-again", |_, plan, _| {
        let mut windows = Windows::new(plan);
        let mut random = XorShift64(7);
        for _ in 0..20 {
            let task = &plan.tasks()[random.below(plan.tasks().len() as u64) as usize];
            let lap = random.below(3);
            let found = told(&windows.task(plan, task, task.share().unwrap(), lap));
            assert_eq!(
                found,
                told(&Windows::new(plan).task(plan, task, task.share().unwrap(), lap))
            );
        }
    });
}

#[test]
fn full_shuffles_go_either_way() {
    let (mut by_rows, mut by_window) = (0, 0);
    all("shares-ways", |_, plan, _| {
        for task in plan.tasks() {
            let is_full = plan.order.as_ref().unwrap().0.shuffle == Shuffle::Full;
            assert!(is_full || !goes_by_rows(plan, task));
        }
    });
    let file = TestFile::new("shares-ways", b"some");
    for order in orders().iter().filter(|order| order.words[0] == 3) {
        let plan = opened(order, &[3; 5], &file);
        for task in plan.tasks() {
            match goes_by_rows(&plan, task) {
                true => by_rows += 1,
                false => by_window += 1,
            }
        }
    }
    assert!(by_rows > 30 && by_window > 30, "{by_rows} {by_window}");
}

#[test]
fn a_task_is_a_window_and_its_share() {
    let [order, ..] = &orders()[..] else {
        panic!("there are orders");
    };
    let tasks: Vec<TestTask> = order.tasks(&[2, 1, 1, 1, 1]);
    assert_eq!(tasks[0], [0, 2, 0, 54, 2, 0, 2]);
    assert_eq!(tasks[1], [0, 2, 0, 54, 2, 1, 2]);
    assert_eq!(tasks[2], [1, 2, 0, 54, 2, 0, 1]);
}
