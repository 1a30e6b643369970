//! What a saved index says of many objects: a survey, of its columns.
//!
//! Law:
//! 1. Columns are untrusted: what contradicts itself is damage, and nothing is allocated that columns
//!    or parts of the index do not back.
//! 2. What is said has the ranges that a file's own survey has. Of chunks it is as there: readers check
//!    each before they fetch it.

use super::chunk::Chunk;
use super::dataspace::MAX_RANK;
use super::saved_columns::{Column, DATASET, Failure, NO_NUMBER, Result, Tables};
use super::saved_parts::Parts;
use super::survey::{ALONE, Kind, NO_DATASET, Scale, Storage, Survey};
use std::collections::HashMap;
use std::ops::Range;

/// Larger datasets, and chunks, are alone.
const MAX_BYTES: u64 = 1 << 62;

/// The survey of some objects, each of which is in a file of this number, without attributes.
pub fn survey(
    parts: &Parts<'_>,
    kinds: &[Kind],
    objects: &mut dyn Iterator<Item = (usize, u32)>,
    with_scales: bool,
) -> Result<Survey> {
    let of = parts.tables;
    let [first, second] = [Column::First, Column::Second].map(|column| of.longs(column));
    let mut survey = Survey::default();
    let (mut rows, mut numbers) = (Vec::new(), HashMap::new());
    let (mut chunked, mut compact) = (Vec::new(), Vec::new());
    for (row, file) in objects {
        let common = *of.words(Column::Common).get(row).ok_or("rows")?;
        let kind = kinds.get(common as usize);
        let is_known = kind.is_some() || common >= NO_DATASET;
        let is_dataset = of.bytes(Column::Kind)[row] == DATASET;
        if !is_known || (common == NO_DATASET) == is_dataset {
            return Err(contradiction("kinds"));
        }
        let axes = range(of.longs(Column::DimsEnd), row);
        if axes.len() > MAX_RANK {
            return Err(contradiction("dims"));
        }
        let dims = &of.longs(Column::Dims)[axes.clone()];
        let extents = &of.longs(Column::ChunkDims)[axes];
        if with_scales {
            add_scales(&mut survey, of, row)?;
        }
        rows.push(row);
        survey.file.push(file);
        survey.offset.push(of.longs(Column::HeaderOffset)[row]);
        survey.ranks.push(dims.len() as u32);
        survey.dims.extend(dims);
        survey.chunk_dims.extend(extents);
        let mut n_chunks = 0;
        if let Some(kind) = kind {
            let n_bytes = product(kind.element_bytes, dims).ok_or_else(|| contradiction("dims"))?;
            match kind.storage {
                Storage::Chunked => {
                    let bytes = product(kind.element_bytes, extents);
                    let bytes = bytes.filter(|&bytes| bytes > 0);
                    bytes.ok_or_else(|| contradiction("dims of chunks"))?;
                    n_chunks = second[row];
                    chunked.push(row);
                }
                Storage::Contiguous => {
                    n_chunks = u64::from(n_bytes > 0 && first[row] != NO_NUMBER);
                }
                Storage::Compact if second[row] < n_bytes => {
                    return Err(contradiction("elements"));
                }
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
    place(&mut survey, of, &rows, &tables, &elements);
    Ok(survey)
}

/// Put the chunks of all datasets in order, and elements of compact ones without what is behind them.
fn place(survey: &mut Survey, of: &Tables, rows: &[usize], tables: &[Chunk], elements: &[u8]) {
    let [first, second] = [Column::First, Column::Second].map(|column| of.longs(column));
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
            Storage::Contiguous => survey.chunks.push(Chunk::plain(0, first[row], n_bytes)),
            Storage::Compact => {
                let begin = survey.inline.len() as u64;
                survey.chunks.push(Chunk::plain(0, begin, n_bytes));
                let stored = &elements[element_at..element_at + n_bytes as usize];
                survey.inline.extend(stored);
                element_at += second[row] as usize;
            }
        }
    }
}

/// The scales of the object that is added next.
fn add_scales(survey: &mut Survey, of: &Tables, row: usize) -> Result<()> {
    let (object, scales) = (
        survey.kind.len() as u64,
        range(of.longs(Column::ScaleEnd), row),
    );
    let axes = &of.longs(Column::ScaleAxis)[scales.clone()];
    for (&axis, &offset) in axes.iter().zip(&of.longs(Column::ScaleTarget)[scales]) {
        if axis > MAX_RANK as u64 {
            return Err(contradiction("axes"));
        }
        survey.scales.push(Scale {
            object,
            axis,
            offset,
        });
    }
    Ok(())
}

fn contradiction(what: &str) -> Failure {
    Failure::Damaged(format!("its columns contradict one another: {what}"))
}

/// The entries of an object, which end where those of the next one begin; ends are sorted.
fn range(ends: &[u64], row: usize) -> Range<usize> {
    let begin = row.checked_sub(1).map_or(0, |before| ends[before]);
    begin as usize..ends[row] as usize
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
