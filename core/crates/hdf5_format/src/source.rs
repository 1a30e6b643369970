//! Where the bytes of a file come from: a local file, a store's object, or memory.
//!
//! Law:
//! 1. A source has a length that does not change while it is used, and gives any range within it.
//! 2. No memory map: a file that others truncate would kill the process.

use std::io;
use std::sync::Arc;

pub trait ByteSource: Send + Sync {
    /// Length in bytes.
    fn size(&self) -> u64;

    /// Fill `out` with the bytes from `offset` on.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Fetch these ranges, of (offset, length), before they are read.
    fn prefetch(&self, _wanted: &mut dyn Iterator<Item = (u64, u64)>) {}

    /// It gains from knowing what to expect.
    fn wants_prefetch(&self) -> bool {
        false
    }

    /// It gives this range without a wait.
    fn has(&self, _offset: u64, _len: u64) -> bool {
        true
    }

    /// Metadata of the file lie in pages of this length.
    fn has_pages(&self, _page_bytes: u64) {}
}

/// A file in memory.
impl ByteSource for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|begin| self.get(begin..)?.get(..out.len()));
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A source that others hold, too.
impl<S: ByteSource + ?Sized> ByteSource for Arc<S> {
    fn size(&self) -> u64 {
        (**self).size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        (**self).read(offset, out)
    }

    fn prefetch(&self, wanted: &mut dyn Iterator<Item = (u64, u64)>) {
        (**self).prefetch(wanted);
    }

    fn wants_prefetch(&self) -> bool {
        (**self).wants_prefetch()
    }

    fn has(&self, offset: u64, len: u64) -> bool {
        (**self).has(offset, len)
    }

    fn has_pages(&self, page_bytes: u64) {
        (**self).has_pages(page_bytes);
    }
}
