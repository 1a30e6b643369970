//! Memory for large results, of those that went.
//!
//! Law:
//! 1. The kernel zeroes each new page, which takes as long as to fill it. So memory that is given back
//!    is kept for the next result, and yet is the kernel's: it takes the pages when it needs them
//!    (MADV_FREE), and only then are there new ones.
//! 2. A bounded amount is kept, the oldest goes first. What it holds is anything.
//!    `release` gives all back.
//! 3. Nobody waits: a thread that finds the list locked takes new memory. In a child that was forked at
//!    such a moment the list stays locked.

use super::memory::Mapping;
use std::io;
use std::sync::Mutex;

/// Smaller memory is in better hands with the allocator.
pub const MIN_BYTES: usize = 8 << 20;
/// What is kept together, and how many pieces it may be.
const KEPT_BYTES: usize = 1 << 30;
const KEPT_PIECES: usize = 8;

static KEPT: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

/// Memory of one result.
#[derive(Debug)]
pub struct Recycled(Option<Mapping>);

impl Recycled {
    pub fn new(len: usize) -> io::Result<Recycled> {
        let fits = |kept: &Mapping| kept.len() >= len && kept.len() <= len.saturating_add(len / 4);
        let found = KEPT.try_lock().ok().and_then(|mut kept| {
            let at = kept.iter().rposition(fits)?;
            Some(kept.remove(at))
        });
        let mapping = match found {
            Some(mapping) => mapping,
            None => {
                let mapping = Mapping::private(len)?;
                // SAFETY: nothing is written yet, and this does not change what is read.
                unsafe { mapping.advise(libc::MADV_HUGEPAGE) };
                mapping
            }
        };
        Ok(Recycled(Some(mapping)))
    }

    pub fn base(&self) -> *mut u8 {
        self.0.as_ref().map_or(std::ptr::null_mut(), Mapping::base)
    }
}

impl Drop for Recycled {
    fn drop(&mut self) {
        let Some(mapping) = self.0.take().filter(|mapping| mapping.len() <= KEPT_BYTES) else {
            return;
        };
        // SAFETY: nobody needs what is there any more.
        if !unsafe { mapping.advise(libc::MADV_FREE) } {
            return;
        }
        let mut gone = Vec::new();
        if let Ok(mut kept) = KEPT.try_lock() {
            kept.push(mapping);
            let bytes = |kept: &[Mapping]| kept.iter().map(Mapping::len).sum::<usize>();
            while kept.len() > KEPT_PIECES || bytes(&kept) > KEPT_BYTES {
                gone.push(kept.remove(0));
            }
        }
        // Unmapped when the others can be looked at again.
        drop(gone);
    }
}

/// Give all that is kept back.
pub fn release() {
    let gone = KEPT.try_lock().map(|mut kept| std::mem::take(&mut *kept));
    drop(gone);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_result_that_went_is_found_again() {
        let first = Recycled::new(MIN_BYTES).unwrap();
        let (other, base) = (Recycled::new(MIN_BYTES).unwrap(), first.base());
        assert_ne!(other.base(), base);
        // SAFETY: memory of this test.
        unsafe { base.write_bytes(7, MIN_BYTES) };
        drop(first);
        let again = Recycled::new(MIN_BYTES - 5).unwrap();
        assert_eq!(again.base(), base);
        let too_small = Recycled::new(2 * MIN_BYTES).unwrap();
        // SAFETY: as above.
        unsafe { too_small.base().write_bytes(1, 2 * MIN_BYTES) };
        for _ in 0..2 * KEPT_PIECES {
            let all: Vec<_> = (0..KEPT_PIECES + 3)
                .map(|_| Recycled::new(MIN_BYTES))
                .collect();
            drop(all);
            assert!(KEPT.lock().unwrap().len() <= KEPT_PIECES);
        }
        release();
        assert!(KEPT.lock().unwrap().is_empty());
        drop(Recycled::new(KEPT_BYTES + 1).unwrap());
        assert!(
            KEPT.lock()
                .unwrap()
                .iter()
                .all(|kept| kept.len() <= KEPT_BYTES)
        );
    }
}
