//! A plan's words: its header, and looking at a table without trusting where it lies.
//!
//! Law:
//! 1. The layout of the header is written by `_multitables/wire.py` and read in plan.rs.
//! 2. An offset or a product that a plan's numbers make is checked here, before it is used.

use crate::os::memory::Mapping;
use std::sync::Arc;

/// Why a plan is refused.
pub type Refused = &'static str;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) magic: u64,
    pub(super) total_bytes: u64,
    pub(super) n_members: u64,
    pub(super) n_tasks: u64,
    pub(super) n_chunks: u64,
    pub(super) n_words: u64,
    pub(super) n_blob: u64,
    pub(super) n_readers: u64,
    pub(super) n_slots: u64,
    pub(super) first_row: u64,
    pub(super) lap_rows: u64,
    pub(super) end_row: u64,
    pub(super) capacity_rows: u64,
    pub(super) block_rows: u64,
    pub(super) control_bytes: u64,
    pub(super) ring_bytes: u64,
    pub(super) n_listed: u64,
    pub(super) order_at: u64,
    pub(super) n_order: u64,
    /// Not zero: blocks end with the lap, the last one of each may be shorter.
    pub(super) lap_blocks: u64,
    pub(super) keep_bytes: u64,
    pub(super) reserved: [u64; 3],
}

/// `count` items of a table from number `at`.
pub(super) fn part<T>(all: &[T], at: u64, count: u64) -> Result<&[T], Refused> {
    let end = at
        .checked_add(count)
        .ok_or("an offset of the plan overflows")?;
    all.get(at as usize..end as usize)
        .ok_or("an offset of the plan is out of range")
}

/// A product of numbers, which may be anything.
pub(super) fn product(factors: &[u64], start: u64) -> Result<u64, Refused> {
    factors
        .iter()
        .try_fold(start, |all, &n| all.checked_mul(n))
        .ok_or("an extent of the plan overflows")
}

/// A table in the memory of a plan.
///
/// # Safety
/// `count` records of `T` from byte `at` must lie inside the mapping, aligned for `T`, and `T` must
/// be valid for any bytes.
pub(super) unsafe fn table<T>(map: &Mapping, at: usize, count: u64) -> &[T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(map.base().add(at).cast::<T>(), count as usize) }
}

/// A plan's table of words, which keeps the plan's memory.
pub(super) struct Table {
    pub(super) map: Arc<Mapping>,
    pub(super) at: usize,
    pub(super) count: u64,
}

impl AsRef<[u64]> for Table {
    fn as_ref(&self) -> &[u64] {
        // SAFETY: the range was checked in `Plan::over` before this was made, and is aligned for words;
        // the bytes do not change.
        unsafe { table::<u64>(&self.map, self.at, self.count) }
    }
}
