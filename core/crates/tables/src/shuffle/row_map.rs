//! The rows of a window, in the order of the dataset, and the place of each in the window.
//!
//! Law:
//! 1. Rows ascend, and are counted by an index. A row that is wanted twice is there twice.
//! 2. Rows that follow each other are one stretch, so that it takes no memory for each of them, or,
//!    where their places are mixed, that of a place.
//! 3. Pure; knows nothing of chunks, shares or bytes.

use std::ops::Range;

/// Where a stretch begins. It ends where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Begin {
    row: u64,
    index: u32,
    /// Where places are not mixed.
    place: u32,
}

impl Begin {
    /// The row and the place that the stretch has at an index, if it reaches so far.
    fn at(&self, index: u32) -> (u64, u32) {
        let before = index - self.index;
        (self.row + u64::from(before), self.place + before)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowMap {
    begins: Vec<Begin>,
    /// The place of each row where they are mixed, otherwise empty.
    places: Vec<u32>,
    len: u32,
}

/// Rows that follow each other both in the dataset and in the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub row: u64,
    pub place: u32,
    pub rows: usize,
    /// Of its first row.
    pub index: usize,
}

impl Run {
    pub fn end_row(&self) -> u64 {
        self.row + self.rows as u64
    }
}

impl RowMap {
    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.len as usize
    }

    pub fn clear(&mut self) {
        self.begins.clear();
        self.places.clear();
        self.len = 0;
    }

    /// Add rows that follow each other, in places that do. Not together with `push_mixed`.
    pub fn push(&mut self, row: u64, place: u32, rows: u64) {
        let index = self.len;
        let follows = |last: &Begin| last.at(index) == (row, place);
        if !self.begins.last().is_some_and(follows) {
            self.begins.push(Begin { row, index, place });
        }
        self.len += rows as u32;
    }

    /// Add rows that follow each other, in these places.
    pub fn push_mixed(&mut self, row: u64, places: &[u32]) {
        let index = self.len;
        let follows = |last: &Begin| last.at(index).0 == row;
        if !self.begins.last().is_some_and(follows) {
            let place = 0;
            self.begins.push(Begin { row, index, place });
        }
        self.places.extend_from_slice(places);
        self.len += places.len() as u32;
    }

    /// Take these rows and their places, in any order, in place of what was there.
    pub fn sort(&mut self, rows: impl Iterator<Item = (u64, u32)>) {
        self.clear();
        let begin = |(row, place)| Begin {
            row,
            index: 0,
            place,
        };
        let mut sorted = std::mem::take(&mut self.begins);
        sorted.extend(rows.map(begin));
        sorted.sort_unstable_by_key(|one| one.row);
        let mut kept = 0;
        for at in 0..sorted.len() {
            let Begin { row, place, .. } = sorted[at];
            let index = at as u32;
            if kept == 0 || sorted[kept - 1].at(index) != (row, place) {
                sorted[kept] = Begin { row, index, place };
                kept += 1;
            }
        }
        self.len = sorted.len() as u32;
        sorted.truncate(kept);
        self.begins = sorted;
    }

    fn stretch_end(&self, stretch: usize) -> usize {
        (self.begins.get(stretch + 1)).map_or(self.count(), |next| next.index as usize)
    }

    /// The stretch in which an index lies.
    fn stretch_of(&self, index: usize) -> usize {
        let after = (self.begins).partition_point(|begin| begin.index as usize <= index);
        after.saturating_sub(1)
    }

    /// The row at this index, which must be one.
    pub fn row(&self, index: usize) -> u64 {
        self.begins[self.stretch_of(index)].at(index as u32).0
    }

    /// The index of the first row that is this one or a later one.
    pub fn first_from(&self, row: u64) -> usize {
        let after = self.begins.partition_point(|begin| begin.row < row);
        let Some(stretch) = after.checked_sub(1) else {
            return 0;
        };
        let begin = self.begins[stretch];
        let index = u64::from(begin.index) + (row - begin.row);
        index.min(self.stretch_end(stretch) as u64) as usize
    }

    /// Most rows that follow each other in the dataset do not in the window.
    pub fn is_mixed(&self) -> bool {
        !self.places.is_empty() || self.begins.len() > self.count() / 4
    }

    /// The rows of a range of indices.
    pub fn runs(&self, range: Range<usize>) -> Runs<'_> {
        Runs {
            map: self,
            stretch: self.stretch_of(range.start),
            range,
        }
    }

    /// Call `f(row, place)` for each row of a range of indices.
    pub fn each(&self, range: Range<usize>, mut f: impl FnMut(u64, u32)) {
        if self.places.is_empty() {
            for run in self.runs(range) {
                let rows = run.row..run.end_row();
                (rows.zip(run.place..)).for_each(|(row, place)| f(row, place));
            }
            return;
        }
        let (mut at, mut stretch) = (range.start, self.stretch_of(range.start));
        while at < range.end {
            let end = self.stretch_end(stretch).min(range.end);
            let rows = self.begins[stretch].at(at as u32).0..;
            (rows.zip(&self.places[at..end])).for_each(|(row, &place)| f(row, place));
            (at, stretch) = (end, stretch + 1);
        }
    }
}

/// The rows of a range of indices, as few runs as there are.
pub struct Runs<'a> {
    map: &'a RowMap,
    stretch: usize,
    range: Range<usize>,
}

impl Runs<'_> {
    /// The place of a row that comes about this many runs after the last one.
    pub fn ahead(&self, runs: usize) -> Option<u32> {
        let map = self.map;
        match map.places.is_empty() {
            true => Some(map.begins.get(self.stretch + runs)?.place),
            false => map.places.get(self.range.start - 1 + runs).copied(),
        }
    }
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let (map, index) = (self.map, self.range.start);
        if index >= self.range.end {
            return None;
        }
        if index >= map.stretch_end(self.stretch) {
            self.stretch += 1;
        }
        let end = map.stretch_end(self.stretch).min(self.range.end);
        let (row, place) = map.begins[self.stretch].at(index as u32);
        let (place, rows) = match map.places.get(index..end) {
            Some(places) if !places.is_empty() => {
                let follow =
                    (places.iter().zip(places[0]..)).take_while(|(place, at)| *place == at);
                (places[0], follow.count())
            }
            _ => (place, end - index),
        };
        self.range.start += rows;
        Some(Run {
            row,
            place,
            rows,
            index,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::fixtures::XorShift64;

    /// Rows ascending, places anything, against a list of pairs.
    fn check(map: &RowMap, pairs: &[(u64, u32)]) {
        assert_eq!(map.count(), pairs.len());
        for (index, pair) in pairs.iter().enumerate() {
            assert_eq!(map.row(index), pair.0);
        }
        let last = pairs.last().map_or(0, |pair| pair.0);
        for row in 0..last + 3 {
            let first = pairs.partition_point(|pair| pair.0 < row);
            assert_eq!(map.first_from(row), first, "{row}");
        }
        for begin in 0..=pairs.len() {
            for end in begin..=pairs.len() {
                let mut told = Vec::new();
                map.each(begin..end, |row, place| told.push((row, place)));
                assert_eq!(told, pairs[begin..end]);
                let mut from = begin;
                let mut before: Option<Run> = None;
                for run in map.runs(begin..end) {
                    assert!(run.index == from && run.rows > 0);
                    for (row, place) in (run.row..run.end_row()).zip(run.place..) {
                        assert_eq!(pairs[from], (row, place));
                        from += 1;
                    }
                    if let Some(last) = before.replace(run) {
                        let next = (last.end_row(), last.place + last.rows as u32);
                        assert_ne!((run.row, run.place), next, "a run in two");
                    }
                }
                assert_eq!(from, end);
            }
        }
    }

    #[test]
    fn seats_are_the_pairs_that_made_them() {
        let mut random = XorShift64(11);
        let mut map = RowMap::default();
        for case in 0..120u64 {
            let (mut row, mut place, mut pairs) = (0, 0, Vec::new());
            for _ in 0..case % 25 {
                // Follows, is there again, or lies farther on.
                row += [1, 1, 1, 0, 5][random.below(5) as usize];
                place = [place + 1, place + 1, random.below(40) as u32][random.below(3) as usize];
                pairs.push((row, place));
            }
            map.clear();
            pairs
                .iter()
                .for_each(|&(row, place)| map.push(row, place, 1));
            check(&map, &pairs);
            let runs = map.clone();
            map.clear();
            runs.runs(0..pairs.len())
                .for_each(|run| map.push(run.row, run.place, run.rows as u64));
            assert_eq!(map, runs);

            map.clear();
            for (row, place) in &pairs {
                map.push_mixed(*row, &[*place]);
            }
            check(&map, &pairs);

            let distinct = |a: &mut (u64, u32), b: &mut (u64, u32)| a.0 == b.0;
            pairs.dedup_by(distinct);
            let mut mixed = pairs.clone();
            for last in (1..mixed.len()).rev() {
                mixed.swap(last, random.below(last as u64 + 1) as usize);
            }
            map.sort(mixed.into_iter());
            check(&map, &pairs);
        }
    }
}
