//! The file of one object: a header, a word for each page, and the pages.
//!
//! Law:
//! 1. A word is 0, or `COUNTED` where there is room for the page, or the CRC-32 of the page. The page is
//!    written before its CRC, so a crash leaves a page without one. After a loss of power, or with
//!    damaged bytes, the CRC differs. Both are read as missing.
//! 2. A file belongs to the object whose header it has, byte by byte, with the keyed hash of the folder.
//! 3. A file is neither mapped nor truncated. It is sparse, and ends where it was last written: what
//!    is behind its end is missing.

use super::file_calls::{filled, flock};
use super::folder::{Folder, is_foreign};
use libdeflater::crc32;
use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::SystemTime;

/// What is fetched and kept as one.
pub const PAGE_BYTES: u64 = 64 << 10;
/// A larger object would not fit into a file, with its header and words.
pub(super) const MAX_OBJECT_BYTES: u64 = 1 << 62;
/// What file systems allocate as one.
const BLOCK_BYTES: u64 = 4 << 10;
/// Changes with the form of the file.
const MAGIC: u64 = u64::from_le_bytes(*b"mtpages2");
/// Magic, bytes of a page, bytes of the object, of its URL and of its version, and the keyed hash of
/// all this.
const HEADER_WORDS: usize = 6;

/// The word of a page that is counted, but perhaps not there.
pub(super) const COUNTED: u32 = 1;

/// The word of a page that is there: its CRC-32, where that is no other word.
pub(super) fn word_of(sum: u32) -> u32 {
    sum.max(COUNTED + 1)
}

/// Where the parts of a file lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Of the object.
    pub size: u64,
    words_at: u64,
    /// Of the first page, and the bytes that are counted for what stands before it.
    pub data_at: u64,
}

impl Layout {
    fn new(size: u64, names_bytes: u64) -> Layout {
        let words_at = (8 * HEADER_WORDS as u64).saturating_add(names_bytes);
        let words_end = words_at.saturating_add(4 * size.div_ceil(PAGE_BYTES));
        Layout {
            size,
            words_at,
            data_at: words_end.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES),
        }
    }

    /// Where pages lie in the object.
    pub fn bytes_of(&self, pages: Range<u64>) -> Range<u64> {
        pages.start * PAGE_BYTES..pages.end.saturating_mul(PAGE_BYTES).min(self.size)
    }

    /// What a page takes on the disk.
    pub fn page_bytes(&self, page: u64) -> u64 {
        let bytes = self.bytes_of(page..page + 1);
        (bytes.end - bytes.start).next_multiple_of(BLOCK_BYTES)
    }
}

/// What a file begins with.
pub(super) struct Header {
    bytes: Vec<u8>,
    pub layout: Layout,
}

impl Header {
    pub fn new(url: &[u8], version: &[u8], size: u64, tag: impl Fn(&[u8]) -> u64) -> Header {
        let lens = [url.len() as u64, version.len() as u64];
        let words = [MAGIC, PAGE_BYTES, size, lens[0], lens[1]].map(u64::to_le_bytes);
        let names = [url, version].concat();
        let tag = tag(&[words.as_flattened(), &names].concat()).to_le_bytes();
        Header {
            bytes: [words.as_flattened(), &tag, &names].concat(),
            layout: Layout::new(size, lens[0] + lens[1]),
        }
    }
}

#[derive(Debug)]
pub(super) struct PageFile {
    pub file: File,
    pub layout: Layout,
}

impl PageFile {
    /// None: no file has this header.
    pub fn find(folder: &Folder, name: &str, header: &Header) -> io::Result<Option<PageFile>> {
        let file = match folder.file(name) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound || is_foreign(&error) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let mut found = vec![0; header.bytes.len()];
        let is_it = filled(&file, &mut found, 0)? == found.len() && found == header.bytes;
        let layout = header.layout;
        Ok(is_it.then_some(PageFile { file, layout }))
    }

    pub fn create(folder: &Folder, name: &str, header: &Header) -> io::Result<PageFile> {
        let file = folder.new_file(name)?;
        file.write_all_at(&header.bytes, 0)?;
        let layout = header.layout;
        Ok(PageFile { file, layout })
    }

    /// Show that the object is in use, and was opened now.
    pub fn start_use(&self) -> io::Result<()> {
        flock(&self.file, libc::LOCK_SH)?;
        self.file.set_modified(SystemTime::now())
    }

    /// Another version took its place.
    pub fn is_unlinked(&self) -> io::Result<bool> {
        Ok(self.file.metadata()?.nlink() == 0)
    }

    pub fn words(&self, pages: Range<u64>) -> io::Result<Vec<u32>> {
        let at = self.layout.words_at + 4 * pages.start;
        words(&self.file, at, pages.end - pages.start)
    }

    /// Set the words from that of page `first` on.
    pub fn put_words(&self, first: u64, words: &[u32]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = self.layout.words_at + 4 * first;
        self.file.write_all_at(&bytes, at)
    }

    /// Fill `places` one after the other, from page `first` on. Returns how many bytes were there.
    pub fn read(&self, first: u64, places: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let at = self.layout.data_at + first * PAGE_BYTES;
        loop {
            // SAFETY: an IoSliceMut is an iovec over a live slice, and there are as many as are said.
            let got = unsafe {
                libc::preadv(
                    self.file.as_raw_fd(),
                    places.as_ptr().cast(),
                    places.len() as libc::c_int,
                    at as libc::off_t,
                )
            };
            if got >= 0 {
                return Ok(got as usize);
            }
            let error = io::Error::last_os_error();
            if error.kind() != ErrorKind::Interrupted {
                return Err(error);
            }
        }
    }

    /// Write whole pages, which are counted, from page `first` on, then their words.
    pub fn write(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let at = self.layout.data_at + first * PAGE_BYTES;
        self.file.write_all_at(bytes, at)?;
        let pages = bytes.chunks(PAGE_BYTES as usize);
        let words: Vec<u32> = pages.map(|page| word_of(crc32(page))).collect();
        self.put_words(first, &words)
    }
}

/// What a file counts for. None: it is damaged, or has another form.
pub(super) fn counted_bytes(file: &File) -> io::Result<Option<u64>> {
    let mut header = [[0; 8]; HEADER_WORDS];
    filled(file, header.as_flattened_mut(), 0)?;
    let [magic, page_bytes, size, url_bytes, version_bytes, _] = header.map(u64::from_le_bytes);
    if [magic, page_bytes] != [MAGIC, PAGE_BYTES] {
        return Ok(None);
    }
    let layout = Layout::new(size, url_bytes.saturating_add(version_bytes));
    // A damaged header may name any size, so the length of the file bounds what is read.
    let behind = file.metadata()?.len().saturating_sub(layout.words_at);
    let n_pages = size.div_ceil(PAGE_BYTES).min(behind / 4);
    let words = words(file, layout.words_at, n_pages)?;
    let counted = (0..).zip(words).filter(|&(_, word)| word != 0);
    let pages: u64 = counted.map(|(page, _)| layout.page_bytes(page)).sum();
    Ok(Some(layout.data_at.saturating_add(pages)))
}

fn words(file: &File, at: u64, n: u64) -> io::Result<Vec<u32>> {
    let mut words = vec![[0; 4]; n as usize];
    filled(file, words.as_flattened_mut(), at)?;
    Ok(words.into_iter().map(u32::from_le_bytes).collect())
}

/// Neighbouring pages with the same flag.
pub(super) fn runs(flags: &[bool], flag: bool) -> Vec<Range<usize>> {
    let mut end = 0;
    let groups = flags.chunk_by(|one, other| one == other).map(|group| {
        end += group.len();
        (group[0], end - group.len()..end)
    });
    let found = groups.filter(|&(of_group, _)| of_group == flag);
    found.map(|(_, run)| run).collect()
}
