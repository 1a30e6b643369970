//! The inverse of an order: at which positions of an epoch given rows stand.
//!
//! Law:
//! 1. Pure, and exact: what `Order::listed` puts at a position, and nothing else, is found there.
//! 2. It costs the order of the chunks and the windows that the rows' chunks are in, not all rows.

use super::{Epoch, Order, Shuffle};
use crate::shuffle::row_map::RowMap;
use std::ops::Range;

impl Order {
    /// At which positions of an epoch rows of the dataset stand, ascending.
    pub fn positions(&self, epoch: u64, rows: Range<u64>) -> Vec<u64> {
        let index = |row| self.rows.index_from(row, self.n_rows);
        let indices = index(rows.start)..index(rows.end);
        let epoch = self.epoch(epoch);
        let mut found = match (self.shuffle, &epoch.scatter) {
            (Shuffle::None, _) => indices.collect(),
            (_, Some(scatter)) => scatter.positions(indices).collect(),
            _ => epoch.positions_in_windows(indices, rows),
        };
        found.sort_unstable();
        found
    }
}

impl Epoch<'_> {
    /// Where rows, which have these indices, stand in the windows that their chunks are in.
    fn positions_in_windows(&self, indices: Range<u64>, rows: Range<u64>) -> Vec<u64> {
        let order = self.order;
        let (mut windows, mut position) = (Vec::new(), 0);
        for &chunk in &self.chunks {
            let [begin, end] = [chunk, chunk + 1].map(|chunk| order.begins[chunk as usize]);
            let (low, high) = (begin.max(indices.start), end.min(indices.end));
            if low < high {
                let window = |index| (position + (index - begin)) / order.window_rows;
                windows.extend(window(low)..=window(high - 1));
            }
            position += end - begin;
        }
        windows.sort_unstable();
        windows.dedup();
        let (mut found, mut map) = (Vec::new(), RowMap::default());
        for number in windows {
            let begin = number * order.window_rows;
            self.row_map(begin, begin + order.window_rows, &mut map);
            map.each(0..map.count(), |row, place| {
                if rows.contains(&row) {
                    found.push(begin + u64::from(place));
                }
            });
        }
        found
    }
}
