//! A file of this machine as a source of metadata.
//!
//! Law: its length is that at its opening. It is not mapped, as others may truncate it.

use crate::format::source::ByteSource;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

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
