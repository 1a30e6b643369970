//! Whole rows, copied to the places that an order gives them.
//!
//! Law:
//! 1. Pure copying between two slices that the caller gives; nothing is allocated or kept.
//! 2. Places are random, and a cache that is not told of them in time makes the copy twice as long:
//!    rows to come are asked for before they are written.

use crate::order::Seat;

/// How many rows ahead a place is asked for, and how much of it.
const AHEAD: usize = 3;
const AHEAD_BYTES: usize = 1024;

/// Copy rows of `size` bytes, of which the first is row `first`, to their places.
pub fn copy(seats: &[Seat], first: u64, rows: &[u8], window: &mut [u8], size: usize) {
    match size {
        1 => copy_rows::<1>(seats, first, rows, window),
        2 => copy_rows::<2>(seats, first, rows, window),
        4 => copy_rows::<4>(seats, first, rows, window),
        8 => copy_rows::<8>(seats, first, rows, window),
        16 => copy_rows::<16>(seats, first, rows, window),
        size => copy_runs(seats, first, rows, window, size),
    }
}

fn copy_rows<const N: usize>(seats: &[Seat], first: u64, rows: &[u8], window: &mut [u8]) {
    for seat in seats {
        let (from, to) = ((seat.row - first) as usize * N, seat.place as usize * N);
        window[to..to + N].copy_from_slice(&rows[from..from + N]);
    }
}

/// Rows that lie side by side on both sides are copied at once.
fn copy_runs(seats: &[Seat], first: u64, rows: &[u8], window: &mut [u8], size: usize) {
    let mut at = 0;
    while at < seats.len() {
        if let Some(ahead) = seats.get(at + AHEAD) {
            let to = ahead.place as usize * size;
            prefetch(&mut window[to..to + size.min(AHEAD_BYTES)]);
        }
        let (row, place) = (seats[at].row, seats[at].place);
        let mut len = 1;
        while let Some(next) = seats.get(at + len) {
            if next.row != row + len as u64 || next.place != place + len as u32 {
                break;
            }
            len += 1;
        }
        let (from, to) = ((row - first) as usize * size, place as usize * size);
        window[to..to + len * size].copy_from_slice(&rows[from..from + len * size]);
        at += len;
    }
}

/// Ask for these bytes, which are to be written soon: their places in memory are random.
#[cfg(target_arch = "x86_64")]
fn prefetch(bytes: &mut [u8]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    for line in bytes.chunks(64) {
        // SAFETY: a hint, which reads and writes nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch(_bytes: &mut [u8]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_every_size_come_to_their_places() {
        for size in [1, 2, 3, 4, 8, 16, 20, 100, 3000] {
            let rows: Vec<u8> = (0..51 * size).map(|at| (at * 7 % 251) as u8).collect();
            // Runs of three, the last first; some rows are not wanted.
            let seats: Vec<Seat> = (0..51)
                .filter(|row| row % 7 != 2)
                .map(|row| Seat {
                    row: 1000 + u64::from(row),
                    place: (16 - row / 3) * 3 + row % 3,
                })
                .collect();
            let mut window = vec![0; 51 * size];
            copy(&seats, 1000, &rows, &mut window, size);
            for place in 0..51 {
                let seat = seats.iter().find(|seat| seat.place as usize == place);
                let wanted = seat.map_or(vec![0; size], |seat| {
                    let from = (seat.row - 1000) as usize * size;
                    rows[from..from + size].to_vec()
                });
                assert_eq!(window[place * size..(place + 1) * size], wanted, "{size}");
            }
        }
    }
}
