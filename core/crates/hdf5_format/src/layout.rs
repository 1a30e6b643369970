//! Where a dataset's elements are stored (IV.A.2.i), of versions 1 to 5.

use super::chunks::{ChunkIndexKind, ChunkedLayout};
use super::cursor::Cursor;
use super::error::{Result, corrupt};

/// Dims of a chunk, and one more for the bytes of an element.
const MAX_RANK: u8 = 33;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Among the metadata: the elements themselves, and their offset from the superblock.
    Compact {
        elements: Vec<u8>,
        address: u64,
    },
    /// In one piece at an offset from the superblock, which may be undefined.
    Contiguous {
        address: u64,
    },
    Chunked(ChunkedLayout),
    /// In other datasets: the mappings are an object of the global heap.
    Virtual {
        heap: u64,
        index: u32,
    },
}

/// Read a data layout message.
pub fn layout(cursor: &mut Cursor<'_>) -> Result<Layout> {
    let (address, version) = (cursor.address(), cursor.u8()?);
    match version {
        1 | 2 => old(cursor),
        3..=5 => {
            let (at, class) = (cursor.address(), cursor.u8()?);
            match class {
                0 => {
                    let size = usize::from(cursor.u16()?);
                    compact(cursor, size)
                }
                1 => Ok(Layout::Contiguous {
                    address: cursor.offset()?,
                }),
                2 if version == 3 => {
                    let rank = rank(cursor)?;
                    let index = cursor.offset()?;
                    by_tree(cursor, rank, index)
                }
                2 => chunked(cursor, version),
                3 if version > 3 => Ok(Layout::Virtual {
                    heap: cursor.offset()?,
                    index: cursor.u32()?,
                }),
                _ => corrupt(at, "layout class 0 to 3", class),
            }
        }
        _ => corrupt(address, "version 1 to 5 of the data layout", version),
    }
}

fn old(cursor: &mut Cursor<'_>) -> Result<Layout> {
    let rank = rank(cursor)?;
    let (at, class) = (cursor.address(), cursor.u8()?);
    cursor.skip(5)?;
    match class {
        0 => {
            cursor.skip(4 * usize::from(rank))?;
            let size = cursor.u32()? as usize;
            compact(cursor, size)
        }
        1 => Ok(Layout::Contiguous {
            address: cursor.offset()?,
        }),
        2 => {
            let index = cursor.offset()?;
            by_tree(cursor, rank, index)
        }
        _ => corrupt(at, "layout class 0 to 2", class),
    }
}

fn compact(cursor: &mut Cursor<'_>, size: usize) -> Result<Layout> {
    let address = cursor.address();
    let elements = cursor.take(size)?.to_vec();
    Ok(Layout::Compact { elements, address })
}

/// Dims of a chunk and one more.
fn rank(cursor: &mut Cursor<'_>) -> Result<u8> {
    let (address, rank) = (cursor.address(), cursor.u8()?);
    match rank {
        0..=MAX_RANK => Ok(rank),
        _ => corrupt(address, format_args!("at most {MAX_RANK} dims"), rank),
    }
}

/// The dims of a chunk; the bytes of an element behind them are said by the datatype.
fn chunk_dims(cursor: &mut Cursor<'_>, rank: u8, size: usize) -> Result<Vec<u64>> {
    let address = cursor.address();
    let dims = (0..rank)
        .map(|_| cursor.uint(size))
        .collect::<Result<Vec<_>>>()?;
    match dims.split_last() {
        Some((_, dims)) if !dims.is_empty() && !dims.contains(&0) => Ok(dims.to_vec()),
        _ => corrupt(
            address,
            "a chunk of at least one element",
            format_args!("{dims:?}"),
        ),
    }
}

fn by_tree(cursor: &mut Cursor<'_>, rank: u8, address: u64) -> Result<Layout> {
    Ok(Layout::Chunked(ChunkedLayout {
        index: ChunkIndexKind::BTreeV1,
        address,
        chunk_dims: chunk_dims(cursor, rank, 4)?,
        unfiltered_edges: false,
    }))
}

fn chunked(cursor: &mut Cursor<'_>, version: u8) -> Result<Layout> {
    let flags = cursor.u8()?;
    let rank = rank(cursor)?;
    let size = usize::from(cursor.u8()?);
    let chunk_dims = chunk_dims(cursor, rank, size)?;
    let (at, kind) = (cursor.address(), cursor.u8()?);
    // Behind the kind are the parameters of the index, which it repeats in its own header.
    let (index, skipped) = match kind {
        1 if flags & 2 != 0 => {
            let bytes = if version == 5 {
                8
            } else {
                cursor.sizes().length
            };
            let filtered = Some((cursor.uint(bytes)?, cursor.u32()?));
            (ChunkIndexKind::Single { filtered }, 0)
        }
        1 => (ChunkIndexKind::Single { filtered: None }, 0),
        2 => (ChunkIndexKind::Implicit, 0),
        3 => (ChunkIndexKind::FixedArray, 1),
        4 => (ChunkIndexKind::ExtensibleArray, 5),
        5 => (ChunkIndexKind::BTreeV2, 6),
        _ => return corrupt(at, "chunk index 1 to 5", kind),
    };
    cursor.skip(skipped)?;
    Ok(Layout::Chunked(ChunkedLayout {
        index,
        address: cursor.offset()?,
        chunk_dims,
        unfiltered_edges: flags & 1 != 0,
    }))
}
