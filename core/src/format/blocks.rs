//! Blocks of a file at addresses that count from its superblock.
//!
//! Law:
//! 1. A block lies inside the file, so what is allocated for it is backed by bytes.
//! 2. Metadata lies together: it is read in pages, of which a bounded number is kept. Long blocks pass
//!    the pages by.

use super::cursor::{Cursor, Sizes, UNDEFINED};
use super::error::{FormatError, Result, corrupt};
use super::source::ByteSource;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

pub use super::cursor::Block;

const PAGE_BYTES: u64 = 16 << 10;
const MAX_PAGES: usize = 512;

pub struct Blocks {
    source: Box<dyn ByteSource>,
    /// Where the superblock is: behind a user block, if there is one.
    pub base: u64,
    pub sizes: Sizes,
    pages: Mutex<Pages>,
}

#[derive(Default)]
struct Pages {
    kept: HashMap<u64, Arc<[u8]>>,
    /// The next to go is first.
    order: VecDeque<u64>,
}

impl Blocks {
    pub fn new(source: Box<dyn ByteSource>, base: u64, sizes: Sizes) -> Blocks {
        Blocks {
            source,
            base,
            sizes,
            pages: Mutex::default(),
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
        let mut bytes = vec![0; len as usize];
        let read = match len >= PAGE_BYTES {
            true => self.source.read(address, &mut bytes),
            false => self.read_pages(address, &mut bytes),
        };
        match read {
            Ok(()) => Ok(Block { bytes, address }),
            Err(error) => Err(FormatError::Io { address, error }),
        }
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

    fn page(&self, number: u64) -> std::io::Result<Arc<[u8]>> {
        let pages = || self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(page) = pages().kept.get(&number) {
            return Ok(page.clone());
        }
        let begin = number * PAGE_BYTES;
        let len = PAGE_BYTES.min(self.file_size() - begin);
        let mut bytes = vec![0; len as usize];
        self.source.read(begin, &mut bytes)?;
        let page: Arc<[u8]> = bytes.into();
        let mut pages = pages();
        if pages.kept.insert(number, page.clone()).is_none() {
            pages.order.push_back(number);
        }
        if pages.order.len() > MAX_PAGES {
            let gone = pages.order.pop_front();
            gone.map(|gone| pages.kept.remove(&gone));
        }
        Ok(page)
    }
}
