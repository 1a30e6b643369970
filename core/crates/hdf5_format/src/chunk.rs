//! One stored chunk of a dataset.
//!
//! Law: it is the same 32 bytes where a file is listed, in a table, in NumPy and while it is read.

/// The address of a chunk that was never allocated in the file, as if it had no record: its elements
/// are the fill value.
pub const UNALLOCATED: u64 = u64::MAX;

/// Those of a dataset are sorted by their number in its grid.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    pub grid_index: u64,
    /// Absolute in the file.
    pub byte_offset: u64,
    pub stored_size: u64,
    pub filter_mask: u32,
    /// Which source has its bytes; where a file is listed, 0.
    pub source: u32,
}

impl Chunk {
    /// Bytes without filters.
    pub fn plain(grid_index: u64, byte_offset: u64, stored_size: u64) -> Chunk {
        Chunk {
            grid_index,
            byte_offset,
            stored_size,
            filter_mask: 0,
            source: 0,
        }
    }

    /// A chunk of the grid that has no record.
    pub fn never_stored(grid_index: u64) -> Chunk {
        Chunk::plain(grid_index, UNALLOCATED, 0)
    }
}
