//! Decoded chunks that hold parts of the same rows, brought there together.
//!
//! Law:
//! 1. A chunk that has little of each row waits for the other chunks of these rows. They are copied some
//!    rows at a time, so that neighbours in a row are written while it is in a core's cache.
//! 2. Knows neither files nor tapes: the caller says which rows a chunk has, and copies when told.

use crate::scatter::rows::{Piece, RowCopy};
use std::ops::Range;

/// Chunks wait if the contiguous items that they have of a row are shorter than this.
pub const LITTLE_BYTES: usize = 256;
/// The most bytes that wait; chunks of more than half of it would wait for nothing.
const MAX_BYTES: usize = 1 << 20;
/// Rows that are copied at a time.
const ROWS: u64 = 64;

/// A chunk that waits.
struct Part {
    copy: RowCopy,
    /// The dataset's row with which it begins.
    first: u64,
    bytes: Range<usize>,
}

/// The chunks that wait.
#[derive(Default)]
pub struct Interleaver {
    /// All have these rows.
    rows: Range<u64>,
    parts: Vec<Part>,
    bytes: Vec<u8>,
}

impl Interleaver {
    /// Whether a chunk of `len` bytes should wait.
    pub fn wants(copy: &RowCopy, len: usize) -> bool {
        len <= MAX_BYTES / 2 && copy.has_less_than(LITTLE_BYTES)
    }

    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether there is room for a chunk of these rows and bytes. Otherwise those that wait are to be
    /// copied first.
    pub fn has_room(&self, rows: &Range<u64>, len: usize) -> bool {
        self.parts.is_empty() || self.rows == *rows && self.bytes.len() + len <= MAX_BYTES
    }

    pub fn add(&mut self, rows: Range<u64>, copy: RowCopy, first: u64, decoded: &[u8]) {
        self.rows = rows;
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(decoded);
        self.parts.push(Part {
            copy,
            first,
            bytes: begin..self.bytes.len(),
        });
    }

    /// Call `copy(rows, ahead, chunks)` for some rows of all chunks in turn, until all are copied; the
    /// rows `ahead` are those of the next call. Nothing waits then.
    pub fn copy(&mut self, mut copy: impl FnMut(Range<u64>, Range<u64>, &[Piece<'_>])) {
        let pieces = self.parts.iter().map(|part| Piece {
            copy: &part.copy,
            first: part.first,
            decoded: &self.bytes[part.bytes.clone()],
        });
        let pieces: Vec<_> = pieces.collect();
        let rows_from = |begin: u64| begin..self.rows.end.min(begin + ROWS);
        let mut rows = rows_from(self.rows.start);
        while !rows.is_empty() && !pieces.is_empty() {
            let ahead = rows_from(rows.end);
            copy(rows, ahead.clone(), &pieces);
            rows = ahead;
        }
        self.parts.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scatter::rows::tests::dataset;

    fn row_copy() -> RowCopy {
        RowCopy::of(&dataset(&[900, 4], &[900, 2], 1, (0, 1)), &[0, 0])
    }

    #[test]
    fn all_rows_of_all_chunks_are_copied_some_at_a_time() {
        let mut interleaver = Interleaver::default();
        for number in 0..3 {
            assert!(interleaver.has_room(&(100..300), 10));
            interleaver.add(100..300, row_copy(), number, &[number as u8; 10]);
        }
        let mut told = Vec::new();
        interleaver.copy(|rows, ahead, pieces| {
            let firsts = pieces.iter().map(|piece| piece.first);
            assert!(firsts.eq(0..3));
            for piece in pieces {
                assert_eq!(piece.decoded, [piece.first as u8; 10]);
            }
            told.push((rows, ahead));
        });
        let begins = (100..300).step_by(ROWS as usize);
        let rows: Vec<_> = begins.map(|begin| begin..(begin + ROWS).min(300)).collect();
        let ahead = rows[1..].iter().cloned().chain(std::iter::once(300..300));
        let expected: Vec<_> = rows.iter().cloned().zip(ahead).collect();
        assert_eq!(told, expected);
        interleaver.copy(|_, _, _| panic!("nothing waits any more"));
    }

    #[test]
    fn large_chunks_do_not_wait() {
        assert!(Interleaver::wants(&row_copy(), MAX_BYTES / 2));
        assert!(!Interleaver::wants(&row_copy(), MAX_BYTES / 2 + 1));
    }

    #[test]
    fn those_of_other_rows_and_too_many_bytes_do_not_wait_together() {
        let mut interleaver = Interleaver::default();
        assert!(interleaver.has_room(&(0..5), 2 * MAX_BYTES));
        interleaver.add(0..5, row_copy(), 0, &vec![0; MAX_BYTES - 9]);
        assert!(interleaver.has_room(&(0..5), 9));
        assert!(!interleaver.has_room(&(0..5), 10));
        assert!(!interleaver.has_room(&(0..6), 1));
        interleaver.copy(|_, _, _| {});
        assert!(interleaver.has_room(&(5..6), 10));
    }
}
