//! Ranges of remote objects, kept in a folder of a local disk within a bound.
//!
//! Operations: `open` a folder; `object` of a URL in its version; `read` ranges of it, with a closure
//! that fetches what is missing. Several threads and processes use one folder at the same time.
//!
//! Law:
//! 1. The folder's lock (an exclusive `flock` of the file `used`) guards which files there are and the
//!    count of their bytes. It is held for a few system calls, never while bytes are fetched, read or
//!    written: processes that need the same page at the same time all fetch it.
//! 2. A file is counted with its header and with the pages that have a word. The count never exceeds
//!    the limit of the process that adds to it. The first to open a folder counts again, as processes
//!    may have died while they counted.
//! 3. When the folder is full, objects that no process has open go, the least recently opened or
//!    filled first. Pages of open objects stay: epochs go round over more than fits, so replacing
//!    pages would hit nothing, while the pages that came first are hit each time.
//! 4. Another version of a URL replaces the file of the old one. A process that still reads the old
//!    one goes on with what it has. It adds nothing, and the disk has its bytes until it closes it.
//! 5. An error of the disk never fails a read: its bytes are fetched. The first error is remembered,
//!    and nothing is written from then on.
//! 6. Only what this user wrote is believed; see folder.rs.

mod file_calls;
mod folder;
mod object;
mod page_file;

pub use object::{CachedObject, Fetch, ReadFrom};
pub use page_file::PAGE_BYTES;

use file_calls::flock;
use folder::{Folder, Lock};
use os::clock::now_ns;
use page_file::{COUNTED, Header, PageFile, counted_bytes, runs};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// After a vain look for room, the next look waits this long: a large folder takes a while to look through.
const FULL_NS: u64 = 1_000_000_000;

/// A folder, and how many bytes it may have.
#[derive(Clone, Debug)]
pub struct DiskCache(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: Folder,
    limit: u64,
    full_until_ns: AtomicU64,
    trouble: OnceLock<io::Error>,
}

impl DiskCache {
    /// Open a folder, which is created with its parents, for this user alone.
    pub fn open(folder: &Path, limit_bytes: u64) -> io::Result<DiskCache> {
        let folder = Folder::open(folder)?;
        let locked = LockedFolder::lock(&folder)?;
        if folder::is_alone(&folder) {
            locked.count_anew()?;
        }
        flock(&folder.descriptor, libc::LOCK_SH)?;
        locked.make_room(0, limit_bytes)?;
        drop(locked);
        Ok(DiskCache(Arc::new(Shared {
            folder,
            limit: limit_bytes,
            full_until_ns: AtomicU64::new(0),
            trouble: OnceLock::new(),
        })))
    }

    /// Whether a folder can be opened, which is created if it is missing; the error says why not.
    pub fn check(folder: &Path) -> io::Result<()> {
        Folder::open(folder).map(drop)
    }

    /// The bytes of all files in the folder.
    pub fn used_bytes(&self) -> io::Result<u64> {
        LockedFolder::lock(&self.0.folder)?.used()
    }

    /// The first error of the disk. Since then nothing is written.
    pub fn trouble(&self) -> Option<&io::Error> {
        self.0.trouble.get()
    }

    /// Remember an error.
    fn noted<T>(&self, result: io::Result<T>) -> Option<T> {
        result.map_err(|error| self.0.trouble.set(error)).ok()
    }

    /// Find the file of an object, or create it. None: there is no room for one.
    fn page_file(&self, header: &Header, url: &[u8]) -> io::Result<Option<PageFile>> {
        let (folder, name) = (&self.0.folder, file_name(url));
        let locked = LockedFolder::lock(folder)?;
        let mut file = PageFile::find(folder, &name, header)?;
        if file.is_none() && self.trouble().is_none() {
            locked.remove(&name)?;
            let bytes = header.layout.data_at;
            let used = locked.make_room(bytes, self.0.limit)?;
            if used.saturating_add(bytes) <= self.0.limit {
                locked.set_used(used + bytes)?;
                file = Some(PageFile::create(folder, &name, header)?);
            }
        }
        if let Some(file) = &file {
            file.start_use()?;
        }
        Ok(file)
    }

    /// Count the `missing` pages that have no word yet, as far as there is room. Returns which missing
    /// pages are counted, now or earlier, and so may be written.
    fn count_pages(
        &self,
        file: &PageFile,
        pages: Range<u64>,
        missing: &[bool],
    ) -> io::Result<Vec<bool>> {
        let locked = LockedFolder::lock(&self.0.folder)?;
        if file.is_unlinked()? {
            return Ok(vec![false; missing.len()]);
        }
        let words = file.words(pages.clone())?;
        let each = (pages.start..).zip(missing.iter().zip(&words));
        let new_bytes = each.map(|(page, (&is_missing, &word))| {
            (is_missing && word == 0).then(|| file.layout.page_bytes(page))
        });
        let new_bytes: Vec<Option<u64>> = new_bytes.collect();
        let wanted = new_bytes.iter().flatten().sum();
        let mut used = locked.make_room(wanted, self.0.limit)?;
        let mut has_room = true;
        let granted = new_bytes.into_iter().map(|bytes| {
            let bytes = bytes?;
            has_room &= used.saturating_add(bytes) <= self.0.limit;
            used += if has_room { bytes } else { 0 };
            has_room.then_some(bytes)
        });
        let granted: Vec<bool> = granted.map(|bytes| bytes.is_some()).collect();
        locked.set_used(used)?;
        for run in runs(&granted, true) {
            file.put_words(pages.start + run.start as u64, &vec![COUNTED; run.len()])?;
        }
        if !has_room {
            let until = now_ns() + FULL_NS;
            self.0.full_until_ns.store(until, Ordering::Relaxed);
        }
        let counted = |at: usize| missing[at] && (words[at] != 0 || granted[at]);
        Ok((0..missing.len()).map(counted).collect())
    }

    fn was_full_lately(&self) -> bool {
        now_ns() < self.0.full_until_ns.load(Ordering::Relaxed)
    }
}

/// A folder whose lock this has.
struct LockedFolder<'a> {
    folder: &'a Folder,
    /// The count and its complement, which shows whether a count was written whole.
    used: Lock,
}

impl LockedFolder<'_> {
    fn lock(folder: &Folder) -> io::Result<LockedFolder<'_>> {
        let used = Lock::of(folder)?;
        Ok(LockedFolder { folder, used })
    }

    fn used(&self) -> io::Result<u64> {
        let mut words = [[0; 8]; 2];
        let read = self.used.file.read_exact_at(words.as_flattened_mut(), 0);
        let [used, complement] = words.map(u64::from_le_bytes);
        match read {
            Ok(()) if used == !complement => Ok(used),
            _ => self.count_anew(),
        }
    }

    fn set_used(&self, used: u64) -> io::Result<()> {
        let words = [used, !used].map(u64::to_le_bytes);
        self.used.file.write_all_at(words.as_flattened(), 0)
    }

    /// The names of the files of objects, the least recently opened or filled first. What has such a
    /// name and is not ours is removed, if that can be.
    fn files(&self) -> io::Result<Vec<String>> {
        let mut found = Vec::new();
        for name in self.folder.names()? {
            match is_ours(name.as_bytes()).then(|| self.folder.file(&name)) {
                None => {}
                Some(Ok(file)) => found.push((file.metadata()?.modified()?, name)),
                Some(Err(error)) if folder::is_foreign(&error) => drop(self.folder.remove(&name)),
                Some(Err(error)) => return Err(error),
            }
        }
        found.sort();
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }

    fn count_anew(&self) -> io::Result<u64> {
        let mut used = 0;
        for name in self.files()? {
            match counted_bytes(&self.folder.file(&name)?)? {
                Some(bytes) => used += bytes,
                None => self.folder.remove(&name)?,
            }
        }
        self.set_used(used)?;
        Ok(used)
    }

    /// Remove objects that no process has open, until there is room for `bytes` more. Returns what is
    /// used then.
    fn make_room(&self, bytes: u64, limit: u64) -> io::Result<u64> {
        let used = self.used()?;
        if used.saturating_add(bytes) <= limit {
            return Ok(used);
        }
        for name in self.files()? {
            let file = self.folder.file(&name)?;
            if flock(&file, libc::LOCK_EX | libc::LOCK_NB).is_ok()
                && self.remove(&name)?.saturating_add(bytes) <= limit
            {
                break;
            }
        }
        self.used()
    }

    /// Remove the file of an object, or what else has its name. Returns what is used then.
    fn remove(&self, name: &str) -> io::Result<u64> {
        let used = self.used()?;
        let bytes = match self.folder.file(name) {
            Ok(file) => counted_bytes(&file)?.unwrap_or(0),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(used),
            Err(error) if folder::is_foreign(&error) => 0,
            Err(error) => return Err(error),
        };
        self.folder.remove(name)?;
        let used = used.saturating_sub(bytes);
        self.set_used(used)?;
        Ok(used)
    }
}

/// FNV-1a of 128 bits: the same in each version of this library. The header settles collisions.
fn file_name(url: &[u8]) -> String {
    let mixed = |hash: u128, &byte: &u8| (hash ^ u128::from(byte)).wrapping_mul(0x13b | 1 << 88);
    let hash = url
        .iter()
        .fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, mixed);
    format!("{hash:032x}.pages")
}

/// Other files that somebody may have put into the folder are left alone.
fn is_ours(name: &[u8]) -> bool {
    let hash = name.strip_suffix(b".pages");
    hash.is_some_and(|hash| hash.len() == 32 && hash.iter().all(u8::is_ascii_hexdigit))
}

#[cfg(test)]
mod tests;
