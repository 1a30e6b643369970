//! A table of datasets in the arena, as the readers know it.
//!
//! Law:
//! 1. Its number is unique in this process, and readers keep what they made of it by that number.
//! 2. It is checked before any reader sees it.

use crate::requests::arena::{Arena, Region};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use tables::dataset::{Chunk, Dataset, DatasetTable, Memory};

/// Datasets as the readers know them: a table in the arena, of which this process keeps a copy.
pub struct SharedDataset {
    pub id: u64,
    pub region: Region,
    pub len: usize,
    table: DatasetTable,
}

impl SharedDataset {
    pub fn new(arena: &Arc<Arena>, bytes: &[u8]) -> Result<SharedDataset, ShareError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut region = arena.take(bytes.len()).map_err(ShareError::Memory)?;
        region.write(bytes);
        let table = DatasetTable::over(Memory::copied(bytes), 0, bytes.len());
        Ok(SharedDataset {
            id: NEXT.fetch_add(1, SeqCst),
            len: bytes.len(),
            region,
            table: table.map_err(ShareError::Refused)?,
        })
    }

    /// The first one, or the only one; a table may have none.
    pub fn dataset(&self) -> &Dataset {
        &self.table.datasets[0]
    }

    pub fn table(&self) -> &DatasetTable {
        &self.table
    }

    pub fn chunks(&self) -> &[Chunk] {
        self.table.chunks()
    }
}

pub enum ShareError {
    Memory(io::Error),
    Refused(&'static str),
}
