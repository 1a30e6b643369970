//! Memory for direct reads: aligned, in huge pages, cut into buffers.
//!
//! Law:
//! 1. No two buffers share a byte; the slab that they are cut from lives as long as the last one.
//! 2. Who may write into a buffer, and when, is for its owner to say.
//! 3. Knows no file and no request; too little memory is an error, never an abort.

use std::alloc::{Layout, alloc, dealloc};
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Satisfies every block device in use; files, offsets and memory are rounded to it.
pub(super) const ALIGN: usize = 4096;
/// Buffers lie in huge pages: a device takes one in a few pieces, and small pages only a number at
/// once (some 250 to a request), for each of which it has work to do.
const HUGE: usize = 2 << 20;

/// Memory in huge pages, shared by the buffers cut from it.
#[derive(Debug)]
struct Slab {
    base: NonNull<u8>,
    layout: Layout,
}

// SAFETY: plain owned memory; who may touch which part is the buffers' to say.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    fn new(len: usize) -> io::Result<Slab> {
        let len = len.checked_next_multiple_of(HUGE).ok_or_else(no_memory)?;
        let layout = Layout::from_size_align(len, HUGE).map_err(|_| no_memory())?;
        // SAFETY: the layout has a size above zero.
        let base = NonNull::new(unsafe { alloc(layout) }).ok_or_else(no_memory)?;
        // SAFETY: the range just allocated. Where this is refused, small pages do.
        unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_HUGEPAGE) };
        Ok(Slab { base, layout })
    }
}

impl Drop for Slab {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout and owned by this value.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// Memory that O_DIRECT accepts: a part of a slab that no other buffer has.
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    slab: Arc<Slab>,
    at: usize,
    pub(super) size: usize,
}

impl AlignedBuffer {
    /// Buffers of at least `len` bytes: one, or as many as one huge page holds.
    pub(super) fn some(len: usize) -> io::Result<Vec<AlignedBuffer>> {
        let size = match len.max(ALIGN).checked_next_power_of_two() {
            Some(size) if size < HUGE => size,
            _ => len.checked_next_multiple_of(HUGE).ok_or_else(no_memory)?,
        };
        let slab = Arc::new(Slab::new(size)?);
        let parts = (0..slab.layout.size() / size).map(|part| AlignedBuffer {
            slab: slab.clone(),
            at: part * size,
            size,
        });
        Ok(parts.collect())
    }

    pub(super) fn base(&self) -> *mut u8 {
        // SAFETY: inside the slab.
        unsafe { self.slab.base.as_ptr().add(self.at) }
    }
}

pub(super) fn no_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}
