//! Orders are bijections, the same however they are asked for, and even.

use super::*;

fn all(order: &Order, epoch: u64, step: u64) -> Vec<u64> {
    let epoch = order.epoch(epoch);
    let mut rows = vec![u64::MAX; order.n_rows as usize];
    let mut map = RowMap::default();
    let mut begin = 0;
    while begin < order.n_rows {
        let window_end = (begin / order.window_rows + 1) * order.window_rows;
        let end = (begin + step).min(window_end).min(order.n_rows);
        epoch.row_map(begin, end, &mut map);
        assert_eq!(map.count() as u64, end - begin);
        let mut before = 0;
        map.each(0..map.count(), |row, place| {
            let at = (begin + u64::from(place)) as usize;
            assert_eq!(rows[at], u64::MAX, "a place twice");
            rows[at] = row;
            assert!(before <= row, "rows descend");
            before = row;
        });
        begin = end;
    }
    rows
}

fn rows_of(kind: u64, n: u64) -> Rows {
    match kind {
        0 => Rows::Step { start: 0, step: 1 },
        1 => Rows::Step { start: 3, step: 7 },
        _ => Rows::Listed(Arc::new((0..n).map(|i| i * i / 5 + i).collect::<Vec<_>>())),
    }
}

const SHUFFLES: [Shuffle; 4] = [
    Shuffle::None,
    Shuffle::Chunks,
    Shuffle::Window,
    Shuffle::Full,
];

#[test]
fn every_row_has_one_position_however_it_is_asked_for() {
    for shuffle in SHUFFLES {
        for kind in 0..3 {
            for n in [0, 1, 2, 3, 7, 64, 1000] {
                for (chunk, window) in [(1, 1), (3, 10), (10, 3), (64, 128), (5000, 5000)] {
                    let rows = rows_of(kind, n);
                    let order = Order::new(shuffle, 9, rows.clone(), n, chunk, window);
                    let found = all(&order, 2, u64::MAX / 2);
                    assert_eq!(found, all(&order, 2, 5), "{shuffle:?} {kind} {n} {chunk}");
                    let mut sorted = found.clone();
                    sorted.sort_unstable();
                    let wanted: Vec<u64> = (0..n).map(|i| rows.row(i)).collect();
                    assert_eq!(sorted, wanted);
                    if shuffle == Shuffle::None {
                        assert_eq!(found, wanted);
                    }
                    let last = wanted.last().map_or(0, |row| row + 1);
                    for part in [0..0, 0..last, last / 3..last / 2, last..last + 9] {
                        let numbered = (0..n).zip(&found);
                        let there = numbered.filter(|(_, row)| part.contains(row));
                        let there: Vec<u64> = there.map(|(position, _)| position).collect();
                        assert_eq!(order.positions(2, part), there);
                    }
                }
            }
        }
    }
}

#[test]
fn seeds_and_epochs_differ() {
    for shuffle in [Shuffle::Chunks, Shuffle::Window, Shuffle::Full] {
        let order = |seed| {
            Order::new(
                shuffle,
                seed,
                Rows::Step { start: 0, step: 1 },
                1000,
                10,
                100,
            )
        };
        let one = all(&order(1), 0, 100);
        assert_ne!(one, all(&order(1), 1, 100));
        assert_ne!(one, all(&order(2), 0, 100));
        assert_eq!(one, all(&order(1), 0, 100));
    }
}

#[test]
fn shuffled_chunks_stay_whole() {
    let order = Order::new(
        Shuffle::Chunks,
        5,
        Rows::Step { start: 0, step: 1 },
        103,
        10,
        20,
    );
    let rows = all(&order, 0, 20);
    let mut chunks: Vec<u64> = rows.iter().map(|row| row / 10).collect();
    assert!(rows.windows(2).all(|w| w[1] == w[0] + 1 || w[1] % 10 == 0));
    chunks.dedup();
    assert_eq!(chunks.len(), 11);
    assert!(!chunks.is_sorted());
}

/// Chi-square of all permutations of few rows: each as likely as the others.
#[test]
fn small_shuffles_are_uniform() {
    for shuffle in [Shuffle::Full, Shuffle::Window, Shuffle::Chunks] {
        for n in 2..=6u64 {
            let cells: u64 = (1..=n).product();
            let draws = cells * 200;
            let mut seen = std::collections::BTreeMap::new();
            for epoch in 0..draws {
                let rows = Rows::Step { start: 0, step: 1 };
                let order = Order::new(shuffle, 77, rows, n, 1, n);
                *seen.entry(all(&order, epoch, n)).or_insert(0u64) += 1;
            }
            let chi: f64 = seen
                .values()
                .map(|&count| (count as f64 - 200.0).powi(2) / 200.0)
                .sum();
            let free = (cells - 1) as f64;
            assert_eq!(seen.len() as u64, cells);
            // Five standard deviations.
            let limit = free + 5.0 * (2.0 * free).sqrt() + 5.0;
            assert!(chi < limit, "{shuffle:?} of {n}: {chi} over {limit}");
        }
    }
}

/// Where a row goes does not depend on where it or its neighbours were.
#[test]
fn large_shuffles_are_even() {
    let n = 1 << 16;
    let order = Order::new(Shuffle::Full, 3, Rows::Step { start: 0, step: 1 }, n, 64, n);
    let rows = all(&order, 0, n);
    let cells = 32;
    let mut table = vec![0f64; cells * cells];
    for pair in rows.windows(2) {
        let cell = |row: u64| (row * cells as u64 / n) as usize;
        table[cell(pair[0]) * cells + cell(pair[1])] += 1.0;
    }
    let expected = (n - 1) as f64 / (cells * cells) as f64;
    let chi: f64 = table
        .iter()
        .map(|&count| (count - expected).powi(2) / expected)
        .sum();
    let free = (cells * cells - 1) as f64;
    assert!((chi - free).abs() < 6.0 * (2.0 * free).sqrt(), "{chi}");
}

/// What is asked for ahead changes nothing.
#[test]
fn many_items_are_shuffled_like_few() {
    let few = [0, 1, 2, 3, 1000, NEAR_ITEMS - 1, NEAR_ITEMS];
    let many = [1, 2, AHEAD - 1, AHEAD, AHEAD + 1, 5 * AHEAD, 3 * NEAR_ITEMS];
    for count in few.into_iter().chain(many.map(|more| NEAR_ITEMS + more)) {
        let mut items: Vec<u32> = (0..count as u32).collect();
        let mut expected = items.clone();
        shuffled(&mut SplitMix64::new(1, 2, 3), &mut items);
        let mut random = SplitMix64::new(1, 2, 3);
        for last in (1..count).rev() {
            expected.swap(random.below(last as u64 + 1) as usize, last);
        }
        assert!(items == expected, "{count}");
    }
}

#[test]
fn listed_rows_begin_chunks_where_they_do() {
    for step in [1, 2, 7, 30] {
        for chunk in [1, 3, 10, 1000] {
            // Each row is there up to three times.
            let rows: Vec<u64> = (0..300).map(|i| i / 3 * step + i % 3 / 2).collect();
            let n = rows.len() as u64;
            let listed = Rows::Listed(Arc::new(rows.clone()));
            let order = Order::new(Shuffle::Chunks, 1, listed, n, chunk, 10);
            let is_first = |&i: &usize| i == 0 || rows[i] / chunk != rows[i - 1] / chunk;
            let begins = (0..rows.len()).filter(is_first).map(|i| i as u64);
            assert_eq!(order.begins, begins.chain([n]).collect::<Vec<_>>());
        }
    }
}
