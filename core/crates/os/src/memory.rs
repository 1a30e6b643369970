//! Shared memory: sealed memfds and their mappings.
//!
//! Law:
//! 1. A memfd is sealed against resizing before anyone maps it, and its pages are reserved at
//!    creation, or before they are first written where it is sparse, so a shortage is an error here and
//!    never a SIGBUS later. Of memory that another process made, the seals are looked at: without them
//!    it could be cut off under a mapping.
//! 2. A tape is mapped twice, back to back: any span up to its capacity is contiguous.
//! 3. Mappings end when they are dropped, and with them nothing is left: a memfd has no name.
//! 4. This file knows nothing of plans, tasks or blocks.

use super::limits::{may_take, took};
use std::ffi::CStr;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Bytes of one page: what mappings and tapes are rounded to.
pub fn page_bytes() -> usize {
    // SAFETY: sysconf has no preconditions.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(4096)
}

/// Reserving so much takes a few milliseconds.
const RESERVE_STEP_BYTES: libc::off_t = 32 << 20;

/// The seals that keep a memfd's size, and those that keep its bytes, too.
pub const SIZE_SEALS: libc::c_int = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
pub const ALL_SEALS: libc::c_int = SIZE_SEALS | libc::F_SEAL_WRITE;

/// A new memfd of `len` reserved bytes, sealed against shrinking and growing.
pub fn reserved_memfd(name: &CStr, len: usize) -> io::Result<OwnedFd> {
    let fd = memfd(name)?;
    reserve(fd.as_fd(), 0, len)?;
    seal(&fd, SIZE_SEALS)?;
    Ok(fd)
}

/// A new memfd of `len` bytes without a page yet, sealed against shrinking and growing.
pub fn sparse_memfd(name: &CStr, len: usize) -> io::Result<OwnedFd> {
    let fd = memfd(name)?;
    let size = libc::off_t::try_from(len).map_err(no_memory)?;
    // SAFETY: a valid descriptor.
    if unsafe { libc::ftruncate(fd.as_raw_fd(), size) } != 0 {
        return Err(io::Error::last_os_error());
    }
    seal(&fd, SIZE_SEALS)?;
    Ok(fd)
}

/// The same, where memory has room for all of it; its first pages are there.
pub fn begun_memfd(name: &CStr, len: usize, first: usize) -> io::Result<OwnedFd> {
    if !may_take(len as u64) {
        return Err(no_memory(()));
    }
    let fd = sparse_memfd(name, len)?;
    reserve(fd.as_fd(), 0, first)?;
    Ok(fd)
}

fn memfd(name: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: `name` is a valid C string; the returned descriptor is owned below.
    let raw =
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `raw` was just made and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

fn no_memory<E>(_: E) -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

/// Reserve pages for `len` bytes from `offset`, which makes the memfd as long if it was shorter.
pub fn reserve(fd: BorrowedFd<'_>, offset: usize, len: usize) -> io::Result<()> {
    let size = libc::off_t::try_from(len).map_err(no_memory)?;
    let offset = libc::off_t::try_from(offset).map_err(no_memory)?;
    // In steps: a signal undoes what one call has reserved, and with a timer of a profiler a single
    // call for a large ring might never end.
    let mut at = 0;
    while at < size {
        // The kernel does not refuse: it would kill some process, perhaps not this one.
        if !may_take((size - at) as u64) {
            return Err(no_memory(()));
        }
        let step = (size - at).min(RESERVE_STEP_BYTES);
        // SAFETY: a valid descriptor and a range inside the checked size.
        if unsafe { libc::fallocate(fd.as_raw_fd(), 0, offset + at, step) } == 0 {
            at += step;
            took(step as u64);
            continue;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(())
}

/// Give the pages of `len` bytes from `offset` (whole pages) back to the machine.
pub fn give_pages_back(fd: BorrowedFd<'_>, offset: usize, len: usize) {
    // SAFETY: a valid descriptor. That it may fail is borne: the pages are then used again.
    unsafe {
        libc::fallocate(
            fd.as_raw_fd(),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE,
            offset as libc::off_t,
            len as libc::off_t,
        )
    };
}

/// A memfd that holds `bytes` and can never change again.
pub fn sealed_memfd(name: &CStr, bytes: &[u8]) -> io::Result<OwnedFd> {
    let fd = reserved_memfd(name, bytes.len())?;
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        // SAFETY: the pointer and length are those of a live slice.
        let wrote = unsafe {
            libc::pwrite(
                fd.as_raw_fd(),
                rest.as_ptr().cast(),
                rest.len(),
                done as libc::off_t,
            )
        };
        if wrote < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        done += wrote as usize;
    }
    seal(&fd, libc::F_SEAL_WRITE | libc::F_SEAL_SEAL)?;
    Ok(fd)
}

fn seal(fd: &OwnedFd, seals: libc::c_int) -> io::Result<()> {
    // SAFETY: a valid descriptor; F_ADD_SEALS takes an int.
    if unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

/// Bytes of a memfd that has these seals. Any other descriptor is refused.
pub fn sealed_len(fd: BorrowedFd<'_>, seals: libc::c_int) -> io::Result<usize> {
    // SAFETY: a valid descriptor; F_GET_SEALS takes nothing, and gives -1 for what has no seals.
    let got = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) };
    if got < 0 || got & seals != seals {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "shared memory is not sealed",
        ));
    }
    file_len(fd)
}

/// Bytes in the file behind `fd`.
fn file_len(fd: BorrowedFd<'_>) -> io::Result<usize> {
    // SAFETY: `stat` is plain data that fstat fills.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: a valid descriptor and a valid place for the answer.
    if unsafe { libc::fstat(fd.as_raw_fd(), &raw mut stat) } != 0 {
        return Err(io::Error::last_os_error());
    }
    usize::try_from(stat.st_size).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// Pages are entered into the page table up front below this size, so that the hot path has no
/// page faults; a larger mapping would make the start slow, and is touched many times anyway.
const POPULATE_LIMIT_BYTES: usize = 64 << 20;

/// A mapping of shared memory, unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping is only an address range; what is read and written through it is governed by
// the ring's protocol (control.rs), which is made of atomics.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Map `len` bytes from `offset`, read-only or shared for writing.
    pub fn new(fd: BorrowedFd<'_>, offset: usize, len: usize, write: bool) -> io::Result<Mapping> {
        let protection = if write {
            libc::PROT_READ | libc::PROT_WRITE
        } else {
            libc::PROT_READ
        };
        Mapping::shared(fd, offset, len, protection, populate(len))
    }

    /// Map the first `len` bytes of sparse memory for writing, without entering a page, which would
    /// make it.
    pub fn sparse(fd: BorrowedFd<'_>, len: usize) -> io::Result<Mapping> {
        Mapping::shared(fd, 0, len, libc::PROT_READ | libc::PROT_WRITE, 0)
    }

    fn shared(
        fd: BorrowedFd<'_>,
        offset: usize,
        len: usize,
        protection: libc::c_int,
        flags: libc::c_int,
    ) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no Rust memory.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len.max(1),
                protection,
                libc::MAP_SHARED | flags,
                fd.as_raw_fd(),
                offset as libc::off_t,
            )
        };
        Mapping::take(at, len.max(1))
    }

    /// New memory of this process alone, without a page yet.
    pub fn private(len: usize) -> io::Result<Mapping> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no Rust memory.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len.max(1),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        Mapping::take(at, len.max(1))
    }

    /// Advise the kernel on all of it, which may be of no effect. False: it cannot take the advice.
    ///
    /// # Safety
    /// The advice must leave what the bytes are, or nobody may need them.
    pub(super) unsafe fn advise(&self, advice: libc::c_int) -> bool {
        // SAFETY: exactly the mapping; the rest is the caller's promise.
        unsafe { libc::madvise(self.base().cast(), self.len, advice) == 0 }
    }

    /// Enter the pages of a part into the page table, all at once: one by one, as they are first
    /// written, costs several times as much. It is a hint, and may be of no effect.
    pub fn enter(&self, part: Range<usize>) {
        /// `MADV_POPULATE_WRITE` of Linux 5.14, which libc does not name everywhere.
        const POPULATE_WRITE: libc::c_int = 23;
        let start = part.start / page_bytes() * page_bytes();
        let end = part.end.min(self.len);
        if start < end {
            // SAFETY: inside the mapping; no byte of it changes.
            unsafe { libc::madvise(self.base().add(start).cast(), end - start, POPULATE_WRITE) };
        }
    }

    /// Map `len` bytes (whole pages) from `offset` twice, back to back: 2 * `len` bytes. Of `sparse`
    /// memory no page is entered, which would make it.
    pub fn double(
        fd: BorrowedFd<'_>,
        offset: usize,
        len: usize,
        sparse: bool,
    ) -> io::Result<Mapping> {
        if len == 0 || len % page_bytes() != 0 || len > isize::MAX as usize / 2 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: reserves fresh address space that nothing else uses.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        let mapping = Mapping::take(at, 2 * len)?;
        // Only rows that cross the end are reached through the second mapping: entered there too,
        // every page would count twice as this process's memory.
        for (half, entered) in [(0, if sparse { 0 } else { populate(len) }), (1, 0)] {
            // SAFETY: MAP_FIXED lands inside the range reserved just above, which we own.
            let part = unsafe {
                libc::mmap(
                    mapping.base.as_ptr().add(half * len).cast(),
                    len,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_SHARED | libc::MAP_FIXED | entered,
                    fd.as_raw_fd(),
                    offset as libc::off_t,
                )
            };
            if part == libc::MAP_FAILED {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(mapping)
    }

    fn take(at: *mut libc::c_void, len: usize) -> io::Result<Mapping> {
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        match NonNull::new(at.cast::<u8>()) {
            Some(base) => Ok(Mapping { base, len }),
            None => Err(io::ErrorKind::OutOfMemory.into()),
        }
    }

    /// A copy of `len` bytes from `at`, a multiple of 8, as whole words, the last one padded. Another
    /// process may write them meanwhile: each word is one that stood there.
    pub fn words(&self, at: usize, len: usize) -> Vec<u64> {
        assert!(at % 8 == 0 && at.checked_add(len).is_some_and(|end| end <= self.len));
        let whole = (0..len / 8).map(|number| {
            // SAFETY: inside the mapping and aligned (checked above, a mapping begins with a page).
            let word = unsafe { &*self.base().add(at + 8 * number).cast::<AtomicU64>() };
            word.load(Relaxed)
        });
        let mut words: Vec<u64> = whole.collect();
        let mut last = [0; 8];
        for (number, byte) in (len / 8 * 8..len).zip(&mut last) {
            // SAFETY: as above.
            *byte = unsafe { &*self.base().add(at + number).cast::<AtomicU8>() }.load(Relaxed);
        }
        words.extend((len % 8 > 0).then(|| u64::from_ne_bytes(last)));
        words
    }

    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that `take` was given; nothing borrows it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Which parts of a large tape were entered into this process's page table.
#[derive(Debug, Default)]
pub struct Entered {
    parts: Vec<bool>,
}

impl Entered {
    const PART_BYTES: usize = 16 << 20;

    /// Enter the pages of `bytes`, before they are written in random order. A tape that was entered
    /// when it was mapped needs it for its second half only, which is little.
    pub fn enter(&mut self, tape: &Mapping, bytes: Range<usize>) {
        if tape.len() <= 2 * POPULATE_LIMIT_BYTES || bytes.is_empty() {
            return;
        }
        let last = (bytes.end - 1) / Entered::PART_BYTES;
        if self.parts.len() <= last {
            self.parts.resize(last + 1, false);
        }
        for part in bytes.start / Entered::PART_BYTES..=last {
            if !std::mem::replace(&mut self.parts[part], true) {
                let at = part * Entered::PART_BYTES;
                tape.enter(at..at + Entered::PART_BYTES);
            }
        }
    }
}

fn populate(len: usize) -> libc::c_int {
    if len <= POPULATE_LIMIT_BYTES {
        libc::MAP_POPULATE
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_entered_once_and_hold_what_they_held() {
        let len = POPULATE_LIMIT_BYTES + 3 * page_bytes();
        let fd = sparse_memfd(c"test", len).unwrap();
        let tape = Mapping::double(fd.as_fd(), 0, len, false).unwrap();
        let at = len - 1;
        // SAFETY: inside the mapping, which nobody else knows.
        unsafe { tape.base().add(at).write(7) };
        let mut entered = Entered::default();
        entered.enter(&tape, 0..0);
        assert!(entered.parts.is_empty());
        for _ in 0..2 {
            entered.enter(&tape, at - 5000..2 * len);
            entered.enter(&tape, 0..1);
        }
        let first = at / Entered::PART_BYTES;
        assert!(entered.parts[0] && !entered.parts[1] && entered.parts[first..].iter().all(|&p| p));
        // SAFETY: as above; the tape is mapped twice.
        assert_eq!(unsafe { tape.base().add(len + at).read() }, 7);
    }

    #[test]
    fn a_tape_is_contiguous_across_its_end() {
        let page = page_bytes();
        let fd = reserved_memfd(c"test", 3 * page).unwrap();
        let tape = Mapping::double(fd.as_fd(), page, 2 * page, false).unwrap();
        // SAFETY: inside the mapping of 4 pages.
        unsafe {
            *tape.base().add(2 * page + 5) = 42;
            assert_eq!(*tape.base().add(5), 42);
        }
    }

    #[test]
    fn more_than_there_is_is_refused_before_it_is_taken() {
        let error = reserved_memfd(c"test", 1 << 50).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
        let spare = crate::limits::spare_bytes() as usize;
        let error = reserved_memfd(c"test", spare.saturating_add(1 << 30)).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOMEM));
    }

    #[test]
    fn memory_that_its_sender_could_change_is_refused() {
        let open = memfd(c"test").unwrap();
        reserve(open.as_fd(), 0, 8).unwrap();
        assert!(sealed_len(open.as_fd(), SIZE_SEALS).is_err());
        seal(&open, libc::F_SEAL_GROW).unwrap();
        assert!(sealed_len(open.as_fd(), SIZE_SEALS).is_err());
        seal(&open, libc::F_SEAL_SHRINK).unwrap();
        assert_eq!(sealed_len(open.as_fd(), SIZE_SEALS).unwrap(), 8);
        assert!(sealed_len(open.as_fd(), ALL_SEALS).is_err());
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(sealed_len(file.as_fd(), SIZE_SEALS).is_err());
    }

    #[test]
    fn a_sealed_memfd_refuses_writes_and_resizing() {
        let fd = sealed_memfd(c"test", b"plan").unwrap();
        assert_eq!(sealed_len(fd.as_fd(), ALL_SEALS).unwrap(), 4);
        // SAFETY: plain system calls on a live descriptor.
        unsafe {
            assert_eq!(libc::ftruncate(fd.as_raw_fd(), 10), -1);
            assert_eq!(libc::pwrite(fd.as_raw_fd(), b"x".as_ptr().cast(), 1, 0), -1);
        }
        assert!(Mapping::new(fd.as_fd(), 0, 4, true).is_err());
    }
}
