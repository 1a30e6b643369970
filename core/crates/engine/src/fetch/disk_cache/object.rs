//! Reading an object: the pages that are kept, checked, and the others fetched.
//!
//! Law:
//! 1. Every byte from the disk has passed the CRC-32 of its page.
//! 2. Missing neighbours are fetched together. Pages that are kept are fetched whole; where there is no
//!    room to keep them, only the bytes that were asked for are.
//! 3. Knows nothing of how bytes are fetched. An error of the fetch is the caller's own.

use super::DiskCache;
use super::page_file::{COUNTED, Header, MAX_OBJECT_BYTES, PAGE_BYTES, PageFile, runs, word_of};
use libdeflater::Crc;
use std::io::IoSliceMut;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Pages that are read at once, which then are in the CPU's cache when they are checked.
const READ_PAGES: usize = 16;

/// Fills memory with the bytes of an object from a position on.
pub type Fetch<'a, E> = dyn FnMut(u64, &mut [u8]) -> Result<(), E> + 'a;

/// An object of a `DiskCache`. While there is one, no process evicts its pages.
#[derive(Debug)]
pub struct CachedObject {
    cache: DiskCache,
    /// None: no page of it is kept.
    file: Option<PageFile>,
}

/// Where the bytes of a read came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadFrom {
    /// Bytes that were asked for and came from the disk.
    pub cached: u64,
    /// Bytes that were fetched, with those around what was asked for.
    pub fetched: u64,
}

/// Bytes of an object that are asked for, and the pages that they lie in.
struct Wanted<'a> {
    begin: u64,
    out: &'a mut [u8],
    first: u64,
}

impl Wanted<'_> {
    fn end(&self) -> u64 {
        self.begin + self.out.len() as u64
    }

    /// The part of `out` that these bytes of the object fill.
    fn part(&mut self, bytes: &Range<u64>) -> &mut [u8] {
        let from = bytes.start.max(self.begin) - self.begin;
        let to = bytes.end.min(self.end()) - self.begin;
        &mut self.out[from as usize..to as usize]
    }

    /// Pages by their numbers in the object.
    fn pages(&self, run: &Range<usize>) -> Range<u64> {
        self.first + run.start as u64..self.first + run.end as u64
    }
}

impl DiskCache {
    /// The object of `size` bytes at a URL, in a version such as its ETag. The URL must not contain a
    /// signature: the file's header shows it, and with the next signature it would be another object.
    pub fn object(&self, url: &[u8], version: &[u8], size: u64) -> CachedObject {
        let file = match size {
            1..=MAX_OBJECT_BYTES => {
                let tag = |header: &[u8]| self.0.folder.tag(header);
                self.noted(self.page_file(&Header::new(url, version, size, tag), url))
            }
            _ => None,
        };
        CachedObject::new(self.clone(), file.flatten())
    }
}

impl CachedObject {
    pub(super) fn new(cache: DiskCache, file: Option<PageFile>) -> CachedObject {
        CachedObject { cache, file }
    }

    /// Fill `out` with the bytes from `begin` on. `fetch` is called for each run of missing pages,
    /// which are then kept. A range beyond the end of the object is passed on to `fetch` as it is.
    pub fn read<E>(
        &self,
        begin: u64,
        out: &mut [u8],
        fetch: &mut Fetch<'_, E>,
    ) -> Result<ReadFrom, E> {
        let len = out.len() as u64;
        if len == 0 {
            return Ok(ReadFrom::default());
        }
        let Some((file, pages)) = self.pages(begin, len) else {
            fetch(begin, out)?;
            let (cached, fetched) = (0, len);
            return Ok(ReadFrom { cached, fetched });
        };
        let words = self.words(file, pages.clone());
        let mut missing: Vec<bool> = words.iter().map(|&word| word <= COUNTED).collect();
        let first = pages.start;
        let mut wanted = Wanted { begin, out, first };
        let mut from = ReadFrom::default();
        for run in runs(&missing, false) {
            for at in run.clone().step_by(READ_PAGES) {
                let group = at..run.end.min(at + READ_PAGES);
                from.cached += self.copy(file, group, &words, &mut wanted, &mut missing);
            }
        }
        let kept = match missing.contains(&true) {
            true => self.kept(file, pages, &words, &missing),
            false => return Ok(from),
        };
        for run in runs(&missing, true) {
            from.fetched += self.fetch(file, run, &kept, &mut wanted, fetch)?;
        }
        Ok(from)
    }

    /// The whole range is there, though a page may turn out to be damaged when it is read.
    pub fn has(&self, begin: u64, len: u64) -> bool {
        let Some((file, pages)) = self.pages(begin, len) else {
            return len == 0;
        };
        let words = self.words(file, pages);
        len == 0 || words.iter().all(|&word| word > COUNTED)
    }

    /// The file, and the pages of a range within the object.
    fn pages(&self, begin: u64, len: u64) -> Option<(&PageFile, Range<u64>)> {
        let file = self.file.as_ref()?;
        let end = begin.checked_add(len)?;
        let pages = begin / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        (end <= file.layout.size).then_some((file, pages))
    }

    fn words(&self, file: &PageFile, pages: Range<u64>) -> Vec<u32> {
        let words = self.cache.noted(file.words(pages.clone()));
        words.unwrap_or_else(|| vec![0; (pages.end - pages.start) as usize])
    }

    /// Read neighbours from the disk; a damaged page becomes `missing`. Returns how many wanted bytes
    /// were right.
    fn copy(
        &self,
        file: &PageFile,
        run: Range<usize>,
        words: &[u32],
        wanted: &mut Wanted<'_>,
        missing: &mut [bool],
    ) -> u64 {
        let pages = wanted.pages(&run);
        let bytes = file.layout.bytes_of(pages.clone());
        let asked = wanted.begin..wanted.end();
        let before = asked.start.saturating_sub(bytes.start) as usize;
        let behind = bytes.end.saturating_sub(asked.end) as usize;
        let mut around = vec![0; before + behind];
        let (head, tail) = around.split_at_mut(before);
        let part = wanted.part(&bytes);
        let mut places = [&mut *head, &mut *part, &mut *tail].map(IoSliceMut::new);
        let got = self.cache.noted(file.read(pages.start, &mut places));
        let end = bytes.start + got.unwrap_or(0) as u64;
        let mut copied = 0;
        for (page, at) in pages.zip(run) {
            let page = file.layout.bytes_of(page..page + 1);
            let within = (page.start - bytes.start) as usize..(page.end - bytes.start) as usize;
            let is_right = || word_of(sum([head, part, tail], within)) == words[at];
            missing[at] = page.end > end || !is_right();
            if !missing[at] {
                copied += page.end.min(asked.end) - page.start.max(asked.start);
            }
        }
        copied
    }

    /// Which missing pages there is room for.
    fn kept(
        &self,
        file: &PageFile,
        pages: Range<u64>,
        words: &[u32],
        missing: &[bool],
    ) -> Vec<bool> {
        let none = vec![false; missing.len()];
        if self.cache.trouble().is_some() {
            return none;
        }
        if self.cache.was_full_lately() {
            // A page with a word is counted already.
            let counted = missing.iter().zip(words);
            return counted.map(|(&is, &word)| is && word != 0).collect();
        }
        let counted = self.cache.count_pages(file, pages, missing);
        self.cache.noted(counted).unwrap_or(none)
    }

    /// Fetch neighbours, and write the `kept` pages. Returns how many bytes were fetched.
    fn fetch<E>(
        &self,
        file: &PageFile,
        run: Range<usize>,
        kept: &[bool],
        wanted: &mut Wanted<'_>,
        fetch: &mut Fetch<'_, E>,
    ) -> Result<u64, E> {
        let mut bytes = file.layout.bytes_of(wanted.pages(&run));
        let asked = wanted.begin..wanted.end();
        if !kept[run.start] {
            bytes.start = bytes.start.max(asked.start);
        }
        if !kept[run.end - 1] {
            bytes.end = bytes.end.min(asked.end);
        }
        let len = bytes.end - bytes.start;
        let first = wanted.first;
        let part = wanted.part(&bytes);
        let mut around = Vec::new();
        let fetched = if part.len() as u64 == len {
            fetch(bytes.start, part)?;
            part
        } else {
            around.resize(len as usize, 0);
            fetch(bytes.start, &mut around)?;
            let before = asked.start.saturating_sub(bytes.start) as usize;
            part.copy_from_slice(&around[before..][..part.len()]);
            &mut around
        };
        for keep in runs(&kept[run.clone()], true) {
            let start = first + (run.start + keep.start) as u64;
            let page = file.layout.bytes_of(start..start + keep.len() as u64);
            let from = (page.start - bytes.start) as usize;
            let whole = &fetched[from..][..(page.end - page.start) as usize];
            if self.cache.trouble().is_none() {
                self.cache.noted(file.write(start, whole));
            }
        }
        Ok(len)
    }
}

impl Drop for CachedObject {
    /// It may be evicted now, so a look for room may find some.
    fn drop(&mut self) {
        self.cache.0.full_until_ns.store(0, Ordering::Relaxed);
    }
}

/// The CRC-32 of a range of bytes that lie in three places.
fn sum(places: [&[u8]; 3], range: Range<usize>) -> u32 {
    let (mut crc, mut begin) = (Crc::new(), 0);
    for place in places {
        let within = |at: usize| at.saturating_sub(begin).min(place.len());
        crc.update(&place[within(range.start)..within(range.end)]);
        begin += place.len();
    }
    crc.sum()
}
