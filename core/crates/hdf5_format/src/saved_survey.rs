//! What a saved index says of many objects: a survey, of its columns.
//!
//! Law:
//! 1. Columns are untrusted: what contradicts itself is `Damaged`, and nothing is allocated that columns
//!    or parts of the index do not back.
//! 2. What is said has the ranges that a file's own survey has. Of chunks it is as there: readers check
//!    each before they fetch it.

use super::chunk::Chunk;
use super::survey::{ALONE, Kind, NO_DATASET, Scale, Storage, Survey};
use std::collections::HashMap;
use std::ops::Range;

/// Larger datasets, and chunks, are alone.
const MAX_BYTES: u64 = 1 << 62;
const MAX_RANK: usize = 32;
/// The kind of an object that is a dataset; no address.
const DATASET: u8 = 1;
const NO_NUMBER: u64 = u64::MAX;

/// What of an index contradicts itself.
pub type Damaged = &'static str;

/// Columns of an index, by object, dim or scale.
#[derive(Clone, Copy)]
pub struct Columns<'a> {
    pub header_offset: &'a [u64],
    pub first: &'a [u64],
    pub second: &'a [u64],
    pub common: &'a [u32],
    pub kind: &'a [u8],
    pub dims_end: &'a [u64],
    pub dims: &'a [u64],
    pub chunk_dims: &'a [u64],
    pub scale_end: &'a [u64],
    pub scale_axis: &'a [u64],
    pub scale_target: &'a [u64],
}

/// Objects of an index, and the kinds that they name.
#[derive(Clone, Copy)]
pub struct Selected<'a> {
    pub rows: &'a [usize],
    pub files: &'a [u32],
    pub kinds: &'a HashMap<u32, Kind>,
    pub with_scales: bool,
}

/// Reads parts of datasets, one behind the other, after a look at where they lie.
pub trait Parts<E> {
    fn chunks(&self, rows: &[usize]) -> Result<Vec<Chunk>, E>;
    fn elements(&self, rows: &[usize]) -> Result<Vec<u8>, E>;
}

/// The survey of some objects, without attributes.
pub fn survey<E: From<Damaged>>(
    of: &Columns<'_>,
    selected: &Selected<'_>,
    parts: &dyn Parts<E>,
) -> Result<Survey, E> {
    let mut survey = Survey::default();
    let mut numbers = HashMap::new();
    let (mut chunked, mut compact) = (Vec::new(), Vec::new());
    for (&row, &file) in selected.rows.iter().zip(selected.files) {
        let common = *of.common.get(row).ok_or("rows")?;
        let kind = selected.kinds.get(&common);
        let is_known = kind.is_some() || common >= NO_DATASET;
        if !is_known || (common == NO_DATASET) != (of.kind[row] != DATASET) {
            return Err("kinds".into());
        }
        let axes = range(of.dims_end, row).filter(|axes| axes.len() <= MAX_RANK);
        let axes = axes.ok_or("dims")?;
        let dims = of.dims.get(axes.clone()).ok_or("dims")?;
        let extents = of.chunk_dims.get(axes).ok_or("dims")?;
        let number = survey.kind.len() as u64;
        if selected.with_scales {
            add_scales(&mut survey, of, number, row)?;
        }
        survey.file.push(file);
        survey.offset.push(of.header_offset[row]);
        survey.ranks.push(dims.len() as u32);
        survey.dims.extend(dims);
        survey.chunk_dims.extend(extents);
        let mut n_chunks = 0;
        if let Some(kind) = kind {
            let n_bytes = product(kind.element_bytes, dims).ok_or("dims")?;
            match kind.storage {
                Storage::Chunked => {
                    let bytes = product(kind.element_bytes, extents);
                    bytes.filter(|&bytes| bytes > 0).ok_or("dims of chunks")?;
                    n_chunks = of.second[row];
                    chunked.push(row);
                }
                Storage::Contiguous => {
                    n_chunks = u64::from(n_bytes > 0 && of.first[row] != NO_NUMBER);
                }
                Storage::Compact if of.second[row] < n_bytes => return Err("elements".into()),
                Storage::Compact => {
                    n_chunks = u64::from(n_bytes > 0);
                    compact.extend((n_bytes > 0).then_some(row));
                }
            }
        }
        let known = kind.map(|kind| {
            *numbers
                .entry(common)
                .or_insert_with(|| survey.number(kind.clone()))
        });
        let other = if common == NO_DATASET {
            NO_DATASET
        } else {
            ALONE
        };
        survey.kind.push(known.unwrap_or(other));
        survey.n_chunks.push(n_chunks);
    }
    let tables = parts.chunks(&chunked)?;
    let elements = parts.elements(&compact)?;
    place(&mut survey, of, selected.rows, &tables, &elements);
    Ok(survey)
}

/// Put the chunks of all datasets in order, and elements of compact ones without what is behind them.
fn place(survey: &mut Survey, of: &Columns<'_>, rows: &[usize], tables: &[Chunk], elements: &[u8]) {
    let (mut table_at, mut element_at, mut dims_at) = (0, 0, 0);
    for (object, &row) in rows.iter().enumerate() {
        let n_chunks = survey.n_chunks[object] as usize;
        let dims = dims_at..dims_at + survey.ranks[object] as usize;
        dims_at = dims.end;
        let Some(kind) = survey.kind_of(object) else {
            continue;
        };
        let n_bytes = product(kind.element_bytes, &survey.dims[dims]).unwrap_or(0);
        match kind.storage {
            Storage::Chunked => {
                let table = &tables[table_at..table_at + n_chunks];
                survey.chunks.extend(table);
                table_at += n_chunks;
            }
            _ if n_chunks == 0 => {}
            Storage::Contiguous => survey.chunks.push(Chunk::plain(0, of.first[row], n_bytes)),
            Storage::Compact => {
                let begin = survey.inline.len() as u64;
                survey.chunks.push(Chunk::plain(0, begin, n_bytes));
                let stored = &elements[element_at..element_at + n_bytes as usize];
                survey.inline.extend(stored);
                element_at += of.second[row] as usize;
            }
        }
    }
}

fn add_scales(
    survey: &mut Survey,
    of: &Columns<'_>,
    object: u64,
    row: usize,
) -> Result<(), Damaged> {
    let scales = range(of.scale_end, row).ok_or("scales")?;
    let axes = of.scale_axis.get(scales.clone()).ok_or("scales")?;
    let targets = of.scale_target.get(scales).ok_or("scales")?;
    for (&axis, &offset) in axes.iter().zip(targets) {
        if axis > MAX_RANK as u64 {
            return Err("axes");
        }
        survey.scales.push(Scale {
            object,
            axis,
            offset,
        });
    }
    Ok(())
}

/// The entries of an object, which end where those of the next one begin.
fn range(ends: &[u64], row: usize) -> Option<Range<usize>> {
    let begin = match row {
        0 => 0,
        _ => *ends.get(row - 1)?,
    };
    let end = *ends.get(row)?;
    (begin <= end).then_some(begin as usize..end as usize)
}

/// The bytes of as many elements; none: too many.
fn product(element_bytes: u32, dims: &[u64]) -> Option<u64> {
    if dims.contains(&0) {
        return Some(0);
    }
    let mut dims = dims.iter().copied();
    let bytes = dims.try_fold(u64::from(element_bytes), u64::checked_mul)?;
    (bytes <= MAX_BYTES).then_some(bytes)
}
