//! What was read of a file, kept for the next question: pages, parts of heaps, links, headers.
//!
//! Law:
//! 1. Bounded in bytes. The first that was kept is the first to go, and the newest always stays. A
//!    part counts as half the bound at most, so that a large group stays with those on the way to it.
//! 2. Nobody waits for long: a process that was forked while a thread of its parent looked here finds
//!    the lock held for ever, and goes on without what is kept.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

const MAX_BYTES: u64 = 16 << 20;
/// The lock is held for less than a microsecond, unless its thread is not run meanwhile.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// Parts of a file by their offset.
pub struct Kept<T> {
    parts: Mutex<Parts<T>>,
    /// Who holds the lock is not in this process.
    is_lost: AtomicBool,
}

struct Parts<T> {
    by_offset: HashMap<u64, Arc<T>>,
    /// Offsets and bytes.
    order: VecDeque<(u64, u64)>,
    bytes: u64,
}

impl<T> Default for Kept<T> {
    fn default() -> Kept<T> {
        let parts = Parts {
            by_offset: HashMap::new(),
            order: VecDeque::new(),
            bytes: 0,
        };
        Kept {
            parts: Mutex::new(parts),
            is_lost: AtomicBool::new(false),
        }
    }
}

impl<T> Kept<T> {
    /// The part at an offset. `read` gives it and its bytes if it is not kept.
    pub fn get<E>(
        &self,
        offset: u64,
        read: impl FnOnce() -> Result<(T, u64), E>,
    ) -> Result<Arc<T>, E> {
        let known = |parts: MutexGuard<'_, Parts<T>>| parts.by_offset.get(&offset).cloned();
        if let Some(part) = self.parts().and_then(known) {
            return Ok(part);
        }
        let (part, bytes) = read()?;
        let part = Arc::new(part);
        if let Some(mut parts) = self.parts() {
            parts.keep(offset, part.clone(), bytes);
        }
        Ok(part)
    }

    fn parts(&self) -> Option<MutexGuard<'_, Parts<T>>> {
        let mut begin = None;
        while !self.is_lost.load(Ordering::Relaxed) {
            match self.parts.try_lock() {
                Ok(parts) => return Some(parts),
                Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
            if begin.get_or_insert_with(Instant::now).elapsed() > MAX_WAIT {
                self.is_lost.store(true, Ordering::Relaxed);
            }
        }
        None
    }
}

impl<T> Parts<T> {
    fn keep(&mut self, offset: u64, part: Arc<T>, bytes: u64) {
        // Another thread may have read the same part meanwhile.
        if self.by_offset.insert(offset, part).is_some() {
            return;
        }
        let bytes = bytes.min(MAX_BYTES / 2);
        self.order.push_back((offset, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        while self.bytes > MAX_BYTES && self.order.len() > 1 {
            if let Some((gone, bytes)) = self.order.pop_front() {
                self.by_offset.remove(&gone);
                self.bytes -= bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    #[test]
    fn a_lock_that_nobody_releases() {
        let kept = Kept::default();
        let _held = kept.parts.lock();
        let get = |value: u64| *kept.get(1, || Ok::<_, Infallible>((value, 8))).unwrap();
        assert_eq!([get(10), get(11)], [10, 11]);
    }

    #[test]
    fn the_oldest_goes() {
        let kept = Kept::default();
        let get = |offset, value: u64| {
            let read = || Ok::<_, Infallible>((value, MAX_BYTES / 2));
            *kept.get(offset, read).unwrap()
        };
        assert_eq!([get(1, 10), get(2, 20), get(1, 11)], [10, 20, 10]);
        assert_eq!([get(3, 30), get(2, 21), get(1, 12)], [30, 20, 12]);
    }

    #[test]
    fn a_large_part_stays_with_small_ones() {
        let kept = Kept::default();
        let get = |offset, bytes| {
            let read = || Ok::<_, Infallible>((bytes, bytes));
            *kept.get(offset, read).unwrap()
        };
        assert_eq!([get(1, 10), get(2, 9 * MAX_BYTES)], [10, 9 * MAX_BYTES]);
        assert_eq!([get(1, 11), get(2, 12)], [10, 9 * MAX_BYTES]);
    }
}
