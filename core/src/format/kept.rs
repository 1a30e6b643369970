//! What was read of a file, kept for the next question: pages, parts of heaps, links, headers.
//!
//! Law: bounded in bytes. The first that was kept is the first to go, and the newest always stays.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

const MAX_BYTES: u64 = 16 << 20;

/// Parts of a file by their offset.
pub struct Kept<T> {
    parts: Mutex<Parts<T>>,
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
        let parts = || self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(part) = parts().by_offset.get(&offset) {
            return Ok(part.clone());
        }
        let (part, bytes) = read()?;
        let part = Arc::new(part);
        parts().keep(offset, part.clone(), bytes);
        Ok(part)
    }
}

impl<T> Parts<T> {
    fn keep(&mut self, offset: u64, part: Arc<T>, bytes: u64) {
        // Another thread may have read the same part meanwhile.
        if self.by_offset.insert(offset, part).is_some() {
            return;
        }
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
    fn the_oldest_goes() {
        let kept = Kept::default();
        let get = |offset, value: u64| {
            let read = || Ok::<_, Infallible>((value, MAX_BYTES / 2));
            *kept.get(offset, read).unwrap()
        };
        assert_eq!([get(1, 10), get(2, 20), get(1, 11)], [10, 20, 10]);
        assert_eq!([get(3, 30), get(2, 21), get(1, 12)], [30, 20, 12]);
    }
}
