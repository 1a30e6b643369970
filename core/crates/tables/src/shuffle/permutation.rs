//! A permutation of `[0, n)` that is computed, not stored, either way.
//!
//! Law:
//! 1. A generalised Feistel network with cycle walking (Black and Rogaway, Ciphers with Arbitrary Finite
//!    Domains, 2002).
//! 2. `rows` and `positions` are each other's inverse.

use super::splitmix::{STREAM_FULL, SplitMix64, mix64, scaled};
use std::ops::Range;

/// Positions that are computed together: each is a chain of steps that wait for one another.
const LANES: usize = 8;

/// The permutation of one seed and epoch.
pub struct Permutation {
    n: u64,
    /// `[0, n)` lies in a rectangle of this many columns and rows.
    columns: u64,
    lines: u64,
    keys: Vec<u64>,
}

impl Permutation {
    /// Rounds, even. Small domains need more of them to be uniform, and have the time.
    const ROUNDS: usize = 12;
    const SMALL_ROUNDS: usize = 64;
    const SMALL_ROWS: u64 = 1 << 12;

    pub fn new(seed: u64, epoch: u64, n: u64) -> Permutation {
        let mut random = SplitMix64::new(seed, epoch, STREAM_FULL);
        let rounds = match n < Permutation::SMALL_ROWS {
            true => Permutation::SMALL_ROUNDS,
            false => Permutation::ROUNDS,
        };
        let columns = n.isqrt().max(1);
        let columns = columns + u64::from(columns * columns < n);
        Permutation {
            n,
            columns,
            lines: n.div_ceil(columns).max(1),
            keys: (0..rounds).map(|_| random.next()).collect(),
        }
    }

    /// What stands at each of these positions.
    pub fn rows(&self, positions: Range<u64>) -> impl Iterator<Item = u64> {
        in_lanes(positions, |one| {
            self.cycle_walk(one, Permutation::once::<LANES>, Permutation::once::<1>)
        })
    }

    /// At which position each of these stands.
    pub fn positions(&self, rows: Range<u64>) -> impl Iterator<Item = u64> {
        in_lanes(rows, |one| {
            self.cycle_walk(one, Permutation::back::<LANES>, Permutation::back::<1>)
        })
    }

    /// Cycle walking: go on until all values are inside again.
    fn cycle_walk(
        &self,
        values: [u64; LANES],
        all: impl Fn(&Permutation, [u64; LANES]) -> [u64; LANES],
        one: impl Fn(&Permutation, [u64; 1]) -> [u64; 1],
    ) -> [u64; LANES] {
        all(self, values).map(|mut value| {
            while value >= self.n {
                [value] = one(self, [value]);
            }
            value
        })
    }

    fn once<const N: usize>(&self, values: [u64; N]) -> [u64; N] {
        let mut column = values.map(|value| value % self.columns);
        let mut line = values.map(|value| value / self.columns);
        for pair in self.keys.chunks_exact(2) {
            for (column, line) in column.iter_mut().zip(&line) {
                *column = moved(*column, line ^ pair[0], self.columns);
            }
            for (line, column) in line.iter_mut().zip(&column) {
                *line = moved(*line, column ^ pair[1], self.lines);
            }
        }
        std::array::from_fn(|i| line[i] * self.columns + column[i])
    }

    fn back<const N: usize>(&self, values: [u64; N]) -> [u64; N] {
        let mut column = values.map(|value| value % self.columns);
        let mut line = values.map(|value| value / self.columns);
        for pair in self.keys.chunks_exact(2).rev() {
            for (line, column) in line.iter_mut().zip(&column) {
                *line = moved_back(*line, column ^ pair[1], self.lines);
            }
            for (column, line) in column.iter_mut().zip(&line) {
                *column = moved_back(*column, line ^ pair[0], self.columns);
            }
        }
        std::array::from_fn(|i| line[i] * self.columns + column[i])
    }
}

/// Compute some values at a time, of numbers that follow each other.
fn in_lanes(
    numbers: Range<u64>,
    values: impl Fn([u64; LANES]) -> [u64; LANES],
) -> impl Iterator<Item = u64> {
    let last = numbers.end.saturating_sub(1);
    let count = numbers.end.saturating_sub(numbers.start) as usize;
    let firsts = numbers.step_by(LANES);
    let blocks = firsts.map(move |first| std::array::from_fn(|i| last.min(first + i as u64)));
    blocks.flat_map(values).take(count)
}

fn moved(at: u64, key: u64, n: u64) -> u64 {
    let sum = at + scaled(mix64(key), n);
    if sum >= n { sum - n } else { sum }
}

fn moved_back(at: u64, key: u64, n: u64) -> u64 {
    let by = scaled(mix64(key), n);
    if at >= by { at - by } else { at + n - by }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_the_inverse_of_rows() {
        let many = [4095, 4096, 5000, 70_001];
        // Miri would take minutes for them.
        let many = if cfg!(miri) { &[] } else { &many[..] };
        for &n in [1, 2, 3, 9, 10, 100].iter().chain(many) {
            for epoch in 0..3 {
                let scatter = Permutation::new(7, epoch, n);
                let rows: Vec<u64> = scatter.rows(0..n).collect();
                let mut expected = vec![n; n as usize];
                for (position, &row) in (0..).zip(&rows) {
                    expected[row as usize] = position;
                }
                assert!(scatter.positions(0..n).eq(expected.iter().copied()));
                let (low, high) = (n / 3, n - n / 5);
                let part = &expected[low as usize..high as usize];
                assert!(scatter.positions(low..high).eq(part.iter().copied()));
                assert_eq!(scatter.positions(low..low).count(), 0);
            }
        }
    }
}
