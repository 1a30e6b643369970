//! The arena: memory that this process shares with its readers, cut into regions.
//!
//! Law:
//! 1. One sparse memfd, mapped once by every process: a region is a pair of numbers that means the
//!    same bytes to all, so nothing has to be sent or mapped when one is taken.
//! 2. A region's pages are reserved when it is taken, so a shortage is an error here and never a
//!    SIGBUS later. They go back to the machine when it is dropped.
//! 3. Regions are whole pages and never overlap; its holder alone writes to it.
//! 4. A forked child has no part in it: there, a dropped region frees nothing.

use os::fork::ForkMark;
use os::memory::{Mapping, give_pages_back, page_bytes, reserve, sparse_memfd};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// With less address space than this there is no arena.
const MIN_BYTES: usize = 16 << 20;

pub struct Arena {
    fd: OwnedFd,
    map: Arc<Mapping>,
    mark: ForkMark,
    book: Mutex<Book>,
}

/// What is free: first byte -> bytes, neighbours joined.
struct Book {
    free: BTreeMap<usize, usize>,
    used_bytes: usize,
}

impl Arena {
    /// An arena of `len` bytes at most; less where the address space is limited.
    pub fn new(len: usize) -> io::Result<Arc<Arena>> {
        let mut len = whole_pages(len.max(MIN_BYTES))?;
        loop {
            let fd = sparse_memfd(c"multitables-arena", len)?;
            match Mapping::new(fd.as_fd(), 0, len, true) {
                Ok(map) => {
                    return Ok(Arc::new(Arena {
                        fd,
                        map: Arc::new(map),
                        mark: ForkMark::new()?,
                        book: Mutex::new(Book {
                            free: BTreeMap::from([(0, len)]),
                            used_bytes: 0,
                        }),
                    }));
                }
                Err(error) if len / 2 < MIN_BYTES => return Err(error),
                Err(_) => len = whole_pages(len / 2)?,
            }
        }
    }

    /// True in the process that made the arena, false in its forked children.
    pub fn is_mine(&self) -> bool {
        self.mark.is_mine()
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub fn map(&self) -> &Arc<Mapping> {
        &self.map
    }

    /// Bytes of all regions.
    pub fn used_bytes(&self) -> usize {
        self.book().used_bytes
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take a region of `len` bytes, rounded up to whole pages.
    pub fn take(self: &Arc<Arena>, len: usize) -> io::Result<Region> {
        let len = whole_pages(len.max(1))?;
        let at = self.book().take(len).ok_or_else(no_memory)?;
        let region = Region {
            arena: self.clone(),
            at,
            len,
        };
        reserve(self.fd(), at, len)?;
        Ok(region)
    }
}

impl Book {
    fn take(&mut self, len: usize) -> Option<usize> {
        let (&at, &free) = self.free.iter().find(|&(_, &free)| free >= len)?;
        self.free.remove(&at);
        if free > len {
            self.free.insert(at + len, free - len);
        }
        self.used_bytes += len;
        Some(at)
    }

    fn give(&mut self, mut at: usize, mut len: usize) {
        self.used_bytes -= len;
        let before = self.free.range(..at).next_back();
        let touching = before.filter(|&(before, free)| before + free == at);
        if let Some((&before, &free)) = touching {
            self.free.remove(&before);
            (at, len) = (before, free + len);
        }
        if let Some(free) = self.free.remove(&(at + len)) {
            len += free;
        }
        self.free.insert(at, len);
    }
}

fn whole_pages(len: usize) -> io::Result<usize> {
    let len = len.checked_next_multiple_of(page_bytes());
    len.filter(|&len| len <= isize::MAX as usize)
        .ok_or_else(no_memory)
}

fn no_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

/// Some whole pages of the arena, until this is dropped.
pub struct Region {
    arena: Arc<Arena>,
    at: usize,
    len: usize,
}

impl Region {
    /// First byte in the arena.
    pub fn at(&self) -> usize {
        self.at
    }

    pub fn is_of(&self, arena: &Arc<Arena>) -> bool {
        Arc::ptr_eq(&self.arena, arena)
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn base(&self) -> *mut u8 {
        // SAFETY: a region lies inside the mapping.
        unsafe { self.arena.map.base().add(self.at) }
    }

    /// Write `bytes` at the region's start, where nobody reads yet.
    pub fn write(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len);
        // SAFETY: inside the region, which is this holder's; nobody was told of it yet.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.base(), bytes.len()) };
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.arena.is_mine() {
            give_pages_back(self.arena.fd(), self.at, self.len);
            self.arena.book().give(self.at, self.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_do_not_overlap_and_come_back_whole() {
        let arena = Arena::new(MIN_BYTES).unwrap();
        let page = page_bytes();
        let mut held: Vec<Region> = Vec::new();
        let mut seed = 1u64;
        for _ in 0..2000 {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
            let pick = (seed >> 33) as usize;
            if pick % 3 != 0 || held.is_empty() {
                if let Ok(region) = arena.take(pick % (9 * page)) {
                    assert_eq!(region.at() % page, 0);
                    let apart = |other: &Region| {
                        region.at() + region.len() <= other.at()
                            || other.at() + other.len() <= region.at()
                    };
                    assert!(held.iter().all(apart));
                    held.push(region);
                }
            } else {
                held.swap_remove(pick / 3 % held.len());
            }
            let sum: usize = held.iter().map(Region::len).sum();
            assert_eq!(arena.used_bytes(), sum);
        }
        held.clear();
        assert_eq!(arena.take(MIN_BYTES).unwrap().at(), 0);
    }

    #[test]
    fn a_region_given_back_is_empty_again() {
        let arena = Arena::new(MIN_BYTES).unwrap();
        let mut region = arena.take(10).unwrap();
        region.write(b"0123456789");
        let at = region.at();
        drop(region);
        let region = arena.take(10).unwrap();
        assert_eq!(region.at(), at);
        // SAFETY: inside the region.
        assert_eq!(unsafe { *region.base() }, 0);
    }

    #[test]
    fn a_copy_is_what_stands_there() {
        let arena = Arena::new(MIN_BYTES).unwrap();
        let mut region = arena.take(21).unwrap();
        let bytes: Vec<u8> = (1..=21).collect();
        region.write(&bytes);
        for len in 0..=21 {
            let words = arena.map().words(region.at(), len);
            let copy: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert_eq!(copy[..len], bytes[..len]);
            assert!(copy.len() < len + 8 && copy[len..].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn too_much_is_an_error() {
        let arena = Arena::new(MIN_BYTES).unwrap();
        assert!(arena.take(MIN_BYTES + 1).is_err());
        assert!(arena.take(usize::MAX).is_err());
    }
}
