//! Blocks of a file at addresses that count from its superblock.
//!
//! Law:
//! 1. A block lies inside the file, so what is allocated for it is backed by bytes.
//! 2. Metadata lies together: it is read in pages, of which a bounded number is kept. Long blocks pass
//!    the pages by.

use super::cursor::{Cursor, Sizes, UNDEFINED};
use super::error::{FormatError, Result, corrupt};
use super::kept::Kept;
use super::overlay::Overlay;
use super::source::ByteSource;
use std::sync::Arc;

pub use super::cursor::Block;

const PAGE_BYTES: u64 = 16 << 10;

pub struct Blocks {
    source: Box<dyn ByteSource>,
    /// Where the superblock is: behind a user block, if there is one.
    pub base: u64,
    pub sizes: Sizes,
    pages: Kept<Vec<u8>>,
    /// What is to be read in place of the file's bytes.
    pub image: Overlay,
}

impl Blocks {
    pub fn new(source: Box<dyn ByteSource>, base: u64, sizes: Sizes) -> Blocks {
        Blocks {
            source,
            base,
            sizes,
            pages: Kept::default(),
            image: Overlay::default(),
        }
    }

    /// Length of the file in bytes.
    pub fn file_size(&self) -> u64 {
        self.source.size()
    }

    /// The absolute address of an offset from the superblock.
    pub fn address(&self, offset: u64) -> u64 {
        self.base.saturating_add(offset)
    }

    /// `len` bytes of the file.
    pub fn block(&self, offset: u64, len: u64) -> Result<Block> {
        let address = self.address(offset);
        if offset == UNDEFINED {
            return corrupt(address, "an address", "an undefined one");
        }
        let end = address.saturating_add(len);
        if end > self.file_size() {
            let expected = format!("a structure of {len} bytes in the file");
            return corrupt(
                address,
                expected,
                format_args!("{} bytes", self.file_size()),
            );
        }
        let (mut bytes, len_bytes) = (Vec::new(), usize::try_from(len).unwrap_or(usize::MAX));
        // A sparse file may be longer than memory.
        if bytes.try_reserve_exact(len_bytes).is_err() {
            let error = std::io::ErrorKind::OutOfMemory.into();
            return Err(FormatError::Io { address, error });
        }
        bytes.resize(len_bytes, 0);
        let read = match len >= PAGE_BYTES {
            true => self.source.read(address, &mut bytes),
            false => self.read_pages(address, &mut bytes),
        };
        read.map_err(|error| FormatError::Io { address, error })?;
        self.image.put_over(address, &mut bytes);
        Ok(Block { bytes, address })
    }

    /// Prefetch the pages of blocks at these offsets, of about `len` bytes.
    pub fn prefetch(&self, offsets: impl IntoIterator<Item = u64>, len: u64) {
        if self.source.wants_prefetch() {
            let known = offsets.into_iter().filter(|&offset| offset != UNDEFINED);
            (self.source).prefetch(&mut known.map(|offset| {
                let address = self.address(offset);
                let begin = address / PAGE_BYTES * PAGE_BYTES;
                let end = address.saturating_add(len).div_ceil(PAGE_BYTES);
                (begin, end.saturating_mul(PAGE_BYTES) - begin)
            }));
        }
    }

    /// It gains from knowing what to expect.
    pub fn wants_prefetch(&self) -> bool {
        self.source.wants_prefetch()
    }

    /// Metadata lie in pages of this length.
    pub fn has_pages(&self, page_bytes: u64) {
        self.source.has_pages(page_bytes);
    }

    /// At most `len` bytes: as many as the file has.
    pub fn block_within(&self, offset: u64, len: u64) -> Result<Block> {
        let left = self.file_size().saturating_sub(self.address(offset));
        self.block(offset, len.min(left))
    }

    pub fn cursor<'a>(&self, block: &'a Block) -> Cursor<'a> {
        Cursor::new(block, self.sizes)
    }

    fn read_pages(&self, address: u64, out: &mut [u8]) -> std::io::Result<()> {
        let mut done = 0;
        while done < out.len() {
            let at = address + done as u64;
            let page = self.page(at / PAGE_BYTES)?;
            let bytes = &page[(at % PAGE_BYTES) as usize..];
            let len = bytes.len().min(out.len() - done);
            out[done..done + len].copy_from_slice(&bytes[..len]);
            done += len;
        }
        Ok(())
    }

    fn page(&self, number: u64) -> std::io::Result<Arc<Vec<u8>>> {
        let begin = number * PAGE_BYTES;
        self.pages.get(begin, || {
            let len = PAGE_BYTES.min(self.file_size() - begin);
            let mut bytes = vec![0; len as usize];
            self.source.read(begin, &mut bytes)?;
            Ok((bytes, len))
        })
    }
}
