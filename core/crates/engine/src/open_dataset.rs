//! What a reader keeps open for one dataset.
//!
//! Law:
//! 1. What the table says of a chunk is checked before it is fetched, so that no number in a file asks
//!    for more memory than the file is long.
//! 2. Knows nothing of rows: the caller says which chunks, and where to.

use crate::counters::{Record, add_ns};
use crate::elements::ReadElements;
use crate::fetch::error::FetchError;
use crate::fetch::queue::FetchQueue;
use crate::scatter::interleave::Interleaver;
use crate::shared::Shared;
use crate::task_error::TaskError;
use crate::transfer::Transfer;
use hdf5_filters::{FilterError, FilterErrorKind, Pipeline};
use os::clock::thread_ns;
use std::sync::Arc;
use std::time::Instant;
use tables::dataset::{Chunk, Dataset, DatasetTable, Source, UNALLOCATED};

/// Stored chunks longer than twice the decoded size and this are left to the library: filters that
/// cannot shrink a chunk make it a little larger.
const PLAUSIBLE_EXTRA_BYTES: u64 = 1 << 16;

/// A dataset's file and filters, and memory that is used again and again.
pub struct OpenDataset {
    pub queue: FetchQueue,
    pub pipeline: Pipeline,
    pub decoded: Vec<u8>,
    pub interleaver: Interleaver,
    /// Of a virtual dataset.
    pub assembler: Option<Box<dyn ReadElements>>,
}

impl OpenDataset {
    /// Failures name the chunk of this number.
    pub fn open(
        table: &Arc<DatasetTable>,
        dataset: &Dataset,
        shared: &Arc<Shared>,
        record: &Record,
        number: u64,
    ) -> Result<OpenDataset, TaskError> {
        let start = Instant::now();
        let pipeline = Pipeline::new(&dataset.filters, dataset.decoded_size, thread_ns)
            .map_err(TaskError::UnknownFilter)?
            .with(dataset.conversion.as_ref());
        let queue = FetchQueue::open(table, dataset, &shared.files);
        let queue = queue.map_err(|error| TaskError::Fetch(number, error))?;
        add_ns(&record.open_ns, start);
        let assembler = || (shared.assembler)(table, shared);
        Ok(OpenDataset {
            assembler: (!dataset.parts.is_empty()).then(assembler),
            queue,
            pipeline,
            decoded: Vec::new(),
            interleaver: Interleaver::default(),
        })
    }

    /// The way of chunks to a place, which may let some wait for those beside them.
    pub fn transfer<'a, P>(
        &'a mut self,
        record: &'a Record,
        place: impl FnOnce(&'a mut Interleaver) -> P,
    ) -> Transfer<'a, P> {
        Transfer {
            record,
            queue: &mut self.queue,
            pipeline: &mut self.pipeline,
            assembler: self.assembler.as_mut(),
            decoded: &mut self.decoded,
            place: place(&mut self.interleaver),
        }
    }
}

/// Stored chunks, of which the first has this number, can be fetched. If not, those before the one
/// that the error names can.
pub fn check(
    table: &DatasetTable,
    dataset: &Dataset,
    chunks: &[Chunk],
    first_number: u64,
) -> Result<(), TaskError> {
    let stored = (first_number..).zip(chunks);
    stored
        .filter(|(_, chunk)| chunk.byte_offset != UNALLOCATED)
        .try_for_each(|(number, chunk)| check_chunk(dataset, &table.sources, number, chunk))
}

/// A stored chunk lies inside its source and is not absurdly large. `number` is that of its record.
fn check_chunk(
    dataset: &Dataset,
    sources: &[Source],
    number: u64,
    chunk: &Chunk,
) -> Result<(), TaskError> {
    let source = &sources[chunk.source as usize];
    let end = chunk.byte_offset.checked_add(chunk.stored_size);
    if end.is_none_or(|end| end > source.bytes()) {
        let expected = chunk.stored_size;
        let got = source.bytes().saturating_sub(chunk.byte_offset);
        let short = FetchError::Short { expected, got };
        return Err(TaskError::Fetch(number, short));
    }
    let decoded = dataset.stored_size(dataset.decoded_size) as u64;
    if chunk.stored_size <= decoded.saturating_mul(2) + PLAUSIBLE_EXTRA_BYTES {
        return Ok(());
    }
    let error = FilterError {
        filter: 0,
        // The library may know a way to read such a chunk.
        kind: FilterErrorKind::Unsupported,
        expected: decoded,
        got: chunk.stored_size,
    };
    Err(TaskError::Filter(number, error))
}

/// Where a dataset's chunks lie. A contiguous dataset has one record for all of them.
#[derive(Clone, Copy)]
pub struct Lookup<'a> {
    pub dataset: &'a Dataset,
    sources: &'a [Source],
    chunks: &'a [Chunk],
}

impl<'a> Lookup<'a> {
    pub fn new(table: &'a DatasetTable, dataset: &'a Dataset) -> Lookup<'a> {
        Lookup {
            dataset,
            sources: &table.sources,
            chunks: table.chunks_of(dataset),
        }
    }

    /// The record of a chunk of the grid, and its number. None if the chunk was never stored.
    pub fn chunk(&self, grid_index: u64) -> Option<(u64, Chunk)> {
        let (dataset, chunks) = (self.dataset, self.chunks);
        let number = if dataset.clipped {
            0
        } else if chunks.len() as u64 == dataset.grid_chunks {
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
        if dataset.clipped {
            // Pieces follow each other without gaps, the last one is shorter.
            let row = grid_index.saturating_mul(dataset.chunk_dims[0]);
            let piece = dataset.stored_size(dataset.decoded_size) as u64;
            let before = grid_index.saturating_mul(piece);
            chunk.grid_index = grid_index;
            chunk.byte_offset = chunk.byte_offset.saturating_add(before);
            chunk.stored_size = dataset.stored_size(dataset.decoded_size_at(row)) as u64;
        }
        Some((dataset.chunks_at + number as u64, chunk))
    }

    /// What a chunk decodes to.
    pub fn decoded_size(&self, chunk: &Chunk) -> usize {
        match self.dataset.clipped {
            true => {
                let row = chunk.grid_index.saturating_mul(self.dataset.chunk_dims[0]);
                self.dataset.decoded_size_at(row)
            }
            false => self.dataset.decoded_size,
        }
    }

    pub fn check(&self, number: u64, chunk: &Chunk) -> Result<(), TaskError> {
        check_chunk(self.dataset, self.sources, number, chunk)
    }
}
