//! External files: raw bytes of a contiguous dataset outside its file (IV.A.2.h).

use super::blocks::Blocks;
use super::cursor::Cursor;
use super::error::Result;
use super::local_heap::LocalHeap;

/// A part of a dataset's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalFile {
    pub name: Vec<u8>,
    pub byte_offset: u64,
    pub size: u64,
}

/// Read an external data files message.
pub fn external_files(blocks: &Blocks, cursor: &mut Cursor<'_>) -> Result<Vec<ExternalFile>> {
    cursor.version("external data files", 1)?;
    cursor.skip(3 + 2)?; // reserved; allocated slots
    let used = cursor.u16()?;
    let names = LocalHeap::open(blocks, cursor.offset()?)?;
    let mut slot = |_| {
        let name = names.name(cursor.length()?)?;
        Ok(ExternalFile {
            name,
            byte_offset: cursor.length()?,
            size: cursor.length()?,
        })
    };
    (0..used).map(&mut slot).collect()
}
