//! The dataset table: which files there are, how each dataset lies in them, and where its chunks are.
//!
//! Law:
//! 1. The layout is written by builder.rs and read here. A stream's plan has such a table in it, and a request's dataset is one on its own.
//! 2. What a record says is checked when the table is opened; later code indexes freely.
//! 3. Chunk records are the stored ones, sorted by their number in the grid; each names its source.
//! 4. A table never changes, so the slices below are plain shared borrows: its memfd is sealed, or it
//!    is the table's own.

use super::access::Access;
pub use super::axis_window::AxisWindow;
use super::elements::Elements;
use super::parts::Parts;
use super::record::{DatasetRecord, Header, cast, ends, filters, windows};
pub use super::record::{FLAG_CAST, FLAG_CLIPPED, FLAG_JOINED, FLAG_LIBRARY, FLAG_WINDOWS, MAGIC};
use super::source::SourceRecord;
pub use super::source::{Fingerprint, Source};
pub use super::words::Memory;
use super::words::{Refused, after, header, part, product, table};
use hdf5_filters::FilterSpec;
use hdf5_filters::convert::{CONVERSION_WORDS, Conversion, ElementConversion};
pub use hdf5_format::chunk::{Chunk, UNALLOCATED};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// One dataset (or one field of it): how its elements lie in its chunks.
#[derive(Debug)]
pub struct Dataset {
    /// The file that it is in. Of a virtual dataset, chunks may lie in others.
    pub source: usize,
    pub row_bytes: usize,
    /// Of the elements of decoded chunks, and what is delivered of each: all of it, if it was converted.
    pub element_bytes: usize,
    pub field_offset: usize,
    pub field_bytes: usize,
    pub stored_element_bytes: usize,
    /// What makes decoded elements of stored ones, behind the filters.
    pub conversion: Option<Arc<ElementConversion>>,
    pub dims: Vec<u64>,
    pub chunk_dims: Vec<u64>,
    /// What rows have of each axis behind the first.
    pub windows: Vec<AxisWindow>,
    /// Of datasets of several files: the row behind the last one of each. None have rows from there to
    /// the next chunk.
    pub ends: Vec<u64>,
    pub filters: Vec<FilterSpec>,
    /// An element that was never stored: as it is stored, and as it is delivered.
    pub stored_fill: Vec<u8>,
    pub fill: Vec<u8>,
    /// What is converted in place.
    pub fixes: Vec<Conversion>,
    /// Stored pieces end with the dataset's last row (contiguous layout), not with a full chunk.
    pub clipped: bool,
    /// The library reads it (said by tasks; of shares, here).
    pub by_library: bool,
    /// Which of the table's chunks are this dataset's stored ones.
    pub chunks_at: u64,
    pub n_chunks: u64,
    /// Of a virtual dataset that has no chunks of its own: what its elements are.
    pub parts: Parts,
    /// Chunks of the grid, stored or not, that have anything of a row; 0 where the library reads.
    pub grid_chunks: u64,
    /// What the library fallback needs to know, as written by the parent.
    pub library: String,
    /// Elements of a full chunk times their size.
    pub decoded_size: usize,
}

impl Dataset {
    /// The chunk's first element in every dimension.
    pub fn chunk_offset(&self, grid_index: u64, into: &mut Vec<u64>) {
        into.clear();
        into.resize(self.dims.len(), 0);
        let mut rest = grid_index;
        for (axis, window) in self.windows.iter().enumerate().rev() {
            let extent = self.chunk_dims[axis + 1];
            let grid = window.n_chunks(extent).max(1);
            into[axis + 1] = window.chunk_start(rest % grid, extent);
            rest /= grid;
        }
        into[0] = rest.saturating_mul(self.chunk_dims[0]);
    }

    /// The number of a chunk among all that the file may have.
    pub fn number_in_file(&self, grid_index: u64) -> u64 {
        let mut offset = Vec::new();
        self.chunk_offset(grid_index, &mut offset);
        let axes = offset.iter().zip(&self.dims).zip(&self.chunk_dims);
        axes.fold(0u64, |number, ((at, dim), chunk)| {
            let before = number.wrapping_mul(dim.div_ceil(*chunk));
            before.wrapping_add(at / chunk)
        })
    }

    /// Chunks of the grid that hold the same rows.
    pub fn inner_chunks(&self) -> u64 {
        let axes = self.windows.iter().zip(&self.chunk_dims[1..]);
        axes.map(|(window, chunk)| window.n_chunks(*chunk))
            .product()
    }

    /// A chunk is a run of whole rows, exactly as the tape wants them.
    pub fn whole_rows(&self) -> bool {
        let mut axes = self.windows.iter().zip(&self.dims[1..]);
        self.field_bytes == self.element_bytes
            && self.spans_rows()
            && axes.all(|(window, dim)| window.is_whole(*dim))
    }

    /// Chunks decode to their stored bytes.
    pub fn is_as_stored(&self) -> bool {
        self.filters.is_empty() && self.conversion.is_none()
    }

    /// The size of its elements, if they are delivered as they are stored.
    pub fn whole_elements(&self) -> Option<usize> {
        let is_whole = self.field_bytes == self.element_bytes
            && self.fixes.is_empty()
            && self.conversion.is_none();
        is_whole.then_some(self.element_bytes)
    }

    /// A chunk has all stored elements of its rows.
    pub fn spans_rows(&self) -> bool {
        self.chunk_dims[1..] == self.dims[1..]
    }

    /// The fill value as rows show it.
    pub fn fill_shown(&self) -> &[u8] {
        &self.fill[self.field_offset..self.field_offset + self.field_bytes]
    }

    /// Bytes of a decoded chunk up to its last element within the dims: a writer may store no more.
    pub fn needed(&self, grid_index: u64) -> usize {
        let mut offset = Vec::new();
        self.chunk_offset(grid_index, &mut offset);
        let end = self.ends.partition_point(|end| *end <= offset[0]);
        let end = self.ends.get(end).unwrap_or(&self.dims[0]);
        let ends = std::iter::once(end).chain(&self.dims[1..]);
        let axes = offset.iter().zip(ends).zip(&self.chunk_dims);
        let last = axes.fold(0, |last, ((at, end), chunk)| {
            let extent = end.saturating_sub(*at).min(*chunk);
            last * chunk + extent.saturating_sub(1)
        });
        (last as usize + 1) * self.element_bytes
    }

    /// Rows that were never stored are one fill value, element by element.
    pub fn fills_evenly(&self) -> bool {
        self.conversion.as_ref().is_none_or(|one| one.is_even())
    }

    /// The place of a chunk, for the conversion.
    pub fn place(&self, grid_index: u64) -> usize {
        let mut offset = Vec::new();
        self.chunk_offset(grid_index, &mut offset);
        (self.conversion.as_ref()).map_or(0, |one| one.place(&offset[1..]))
    }

    /// What decoded bytes of whole elements are in front of the conversion.
    pub fn stored_size(&self, decoded: usize) -> usize {
        (self.conversion.as_ref()).map_or(decoded, |conversion| conversion.stored_size(decoded))
    }

    /// Bytes of the decoded chunk that begins at row `row`; in contiguous layout the last piece is
    /// shorter.
    pub fn decoded_size_at(&self, row: u64) -> usize {
        if !self.clipped {
            return self.decoded_size;
        }
        let rows = self.chunk_dims[0].min(self.dims[0].saturating_sub(row));
        self.decoded_size / self.chunk_dims[0] as usize * rows as usize
    }
}

/// The opened table.
#[derive(Debug)]
pub struct DatasetTable {
    map: Memory,
    chunks_at: usize,
    n_chunks: u64,
    source_keys: OnceLock<Arc<[u64]>>,
    pub sources: Arc<[Source]>,
    pub datasets: Vec<Dataset>,
}

impl DatasetTable {
    /// The table in `len` bytes from `at` of some memory, in which it does not change (law 4).
    pub fn over(map: Memory, at: usize, len: usize) -> Result<DatasetTable, Refused> {
        // SAFETY: plain words, which do not change (law 4).
        let header = unsafe { header::<Header>(&map, at, len)? };
        if header.magic != MAGIC || header.total_bytes != len as u64 {
            return Err("a dataset table's header does not fit its bytes");
        }
        let sources_at = at + size_of::<Header>();
        let datasets_at = after::<SourceRecord>(sources_at, header.n_sources)?;
        let chunks_at = after::<DatasetRecord>(datasets_at, header.n_datasets)?;
        let words_at = after::<Chunk>(chunks_at, header.n_chunks)?;
        let blob_at = after::<u64>(words_at, header.n_words)?;
        if after::<u8>(blob_at, header.n_blob)? != at + len {
            return Err("a dataset table's parts do not fill it");
        }
        // SAFETY: the ranges were checked against the memory's length just above; all offsets are
        // multiples of 8 and the records are plain words, valid for any bytes.
        let (sources, datasets, words, blob) = unsafe {
            (
                table::<SourceRecord>(&map, sources_at, header.n_sources),
                table::<DatasetRecord>(&map, datasets_at, header.n_datasets),
                table::<u64>(&map, words_at, header.n_words),
                table::<u8>(&map, blob_at, header.n_blob),
            )
        };
        let sources = sources.iter().map(|record| record.source(blob));
        let datasets = datasets.iter().map(|record| dataset(record, words, blob));
        let table = DatasetTable {
            sources: sources.collect::<Result<_, _>>()?,
            datasets: datasets.collect::<Result<_, _>>()?,
            source_keys: OnceLock::new(),
            map,
            chunks_at,
            n_chunks: header.n_chunks,
        };
        table.check()?;
        Ok(table)
    }

    /// The parts of a dataset fit those that they show.
    fn check_parts(&self, number: usize, of: &Dataset) -> Result<(), Refused> {
        let has_elements = of.decoded_size > 0 && of.clipped;
        of.parts.check(&of.dims, has_elements, |shown| {
            // Those that are shown come later: there is no circle.
            let source = self.datasets.get(shown).filter(|_| shown > number)?;
            let is_alike = source.whole_elements() == Some(of.stored_element_bytes);
            (is_alike && !source.by_library).then_some(&source.dims)
        })
    }

    /// A dataset's chunks are there, in order, of its grid, and in sources that there are.
    fn check(&self) -> Result<(), Refused> {
        for (number, dataset) in self.datasets.iter().enumerate() {
            self.check_parts(number, dataset)?;
            if dataset.source >= self.sources.len() {
                return Err("a dataset of the plan has no source");
            }
            let end = dataset.chunks_at.checked_add(dataset.n_chunks);
            if end.is_none_or(|end| end > self.n_chunks) {
                return Err("the chunks of a dataset are out of range");
            }
            let chunks = self.chunks_of(dataset);
            let sorted = chunks.is_sorted_by(|a, b| a.grid_index < b.grid_index);
            let last = chunks.last();
            if !sorted || last.is_some_and(|last| last.grid_index >= dataset.grid_chunks) {
                return Err("a chunk of the plan lies outside its grid");
            }
            let direct = self.source(dataset).direct;
            let is_read = |chunk: &Chunk| {
                let source = self.sources.get(chunk.source as usize);
                source.is_some_and(|source| source.direct == direct)
            };
            if !chunks.iter().all(is_read) {
                return Err("a chunk of the plan lies in a source that cannot be read");
            }
        }
        Ok(())
    }

    /// A number for each source.
    pub fn source_keys(&self, key: impl Fn(&Source) -> u64) -> Arc<[u64]> {
        let keys = || self.sources.iter().map(key).collect();
        self.source_keys.get_or_init(keys).clone()
    }

    pub fn source(&self, dataset: &Dataset) -> &Source {
        &self.sources[dataset.source]
    }

    /// How to get at the objects of a store, if one of the sources is such; those of a table are of one
    /// user, whose limits are the same for all.
    pub fn access(&self) -> Option<&Access> {
        self.sources
            .iter()
            .find_map(|source| source.access.as_ref())
    }

    pub fn chunks(&self) -> &[Chunk] {
        // SAFETY: the range was checked in `over`; the bytes do not change and are plain words.
        unsafe { table::<Chunk>(&self.map, self.chunks_at, self.n_chunks) }
    }

    /// A dataset's stored chunks.
    pub fn chunks_of(&self, dataset: &Dataset) -> &[Chunk] {
        let at = dataset.chunks_at as usize;
        &self.chunks()[at..at + dataset.n_chunks as usize]
    }

    /// The numbers of the stored ones of these chunks of a dataset's grid.
    pub fn stored(&self, dataset: &Dataset, grid: Range<u64>) -> Range<usize> {
        let (chunks, at) = (self.chunks_of(dataset), dataset.chunks_at as usize);
        at + before(chunks, grid.start)..at + before(chunks, grid.end)
    }
}

/// How many of these chunks, which are sorted, come before a chunk of the grid.
fn before(chunks: &[Chunk], grid_index: u64) -> usize {
    let Some(first) = chunks.first() else {
        return 0;
    };
    // Where nothing is missing it is where it is expected.
    let guess = grid_index.saturating_sub(first.grid_index);
    let guess = usize::try_from(guess).map_or(chunks.len(), |guess| guess.min(chunks.len()));
    let follows = guess == 0 || chunks[guess - 1].grid_index < grid_index;
    let behind = chunks
        .get(guess)
        .is_none_or(|next| next.grid_index >= grid_index);
    match follows && behind {
        true => guess,
        false => chunks.partition_point(|chunk| chunk.grid_index < grid_index),
    }
}

/// A dataset as its record tells it.
fn dataset(record: &DatasetRecord, words: &[u64], blob: &[u8]) -> Result<Dataset, Refused> {
    let dims = part(words, record.dims_at, record.n_dims)?.to_vec();
    let chunk_dims = part(words, record.chunk_dims_at, record.n_dims)?.to_vec();
    if dims.is_empty() || chunk_dims.contains(&0) {
        return Err("a dataset of the plan has no extent");
    }
    let field_end = record.field_offset.checked_add(record.field_bytes);
    if field_end.is_none_or(|end| end > record.element_bytes) || record.field_bytes == 0 {
        return Err("a field of the plan lies outside its element");
    }
    let by_library = record.flags & FLAG_LIBRARY != 0;
    let windows = windows(record, words, &dims)?;
    let counts: Vec<u64> = windows.iter().map(|window| window.count).collect();
    let n_words = (record.n_conversions).saturating_mul(CONVERSION_WORDS as u64);
    let elements = Elements::of(
        (record.field_offset, record.field_bytes),
        record.delivered_bytes,
        part(words, record.conversions_at, n_words)?,
        part(blob, record.fill_at, record.element_bytes)?,
        cast(record, words, &dims, &chunk_dims)?,
    )?;
    if product(&counts, elements.field_bytes as u64)? != record.row_bytes {
        return Err("a row of the plan has another size than its dataset");
    }
    let decoded_size = product(&chunk_dims, elements.bytes as u64)?;
    let stored_size = product(&chunk_dims, record.element_bytes)?;
    if decoded_size.max(stored_size) > isize::MAX as u64 {
        return Err("a chunk of the plan is too large");
    }
    let inner = windows.iter().zip(&chunk_dims[1..]);
    let grid: Vec<u64> = inner
        .map(|(window, chunk)| window.n_chunks(*chunk))
        .collect();
    let grid_chunks = match by_library {
        true => 0,
        false => product(&grid, dims[0].div_ceil(chunk_dims[0]))
            .map_err(|_| "a grid of the plan is too large")?,
    };
    let parts = part(words, record.parts_at, record.n_parts_words)?;
    let parts = Parts::parse(parts, dims.len())?;
    let text = part(blob, record.library_at, record.library_len)?;
    Ok(Dataset {
        source: usize::try_from(record.source).unwrap_or(usize::MAX),
        row_bytes: record.row_bytes as usize,
        element_bytes: elements.bytes,
        field_offset: elements.field_offset,
        field_bytes: elements.field_bytes,
        stored_element_bytes: record.element_bytes as usize,
        conversion: elements.conversion,
        dims,
        chunk_dims,
        windows,
        ends: ends(record, words)?,
        filters: filters(words, record.filters_at, record.n_filters)?,
        stored_fill: elements.stored_fill,
        fill: elements.fill,
        fixes: elements.fixes,
        clipped: record.flags & FLAG_CLIPPED != 0,
        by_library,
        chunks_at: record.chunks_at,
        n_chunks: record.n_chunks,
        parts,
        grid_chunks,
        library: String::from_utf8(text.to_vec()).map_err(|_| "a text of the plan is not UTF-8")?,
        decoded_size: decoded_size as usize,
    })
}
