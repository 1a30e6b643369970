//! A chunk that is read, and where what it decodes to goes.
//!
//! Law:
//! 1. Where bytes go is the placement's; whose memory it is, its maker's.
//! 2. Knows neither how chunks are fetched nor how they are decoded.

use crate::fetch::buffer::grow;
use crate::fetch::coalesce::Run;
use crate::fetch::error::FetchError;
use crate::fetch::queue::{FetchQueue, Turn};
use crate::task_error::TaskError;
use hdf5_filters::FilterError;
use hdf5_filters::convert::ElementConversion;
use std::ops::Range;
use tables::dataset::{Chunk, Dataset};

/// The number of a chunk that has no record.
pub const NO_CHUNK: u64 = u64::MAX;

/// A chunk, or a part of a chunk that is stored as it is, and the rows to read of it.
#[derive(Clone, Debug)]
pub struct ChunkRead {
    /// The number of its record; `NO_CHUNK` where it was never stored.
    pub number: u64,
    pub grid_index: u64,
    /// The dataset's row with which the decoded bytes begin.
    pub row: u64,
    /// Bytes that it decodes to.
    pub size: usize,
    /// The rows that are wanted of it, as its placement counts them.
    pub wanted: Range<u64>,
}

/// Where decoded chunks go. Chunks are numbered as the reader of the task lists them.
///
/// # Safety
/// What `target` returns must be the placement's to write, and stay where it is, until `placed` or
/// `released` is called for the same chunk.
pub unsafe trait Place {
    fn read(&self, index: usize, chunk: &Chunk) -> ChunkRead;

    /// The number of a chunk's record.
    fn number(&self, index: usize) -> u64;

    /// The dataset of a chunk.
    fn dataset_of(&self, read: &ChunkRead) -> &Dataset;

    /// Where a chunk is decoded, if its decoded bytes are what belongs there.
    fn target(&mut self, read: &ChunkRead) -> Option<*mut [u8]>;

    /// Convert the elements of the wanted rows into their places. False: the chunk is converted as a whole,
    /// because others may want the rest, or rows lie in several chunks.
    fn convert(
        &mut self,
        _read: &ChunkRead,
        _conversion: &ElementConversion,
        _stored: &[u8],
    ) -> Result<bool, FilterError> {
        Ok(false)
    }

    /// Bring decoded bytes to their place.
    fn place(&mut self, read: &ChunkRead, decoded: &[u8]);

    /// A chunk was decoded in its `target`.
    fn placed(&mut self, read: &ChunkRead);

    /// A chunk did not decode in its `target`.
    fn released(&mut self, _read: &ChunkRead) {}

    /// The rows of the dataset that are wanted of a chunk, and those between.
    fn rows(&self, read: &ChunkRead) -> Range<u64> {
        read.wanted.clone()
    }

    /// Write the fill value to all rows that are wanted of a chunk that has all that they show.
    fn fill_rows(&mut self, read: &ChunkRead);

    /// Bring what waits for other chunks to its place.
    fn flush(&mut self) {}

    /// Have a run, whose stored bytes are what belongs in some place, fetched straight into it.
    /// False if it has to be fetched in the usual way.
    fn fetch_in_place(
        &mut self,
        _queue: &mut FetchQueue,
        _left: &[Run],
        _chunks: &[Chunk],
        _turn: Option<Turn<'_>>,
    ) -> Result<bool, FetchError> {
        Ok(false)
    }
}

/// The runs of a task, and the tickets of those that were submitted.
#[derive(Clone, Copy)]
pub struct Fetches<'a> {
    pub runs: &'a [Run],
    pub tickets: &'a [u64],
    pub turn: Option<Turn<'a>>,
}

/// The first `len` bytes of a buffer that grows to its largest use.
pub fn room(buffer: &mut Vec<u8>, len: usize, number: u64) -> Result<&mut [u8], TaskError> {
    grow(buffer, len).map_err(|error| TaskError::read(number, error))?;
    Ok(&mut buffer[..len])
}
