//! Blocks of a file at addresses that count from its superblock.
//!
//! Law:
//! 1. A block lies inside the file, so what is allocated for it is backed by bytes.
//! 2. Metadata lies together: it is read in pages, of which a bounded number is kept. Long blocks pass
//!    the pages by.
//! 3. A question that is tried out waits for nothing: what the source lacks is noted, and not read.

use super::cursor::{Cursor, Sizes, UNDEFINED};
use super::error::{FormatError, Result, corrupt};
use super::kept::Kept;
use super::overlay::Overlay;
use super::source::ByteSource;
use std::cell::RefCell;
use std::io;
use std::sync::Arc;

pub use super::cursor::Block;

const PAGE_BYTES: u64 = 16 << 10;

/// Ranges of a file, of (address, length).
pub type Ranges = Vec<(u64, u64)>;

thread_local! {
    /// The ranges that the trial of this thread lacks; `None` outside a trial.
    static LACKING: RefCell<Option<Ranges>> = const { RefCell::new(None) };
}

/// Ends the trial when it is dropped, also by a panic.
struct Trial;

impl Drop for Trial {
    fn drop(&mut self) {
        LACKING.take();
    }
}

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
            let error = io::ErrorKind::OutOfMemory.into();
            return Err(FormatError::Io { address, error });
        }
        bytes.resize(len_bytes, 0);
        let read = match len >= PAGE_BYTES {
            true => self.read(address, &mut bytes),
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
            let pages = known.map(|offset| {
                let address = self.address(offset);
                let begin = address / PAGE_BYTES * PAGE_BYTES;
                let end = address.saturating_add(len).div_ceil(PAGE_BYTES);
                (begin, end.saturating_mul(PAGE_BYTES) - begin)
            });
            self.fetch(&pages.collect::<Ranges>());
        }
    }

    /// Fetch ranges before they are read, or note in a trial which of them the source lacks.
    pub fn fetch(&self, ranges: &[(u64, u64)]) {
        let is_noted = LACKING.with_borrow_mut(|lacking| match lacking {
            Some(all) => {
                all.extend(
                    ranges
                        .iter()
                        .filter(|&&(begin, len)| self.lacks(begin, len)),
                );
                true
            }
            None => false,
        });
        if !is_noted {
            self.source.prefetch(&mut ranges.iter().copied());
        }
    }

    /// The source has to wait for a part of this range that lies in the file.
    fn lacks(&self, begin: u64, len: u64) -> bool {
        let end = begin.saturating_add(len).min(self.file_size());
        begin < end && !self.source.has(begin, end - begin)
    }

    /// Try out a question without a wait; returns the ranges that the source lacks for it.
    ///
    /// Reads of these fail, so an answer is good if it lacks nothing.
    pub fn lacking(&self, question: impl FnOnce()) -> Ranges {
        let _ends = Trial;
        LACKING.set(Some(Vec::new()));
        question();
        LACKING.take().unwrap_or_default()
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

    fn read(&self, address: u64, out: &mut [u8]) -> io::Result<()> {
        LACKING.with_borrow_mut(|lacking| match lacking {
            Some(all) if self.lacks(address, out.len() as u64) => {
                all.push((address, out.len() as u64));
                Err(io::Error::from(io::ErrorKind::WouldBlock))
            }
            _ => Ok(()),
        })?;
        self.source.read(address, out)
    }

    fn read_pages(&self, address: u64, out: &mut [u8]) -> io::Result<()> {
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

    fn page(&self, number: u64) -> io::Result<Arc<Vec<u8>>> {
        let begin = number * PAGE_BYTES;
        self.pages.get(begin, || {
            let len = PAGE_BYTES.min(self.file_size() - begin);
            let mut bytes = vec![0; len as usize];
            self.read(begin, &mut bytes)?;
            Ok((bytes, len))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    const SIZE: u64 = 10 * PAGE_BYTES;
    const SIZES: Sizes = Sizes {
        address: 8,
        length: 8,
        checks_sums: true,
    };

    /// Zeros in a store. A read of what was not prefetched is a wait.
    #[derive(Default)]
    struct Far {
        here: Mutex<Ranges>,
        waits: Mutex<Ranges>,
    }

    impl ByteSource for Far {
        fn size(&self) -> u64 {
            SIZE
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            if !self.has(offset, out.len() as u64) {
                self.waits.lock().unwrap().push((offset, out.len() as u64));
            }
            Ok(())
        }

        fn prefetch(&self, wanted: &mut dyn Iterator<Item = (u64, u64)>) {
            self.here.lock().unwrap().extend(wanted);
        }

        fn wants_prefetch(&self) -> bool {
            true
        }

        fn has(&self, offset: u64, len: u64) -> bool {
            let here = self.here.lock().unwrap();
            (here.iter()).any(|one| one.0 <= offset && offset + len <= one.0 + one.1)
        }
    }

    #[test]
    fn a_trial_reads_only_what_is_here() {
        let far = Arc::new(Far::default());
        let blocks = Blocks::new(Box::new(far.clone()), 0, SIZES);
        let question = || -> Result<()> {
            blocks.prefetch([7 * PAGE_BYTES, 9 * PAGE_BYTES, SIZE, UNDEFINED], 10);
            blocks.block(PAGE_BYTES + 10, 5)?; // which says where the next one is
            blocks.block(4 * PAGE_BYTES + 1, 2 * PAGE_BYTES).map(drop)
        };
        let page = |number: u64| (number * PAGE_BYTES, PAGE_BYTES);
        for expected in [
            vec![page(7), page(9), page(1)],
            vec![(4 * PAGE_BYTES + 1, 2 * PAGE_BYTES)],
            vec![],
        ] {
            let lacking = blocks.lacking(|| assert_eq!(question().is_ok(), expected.is_empty()));
            assert_eq!(lacking, expected);
            blocks.fetch(&lacking);
        }
        question().unwrap();
        assert!(far.waits.lock().unwrap().is_empty());
    }

    #[test]
    fn a_trial_ends_with_a_panic() {
        let far = Arc::new(Far::default());
        let blocks = Blocks::new(Box::new(far.clone()), 0, SIZES);
        let trial = || blocks.lacking(|| panic!("of the trial"));
        catch_unwind(AssertUnwindSafe(trial)).unwrap_err();
        blocks.block(0, 5).unwrap();
        assert_eq!(*far.waits.lock().unwrap(), [(0, PAGE_BYTES)]);
    }
}
