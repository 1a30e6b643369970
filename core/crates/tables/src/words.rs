//! Tables of words, looked at without trusting where they say they lie.
//!
//! Law:
//! 1. An offset or a product that a table's numbers make is checked here, before it is used.
//! 2. What is looked at never changes: nobody can write it any more, or it is this process's own. What
//!    lies in memory that others may write is copied first, so what was checked is what is read.

use os::memory::Mapping;
use std::sync::Arc;

/// Why a table is refused.
pub type Refused = &'static str;

/// Where tables lie: aligned for words, and in one place for as long as it lives.
#[derive(Clone, Debug)]
pub enum Memory {
    /// Of a memfd that is sealed against writing (`Plan::mapped`).
    Sealed(Arc<Mapping>),
    Private(Arc<Vec<u64>>),
}

impl Memory {
    /// A copy of bytes, padded to whole words.
    pub fn copied(bytes: &[u8]) -> Memory {
        Memory::Private(Arc::new(words_of(bytes).collect()))
    }

    /// A copy of `len` bytes from `at` of memory that another process may write meanwhile.
    pub fn taken(map: &Mapping, at: usize, len: usize) -> Result<Memory, Refused> {
        if at % 8 != 0 || at.checked_add(len).is_none_or(|end| end > map.len()) {
            return Err("a table lies outside its memory");
        }
        Ok(Memory::Private(Arc::new(map.words(at, len))))
    }

    fn base(&self) -> *const u8 {
        match self {
            Memory::Sealed(map) => map.base(),
            Memory::Private(words) => words.as_ptr().cast(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Memory::Sealed(map) => map.len(),
            Memory::Private(words) => 8 * words.len(),
        }
    }
}

/// Bytes as words, the last one filled up with zeros.
pub(super) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let whole = bytes.chunks_exact(8);
    let mut last = [0; 8];
    last[..whole.remainder().len()].copy_from_slice(whole.remainder());
    let words = whole.map(|word| u64::from_ne_bytes(word.try_into().unwrap_or_default()));
    words.chain(std::iter::once(u64::from_ne_bytes(last)))
}

/// Append records, which are plain words, to words.
pub(super) fn put<T: Copy>(table: &mut Vec<u64>, records: &[T]) {
    // SAFETY: the records of tables are `repr(C)`, of whole words or of two halves of one, so they have
    // neither gaps nor another alignment than words.
    let words = unsafe {
        let count = size_of_val(records) / size_of::<u64>();
        std::slice::from_raw_parts(records.as_ptr().cast::<u64>(), count)
    };
    table.extend_from_slice(words);
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
/// `T` must be plain words, and the memory's bytes must not change.
pub(super) unsafe fn header<T: Copy>(map: &Memory, at: usize, len: usize) -> Result<T, Refused> {
    if len < size_of::<T>() {
        return Err("the plan is shorter than its header");
    }
    if at % 8 != 0 || at.checked_add(len).is_none_or(|end| end > map.len()) {
        return Err("the plan lies outside its memory");
    }
    // SAFETY: the memory is aligned for words, and so is `at`; a header lies there, as just
    // checked; the rest is the caller's promise.
    Ok(unsafe { *map.base().add(at).cast::<T>() })
}

/// A table in the memory of a plan.
///
/// # Safety
/// `count` records of `T` from byte `at` must lie inside the memory, aligned for `T`, and `T` must
/// be valid for any bytes.
pub(super) unsafe fn table<T>(map: &Memory, at: usize, count: u64) -> &[T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(map.base().add(at).cast::<T>(), count as usize) }
}

/// A plan's table of words, which keeps the plan's memory.
pub(super) struct Table {
    pub(super) map: Memory,
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
