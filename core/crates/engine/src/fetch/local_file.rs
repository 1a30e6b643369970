//! A file of this machine as a source of metadata.
//!
//! Law:
//! 1. Its length is that at its opening. It is not mapped, as others may truncate it.
//! 2. The parent may keep it open beside its readers.
//! 3. Who holds the lock of HDF5's readers keeps HDF5 libraries from opening the file for writing.

use hdf5_format::source::ByteSource;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub struct LocalFile {
    /// None: it was closed. Locked only to take or clone it: a process may be forked any time.
    file: Mutex<Option<Arc<File>>>,
    size: u64,
}

impl LocalFile {
    /// A name leads to a file; a pipe would wait for its writer.
    pub fn may_be(path: &Path) -> bool {
        std::fs::metadata(path).is_ok_and(|found| found.is_file())
    }

    pub fn open(path: &Path) -> io::Result<LocalFile> {
        LocalFile::over(File::open(path)?)
    }

    /// The file of a descriptor, which stays its owner's.
    pub fn of(descriptor: &OwnedFd) -> io::Result<LocalFile> {
        LocalFile::owning(descriptor.try_clone()?)
    }

    /// The file of a descriptor, which is its own.
    pub fn owning(descriptor: OwnedFd) -> io::Result<LocalFile> {
        LocalFile::over(File::from(descriptor))
    }

    fn over(file: File) -> io::Result<LocalFile> {
        let size = file.metadata()?.len();
        let file = Mutex::new(Some(Arc::new(file)));
        Ok(LocalFile { file, size })
    }

    /// Close the file, though others may hold this. What was not read yet cannot be read then.
    pub fn close(&self) {
        self.file().take();
    }

    /// The number of its descriptor; None: it was closed.
    pub fn descriptor(&self) -> Option<RawFd> {
        self.file().as_ref().map(|file| file.as_raw_fd())
    }

    /// Whether the page cache has the bytes at these places, without a read from the device.
    pub fn has_cached(&self, places: impl IntoIterator<Item = u64>) -> bool {
        let Some(file) = self.file().clone() else {
            return false;
        };
        places.into_iter().all(|at| {
            let mut byte = 0u8;
            let part = libc::iovec {
                iov_base: (&raw mut byte).cast(),
                iov_len: 1,
            };
            let (fd, at) = (file.as_raw_fd(), at as libc::off_t);
            // SAFETY: one iovec over a live byte.
            1 == unsafe { libc::preadv2(fd, &raw const part, 1, at, libc::RWF_NOWAIT) }
        })
    }

    /// Device, inode, size and time of change in nanoseconds, now.
    pub fn state(&self) -> Option<[u64; 4]> {
        let now = self.file().as_ref()?.metadata().ok()?;
        let seconds = now.mtime().wrapping_mul(1_000_000_000);
        let mtime_ns = seconds.wrapping_add(now.mtime_nsec()) as u64;
        Some([now.dev(), now.ino(), now.size(), mtime_ns])
    }

    fn file(&self) -> MutexGuard<'_, Option<Arc<File>>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ByteSource for LocalFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let file = self.file().clone();
        match file {
            Some(file) => file.read_exact_at(out, offset),
            None => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }
}

/// The lock of HDF5's readers, which it takes by `flock`. Dropping it releases it.
pub struct ReadLock {
    /// Kept open.
    _file: File,
}

impl ReadLock {
    /// As HDF5's "best effort": a file system may have no locks. The kind of the error of a file that
    /// is locked by a writer is `WouldBlock`.
    pub fn take(path: &Path) -> io::Result<ReadLock> {
        let file = File::open(path)?;
        // SAFETY: a live descriptor.
        let failed = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_SH | libc::LOCK_NB) } != 0;
        match io::Error::last_os_error() {
            error if failed && error.kind() == io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(ReadLock { _file: file }),
        }
    }
}
