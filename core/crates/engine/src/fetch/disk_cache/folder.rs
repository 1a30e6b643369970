//! The folder of a cache by its descriptor, and the key that binds its files to it.
//!
//! Law:
//! 1. What another user put here is refused. The folder and each file in it belong to this process'
//!    user, no other user may write them, and a file is a regular one that has no second name.
//! 2. Files are opened below the descriptor of the folder, and no symbolic link is followed: what takes
//!    the folder's name later changes nothing.
//! 3. The key is random, and stands in the file `key`. A file that was made without it is not believed.

use super::file_calls::{filled, flock};
use std::collections::hash_map::RandomState;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Others may write.
const OPEN_TO_OTHERS: u32 = 0o022;
/// The owner may write, and list.
const USABLE: u32 = 0o300;

#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Its shared lock shows other processes that the folder is in use.
    pub descriptor: File,
    key: [u64; 2],
}

impl Folder {
    /// Open a folder, which is created with its parents, for this user alone.
    pub fn open(path: &Path) -> io::Result<Folder> {
        if path.is_symlink() {
            return refused("it is a symbolic link");
        }
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700).create(path)?;
        let descriptor = open_at(libc::AT_FDCWD, path, libc::O_RDONLY | libc::O_DIRECTORY)?;
        check(&descriptor, "it")?;
        if descriptor.metadata()?.mode() & USABLE != USABLE {
            return refused("its owner may not write it");
        }
        let mut folder = Folder {
            path: path.into(),
            descriptor,
            key: [0; 2],
        };
        let locked = Lock::of(&folder)?;
        folder.key = folder.read_key()?;
        drop(locked);
        Ok(folder)
    }

    /// Read the key, or make one: the files that there are then belong to nobody.
    fn read_key(&self) -> io::Result<[u64; 2]> {
        let (mut words, file) = ([[0; 8]; 2], self.file_or_new("key")?);
        if filled(&file, words.as_flattened_mut(), 0)? < 16 {
            // From the system's random numbers.
            words = [(); 2].map(|()| RandomState::new().build_hasher().finish().to_le_bytes());
            file.write_all_at(words.as_flattened(), 0)?;
        }
        Ok(words.map(u64::from_le_bytes))
    }

    /// Open a file for reading and writing.
    pub fn file(&self, name: &str) -> io::Result<File> {
        self.opened(name, libc::O_RDWR)
    }

    /// Open a file, which is created if it is missing.
    pub fn file_or_new(&self, name: &str) -> io::Result<File> {
        self.opened(name, libc::O_RDWR | libc::O_CREAT)
    }

    /// Create a file.
    pub fn new_file(&self, name: &str) -> io::Result<File> {
        self.opened(name, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL)
    }

    fn opened(&self, name: &str, flags: libc::c_int) -> io::Result<File> {
        let file = open_at(self.descriptor.as_raw_fd(), name.as_ref(), flags)?;
        check(&file, name)?;
        let state = file.metadata()?;
        if !state.is_file() || state.nlink() > 1 {
            return refused(format_args!("{name} in it is no file of its own"));
        }
        Ok(file)
    }

    /// Remove a file, or what else has its name.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        let name = CString::new(name)?;
        // SAFETY: a live descriptor and a string that ends with a NUL.
        match unsafe { libc::unlinkat(self.descriptor.as_raw_fd(), name.as_ptr(), 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The names in the folder of this path by now. They are only opened below the descriptor.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.path)?.map(|entry| Ok(entry?.file_name()));
        let names: Vec<_> = entries.collect::<io::Result<_>>()?;
        let names = names.into_iter().filter_map(|name| name.into_string().ok());
        Ok(names.collect())
    }

    /// The keyed hash (SipHash-2-4) of what a file begins with.
    #[allow(deprecated)] // The one with a key; what replaced it has a new key for each process.
    pub fn tag(&self, header: &[u8]) -> u64 {
        let mut hasher = std::hash::SipHasher::new_with_keys(self.key[0], self.key[1]);
        hasher.write(header);
        hasher.finish()
    }
}

/// The lock of a folder, until this is dropped.
pub(super) struct Lock {
    pub file: File,
}

impl Lock {
    /// Each lock opens the file again, so it also excludes other threads of this process.
    pub fn of(folder: &Folder) -> io::Result<Lock> {
        let file = folder.file_or_new("used")?;
        flock(&file, libc::LOCK_EX)?;
        Ok(Lock { file })
    }
}

impl Drop for Lock {
    /// A process that was forked meanwhile has the file open, too: closing it would not unlock it.
    fn drop(&mut self) {
        let _ = flock(&self.file, libc::LOCK_UN);
    }
}

/// Whether the folder is in use by nobody else, and this has its lock alone.
pub(super) fn is_alone(folder: &Folder) -> bool {
    flock(&folder.descriptor, libc::LOCK_EX | libc::LOCK_NB).is_ok()
}

/// Whether a file cannot be opened because it is not this library's.
pub(super) fn is_foreign(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
        || [libc::ELOOP, libc::EISDIR, libc::ENXIO]
            .map(Some)
            .contains(&error.raw_os_error())
}

/// Refuse what another user has, or may write.
fn check(file: &File, what: &str) -> io::Result<()> {
    let state = file.metadata()?;
    // SAFETY: has no conditions.
    let user = unsafe { libc::geteuid() };
    if state.uid() != user {
        let owner = state.uid();
        return refused(format_args!(
            "{what} belongs to user {owner}, and this process runs as user {user}"
        ));
    }
    if state.mode() & OPEN_TO_OTHERS != 0 {
        let mode = state.mode() & 0o7777;
        return refused(format_args!(
            "other users may write {what} (its mode is {mode:04o})"
        ));
    }
    Ok(())
}

fn refused<T>(why: impl std::fmt::Display) -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        why.to_string(),
    ))
}

/// A pipe is opened without waiting for its other end, and no link is followed.
fn open_at(folder: libc::c_int, name: &Path, flags: libc::c_int) -> io::Result<File> {
    let name = CString::new(name.as_os_str().as_bytes())?;
    let flags = flags | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    loop {
        // SAFETY: a string that ends with a NUL; a descriptor that opens is nobody else's.
        let got = unsafe { libc::openat(folder, name.as_ptr(), flags, 0o600) };
        if got >= 0 {
            // SAFETY: as above.
            return Ok(unsafe { File::from_raw_fd(got) });
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
