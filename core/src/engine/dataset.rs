//! A dataset as a reader keeps it open: its catalogue, its file, its filters.
//!
//! Law:
//! 1. What the file says of a chunk is checked before it is fetched: a chunk lies inside the file
//!    and is not absurdly large.
//! 2. Two datasets that decode the same chunks alike, such as the fields of one table, have the
//!    same source, and share what is kept of them.

use crate::engine::counters::Record;
use crate::engine::open_dataset::add_ns;
use crate::fetch::data_file::{Fetch, FetchError};
use crate::filters::{FilterError, FilterErrorKind, Pipeline};
use crate::os::memory::Mapping;
use crate::select::chunk_iter::Geometry;
use crate::select::selection::Catalogue;
use crate::tables::plan::{Chunk, Member, Plan, UNALLOCATED};
use crate::task_error::TaskError;
use std::sync::Arc;
use std::time::Instant;

/// Stored chunks longer than twice the decoded size and this are left to the library.
const PLAUSIBLE_EXTRA_BYTES: u64 = 1 << 16;
/// No chunk of the catalogue.
pub const NO_CHUNK: u64 = u64::MAX;

pub struct Dataset {
    pub catalogue: Catalogue,
    plan: Plan,
    pub geometry: Geometry,
    pub fetch: Fetch,
    pub pipeline: Pipeline,
    /// The file and the way its chunks are decoded.
    pub source: u64,
    /// When it was last asked for.
    pub used: u64,
}

/// Where a dataset's chunks lie.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    pub member: &'a Member,
    chunks: &'a [Chunk],
    n_cells: u64,
}

/// A dataset's parts, to be used side by side.
pub struct Open<'a> {
    pub lookup: Lookup<'a>,
    pub geometry: &'a Geometry,
    pub fetch: &'a mut Fetch,
    pub pipeline: &'a mut Pipeline,
    pub source: u64,
}

impl Dataset {
    pub fn open(
        arena: &Arc<Mapping>,
        catalogue: Catalogue,
        source: u64,
        record: &Record,
    ) -> Result<Dataset, TaskError> {
        let start = Instant::now();
        let internal = |reason: &str| TaskError::Internal(reason.into());
        let plan = Plan::over(arena.clone(), catalogue.at, catalogue.len).map_err(internal)?;
        let [member] = &plan.members[..] else {
            return Err(internal("a catalogue is of one dataset"));
        };
        let geometry = Geometry::new(member).ok_or_else(|| internal("the grid is too large"))?;
        let pipeline = Pipeline::new(&member.filters, member.decoded_size)
            .map_err(TaskError::UnknownFilter)?;
        let fetch = Fetch::open(member).map_err(|error| TaskError::Fetch(NO_CHUNK, error))?;
        add_ns(&record.open_ns, start);
        Ok(Dataset {
            catalogue,
            plan,
            geometry,
            fetch,
            pipeline,
            source,
            used: 0,
        })
    }

    pub fn member(&self) -> &Member {
        &self.plan.members[0]
    }

    /// The chunks of both are the same bytes, stored and decoded.
    pub fn is_alike(&self, other: &Dataset) -> bool {
        let (a, b) = (self.member(), other.member());
        a.fingerprint == b.fingerprint && a.filters == b.filters && a.decoded_size == b.decoded_size
    }

    pub fn parts(&mut self) -> Open<'_> {
        let lookup = Lookup {
            member: &self.plan.members[0],
            chunks: self.plan.chunks_of(&self.plan.members[0]),
            n_cells: self.geometry.n_chunks,
        };
        Open {
            lookup,
            geometry: &self.geometry,
            fetch: &mut self.fetch,
            pipeline: &mut self.pipeline,
            source: self.source,
        }
    }
}

impl Lookup<'_> {
    /// The record of a chunk of the grid and its number in the catalogue. None: unallocated.
    pub fn chunk(&self, grid_index: u64) -> Option<(u64, Chunk)> {
        let chunks = self.chunks;
        let number = if self.member.clipped {
            0
        } else if chunks.len() as u64 == self.n_cells {
            grid_index as usize
        } else {
            chunks
                .binary_search_by_key(&grid_index, |chunk| chunk.grid_index)
                .ok()?
        };
        let mut chunk = *chunks.get(number)?;
        if chunk.byte_offset == UNALLOCATED {
            return None;
        }
        if self.member.clipped {
            // One record for all: pieces follow each other without gaps, the last one is shorter.
            let size = self.member.decoded_size as u64;
            let rows = self.member.chunk_dims[0];
            let left = (self.member.dims[0]).saturating_sub(grid_index.saturating_mul(rows));
            let before = grid_index.saturating_mul(size);
            chunk.byte_offset = chunk.byte_offset.saturating_add(before);
            chunk.stored_size = size / rows * left.min(rows);
        }
        Some((number as u64, chunk))
    }

    pub fn check(&self, number: u64, chunk: &Chunk) -> Result<(), TaskError> {
        let file_bytes = self.member.source_bytes();
        let decoded = self.member.decoded_size as u64;
        let end = chunk.byte_offset.checked_add(chunk.stored_size);
        if end.is_none_or(|end| end > file_bytes) {
            let expected = chunk.stored_size;
            let got = file_bytes.saturating_sub(chunk.byte_offset);
            return Err(TaskError::Fetch(
                number,
                FetchError::Short { expected, got },
            ));
        }
        // The library may know a way to read such a chunk.
        if chunk.stored_size > decoded.saturating_mul(2) + PLAUSIBLE_EXTRA_BYTES {
            return Err(TaskError::Filter(
                number,
                FilterError {
                    filter: 0,
                    kind: FilterErrorKind::Unsupported,
                    expected: decoded,
                    got: chunk.stored_size,
                },
            ));
        }
        Ok(())
    }
}
