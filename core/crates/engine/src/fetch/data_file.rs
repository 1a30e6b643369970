//! An opened data file: read through the page cache, asked for ahead of time, and compared.
//!
//! Law:
//! 1. A file is what the parent indexed, or it is an error: device, inode, size and time are
//!    compared at opening and after each fetch. Of one that grows, only device and inode are. One
//!    that lost its name is opened through a descriptor, as long as the parent has one.
//! 2. The page cache can be asked without waiting for the device.
//! 3. Bytes that came with the plan are copied from there; the file is still compared.
//! 4. Those who read one file together share its descriptor; a position is named with each read.
//! 5. This file knows nothing of filters, tapes or tasks.

use super::error::FetchError;
use super::recent::Recent;
use super::remote::object::Caches;
use os::descriptors::at_most;
use os::unlinked;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use tables::dataset::{Fingerprint, Source};

/// The kernel's default of how far it reads ahead.
const HINT_BYTES: u64 = 128 << 10;

/// The descriptors of files that were opened lately, if the process may have that many; others are their readers' alone.
const DESCRIPTORS: usize = 64;

/// What a file was opened as: its name, what it was then, and whether the page cache is bypassed.
type OpenedAs = (Vec<u8>, Fingerprint, bool);

/// The descriptors of data files that are open, which all clones share.
#[derive(Clone, Debug)]
pub struct OpenFiles {
    descriptors: Arc<Mutex<Recent<OpenedAs, Arc<OwnedFd>>>>,
    /// Of objects of stores.
    pub caches: Caches,
}

impl Default for OpenFiles {
    fn default() -> OpenFiles {
        OpenFiles {
            descriptors: Arc::new(Mutex::new(Recent::new(at_most(DESCRIPTORS, 1)))),
            caches: Caches::default(),
        }
    }
}

impl OpenFiles {
    fn descriptor(&self, source: &Source, direct: bool) -> Result<Arc<OwnedFd>, FetchError> {
        let mut open = self
            .descriptors
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_it = |(name, fingerprint, around): &OpenedAs| {
            *fingerprint == source.fingerprint && *around == direct && *name == source.filename
        };
        let found = open.get_or_make(is_it, || {
            let fd = Arc::new(opened(source, direct)?);
            Ok(((source.filename.clone(), source.fingerprint, direct), fd))
        });
        found.map(|fd| fd.clone())
    }
}

fn opened(source: &Source, direct: bool) -> Result<OwnedFd, FetchError> {
    let fingerprint = &source.fingerprint;
    match descriptor(&source.filename, direct) {
        Err(FetchError::Open(error)) if error.kind() == io::ErrorKind::NotFound => {
            match unlinked::name_of(fingerprint.device, fingerprint.inode) {
                Some(name) => descriptor(name.as_os_str().as_bytes(), direct),
                None => Err(FetchError::Open(error)),
            }
        }
        known => known,
    }
}

fn descriptor(filename: &[u8], direct: bool) -> Result<OwnedFd, FetchError> {
    let name = CString::new(filename)
        .map_err(|_| FetchError::Open(io::Error::from_raw_os_error(libc::EINVAL)))?;
    let around = if direct { libc::O_DIRECT } else { 0 };
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | around;
    // SAFETY: a valid C string; the result is owned below.
    let raw = unsafe { libc::open(name.as_ptr(), flags) };
    if raw < 0 {
        return Err(FetchError::Open(io::Error::last_os_error()));
    }
    // SAFETY: `raw` was just opened and belongs to nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// An opened data file.
#[derive(Debug)]
pub struct DataFile {
    fd: Arc<OwnedFd>,
    fingerprint: Fingerprint,
    grows: bool,
    /// The page cache can be asked without waiting (preadv2 with RWF_NOWAIT).
    probe: bool,
    pub fetches: u64,
    /// Of them, those that there were when it was compared last.
    compared: AtomicU64,
    /// The kernel takes no longer hint; 0: not yet asked for.
    hint_bytes: u64,
    /// The bytes, where they came with the plan and are not fetched.
    inline: Arc<[u8]>,
}

impl DataFile {
    /// Open it, unless it is among the `files` already.
    pub fn open(source: &Source, direct: bool, files: &OpenFiles) -> Result<DataFile, FetchError> {
        let file = DataFile {
            fd: files.descriptor(source, direct)?,
            fingerprint: source.fingerprint,
            grows: source.grows,
            probe: !direct,
            fetches: 0,
            compared: AtomicU64::new(0),
            hint_bytes: 0,
            inline: source.inline.clone(),
        };
        file.check_unchanged()?;
        Ok(file)
    }

    /// Open the file that a library reads, to compare it. None for an object of a store: the client
    /// compares its version with each request.
    pub fn of_library(source: &Source, files: &OpenFiles) -> Result<Option<DataFile>, FetchError> {
        let is_file = source.access.is_none();
        is_file
            .then(|| DataFile::open(source, false, files))
            .transpose()
    }

    /// The file is still the one that was indexed. Call after a fetch, before its bytes are used.
    pub fn check_unchanged(&self) -> Result<(), FetchError> {
        // SAFETY: plain data that fstat fills.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: a live descriptor and a valid place for the answer.
        if unsafe { libc::fstat(self.fd.as_raw_fd(), &raw mut stat) } != 0 {
            return Err(FetchError::Read(io::Error::last_os_error()));
        }
        let found = Fingerprint {
            device: stat.st_dev,
            inode: stat.st_ino,
            size_bytes: stat.st_size as u64,
            mtime_ns: (stat.st_mtime as u64)
                .wrapping_mul(1_000_000_000)
                .wrapping_add(stat.st_mtime_nsec as u64),
        };
        let known = &self.fingerprint;
        let is_it = (found.device, found.inode) == (known.device, known.inode);
        if found == *known || (self.grows && is_it) {
            return Ok(());
        }
        Err(FetchError::Changed {
            expected: self.fingerprint.size_bytes,
            got: found.size_bytes,
        })
    }

    /// Whether it was read since the last call.
    pub fn was_read(&self) -> bool {
        self.compared.swap(self.fetches, Relaxed) != self.fetches
    }

    pub fn descriptor(&self) -> &Arc<OwnedFd> {
        &self.fd
    }

    /// Fill `out` from the page cache without waiting for the device; the bytes that were there.
    pub fn read_cached(&mut self, out: &mut [u8], byte_offset: u64) -> usize {
        self.fetches += u64::from(self.probe);
        self.look(out, byte_offset)
    }

    /// The page cache has this byte.
    pub fn has_cached(&mut self, byte_offset: u64) -> bool {
        self.look(&mut [0], byte_offset) == 1
    }

    fn look(&mut self, out: &mut [u8], byte_offset: u64) -> usize {
        if !self.inline.is_empty() {
            let from = usize::try_from(byte_offset).unwrap_or(usize::MAX);
            let bytes = self.inline.get(from..).unwrap_or_default();
            let len = bytes.len().min(out.len());
            out[..len].copy_from_slice(&bytes[..len]);
            return len;
        }
        if !self.probe {
            return 0;
        }
        let part = libc::iovec {
            iov_base: out.as_mut_ptr().cast(),
            iov_len: out.len(),
        };
        // SAFETY: one iovec over a live slice.
        let got = unsafe {
            libc::preadv2(
                self.fd.as_raw_fd(),
                &raw const part,
                1,
                byte_offset as libc::off_t,
                libc::RWF_NOWAIT,
            )
        };
        if got >= 0 {
            return got as usize;
        }
        let code = io::Error::last_os_error().raw_os_error();
        if !matches!(code, Some(libc::EAGAIN | libc::EINTR)) {
            self.probe = false;
        }
        0
    }

    /// Fill places that are filled one after the other, without waiting for the device. False: they
    /// were not all filled, and may hold anything.
    ///
    /// # Safety
    /// The places must be the caller's to write, for as long as this takes.
    pub unsafe fn read_places(&mut self, places: &[libc::iovec], byte_offset: u64) -> bool {
        let mut at = byte_offset;
        for group in places.chunks(libc::UIO_MAXIOV as usize) {
            let len: usize = group.iter().map(|place| place.iov_len).sum();
            if !self.probe || !self.inline.is_empty() {
                return false;
            }
            // SAFETY: the caller's promise; there are as many as are said.
            let got = unsafe {
                libc::preadv2(
                    self.fd.as_raw_fd(),
                    group.as_ptr(),
                    group.len() as libc::c_int,
                    at as libc::off_t,
                    libc::RWF_NOWAIT,
                )
            };
            self.fetches += 1;
            if got < 0 || got as usize != len {
                return false;
            }
            at += len as u64;
        }
        true
    }

    /// Fill `out`, waiting for the device; the first `have` bytes are there already.
    pub fn read(
        &mut self,
        out: &mut [u8],
        byte_offset: u64,
        have: usize,
    ) -> Result<(), FetchError> {
        let mut done = have;
        if !self.inline.is_empty() && done < out.len() {
            return Err(FetchError::Short {
                expected: out.len() as u64,
                got: done as u64,
            });
        }
        while done < out.len() {
            let rest = &mut out[done..];
            // SAFETY: the pointer and length are those of a live slice.
            let got = unsafe {
                libc::pread(
                    self.fd.as_raw_fd(),
                    rest.as_mut_ptr().cast(),
                    rest.len(),
                    (byte_offset + done as u64) as libc::off_t,
                )
            };
            self.fetches += 1;
            match got {
                0 => {
                    self.check_unchanged()?;
                    return Err(FetchError::Short {
                        expected: out.len() as u64,
                        got: done as u64,
                    });
                }
                1.. => done += got as usize,
                _ => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(FetchError::Read(error));
                    }
                }
            }
        }
        Ok(())
    }

    /// Tell the kernel what will be wanted soon, in pieces that it takes whole.
    pub fn hint(&mut self, byte_offset: u64, len: u64) {
        if self.hint_bytes == 0 {
            self.hint_bytes = hint_bytes(self.fingerprint.device);
        }
        for at in (0..len).step_by(self.hint_bytes as usize) {
            // SAFETY: a live descriptor; advice has no other effect.
            unsafe {
                libc::posix_fadvise(
                    self.fd.as_raw_fd(),
                    (byte_offset + at) as libc::off_t,
                    self.hint_bytes.min(len - at) as libc::off_t,
                    libc::POSIX_FADV_WILLNEED,
                );
            }
        }
    }
}

/// Of a longer hint the kernel takes the beginning: the longest request of the disk, or as far as it
/// reads ahead. The default where no disk is seen (network file systems, FUSE).
fn hint_bytes(device: u64) -> u64 {
    let number = format!("{}:{}", libc::major(device), libc::minor(device));
    let read = |name: &str| {
        // A partition lies in the folder of its disk.
        let folders =
            ["queue", "../queue"].map(|at| format!("/sys/dev/block/{number}/{at}/{name}"));
        let text = folders
            .iter()
            .find_map(|file| std::fs::read_to_string(file).ok())?;
        text.trim().parse::<u64>().ok()
    };
    let kilobytes = read("max_sectors_kb").max(read("read_ahead_kb"));
    kilobytes.map_or(HINT_BYTES, |found| (found << 10).max(HINT_BYTES))
}
