//! Copies from a decoded chunk to rows of which it holds a small part each.
//!
//! Law:
//! 1. All distances are worked out once for a chunk, so that the loops over its rows divide nothing.
//! 2. What is contiguous on both sides is copied at once, runs of the common sizes by single moves.
//! 3. A copy is checked as a whole, before its first byte.
//! 4. Pure copying between two slices that the caller gives. That no product of a member's numbers is too
//!    large is checked where a plan is opened (`tables::dataset`).

use crate::os::prefetch::{prefetch, prefetch_bytes};
use crate::scatter::rows::Part;
use crate::tables::plan::Member;
use std::ops::Range;

/// Rows in far places are asked for so many at a time.
const AHEAD: usize = 64;
/// Where chunks beside each other have this of a row between them, ...
const NEAR_BYTES: usize = 512;
/// ... so many rows are asked for while as many before them are copied.
const NEAR_AHEAD: usize = 16;

/// The runs of a row are listed where a chunk has so many rows, ...
const LISTED_ROWS: u64 = 8;
/// ... and a row no more runs than this.
const MAX_LISTED: usize = 1024;

/// Call a function that is made for runs of a size, or, with 0, for those of any.
macro_rules! of_size {
    ($run:expr, $function:ident($($argument:expr),*)) => {
        match $run {
            1 => Self::$function::<1>($($argument),*),
            2 => Self::$function::<2>($($argument),*),
            3 => Self::$function::<3>($($argument),*),
            4 => Self::$function::<4>($($argument),*),
            8 => Self::$function::<8>($($argument),*),
            12 => Self::$function::<12>($($argument),*),
            16 => Self::$function::<16>($($argument),*),
            32 => Self::$function::<32>($($argument),*),
            64 => Self::$function::<64>($($argument),*),
            _ => Self::$function::<0>($($argument),*),
        }
    };
}

/// So many runs or rows of runs, and the bytes from each to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    count: usize,
    from: usize,
    to: usize,
}

/// Where the elements of a chunk go in rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strides {
    /// What a row is made of, the innermost axis first.
    axes: Vec<Axis>,
    /// Where each run of a row begins, in the chunk and in the row, if this is quicker than the axes.
    runs: Vec<(u32, u32)>,
    /// Bytes that lie together on both sides.
    run: usize,
    /// Where the first run lies in a row of the chunk, and in the row.
    from: usize,
    to: usize,
    /// Bytes from there to the end of the last run.
    from_reach: usize,
    to_reach: usize,
    /// Bytes of a row of the chunk, and of the row.
    from_row: usize,
    to_row: usize,
}

/// A decoded chunk, whose first row is row `first` of the dataset.
pub struct Piece<'a> {
    pub strides: &'a Strides,
    pub first: u64,
    pub decoded: &'a [u8],
}

impl Strides {
    /// Those of the chunk whose first element this is.
    pub fn of(member: &Member, offset: &[u64]) -> Strides {
        let mut strides = Strides {
            axes: Vec::new(),
            runs: Vec::new(),
            run: member.field_bytes,
            from: member.field_offset,
            to: 0,
            from_reach: 0,
            to_reach: 0,
            from_row: 0,
            to_row: 0,
        };
        let (mut from, mut to) = (member.element_bytes, member.field_bytes);
        for axis in (1..member.dims.len()).rev() {
            let (dim, chunk) = (member.dims[axis], member.chunk_dims[axis]);
            strides.to += offset[axis] as usize * to;
            let count = dim.saturating_sub(offset[axis]).min(chunk) as usize;
            strides.push(Axis { count, from, to });
            (from, to) = (from * chunk as usize, to * dim as usize);
        }
        (strides.from_row, strides.to_row) = (from, to);
        strides.from_reach = strides.reach(|axis| axis.from);
        strides.to_reach = strides.reach(|axis| axis.to);
        if member.chunk_dims[0] >= LISTED_ROWS {
            strides.list();
        }
        strides
    }

    /// List the runs of a row, where the loops over short axes would cost more than the list.
    fn list(&mut self) {
        let count: usize = self.axes.iter().map(|axis| axis.count).product();
        let is_far = self.from_reach.max(self.to_reach) > u32::MAX as usize;
        if self.axes.len() < 2 || count > MAX_LISTED || is_far {
            return;
        }
        self.runs.push((0, 0));
        for axis in &self.axes {
            let inner = self.runs.len();
            for i in 1..axis.count {
                let (from, to) = ((i * axis.from) as u32, (i * axis.to) as u32);
                for run in 0..inner {
                    let (a, b) = self.runs[run];
                    self.runs.push((a + from, b + to));
                }
            }
        }
    }

    /// Put an axis around those that there are.
    fn push(&mut self, axis: Axis) {
        match self.axes.last_mut() {
            _ if axis.count == 1 => {}
            None if axis.from == self.run && axis.to == self.run => {
                self.run *= axis.count;
            }
            Some(last)
                if last.from * last.count == axis.from && last.to * last.count == axis.to =>
            {
                last.count *= axis.count;
            }
            _ => self.axes.push(axis),
        }
    }

    fn reach(&self, distance: impl Fn(&Axis) -> usize) -> usize {
        let last = |axis: &Axis| axis.count.saturating_sub(1) * distance(axis);
        self.axes.iter().map(last).sum::<usize>() + self.run
    }

    /// Of each row the chunk has only runs of fewer bytes than this.
    pub fn has_less_than(&self, bytes: usize) -> bool {
        self.run < bytes && self.to_reach < self.to_row
    }

    /// Copy to these rows, which follow each other, from row `first` of the chunk on.
    pub fn copy(&self, decoded: &[u8], first: u64, rows: &mut [u8]) {
        let count = rows.len() / self.to_row.max(1);
        of_size!(self.run, copy_rows(self, decoded, first, count, rows))
    }

    fn copy_rows<const N: usize>(&self, decoded: &[u8], first: u64, count: usize, rows: &mut [u8]) {
        if count == 0 || self.is_empty() {
            return;
        }
        let decoded = &decoded[first as usize * self.from_row + self.from..];
        let decoded = &decoded[..reach(count, self.from_row, self.from_reach)];
        let rows = &mut rows[self.to..][..reach(count, self.to_row, self.to_reach)];
        if self.run == self.from_row && self.run == self.to_row {
            return rows.copy_from_slice(decoded);
        }
        let (from, to) = (decoded.as_ptr(), rows.as_mut_ptr());
        if self.axes.is_empty() {
            let rows = [Axis {
                count,
                from: self.from_row,
                to: self.to_row,
            }];
            // SAFETY: the slices hold what these rows reach, as just cut.
            return unsafe { cursor::<N>(&rows, self.run, from, to) };
        }
        for row in 0..count {
            let (a, b) = (row * self.from_row, row * self.to_row);
            // SAFETY: the slices hold what these rows reach, as just cut.
            unsafe { self.copy_row::<N>(from.add(a), to.add(b)) };
        }
    }

    /// # Safety
    /// Memory to read and to write reaches as far as a row does.
    #[inline]
    unsafe fn copy_row<const N: usize>(&self, from: *const u8, to: *mut u8) {
        if self.axes.is_empty() {
            // SAFETY: the caller's promise.
            return unsafe { copy::<N>(from, to, self.run) };
        }
        if self.runs.is_empty() {
            // SAFETY: the caller's promise.
            return unsafe { cursor::<N>(&self.axes, self.run, from, to) };
        }
        for &(a, b) in &self.runs {
            // SAFETY: the caller's promise: runs are what the axes reach.
            unsafe { copy::<N>(from.add(a as usize), to.add(b as usize), self.run) };
        }
    }

    /// Copy each wanted row to its place in a window; row `first` of the dataset is the chunk's first.
    pub fn scatter(&self, decoded: &[u8], first: u64, part: Part<'_>, window: &mut [u8]) {
        let (seats, range) = part;
        if !seats.is_mixed() {
            for run in seats.runs(range) {
                let at = run.place as usize * self.to_row;
                let rows = &mut window[at..at + run.rows * self.to_row];
                self.copy(decoded, run.row - first, rows);
            }
            return;
        }
        let part = (seats, range);
        of_size!(self.run, scatter_rows(self, decoded, first, part, window))
    }

    fn scatter_rows<const N: usize>(
        &self,
        decoded: &[u8],
        first: u64,
        (seats, range): Part<'_>,
        window: &mut [u8],
    ) {
        if self.is_empty() {
            return;
        }
        for begin in range.clone().step_by(AHEAD) {
            let range = begin..(begin + AHEAD).min(range.end);
            seats.each(range.clone(), |_, place| {
                prefetch(&mut window[place as usize * self.to_row + self.to]);
            });
            seats.each(range, |row, place| {
                let from = (row - first) as usize * self.from_row + self.from;
                let to = place as usize * self.to_row + self.to;
                let from = &decoded[from..][..self.from_reach];
                let to = &mut window[to..][..self.to_reach];
                // SAFETY: the slices hold what a row reaches, as just cut.
                unsafe { self.copy_row::<N>(from.as_ptr(), to.as_mut_ptr()) };
            });
        }
    }

    /// Scatter several chunks of the same rows. The rows `ahead` come next.
    pub fn scatter_all(
        pieces: &[Piece<'_>],
        (seats, range): Part<'_>,
        ahead: Range<usize>,
        window: &mut [u8],
    ) {
        let all = || pieces.iter().map(|piece| piece.strides);
        let begin = all().map(|strides| strides.to).min().unwrap_or(0);
        let end = all().map(|strides| strides.to + strides.to_reach).max();
        let span = begin..end.unwrap_or(0);
        let run = pieces.first().map_or(0, |piece| piece.strides.run);
        let is_alike = all().all(|strides| strides.run == run && !strides.is_empty());
        if seats.is_mixed() && is_alike && span.len() <= NEAR_BYTES {
            return of_size!(
                run,
                scatter_near(pieces, &span, (seats, range), ahead, window)
            );
        }
        for piece in pieces {
            let part = (seats, range.clone());
            piece
                .strides
                .scatter(piece.decoded, piece.first, part, window);
        }
    }

    /// Copy row by row what the pieces have of it, which lies in `span`.
    fn scatter_near<const N: usize>(
        pieces: &[Piece<'_>],
        span: &Range<usize>,
        (seats, range): Part<'_>,
        ahead: Range<usize>,
        window: &mut [u8],
    ) {
        let Some(size) = pieces.first().map(|piece| piece.strides.to_row) else {
            return;
        };
        for begin in range.clone().step_by(NEAR_AHEAD) {
            let end = (begin + NEAR_AHEAD).min(range.end);
            let next = if end < range.end {
                end..range.end
            } else {
                ahead.clone()
            };
            let next = next.start..next.end.min(next.start + NEAR_AHEAD);
            seats.each(next, |_, place| {
                prefetch_bytes(&mut window[place as usize * size..][span.clone()]);
            });
            seats.each(begin..end, |row, place| {
                let to_row = &mut window[place as usize * size..][..size];
                for piece in pieces {
                    let strides = piece.strides;
                    let from = (row - piece.first) as usize * strides.from_row + strides.from;
                    let from = &piece.decoded[from..][..strides.from_reach];
                    let to = &mut to_row[strides.to..][..strides.to_reach];
                    // SAFETY: the slices hold what a row reaches, as just cut.
                    unsafe { strides.copy_row::<N>(from.as_ptr(), to.as_mut_ptr()) };
                }
            });
        }
    }

    /// There is nothing to copy.
    fn is_empty(&self) -> bool {
        self.run == 0 || self.axes.iter().any(|axis| axis.count == 0)
    }
}

/// What rows reach of which each reaches so many bytes.
fn reach(rows: usize, distance: usize, each: usize) -> usize {
    (rows - 1) * distance + each
}

/// Copy all runs of some axes. Of `N` bytes, if that is not 0.
///
/// # Safety
/// Memory to read and to write reaches as far as the axes and the last run do.
unsafe fn cursor<const N: usize>(axes: &[Axis], run: usize, from: *const u8, to: *mut u8) {
    match axes {
        // SAFETY: the caller's promise.
        [] => unsafe { copy::<N>(from, to, run) },
        [line] => {
            for i in 0..line.count {
                // SAFETY: inside what the axis reaches.
                unsafe { copy::<N>(from.add(i * line.from), to.add(i * line.to), run) };
            }
        }
        [inner @ .., outer] => {
            for i in 0..outer.count {
                // SAFETY: inside what the axis reaches.
                unsafe { cursor::<N>(inner, run, from.add(i * outer.from), to.add(i * outer.to)) };
            }
        }
    }
}

/// Copy a run: of `N` bytes, if that is not 0.
///
/// # Safety
/// So many bytes may be read and written, and are not the same.
#[inline(always)]
unsafe fn copy<const N: usize>(from: *const u8, to: *mut u8, run: usize) {
    let len = if N == 0 { run } else { N };
    // SAFETY: the caller's promise.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}

#[cfg(test)]
pub mod tests;
