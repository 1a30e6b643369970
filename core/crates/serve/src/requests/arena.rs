//! The arena: memory that this process shares with its readers, cut into regions.
//!
//! Law:
//! 1. One sparse memfd, mapped once by every process: a region is a pair of numbers that means the
//!    same bytes to all, so nothing has to be sent or mapped when one is taken.
//! 2. A region's pages are reserved when it is taken, so a shortage is an error here and never a
//!    SIGBUS later. When it is dropped they are kept for the next one, as new pages take longer to get
//!    than to fill; a bounded part of memory. They go back to the machine when no thread of ours had
//!    work for some seconds, when `release` is called, and before memory is refused.
//! 3. Regions are whole pages and never overlap; its holder alone writes to it.
//! 4. A forked child has no part in it: there, a dropped region frees nothing.

use os::fork::ForkMark;
use os::idle_threads;
use os::limits::available_bytes;
use os::memory::{Mapping, give_pages_back, page_bytes, reserve, sparse_memfd};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// With less address space than this there is no arena.
const MIN_BYTES: usize = 16 << 20;
/// What is kept together, at most; and a part of the memory that there is.
const KEPT_BYTES: usize = 256 << 20;
const KEPT_PART: u64 = 32;
const KEPT_REGIONS: usize = 128;

pub struct Arena {
    fd: OwnedFd,
    map: Arc<Mapping>,
    mark: ForkMark,
    regions: Mutex<Regions>,
}

/// What is free: first byte -> bytes, neighbours joined.
struct Regions {
    free: BTreeMap<usize, usize>,
    used_bytes: usize,
    /// Regions that have gone, with their pages: first byte and bytes, the oldest first.
    kept: Vec<(usize, usize)>,
}

/// The arena of this process, with what it keeps.
static SHARED: Mutex<Option<Arc<Arena>>> = Mutex::new(None);

/// The arena of this process, or a new one of `len` bytes at most.
pub fn shared(len: usize) -> io::Result<Arc<Arena>> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(arena) = shared.as_ref().filter(|arena| arena.is_mine()) {
        return Ok(arena.clone());
    }
    let arena = Arena::new(len)?;
    *shared = Some(arena.clone());
    Ok(arena)
}

/// Give back the spare memory of the arena, and the arena itself if it holds no result.
pub fn release() {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(arena) = shared.as_ref().filter(|arena| arena.is_mine()) {
        arena.give_kept_back(&mut arena.regions());
        if Arc::strong_count(arena) == 1 {
            *shared = None;
        }
    }
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
                        regions: Mutex::new(Regions {
                            free: BTreeMap::from([(0, len)]),
                            used_bytes: 0,
                            kept: Vec::new(),
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
        self.regions().used_bytes
    }

    fn regions(&self) -> MutexGuard<'_, Regions> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Take a region of `len` bytes, rounded up to whole pages.
    pub fn take(self: &Arc<Arena>, len: usize) -> io::Result<Region> {
        let len = whole_pages(len.max(1))?;
        let mut regions = self.regions();
        let region = |at| Region {
            arena: self.clone(),
            at,
            len,
        };
        if let Some(at) = regions.take_kept(len) {
            return Ok(region(at));
        }
        let mut at = regions.take(len);
        if at.is_none() {
            self.give_kept_back(&mut regions);
            at = regions.take(len);
        }
        drop(regions);
        let region = region(at.ok_or_else(no_memory)?);
        if reserve(self.fd(), region.at, len).is_err() {
            self.give_kept_back(&mut self.regions());
            reserve(self.fd(), region.at, len)?;
        }
        Ok(region)
    }

    fn give_kept_back(&self, regions: &mut Regions) {
        for (at, len) in std::mem::take(&mut regions.kept) {
            give_pages_back(self.fd(), at, len);
            regions.give(at, len);
        }
    }
}

impl Regions {
    fn take(&mut self, len: usize) -> Option<usize> {
        let (&at, &free) = self.free.iter().find(|&(_, &free)| free >= len)?;
        self.free.remove(&at);
        if free > len {
            self.free.insert(at + len, free - len);
        }
        self.used_bytes += len;
        Some(at)
    }

    /// A region of this size that has its pages.
    fn take_kept(&mut self, len: usize) -> Option<usize> {
        let found = self.kept.iter().rposition(|&(_, kept)| kept == len)?;
        self.used_bytes += len;
        Some(self.kept.remove(found).0)
    }

    /// What is free again, without its pages.
    fn give(&mut self, mut at: usize, mut len: usize) {
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
            let arena = &self.arena;
            let most = KEPT_BYTES.min((available_bytes() / KEPT_PART) as usize);
            let mut regions = arena.regions();
            regions.used_bytes -= self.len;
            regions.kept.push((self.at, self.len));
            let mut n_bytes: usize = regions.kept.iter().map(|&(_, len)| len).sum();
            while n_bytes > most || regions.kept.len() > KEPT_REGIONS {
                let (at, len) = regions.kept.remove(0);
                give_pages_back(arena.fd(), at, len);
                regions.give(at, len);
                n_bytes -= len;
            }
            drop(regions);
            idle_threads::rest_later(release);
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
    fn a_region_is_kept_and_is_empty_when_it_was_given_back() {
        let arena = Arena::new(MIN_BYTES).unwrap();
        let mut region = arena.take(10).unwrap();
        region.write(b"0123456789");
        let at = region.at();
        drop(region);
        assert_eq!(arena.used_bytes(), 0);
        let region = arena.take(10).unwrap();
        // SAFETY: inside the region, which was kept.
        assert_eq!((region.at(), unsafe { *region.base() }), (at, b'0'));
        drop(region);
        arena.give_kept_back(&mut arena.regions());
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
