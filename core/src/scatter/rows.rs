//! Whole rows, copied to the places that an order gives them.
//!
//! Law:
//! 1. Pure copying between two slices that the caller gives; nothing is allocated or kept.
//! 2. Places are random, and a cache that is not told of them in time makes the copy twice as long:
//!    rows to come are asked for before they are written. Where the window is too large for a cache
//!    to keep, they are written past it.

use crate::os::prefetch::{prefetch, prefetch_bytes};
use crate::shuffle::row_map::RowMap;
use std::ops::Range;

/// How many rows ahead a place is asked for, and how much of it.
const AHEAD: usize = 3;
const AHEAD_BYTES: usize = 1024;

/// Places of small rows are asked for so many at a time.
const SMALL_AHEAD: usize = 64;

/// In windows of so many bytes, rows of so many are written past the caches. (Batches then come at
/// 1.14 to 1.44 of the rate, and at 1.05 to 1.29 to a loop that reads them. With windows of 8 MiB on
/// a calm host that loop went at 0.86, and on a busy one at 1.16.)
const FAR_WINDOW: usize = 32 << 20;
const FAR_ROW: usize = 256;

/// Rows of a window: all of them, and the indices of those that are meant.
pub type Part<'a> = (&'a RowMap, Range<usize>);

/// Copy rows of `size` bytes, of which the first is row `first`, to their places.
pub fn copy(part: Part<'_>, first: u64, rows: &[u8], window: &mut [u8], size: usize) {
    match size {
        size if !part.0.is_mixed() => copy_runs(part, first, rows, window, size),
        1 => copy_rows::<1>(part, first, rows, window),
        2 => copy_rows::<2>(part, first, rows, window),
        4 => copy_rows::<4>(part, first, rows, window),
        8 => copy_rows::<8>(part, first, rows, window),
        16 => copy_rows::<16>(part, first, rows, window),
        size => copy_runs(part, first, rows, window, size),
    }
}

fn copy_rows<const N: usize>(part: Part<'_>, first: u64, rows: &[u8], window: &mut [u8]) {
    let (seats, range) = part;
    for begin in range.clone().step_by(SMALL_AHEAD) {
        let range = begin..(begin + SMALL_AHEAD).min(range.end);
        seats.each(range.clone(), |_, place| {
            prefetch(&mut window[place as usize * N]);
        });
        seats.each(range, |row, place| {
            let (from, to) = ((row - first) as usize * N, place as usize * N);
            window[to..to + N].copy_from_slice(&rows[from..from + N]);
        });
    }
}

/// Rows that lie side by side on both sides are copied at once.
fn copy_runs(part: Part<'_>, first: u64, rows: &[u8], window: &mut [u8], size: usize) {
    let (seats, range) = part;
    let is_far = is_far(window.len(), size);
    let mut runs = seats.runs(range);
    while let Some(run) = runs.next() {
        if let Some(place) = runs.ahead(AHEAD).filter(|_| !is_far) {
            let to = place as usize * size;
            prefetch_bytes(&mut window[to..to + size.min(AHEAD_BYTES)]);
        }
        let (from, to) = ((run.row - first) as usize * size, run.place as usize * size);
        let rows = &rows[from..from + run.rows * size];
        let places = &mut window[to..to + run.rows * size];
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
    cfg!(target_arch = "x86_64") && window_bytes >= FAR_WINDOW && row_bytes >= FAR_ROW
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
mod tests {
    use super::*;

    #[test]
    fn rows_come_to_far_places() {
        for size in [FAR_ROW, 300, 1000, 1024] {
            let count = FAR_WINDOW / size + 1;
            let rows: Vec<u8> = (0..64 * size).map(|at| (at * 7 % 251) as u8).collect();
            let pairs = (0..64).map(|row| (1000 + u64::from(row), row * 7919 % count as u32));
            let mut seats = RowMap::default();
            (pairs.clone()).for_each(|(row, place)| seats.push_mixed(row, &[place]));
            let mut window = vec![0xA5; count * size];
            assert!(is_far(window.len(), size) == cfg!(target_arch = "x86_64"));
            copy((&seats, 0..64), 1000, &rows, &mut window, size);
            let mut expected = vec![0xA5; count * size];
            for (row, place) in pairs {
                let (from, to) = ((row - 1000) as usize * size, place as usize * size);
                expected[to..to + size].copy_from_slice(&rows[from..from + size]);
            }
            assert!(window == expected, "{size} bytes");
        }
    }

    #[test]
    fn bytes_are_copied_past_the_caches_from_and_to_anywhere() {
        let bytes: Vec<u8> = (0..1000).map(|at| (at * 7 % 251) as u8).collect();
        for from in [0, 1, 15, 16, 33] {
            for to in 0..130 {
                for len in [0, 1, 15, 63, 64, 65, 127, 128, 129, 200, 700] {
                    let mut out = vec![0xA5; 1000];
                    copy_past_caches(&bytes[from..from + len], &mut out[to..to + len]);
                    end_copies_past_caches();
                    assert!(out[to..to + len] == bytes[from..from + len]);
                    let others = out[..to].iter().chain(&out[to + len..]);
                    assert!(others.into_iter().all(|&byte| byte == 0xA5));
                }
            }
        }
    }

    #[test]
    fn rows_of_every_size_come_to_their_places() {
        for size in [1, 2, 3, 4, 8, 16, 20, 100, 3000] {
            let rows: Vec<u8> = (0..51 * size).map(|at| (at * 7 % 251) as u8).collect();
            // Runs of three, the last first; some rows are not wanted.
            let pairs: Vec<(u64, u32)> = (0..51)
                .filter(|row| row % 7 != 2)
                .map(|row| (1000 + u64::from(row), (16 - row / 3) * 3 + row % 3))
                .collect();
            let (mut runs, mut mixed) = (RowMap::default(), RowMap::default());
            for &(row, place) in &pairs {
                runs.push(row, place, 1);
                mixed.push_mixed(row, &[place]);
            }
            for seats in [runs, mixed] {
                let mut window = vec![0; 51 * size];
                for range in [0..20, 20..pairs.len()] {
                    copy((&seats, range), 1000, &rows, &mut window, size);
                }
                for place in 0..51 {
                    let pair = pairs.iter().find(|pair| pair.1 as usize == place);
                    let wanted = pair.map_or(vec![0; size], |pair| {
                        let from = (pair.0 - 1000) as usize * size;
                        rows[from..from + size].to_vec()
                    });
                    assert_eq!(window[place * size..(place + 1) * size], wanted, "{size}");
                }
            }
        }
    }
}
