//! Decoded rows, or a chunk's part of each, copied to the rows that a map gives them.
//!
//! Law:
//! 1. Pure copying between memory that the caller gives; nothing is kept.
//! 2. Rows go to random places, so their cache lines are asked for before they are written. Where the
//!    window is larger than the caches, long rows are written past them.
//! 3. That no product of a dataset's numbers is too large is checked where a plan is opened
//!    (`tables::dataset`).

use crate::scatter::out::Out;
use crate::scatter::strided::{Axis, MIN_LISTED_FOR, StridedCopy, of_size};
use std::ops::Range;
use tables::plan::Dataset;
use tables::shuffle::row_map::RowMap;

/// Whole rows of at most this are copied as items, longer ones run by run.
const MAX_ITEM_BYTES: usize = 16;
/// Items are asked for in groups of this many, ...
const AHEAD: usize = 64;
/// ... long rows this many runs before their turn, and this much of each.
const RUNS_AHEAD: usize = 3;
const RUN_AHEAD_BYTES: usize = 1024;

/// Where chunks of the same rows have at most this much of a row between them, ...
const NEAR_BYTES: usize = 512;
/// ... this many rows are asked for while the ones before them are copied.
const NEAR_AHEAD: usize = 16;

/// In windows of at least this size, rows of at least this size are written past the caches.
const MIN_FAR_WINDOW_BYTES: usize = 32 << 20;
const MIN_FAR_ROW_BYTES: usize = 256;

/// Rows of a window: the map of all of them, and the indices of those that are meant.
pub type Part<'a> = (&'a RowMap, Range<usize>);

/// What a chunk has of each of its rows, and where a row has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowCopy {
    row: StridedCopy,
    /// Bytes of a row of the chunk, and of a row of the result.
    from_row: usize,
    to_row: usize,
}

/// A decoded chunk, whose first row is row `first` of the dataset.
pub struct Piece<'a> {
    pub copy: &'a RowCopy,
    pub first: u64,
    pub decoded: &'a [u8],
}

impl RowCopy {
    /// Rows that are the same bytes on both sides.
    pub fn whole(row_bytes: usize) -> RowCopy {
        RowCopy {
            row: StridedCopy::item(row_bytes, 0, 0),
            from_row: row_bytes,
            to_row: row_bytes,
        }
    }

    /// Rows of the chunk whose first element this is.
    pub fn of(dataset: &Dataset, offset: &[u64]) -> RowCopy {
        let mut row = StridedCopy::item(dataset.field_bytes, dataset.field_offset, 0);
        let (mut from, mut to) = (dataset.element_bytes, dataset.field_bytes);
        for axis in (1..dataset.dims.len()).rev() {
            let (window, chunk) = (&dataset.windows[axis - 1], dataset.chunk_dims[axis]);
            let part = window.overlap(offset[axis], chunk);
            row.shift(part.from as usize * from, part.to as usize * to);
            row.push(Axis {
                count: part.count as usize,
                // Between the indices of a chunk: its step is no longer than the chunk.
                from: match part.count > 1 {
                    true => window.step as isize * from as isize,
                    false => from as isize,
                },
                to,
            });
            (from, to) = (from * chunk as usize, to * window.count as usize);
        }
        if dataset.chunk_dims[0] >= MIN_LISTED_FOR as u64 {
            row.list();
        }
        RowCopy {
            row,
            from_row: from,
            to_row: to,
        }
    }

    /// Of each row the chunk has only items of fewer bytes than this.
    pub fn has_less_than(&self, bytes: usize) -> bool {
        self.row.itemsize < bytes && self.row.to_len < self.to_row
    }

    fn is_whole(&self) -> bool {
        self.row.itemsize == self.from_row && self.row.itemsize == self.to_row
    }

    /// Copy to these rows, which follow each other, from row `first` of the chunk on.
    pub fn copy(&self, decoded: &[u8], first: u64, rows: Out<'_>) {
        let axis = Axis {
            count: rows.len() / self.to_row.max(1),
            from: self.from_row as isize,
            to: self.to_row,
        };
        let begin = first as usize * self.from_row;
        self.row.copy_along(axis, begin, decoded, 0, rows);
    }

    /// Copy each wanted row to its place in a window; row `first` of the dataset is the chunk's first.
    pub fn scatter(&self, decoded: &[u8], first: u64, part: Part<'_>, mut window: Out<'_>) {
        let (map, range) = (part.0, part.1.clone());
        let is_mixed = map.is_mixed();
        if self.is_whole() && (!is_mixed || self.row.itemsize > MAX_ITEM_BYTES) {
            return copy_runs(part, first, decoded, window, self.to_row);
        }
        if is_mixed {
            let size = self.row.itemsize;
            return of_size!(size, scatter_rows(self, decoded, first, part, window));
        }
        for run in map.runs(range) {
            let at = run.place as usize * self.to_row;
            let rows = window.cut(at..at + run.rows * self.to_row);
            self.copy(decoded, run.row - first, rows);
        }
    }

    fn scatter_rows<const N: usize>(
        &self,
        decoded: &[u8],
        first: u64,
        part: Part<'_>,
        window: Out<'_>,
    ) {
        if self.row.is_empty() {
            return;
        }
        let (row, from_row, to_row) = (&self.row, self.from_row, self.to_row);
        let begin = |number: u64| (number - first) as usize;
        // Apart, so that no more is looked up for an item than where it is.
        if N > 0 && self.is_whole() {
            each_row(part, N, 0, window, |number, to, mut window| {
                let from = begin(number) * N;
                window
                    .part(to..to + N)
                    .copy_from_slice(&decoded[from..from + N]);
            });
        } else if row.is_item() {
            let (a, b) = (row.from, row.to);
            let size = if N == 0 { row.itemsize } else { N };
            each_row(part, to_row, b, window, |number, to, mut window| {
                let (from, to) = (begin(number) * from_row + a, to + b);
                let stored = &decoded[from..from + size];
                window.part(to..to + size).copy_from_slice(stored);
            });
        } else {
            each_row(part, to_row, row.to, window, |number, to, window| {
                row.copy_block::<N>(begin(number) * from_row, decoded, to, window);
            });
        }
    }

    /// Scatter several chunks of the same rows. The rows `ahead` come next.
    pub fn scatter_all(
        pieces: &[Piece<'_>],
        (map, range): Part<'_>,
        ahead: Range<usize>,
        mut window: Out<'_>,
    ) {
        let all = || pieces.iter().map(|piece| &piece.copy.row);
        let begin = all().map(|row| row.to).min().unwrap_or(0);
        let end = all().map(|row| row.to + row.to_len).max();
        let span = begin..end.unwrap_or(0);
        let size = all().next().map_or(0, |row| row.itemsize);
        let is_alike = all().all(|row| row.itemsize == size && !row.is_empty());
        if map.is_mixed() && is_alike && span.len() <= NEAR_BYTES {
            let part = (map, range);
            return of_size!(size, scatter_near(pieces, &span, part, ahead, window));
        }
        for piece in pieces {
            let part = (map, range.clone());
            (piece.copy).scatter(piece.decoded, piece.first, part, window.lend());
        }
    }

    /// Copy row by row what the pieces have of it, which lies in `span`.
    fn scatter_near<const N: usize>(
        pieces: &[Piece<'_>],
        span: &Range<usize>,
        (map, range): Part<'_>,
        ahead: Range<usize>,
        mut window: Out<'_>,
    ) {
        let Some(size) = pieces.first().map(|piece| piece.copy.to_row) else {
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
            map.each(next, |_, place| {
                window.ask(place as usize * size + span.start, span.len());
            });
            map.each(begin..end, |row, place| {
                let at = place as usize * size;
                let mut to_row = window.cut(at..at + size);
                for piece in pieces {
                    let from = (row - piece.first) as usize * piece.copy.from_row;
                    (piece.copy.row).copy_block::<N>(from, piece.decoded, 0, to_row.lend());
                }
            });
        }
    }
}

/// Call `f(row, byte of the window, window)` for each row of a part, in groups. Byte `at` of each is
/// asked for before its group.
#[inline(always)]
fn each_row(
    (map, range): Part<'_>,
    to_row: usize,
    at: usize,
    mut window: Out<'_>,
    f: impl Fn(u64, usize, Out<'_>),
) {
    for begin in range.clone().step_by(AHEAD) {
        let range = begin..(begin + AHEAD).min(range.end);
        map.each(range.clone(), |_, place| {
            window.ask(place as usize * to_row + at, 1);
        });
        map.each(range, |row, place| {
            f(row, place as usize * to_row, window.lend())
        });
    }
}

/// Copy whole rows: those that follow each other on both sides at once.
fn copy_runs(part: Part<'_>, first: u64, rows: &[u8], mut window: Out<'_>, size: usize) {
    let (map, range) = part;
    let is_far = is_far(window.len(), size);
    let mut runs = map.runs(range);
    while let Some(run) = runs.next() {
        if let Some(place) = runs.ahead(RUNS_AHEAD).filter(|_| !is_far) {
            let to = place as usize * size;
            window.ask(to, size.min(RUN_AHEAD_BYTES));
        }
        let (from, to) = ((run.row - first) as usize * size, run.place as usize * size);
        let rows = &rows[from..from + run.rows * size];
        let places = window.part(to..to + run.rows * size);
        if is_far {
            copy_past_caches(rows, places);
        } else {
            places.copy_from_slice(rows);
        }
    }
    if is_far {
        end_copies_past_caches();
    }
}

/// Whether rows of this size leave the caches before they are read again: the window is one of two
/// that take turns.
fn is_far(window_bytes: usize, row_bytes: usize) -> bool {
    cfg!(target_arch = "x86_64")
        && window_bytes >= MIN_FAR_WINDOW_BYTES
        && row_bytes >= MIN_FAR_ROW_BYTES
}

/// Copies without reading first, into a cache, what is overwritten.
#[cfg(target_arch = "x86_64")]
fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    // SAFETY: a line is four such numbers, valid for any bytes.
    let (head, lines, tail) = unsafe { to.align_to_mut::<Line>() };
    let (of_head, rest) = from.split_at(head.len());
    let (of_lines, of_tail) = rest.split_at(size_of_val(lines));
    head.copy_from_slice(of_head);
    tail.copy_from_slice(of_tail);
    for (line, bytes) in lines.iter_mut().zip(of_lines.chunks_exact(64)) {
        for (quarter, bytes) in line.0.iter_mut().zip(bytes.chunks_exact(16)) {
            // SAFETY: sixteen bytes to read, and as many, aligned, to write; every CPU of this kind
            // has the instructions.
            unsafe { _mm_stream_si128(quarter, _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>())) };
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[repr(C, align(64))]
struct Line([std::arch::x86_64::__m128i; 4]);

/// What was copied past the caches is there for all before what follows.
#[cfg(target_arch = "x86_64")]
fn end_copies_past_caches() {
    // SAFETY: every CPU of this kind has it.
    unsafe { std::arch::x86_64::_mm_sfence() };
}

#[cfg(not(target_arch = "x86_64"))]
fn copy_past_caches(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

#[cfg(not(target_arch = "x86_64"))]
fn end_copies_past_caches() {}

#[cfg(test)]
pub mod tests;
