//! Which indices of an axis rows have, and what a chunk has of them.
//!
//! Law:
//! 1. Pure arithmetic on numbers that were checked where a table was opened (`check`).
//! 2. Chunks without such an index are not counted: the chunks that are left have numbers of their own,
//!    in the order of the axis.

use super::words::Refused;

/// `count` indices of an axis from `start` on, `step` apart. If `step` is negative the last one comes
/// first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AxisWindow {
    pub start: u64,
    pub step: i64,
    pub count: u64,
}

/// What a chunk has of a window: `count` indices, of which the first to be shown is `from` in the chunk
/// and `to` in the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    pub from: u64,
    pub to: u64,
    pub count: u64,
}

impl AxisWindow {
    pub fn whole(dim: u64) -> AxisWindow {
        AxisWindow {
            start: 0,
            step: 1,
            count: dim,
        }
    }

    pub fn is_whole(&self, dim: u64) -> bool {
        *self == AxisWindow::whole(dim)
    }

    /// The window of these words, if it lies inside an axis.
    pub fn check(words: &[u64], dim: u64) -> Result<AxisWindow, Refused> {
        let &[start, step, count] = words else {
            return Err("an axis of the plan has no window");
        };
        let window = AxisWindow {
            start,
            step: step as i64,
            count,
        };
        let reach = window.distance().checked_mul(count.saturating_sub(1));
        let last = reach.and_then(|reach| reach.checked_add(start));
        match step != 0 && (count == 0 || last.is_some_and(|last| last < dim)) {
            true => Ok(window),
            false => Err("a window of the plan lies outside its axis"),
        }
    }

    fn distance(&self) -> u64 {
        self.step.unsigned_abs()
    }

    /// Chunks of this extent that have any of the indices.
    pub fn n_chunks(&self, extent: u64) -> u64 {
        match self.count {
            0 => 0,
            count if self.distance() > extent => count,
            count => {
                let last = self.start + self.distance() * (count - 1);
                last / extent - self.start / extent + 1
            }
        }
    }

    /// The first index of the one of this number.
    pub fn chunk_start(&self, number: u64, extent: u64) -> u64 {
        match self.distance() > extent {
            true => (self.start + number * self.distance()) / extent * extent,
            false => (self.start / extent + number) * extent,
        }
    }

    /// What a chunk of this extent has that begins at index `begin`.
    pub fn overlap(&self, begin: u64, extent: u64) -> Overlap {
        let before = |end: u64| {
            let rest = end.saturating_sub(self.start);
            rest.div_ceil(self.distance()).min(self.count)
        };
        let (low, high) = (before(begin), before(begin.saturating_add(extent)));
        if low == high {
            return Overlap {
                from: 0,
                to: 0,
                count: 0,
            };
        }
        let (first, to) = match self.step > 0 {
            true => (low, low),
            false => (high - 1, self.count - high),
        };
        Overlap {
            from: self.start + first * self.distance() - begin,
            to,
            count: high - low,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The indices that a row shows.
    fn indices(window: &AxisWindow) -> Vec<u64> {
        let numbers = (0..window.count).map(|n| window.start + n * window.distance());
        match window.step > 0 {
            true => numbers.collect(),
            false => numbers.rev().collect(),
        }
    }

    /// Every window of an axis.
    fn windows(dim: u64) -> Vec<AxisWindow> {
        let mut all = Vec::new();
        for start in 0..dim.max(1) {
            for step in (-5i64..6).filter(|step| *step != 0) {
                let words = |count| [start, step as u64, count];
                let checked = (0..=dim).map(|count| AxisWindow::check(&words(count), dim));
                all.extend(checked.filter_map(Result::ok));
            }
        }
        all
    }

    #[test]
    fn chunks_share_out_the_indices() {
        for window in (0..12).flat_map(windows) {
            let shown = indices(&window);
            for extent in 1..7 {
                let (mut found, mut ends) = (vec![u64::MAX; shown.len()], 0);
                for number in 0..window.n_chunks(extent) {
                    let begin = window.chunk_start(number, extent);
                    assert!(begin % extent == 0 && begin >= ends);
                    ends = begin + extent;
                    let part = window.overlap(begin, extent);
                    assert!(part.count > 0, "{window:?} in chunks of {extent}");
                    for n in 0..part.count {
                        let at = part.from.wrapping_add_signed(n as i64 * window.step);
                        assert!(at < extent);
                        found[(part.to + n) as usize] = begin + at;
                    }
                }
                assert_eq!(found, shown, "{window:?} in chunks of {extent}");
            }
        }
    }

    #[test]
    fn windows_outside_their_axis_are_refused() {
        let backward = (-1i64) as u64;
        for words in [
            &[0, 1][..],
            &[0, 0, 1],
            &[4, 1, 1],
            &[0, 1, 5],
            &[1, 3, 2],
            &[1, u64::MAX, 1 << 63],
            &[u64::MAX, backward, 2],
            &[0, 1 << 63, 2],
        ] {
            assert!(AxisWindow::check(words, 4).is_err(), "{words:?}");
        }
        assert!(AxisWindow::check(&[3, backward, 1], 4).is_ok());
    }
}
