//! Datasets -> the bytes of their table, which dataset.rs reads.
//!
//! Law:
//! 1. Every table is made here: of one dataset, of a plan, of a survey.
//! 2. What is equal is there once: sources, and what kinds of datasets say.
//! 3. A table is checked when it is opened, not when it is made.

use super::dataset::Chunk;
use super::record::{
    DatasetRecord, FLAG_CAST, FLAG_CLIPPED, FLAG_JOINED, FLAG_LIBRARY, FLAG_WINDOWS, Header, MAGIC,
};
use super::source::{SourceRecord, SourceValues};
use super::words::{put, words_of};
use hdf5_filters::FilterSpec;
use hdf5_filters::convert::CONVERSION_WORDS;
use std::collections::HashMap;

/// What the elements of some datasets are, and how they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kind {
    /// Bytes of a stored element, and which of them is its delivered field.
    pub element_bytes: u64,
    pub field_offset: u64,
    pub field_bytes: u64,
    /// Of a delivered element that is made elsewhere; 0: it stays in its place.
    pub delivered_bytes: u64,
    pub filters: Vec<FilterSpec>,
    /// Words of conversions.
    pub conversions: Vec<u64>,
    /// A stored element; zeros behind its end.
    pub fill: Vec<u8>,
}

/// One dataset of a kind.
#[derive(Clone, Debug, Default)]
pub struct Shape<'a> {
    pub row_bytes: u64,
    pub dims: &'a [u64],
    pub chunk_dims: &'a [u64],
    /// Three words for each axis behind the first; without words, the whole of each axis.
    pub windows: &'a [u64],
    /// Behind the last row of each file of several.
    pub ends: &'a [u64],
    /// Words of a cast, or none.
    pub cast: &'a [u64],
    pub clipped: bool,
    /// How a library reads rows; none: the core does.
    pub by_library: bool,
    pub library: &'a [u8],
    /// Words of parts.
    pub parts: &'a [u64],
}

/// What a record says of its kind.
#[derive(Clone, Copy, Debug)]
struct KindWords {
    filters_at: u64,
    n_filters: u64,
    fill_at: u64,
    conversions_at: u64,
    n_conversions: u64,
}

#[derive(Debug, Default)]
pub struct TableBuilder {
    sources: Vec<SourceRecord>,
    known_sources: HashMap<SourceRecord, u32>,
    datasets: Vec<DatasetRecord>,
    chunks: Vec<Chunk>,
    words: Vec<u64>,
    blob: Vec<u8>,
    known_bytes: HashMap<Vec<u8>, u64>,
    kinds: HashMap<Kind, KindWords>,
}

impl TableBuilder {
    /// The number of a source.
    pub fn source(&mut self, values: &SourceValues<'_>) -> u32 {
        let [name, inline, access] =
            [values.filename, values.inline, values.access].map(|bytes| self.bytes(bytes));
        let record = values.record(name, inline, access);
        let next = self.sources.len() as u32;
        *self.known_sources.entry(record).or_insert_with(|| {
            self.sources.push(record);
            next
        })
    }

    /// Add a dataset, whose own file is `source`, and its chunks, which name sources of the table.
    pub fn dataset(
        &mut self,
        kind: &Kind,
        shape: &Shape<'_>,
        source: u32,
        chunks: impl IntoIterator<Item = Chunk>,
    ) {
        let of = self.kind(kind);
        let dims_at = self.add(shape.dims);
        self.add(shape.windows);
        for counted in [shape.ends, shape.cast] {
            if !counted.is_empty() {
                self.add(&[counted.len() as u64]);
                self.add(counted);
            }
        }
        let chunk_dims_at = self.words.len() as u64;
        let extents = shape.chunk_dims.iter().map(|&extent| extent.max(1));
        self.words.extend(extents);
        let library_at = self.bytes(shape.library);
        let chunks_at = self.chunks.len();
        self.chunks.extend(chunks);
        let flag = |flag: u64, is_set: bool| if is_set { flag } else { 0 };
        let record = DatasetRecord {
            source: source.into(),
            row_bytes: shape.row_bytes,
            element_bytes: kind.element_bytes,
            field_offset: kind.field_offset,
            field_bytes: kind.field_bytes,
            n_dims: shape.dims.len() as u64,
            dims_at,
            chunk_dims_at,
            filters_at: of.filters_at,
            n_filters: of.n_filters,
            fill_at: of.fill_at,
            conversions_at: of.conversions_at,
            n_conversions: of.n_conversions,
            flags: flag(FLAG_CLIPPED, shape.clipped)
                | flag(FLAG_LIBRARY, shape.by_library)
                | flag(FLAG_WINDOWS, !shape.windows.is_empty())
                | flag(FLAG_JOINED, !shape.ends.is_empty())
                | flag(FLAG_CAST, !shape.cast.is_empty()),
            library_at,
            library_len: shape.library.len() as u64,
            chunks_at: chunks_at as u64,
            n_chunks: (self.chunks.len() - chunks_at) as u64,
            parts_at: self.add(shape.parts),
            n_parts_words: shape.parts.len() as u64,
            delivered_bytes: kind.delivered_bytes,
        };
        self.datasets.push(record);
    }

    /// The table, and how many bytes of its words it has.
    pub fn table(self) -> (Vec<u64>, usize) {
        let len = size_of::<Header>()
            + size_of_val(&self.sources[..])
            + size_of_val(&self.datasets[..])
            + size_of_val(&self.chunks[..])
            + size_of_val(&self.words[..])
            + self.blob.len();
        let header = Header {
            magic: MAGIC,
            total_bytes: len as u64,
            n_sources: self.sources.len() as u64,
            n_datasets: self.datasets.len() as u64,
            n_chunks: self.chunks.len() as u64,
            n_words: self.words.len() as u64,
            n_blob: self.blob.len() as u64,
            reserved: 0,
        };
        let mut table = Vec::with_capacity(len / 8 + 1);
        put(&mut table, &[header]);
        put(&mut table, &self.sources);
        put(&mut table, &self.datasets);
        put(&mut table, &self.chunks);
        table.extend(self.words);
        table.extend(words_of(&self.blob));
        (table, len)
    }

    fn kind(&mut self, kind: &Kind) -> KindWords {
        if let Some(known) = self.kinds.get(kind) {
            return *known;
        }
        let filters_at = self.words.len() as u64;
        for filter in &kind.filters {
            let head = [filter.id, filter.flags, filter.values.len() as u32];
            let words = head.iter().chain(&filter.values);
            self.words.extend(words.map(|&word| u64::from(word)));
        }
        let mut fill = kind.fill.clone();
        fill.resize(kind.element_bytes as usize, 0);
        let words = KindWords {
            filters_at,
            n_filters: kind.filters.len() as u64,
            fill_at: self.bytes(&fill),
            conversions_at: self.add(&kind.conversions),
            n_conversions: (kind.conversions.len() / CONVERSION_WORDS) as u64,
        };
        self.kinds.insert(kind.clone(), words);
        words
    }

    fn add(&mut self, words: &[u64]) -> u64 {
        let at = self.words.len() as u64;
        self.words.extend_from_slice(words);
        at
    }

    /// Where these bytes are.
    fn bytes(&mut self, bytes: &[u8]) -> u64 {
        if let Some(&known) = self.known_bytes.get(bytes) {
            return known;
        }
        let at = self.blob.len() as u64;
        self.known_bytes.insert(bytes.to_vec(), at);
        self.blob.extend_from_slice(bytes);
        at
    }
}

/// Bytes of a row of elements of this size. Saturating: a table with more is refused.
pub fn row_bytes(dims: &[u64], element_bytes: u64) -> u64 {
    let inner = dims[1..].iter().copied();
    inner.fold(element_bytes, u64::saturating_mul)
}

/// The extents in which rows that lie together are read.
pub fn pieces(dims: &[u64], element_bytes: u64, piece_bytes: u64) -> Vec<u64> {
    let rows = (piece_bytes / row_bytes(dims, element_bytes).max(1)).max(1);
    [&[rows], &dims[1..]].concat()
}
