//! Tables of words in shared memory, looked at without trusting where they say they lie.
//!
//! Law:
//! 1. An offset or a product that a table's numbers make is checked here, before it is used.

use crate::os::memory::Mapping;
use std::sync::Arc;

/// Why a table is refused.
pub type Refused = &'static str;

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

/// The first byte behind `count` records of a type from byte `at`.
pub(super) fn after<T>(at: usize, count: u64) -> Result<usize, Refused> {
    usize::try_from(count)
        .ok()
        .and_then(|n| n.checked_mul(size_of::<T>()))
        .and_then(|bytes| at.checked_add(bytes))
        .ok_or("a table of the plan is too large")
}

/// A table's header, if `len` bytes from `at` are there and aligned for words.
///
/// # Safety
/// `T` must be plain words, and the mapping's bytes must not change.
pub(super) unsafe fn header<T: Copy>(map: &Mapping, at: usize, len: usize) -> Result<T, Refused> {
    if len < size_of::<T>() {
        return Err("the plan is shorter than its header");
    }
    if at % 8 != 0 || at.checked_add(len).is_none_or(|end| end > map.len()) {
        return Err("the plan lies outside its memory");
    }
    // SAFETY: the mapping is page aligned, so `at` is aligned for words; a header lies there, as just
    // checked; the rest is the caller's promise.
    Ok(unsafe { *map.base().add(at).cast::<T>() })
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
