//! The superblock: what everything else in a file counts from (II.A), of versions 0 to 3.
//!
//! Law: it stands at byte 0, 512, 1024, ...: what is before it is the user's. Where it stands counts,
//! and not where it says that it does: others put user blocks before files, or cut them off.

use super::blocks::Blocks;
use super::cursor::{Cursor, Sizes, UNDEFINED};
use super::error::{FormatError, Result, corrupt};
use super::source::ByteSource;

const SIGNATURE: &[u8; 8] = b"\x89HDF\r\n\x1a\n";
const FIRST_USER_BLOCK: u64 = 512;
/// Flags of who has the file open.
const WRITTEN: u8 = 1;
const SWMR: u8 = 4;
/// Strategies of file space: of version 0 of its message, and of later ones.
const KEPT: u8 = 1;
const IN_PAGES: u8 = 1;
/// More than any version takes.
const MAX_BYTES: u64 = 128;

/// A file that begins as an HDF5 file does.
pub struct Superblock {
    pub blocks: Blocks,
    /// Offset of the root group's object header.
    pub root: u64,
    /// Offset of the superblock extension's, which may be undefined.
    pub extension: u64,
    /// Where the file ends as the writer left it: absolute, also as it is stored, as libhdf5 has it,
    /// not as specified.
    pub end: u64,
    /// Where versions 0 and 1 tell the driver that wrote the file, which may be undefined.
    pub driver: u64,
    /// A writer has the file open, or was killed (version 3).
    pub is_written: bool,
    /// And it writes in an order that readers can follow.
    pub is_swmr: bool,
}

impl Superblock {
    pub fn read(source: Box<dyn ByteSource>, checks_sums: bool) -> Result<Superblock> {
        let base = find(&*source)?;
        let len = MAX_BYTES.min(source.size() - base);
        let mut bytes = vec![0; len as usize];
        let read = source.read(base, &mut bytes);
        read.map_err(|error| FormatError::Io {
            address: base,
            error,
        })?;
        let unknown_sizes = Sizes {
            address: 8,
            length: 8,
            checks_sums,
        };
        let mut cursor = Cursor::over(&bytes, base, unknown_sizes);
        cursor.skip(SIGNATURE.len())?;
        let (address, version) = (cursor.address(), cursor.u8()?);
        if version > 3 {
            return corrupt(address, "version 0 to 3 of the superblock", version);
        }
        if version < 2 {
            cursor.skip(1 + 1 + 1 + 1)?; // versions of what is inside, which say it again
        }
        let sizes = Sizes {
            checks_sums,
            ..sizes(&mut cursor)?
        };
        cursor = Cursor::over(&bytes, base, sizes);
        let (extension, (stated, end), driver, flags, root) = match version {
            0 | 1 => {
                // Behind the sizes: reserved, two numbers of groups' trees, flags, and in version 1
                // the number of chunks' trees.
                cursor.seek(15 + 1 + 2 + 2 + 4 + 4 * u64::from(version))?;
                let (stated, _free, end, driver) = four(&mut cursor)?;
                cursor.length()?; // the root's name; libhdf5 has it as long as a length
                (UNDEFINED, (stated, end), driver, 0, cursor.offset()?)
            }
            _ => {
                cursor.seek(11)?;
                let flags = if version == 3 { cursor.u8()? } else { 0 };
                cursor.seek(12)?;
                let (stated, extension, end, root) = four(&mut cursor)?;
                cursor.checksum()?;
                (extension, (stated, end), UNDEFINED, flags, root)
            }
        };
        let blocks = Blocks::new(source, base, sizes);
        Ok(Superblock {
            blocks,
            root,
            extension,
            end: end.saturating_sub(stated).saturating_add(base),
            driver,
            is_written: flags & WRITTEN != 0,
            is_swmr: flags & SWMR != 0,
        })
    }
}

fn four(cursor: &mut Cursor<'_>) -> Result<(u64, u64, u64, u64)> {
    let mut next = || cursor.offset();
    Ok((next()?, next()?, next()?, next()?))
}

fn sizes(cursor: &mut Cursor<'_>) -> Result<Sizes> {
    let address = cursor.address();
    let (offsets, lengths) = (cursor.u8()?, cursor.u8()?);
    let known = [2, 4, 8];
    if !known.contains(&offsets) || !known.contains(&lengths) {
        let got = format!("{offsets} and {lengths}");
        return corrupt(address, "addresses and lengths of 2, 4 or 8 bytes", got);
    }
    Ok(Sizes {
        address: offsets.into(),
        length: lengths.into(),
        checks_sums: true,
    })
}

/// The length of pages, if file space is managed in pages; each has either metadata or data
/// (IV.A.2.x). The rest is not needed, but a message that is cut short is damage.
pub fn page_bytes(cursor: &mut Cursor<'_>) -> Result<Option<u64>> {
    let (version, strategy) = (cursor.u8()?, cursor.u8()?);
    let (n_managers, bytes) = if version == 0 {
        cursor.length()?; // how large free space must be to be kept
        (if strategy == KEPT { 6 } else { 0 }, None)
    } else {
        let n_managers = if cursor.u8()? != 0 { 12 } else { 0 };
        cursor.length()?;
        let bytes = cursor.length()?;
        cursor.skip(2)?; // how little metadata may be left in a page
        cursor.offset()?; // the end of the file without its free space
        (n_managers, (strategy == IN_PAGES).then_some(bytes))
    };
    for _ in 0..n_managers {
        cursor.offset()?; // of free space
    }
    Ok(bytes)
}

/// Where the superblock is.
fn find(source: &dyn ByteSource) -> Result<u64> {
    let mut base = 0;
    while base + SIGNATURE.len() as u64 <= source.size() {
        let mut bytes = [0; SIGNATURE.len()];
        let read = source.read(base, &mut bytes);
        read.map_err(|error| FormatError::Io {
            address: base,
            error,
        })?;
        if bytes == *SIGNATURE {
            return Ok(base);
        }
        base = (2 * base).max(FIRST_USER_BLOCK);
    }
    corrupt(
        0,
        "HDF5's signature at byte 0, 512, 1024, ...",
        "other bytes",
    )
}
