//! A dataset's record in a table, and the words that it points to.
//!
//! Law:
//! 1. The layout is written by builder.rs, of the same record.
//! 2. Behind a dataset's dims there are its windows, the ends of its files, and a cast, in this order,
//!    each where the record's flags say that it is there.

use super::axis_window::AxisWindow;
use super::words::{Refused, part};
use hdf5_filters::FilterSpec;
use hdf5_filters::convert::Cast;

pub const MAGIC: u64 = u64::from_le_bytes(*b"MTDATA05");
pub const FLAG_CLIPPED: u64 = 1;
pub const FLAG_LIBRARY: u64 = 2;
/// Behind a dataset's dims there is a window for each of its inner axes.
pub const FLAG_WINDOWS: u64 = 4;
/// Behind these there are the number of files, and for each file the row behind its last one.
pub const FLAG_JOINED: u64 = 8;
/// Behind these there are the number of words of a cast, and the words.
pub const FLAG_CAST: u64 = 16;

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) magic: u64,
    pub(super) total_bytes: u64,
    pub(super) n_sources: u64,
    pub(super) n_datasets: u64,
    pub(super) n_chunks: u64,
    pub(super) n_words: u64,
    pub(super) n_blob: u64,
    pub(super) reserved: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct DatasetRecord {
    pub(super) source: u64,
    pub(super) row_bytes: u64,
    pub(super) element_bytes: u64,
    pub(super) field_offset: u64,
    pub(super) field_bytes: u64,
    pub(super) n_dims: u64,
    pub(super) dims_at: u64,
    pub(super) chunk_dims_at: u64,
    pub(super) filters_at: u64,
    pub(super) n_filters: u64,
    pub(super) fill_at: u64,
    pub(super) conversions_at: u64,
    pub(super) n_conversions: u64,
    pub(super) flags: u64,
    pub(super) library_at: u64,
    pub(super) library_len: u64,
    pub(super) chunks_at: u64,
    pub(super) n_chunks: u64,
    pub(super) parts_at: u64,
    pub(super) n_parts_words: u64,
    /// Bytes of a delivered element; 0: it is the stored field, converted in place.
    pub(super) delivered_bytes: u64,
}

/// The window of rows along each inner axis; without words, all of it.
pub(super) fn windows(
    record: &DatasetRecord,
    words: &[u64],
    dims: &[u64],
) -> Result<Vec<AxisWindow>, Refused> {
    let inner = &dims[1..];
    if record.flags & FLAG_WINDOWS == 0 {
        return Ok(inner.iter().map(|&dim| AxisWindow::whole(dim)).collect());
    }
    let at = record.dims_at.saturating_add(record.n_dims);
    let words = part(words, at, 3 * inner.len() as u64)?.chunks_exact(3);
    let windows = words
        .zip(inner)
        .map(|(words, &dim)| AxisWindow::check(words, dim));
    windows.collect()
}

/// Behind which rows the files of joined datasets end.
pub(super) fn ends(record: &DatasetRecord, words: &[u64]) -> Result<Vec<u64>, Refused> {
    if record.flags & FLAG_JOINED == 0 {
        return Ok(Vec::new());
    }
    counted(words, behind_windows(record)).map(<[u64]>::to_vec)
}

/// The words of the cast.
pub(super) fn cast(
    record: &DatasetRecord,
    words: &[u64],
    dims: &[u64],
    chunk_dims: &[u64],
) -> Result<Option<Cast>, Refused> {
    if record.flags & FLAG_CAST == 0 {
        return Ok(None);
    }
    let n_ends = match record.flags & FLAG_JOINED {
        0 => 0,
        _ => 1 + counted(words, behind_windows(record))?.len() as u64,
    };
    let words = counted(words, behind_windows(record).saturating_add(n_ends))?;
    let cast = Cast::parse(words, &dims[1..], &chunk_dims[1..]);
    cast.ok_or("a cast of the plan is unknown").map(Some)
}

/// The number of the first word behind a dataset's dims and windows.
fn behind_windows(record: &DatasetRecord) -> u64 {
    let n_windows = match record.flags & FLAG_WINDOWS {
        0 => 0,
        _ => record.n_dims - 1,
    };
    let n_words = record.n_dims.saturating_add(n_windows.saturating_mul(3));
    record.dims_at.saturating_add(n_words)
}

/// The words behind a word that counts them.
fn counted(words: &[u64], at: u64) -> Result<&[u64], Refused> {
    let count = part(words, at, 1)?[0];
    part(words, at + 1, count)
}

/// A pipeline as words: for each filter its id, flags, number of values, and the values.
pub(super) fn filters(words: &[u64], at: u64, count: u64) -> Result<Vec<FilterSpec>, Refused> {
    let mut at = at;
    let mut specs = Vec::new();
    for _ in 0..count {
        let head = part(words, at, 3)?;
        let values = part(words, at + 3, head[2])?;
        specs.push(FilterSpec {
            id: head[0] as u32,
            flags: head[1] as u32,
            values: values.iter().map(|&value| value as u32).collect(),
        });
        at += 3 + head[2];
    }
    Ok(specs)
}
