//! Where the bytes of a file come from: ranges of a local file, or memory.
//!
//! Law:
//! 1. A source has a length that does not change while it is used, and gives any range within it.
//! 2. No memory map: a file that others truncate would kill the process.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub trait ByteSource: Send + Sync {
    /// Length in bytes.
    fn size(&self) -> u64;

    /// Fill `out` with the bytes from `offset` on.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;
}

/// A file of this machine.
pub struct LocalFile {
    file: File,
    size: u64,
}

impl LocalFile {
    pub fn open(path: &Path) -> io::Result<LocalFile> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        Ok(LocalFile { file, size })
    }
}

impl ByteSource for LocalFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }
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
