//! The order of an epoch: which row of the dataset stands at which position.
//!
//! Law:
//! 1. Pure, and a bijection: a function of (shuffle, seed, epoch, rows, chunk length, window), the
//!    same on every machine and in every version that writes the same `magic` into a plan.
//!    Readers, ranks and positions have no part in it, so they can be dealt out in any way.
//! 2. Positions lie in windows of fixed length. A window is made at once: what costs time costs it
//!    once a window, and memory is that of a window (and, to shuffle chunks, 4 bytes for each).
//! 3. Knows rows and their chunks' outer length; never bytes, files, tasks or tapes.
//!
//! Chunk order and windows are shuffled by Fisher and Yates' algorithm (Knuth, The Art of Computer
//! Programming 2, 3.4.2, algorithm P). A full shuffle is computed (`permutation`), so that it needs no
//! memory. Numbers come from SplitMix64 (Steele, Lea, Flood, Fast Splittable Pseudorandom Number
//! Generators, 2014).

mod inverse;

use super::permutation::Permutation;
use super::splitmix::{STREAM_CHUNKS, STREAM_WINDOWS, SplitMix64};
use crate::shuffle::row_map::RowMap;
use os::prefetch::prefetch;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// What is shuffled; words and Python number them in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    None,
    /// The order of chunks.
    Chunks,
    /// That, and the rows inside each window.
    Window,
    /// All rows.
    Full,
}

/// Names of the shuffles for Python, by number.
pub const SHUFFLES: [Option<&str>; 4] = [None, Some("chunks"), Some("window"), Some("full")];

impl Shuffle {
    pub fn from_word(word: u64) -> Option<Shuffle> {
        [
            Shuffle::None,
            Shuffle::Chunks,
            Shuffle::Window,
            Shuffle::Full,
        ]
        .get(usize::try_from(word).ok()?)
        .copied()
    }
}

/// Of a full shuffle: windows of at least this part of all rows, for each dataset, go by rows. (To sort
/// a place costs three times what it costs to compute, but is done once for all datasets.)
pub const BY_ROWS: u64 = 8;

/// An order has fewer rows, and one of chunks fewer chunks.
pub const MAX_ROWS: u64 = 1 << 48;
pub const MAX_CHUNKS: u64 = 1 << 32;

/// Positions of which `listed` asks at a time: a row map may take more memory than rows.
const LISTED_AT_ONCE: u64 = 1 << 24;

/// Rows in memory that somebody keeps and nobody changes. There may be more than should be copied.
pub type Listed = Arc<dyn AsRef<[u64]> + Send + Sync>;

/// The rows that take part, ascending.
#[derive(Clone)]
pub enum Rows {
    /// `start + i * step`
    Step {
        start: u64,
        step: u64,
    },
    Listed(Listed),
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rows::Step { start, step } => write!(f, "{start} + i * {step}"),
            Rows::Listed(rows) => write!(f, "{} rows", (**rows).as_ref().len()),
        }
    }
}

impl Rows {
    pub fn row(&self, index: u64) -> u64 {
        match self {
            Rows::Step { start, step } => start + index * step,
            Rows::Listed(rows) => (**rows).as_ref()[index as usize],
        }
    }

    /// The index of the first row that is this one or a later one; at most `n_rows`.
    fn index_from(&self, row: u64, n_rows: u64) -> u64 {
        match self {
            Rows::Step { start, step } => row.saturating_sub(*start).div_ceil(*step).min(n_rows),
            Rows::Listed(rows) => (**rows).as_ref().partition_point(|&one| one < row) as u64,
        }
    }

    /// All rows follow each other.
    fn follow(&self) -> bool {
        matches!(self, Rows::Step { step: 1, .. })
    }
}

#[derive(Clone, Debug)]
pub struct Order {
    pub shuffle: Shuffle,
    pub seed: u64,
    /// Rows that take part.
    pub n_rows: u64,
    pub rows: Rows,
    /// Positions of a window.
    pub window_rows: u64,
    /// Where in `rows` each chunk begins that has rows of it; and `n_rows` at the end.
    begins: Vec<u64>,
}

impl Order {
    /// An order as a plan tells it, and its first epoch: shuffle, seed, epoch, rows, rows of a chunk,
    /// rows of a window, start, step; a step of 0 stands for the rows listed. All are below
    /// `end_row`.
    pub fn from_words(
        words: [u64; 8],
        listed: Listed,
        end_row: u64,
    ) -> Result<(Order, u64), &'static str> {
        let [
            shuffle,
            seed,
            epoch,
            n_rows,
            chunk_rows,
            window_rows,
            start,
            step,
        ] = words;
        let shuffle = Shuffle::from_word(shuffle).ok_or("there is no such shuffle")?;
        if chunk_rows == 0 || window_rows == 0 || n_rows >= MAX_ROWS {
            return Err("the order is out of range");
        }
        let last = n_rows.saturating_sub(1);
        let (rows, last_row) = if step > 0 {
            let last_row = last.checked_mul(step).and_then(|n| n.checked_add(start));
            (Rows::Step { start, step }, last_row)
        } else {
            let rows = (*listed).as_ref();
            if rows.len() as u64 != n_rows || !rows.is_sorted() {
                return Err("the order's rows are not in order");
            }
            let last_row = Some(rows.last().copied().unwrap_or(0));
            (Rows::Listed(listed), last_row)
        };
        if n_rows > 0 && last_row.is_none_or(|row| row >= end_row) {
            return Err("the order's rows lie outside the datasets");
        }
        if n_rows / chunk_rows >= MAX_CHUNKS && shuffle != Shuffle::None {
            return Err("there are too many chunks to shuffle them");
        }
        if window_rows.min(n_rows) > u64::from(u32::MAX) && shuffle == Shuffle::Window {
            return Err("a window has more places than can be shuffled");
        }
        let order = Order::new(shuffle, seed, rows, n_rows, chunk_rows, window_rows);
        Ok((order, epoch))
    }

    /// The rows at positions `[begin, end)` of an epoch.
    pub fn listed(&self, epoch: u64, begin: u64, end: u64) -> Vec<u64> {
        let end = end.min(self.n_rows);
        let epoch = self.epoch(epoch);
        let mut rows = vec![0; end.saturating_sub(begin) as usize];
        let (mut at, mut map) = (begin, RowMap::default());
        while at < end {
            let window_end = (at / self.window_rows + 1) * self.window_rows;
            let stop = window_end.min(end).min(at + LISTED_AT_ONCE);
            epoch.row_map(at, stop, &mut map);
            let part = &mut rows[(at - begin) as usize..];
            map.each(0..map.count(), |row, place| part[place as usize] = row);
            at = stop;
        }
        rows
    }

    pub fn new(
        shuffle: Shuffle,
        seed: u64,
        rows: Rows,
        n_rows: u64,
        chunk_rows: u64,
        window_rows: u64,
    ) -> Order {
        let mut begins = Vec::new();
        if matches!(shuffle, Shuffle::Chunks | Shuffle::Window) {
            let mut before = None;
            let mut index = 0;
            while index < n_rows {
                let chunk = rows.row(index) / chunk_rows;
                if before.replace(chunk) != Some(chunk) {
                    begins.push(index);
                }
                // The next chunk is not nearer than this.
                index += match &rows {
                    Rows::Step { start, step } => {
                        let end = (chunk + 1) * chunk_rows;
                        (end - (start + index * step)).div_ceil(*step).max(1)
                    }
                    // A row that is listed twice may make it longer.
                    Rows::Listed(rows) => {
                        let end = n_rows.min(index.saturating_add(chunk_rows));
                        let rows = &(**rows).as_ref()[index as usize..end as usize];
                        rows.partition_point(|row| row / chunk_rows == chunk) as u64
                    }
                };
            }
            begins.push(n_rows);
        }
        Order {
            shuffle,
            seed,
            n_rows,
            rows,
            window_rows: window_rows.max(1),
            begins,
        }
    }

    /// Where a part of all rows begins: at the first row of a chunk of `outer` rows.
    pub fn cut(&self, outer: u64, part: u32, parts: u32) -> u64 {
        let wanted = u128::from(self.n_rows) * u128::from(part) / u128::from(parts.max(1));
        let Some(before) = (wanted as u64).checked_sub(1) else {
            return 0;
        };
        let next = (self.rows.row(before) / outer + 1).saturating_mul(outer);
        self.rows.index_from(next, self.n_rows)
    }

    /// Whether a window of this many positions is made of parts, each for itself (`part_rows`): to go
    /// through all rows for each dataset is then quicker than to sort those of the window, which each
    /// reader does once.
    pub fn goes_by_rows(&self, positions: u64, datasets: usize) -> bool {
        let least = u128::from(self.n_rows / BY_ROWS) * datasets as u128;
        self.shuffle == Shuffle::Full && least <= u128::from(positions)
    }

    pub fn epoch(&self, epoch: u64) -> Epoch<'_> {
        let mut random = SplitMix64::new(self.seed, epoch, STREAM_CHUNKS);
        let n_chunks = self.begins.len().saturating_sub(1);
        let mut chunks: Vec<u32> = (0..n_chunks as u32).collect();
        shuffled(&mut random, &mut chunks);
        // Where each window begins: slot in the order of chunks, and index into that chunk's rows.
        let mut cuts = Vec::new();
        let mut position = 0;
        for (slot, &chunk) in chunks.iter().enumerate() {
            let len = self.begins[chunk as usize + 1] - self.begins[chunk as usize];
            let mut cut = cuts.len() as u64 * self.window_rows;
            while cut < position + len {
                cuts.push((slot, cut - position));
                cut += self.window_rows;
            }
            position += len;
        }
        let scatter = match self.shuffle {
            Shuffle::Full => Some(Permutation::new(self.seed, epoch, self.n_rows)),
            _ => None,
        };
        Epoch {
            order: self,
            epoch,
            chunks,
            cuts,
            scatter,
        }
    }
}

/// The order in one epoch.
pub struct Epoch<'a> {
    order: &'a Order,
    epoch: u64,
    chunks: Vec<u32>,
    cuts: Vec<(usize, u64)>,
    scatter: Option<Permutation>,
}

impl Epoch<'_> {
    /// The rows at positions `[begin, end)`, with their places counted from `begin`.
    /// The positions must lie in one window, unless nothing but chunks is shuffled or all is.
    pub fn row_map(&self, begin: u64, end: u64, into: &mut RowMap) {
        into.clear();
        let order = self.order;
        let end = end.min(order.n_rows);
        match (order.shuffle, &self.scatter) {
            (Shuffle::Full, Some(scatter)) => {
                let rows = scatter.rows(begin..end).map(|index| order.rows.row(index));
                into.sort(rows.zip(0..));
            }
            (Shuffle::Chunks | Shuffle::Window, _) => self.window(begin, end, into),
            _ if begin < end => self.follow(begin, 0..end - begin, into),
            _ => {}
        }
    }

    /// Of a full shuffle: which of the rows that take part, of these indices, stand at these positions.
    pub fn part_rows(&self, indices: Range<u64>, positions: Range<u64>, into: &mut RowMap) {
        into.clear();
        let Some(scatter) = &self.scatter else {
            return;
        };
        let found = indices.clone().zip(scatter.positions(indices));
        for (index, position) in found.filter(|(_, position)| positions.contains(position)) {
            let place = (position - positions.start) as u32;
            into.push_mixed(self.order.rows.row(index), &[place]);
        }
    }

    /// Rows from index `from` of the rows that take part, in places that follow each other.
    fn follow(&self, from: u64, places: Range<u64>, into: &mut RowMap) {
        let rows = &self.order.rows;
        if rows.follow() {
            let count = places.end - places.start;
            into.push(rows.row(from), places.start as u32, count);
        } else {
            for (index, place) in (from..).zip(places) {
                into.push(rows.row(index), place as u32, 1);
            }
        }
    }

    fn window(&self, begin: u64, end: u64, into: &mut RowMap) {
        let order = self.order;
        let number = begin / order.window_rows;
        let Some(&(first_slot, skip)) = self.cuts.get(number as usize) else {
            return;
        };
        let window_begin = number * order.window_rows;
        let len = order.window_rows.min(order.n_rows - window_begin);
        // Chunks in the order of their rows: (index into `rows`, index into the window, length).
        let mut runs = Vec::new();
        let (mut at, mut skip) = (0, skip);
        for &chunk in &self.chunks[first_slot..] {
            if at >= len {
                break;
            }
            let from = order.begins[chunk as usize] + skip;
            let count = (order.begins[chunk as usize + 1] - from).min(len - at);
            runs.push((from, at, count));
            (at, skip) = (at + count, 0);
        }
        runs.sort_unstable();
        let wanted = begin - window_begin..end - window_begin;
        if order.shuffle == Shuffle::Chunks {
            for (from, at, count) in runs {
                let (low, high) = (at.max(wanted.start), (at + count).min(wanted.end));
                if low < high {
                    let places = low - wanted.start..high - wanted.start;
                    self.follow(from + (low - at), places, into);
                }
            }
            return;
        }
        let stream = STREAM_WINDOWS + number;
        let mut places: Vec<u32> = (0..len as u32).collect();
        shuffled(
            &mut SplitMix64::new(order.seed, self.epoch, stream),
            &mut places,
        );
        let whole = order.rows.follow() && wanted == (0..len);
        for (from, at, count) in runs {
            let places = &places[at as usize..(at + count) as usize];
            if whole {
                into.push_mixed(order.rows.row(from), places);
                continue;
            }
            for (index, &place) in (from..).zip(places) {
                if wanted.contains(&u64::from(place)) {
                    let place = place - wanted.start as u32;
                    into.push_mixed(order.rows.row(index), &[place]);
                }
            }
        }
    }
}

/// This many items lie in a near cache.
const NEAR_ITEMS: usize = 64 << 10;
/// Exchanges farther than that are asked for this many steps before they are made.
const AHEAD: usize = 64;

fn shuffled(random: &mut SplitMix64, items: &mut [u32]) {
    let near = items.len().min(NEAR_ITEMS);
    let far = items.len() - near;
    if far > 0 {
        let mut chosen = [0; AHEAD];
        for step in 0..far + AHEAD {
            let chosen = &mut chosen[step % AHEAD];
            if let Some(made) = step.checked_sub(AHEAD) {
                items.swap(*chosen, items.len() - 1 - made);
            }
            if step < far {
                *chosen = random.below((items.len() - step) as u64) as usize;
                prefetch(&mut items[*chosen]);
            }
        }
    }
    for last in (1..near).rev() {
        let chosen = random.below(last as u64 + 1) as usize;
        items.swap(chosen, last);
    }
}

#[cfg(test)]
mod tests;
