//! Rows of a tape, as bytes of its mapping.
//!
//! Law:
//! 1. Byte position `p` of a tape lies at `p` modulo its length; the tape is mapped twice, so that
//!    any span up to this length is contiguous.
//! 2. Knows nothing of tasks: whose rows are whose is the ring's protocol (control.rs).

use engine::scatter::out::Out;
use os::memory::Mapping;
use std::ops::Range;
use tables::plan::Tape;

/// Where some rows of the tape lie in its mapping.
pub fn tape_bytes(of: &Tape, rows: Range<u64>) -> Range<usize> {
    let len = ((rows.end - rows.start) as usize).saturating_mul(of.row_bytes);
    let (row, row_bytes) = (rows.start, of.row_bytes as u64);
    let len_bytes = of.bytes.max(1) as u64;
    let at = match row.checked_mul(row_bytes) {
        Some(at) => at % len_bytes,
        None => (u128::from(row) * u128::from(row_bytes) % u128::from(len_bytes)) as u64,
    } as usize;
    at..at.saturating_add(len)
}

/// The tape's bytes for `rows` rows from tape row `row`.
///
/// # Safety
/// The caller must own what it writes of these rows, by the ring's protocol, until it publishes or
/// returns them.
pub unsafe fn tape_rows<'a>(tape: &'a Mapping, of: &Tape, row: u64, rows: u64) -> Out<'a> {
    let bytes = tape_bytes(of, row..row + rows);
    let (at, len) = (bytes.start, bytes.len());
    assert!(len <= of.bytes && bytes.end <= tape.len());
    // SAFETY: inside the double mapping (checked above); the rest is the caller's promise.
    unsafe { Out::new(tape.base().add(at), len) }
}
