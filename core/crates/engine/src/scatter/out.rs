//! Memory of a result, of which others may write other bytes at the same time.
//!
//! Law:
//! 1. No `&mut [u8]` is made of bytes that are not their writer's alone: a result is passed on as it
//!    is, and only a part that is written now becomes one.
//! 2. Nothing outside the result is reached.

use os::prefetch::prefetch_bytes;
use std::marker::PhantomData;
use std::ops::Range;

/// A result, or a part of it. Whose bytes are whose is said where it is made (`new`).
#[derive(Debug)]
pub struct Out<'a> {
    at: *mut u8,
    len: usize,
    of: PhantomData<&'a mut [u8]>,
}

// SAFETY: the bytes that are written through it are its owner's alone, as `new` was promised.
unsafe impl Send for Out<'_> {}
// SAFETY: as above; a shared reference writes nothing.
unsafe impl Sync for Out<'_> {}

#[expect(
    clippy::len_without_is_empty,
    reason = "nobody asks whether a result is empty"
)]
impl<'a> Out<'a> {
    /// # Safety
    /// The memory stays for `'a`. Until then nobody else reads or writes the bytes that are taken of it
    /// as a `part`, or copied to.
    pub unsafe fn new(at: *mut u8, len: usize) -> Out<'a> {
        Out {
            at,
            len,
            of: PhantomData,
        }
    }

    /// Memory that is the caller's alone.
    pub fn of(bytes: &'a mut [u8]) -> Out<'a> {
        // SAFETY: borrowed for as long.
        unsafe { Out::new(bytes.as_mut_ptr(), bytes.len()) }
    }

    /// The same for another thread.
    ///
    /// # Safety
    /// No two of them write the same bytes.
    pub unsafe fn shared(&self) -> Out<'a> {
        // SAFETY: the caller's promise.
        unsafe { Out::new(self.at, self.len) }
    }

    /// The same for the time of a call.
    #[inline(always)]
    pub fn lend(&mut self) -> Out<'_> {
        // SAFETY: this one is borrowed meanwhile.
        unsafe { Out::new(self.at, self.len) }
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Some bytes, all of which are this writer's.
    #[inline(always)]
    pub fn part(&mut self, bytes: Range<usize>) -> &mut [u8] {
        let cut = self.cut(bytes);
        // SAFETY: inside the memory, and nobody else's (`new`).
        unsafe { std::slice::from_raw_parts_mut(cut.at, cut.len) }
    }

    /// Some bytes, of which only some may be this writer's.
    #[inline(always)]
    pub fn cut(&mut self, bytes: Range<usize>) -> Out<'_> {
        assert!(bytes.start <= bytes.end && bytes.end <= self.len);
        // SAFETY: just checked; this one is borrowed meanwhile.
        unsafe { Out::new(self.at.add(bytes.start), bytes.end - bytes.start) }
    }

    /// The first bytes. None: there are not as many.
    pub fn first(&mut self, len: usize) -> Option<Out<'_>> {
        (len <= self.len).then(|| self.cut(0..len))
    }

    /// Have the caches ask for some bytes, which are to be written soon.
    #[inline(always)]
    pub(super) fn ask(&mut self, at: usize, len: usize) {
        let part = self.cut(at..at + len);
        prefetch_bytes(part.at, part.len);
    }

    /// Where it begins.
    #[inline(always)]
    pub fn base(&mut self) -> *mut u8 {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_write_their_own_bytes_between_each_other() {
        let mut bytes = [0; 64];
        let out = Out::of(&mut bytes);
        std::thread::scope(|scope| {
            for first in 0..2 {
                // SAFETY: one writes the even bytes, the other one the odd ones.
                let mut mine = unsafe { out.shared() };
                scope.spawn(move || {
                    for at in (first..64).step_by(2) {
                        mine.part(at..at + 1)[0] = 1 + first as u8;
                    }
                });
            }
        });
        assert_eq!(bytes, [[1, 2]; 32].as_flattened());
    }

    #[test]
    fn nothing_outside_is_reached() {
        for (begin, end) in [(0, 5), (5, 5), (3, 2), (usize::MAX, 0), (2, usize::MAX)] {
            let mut bytes = [0; 4];
            let mut out = Out::of(&mut bytes);
            let call = std::panic::AssertUnwindSafe(|| out.part(begin..end).len());
            assert!(std::panic::catch_unwind(call).is_err(), "{begin}..{end}");
        }
        let mut bytes = [0; 4];
        let mut out = Out::of(&mut bytes);
        assert!(out.first(5).is_none());
        assert_eq!(out.cut(1..4).part(1..3).len(), 2);
    }
}
