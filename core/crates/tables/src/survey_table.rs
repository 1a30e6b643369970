//! The datasets of a survey as a table: one that has elements, and is not alone, after the other.
//!
//! Law:
//! 1. The elements of compact datasets travel with the table: those of a file are a source.
//! 2. Objects and datasets have numbers of their own: `Laid` leads from either to the other.

use super::builder::{Kind, Shape, TableBuilder, pieces, row_bytes};
use super::source::{SOURCE_DIRECT, SourceValues};
use hdf5_format::chunk::Chunk;
use hdf5_format::joined_survey::Begin;
use hdf5_format::survey::{Storage, Survey};
use std::collections::HashMap;

/// Where the objects of a survey are in its table.
#[derive(Debug, Default)]
pub struct Laid {
    /// Of each object its number in the table, or -1.
    pub number: Vec<i64>,
    /// Of each dataset of the table its object, its rows (1 of a scalar), its bytes, and the number of
    /// its first chunk.
    pub objects: Vec<i64>,
    pub n_rows: Vec<i64>,
    pub n_bytes: Vec<i64>,
    pub chunks_at: Vec<i64>,
}

impl Laid {
    pub fn of(survey: &Survey) -> Laid {
        let (mut laid, mut n_chunks) = (Laid::default(), 0);
        for (object, begin) in (0..survey.len()).zip(survey.begins()) {
            let n_bytes = n_bytes(survey, object, begin);
            let number = laid.objects.len() as i64;
            laid.number.push(if n_bytes > 0 { number } else { -1 });
            if n_bytes == 0 {
                continue;
            }
            let rows = match survey.ranks[object] {
                0 => 1,
                _ => survey.dims[begin.dims],
            };
            laid.objects.push(object as i64);
            laid.n_rows.push(rows as i64);
            laid.n_bytes.push(n_bytes as i64);
            laid.chunks_at.push(n_chunks);
            n_chunks += survey.n_chunks[object] as i64;
        }
        laid
    }
}

/// The bytes of a dataset's elements; 0 of an object that is not in the table.
fn n_bytes(survey: &Survey, object: usize, begin: Begin) -> u64 {
    let Some(kind) = survey.kind_of(object) else {
        return 0;
    };
    let dims = &survey.dims[begin.dims..begin.dims + survey.ranks[object] as usize];
    // No more than 2^62, as the survey has seen.
    let elements = u64::from(kind.element_bytes);
    dims.iter().copied().fold(elements, u64::saturating_mul)
}

/// The table of a survey's datasets. `kinds` are those of the survey, `files` its files. What has no
/// chunks is read in pieces of `piece_bytes`. None: there are too few kinds or files.
pub fn table_of(
    survey: &Survey,
    kinds: &[Kind],
    files: &[SourceValues<'_>],
    piece_bytes: u64,
) -> Option<TableBuilder> {
    let (laid, begins) = (Laid::of(survey), survey.begins());
    let inline = inline(survey, &laid, &begins);
    let mut builder = TableBuilder::default();
    for &object in &laid.objects {
        let object = object as usize;
        let (file, number) = (survey.file[object], survey.kind[object] as usize);
        let (stored, kind) = (survey.kinds.get(number)?, kinds.get(number)?);
        let mut values = *files.get(file as usize)?;
        if stored.storage == Storage::Compact {
            values.flags &= !SOURCE_DIRECT;
            values.inline = &inline.get(&file)?.elements;
        }
        let own = builder.source(&values);
        let at = [begins[object], begins[object + 1]];
        let is_scalar = at[0].dims == at[1].dims;
        let dims = if is_scalar {
            &[1]
        } else {
            &survey.dims[at[0].dims..at[1].dims]
        };
        let is_chunked = stored.storage == Storage::Chunked;
        let extents = match is_chunked {
            true if is_scalar => vec![1],
            true => survey.chunk_dims[at[0].dims..at[1].dims].to_vec(),
            false => pieces(dims, kind.element_bytes, piece_bytes),
        };
        let shape = Shape {
            row_bytes: row_bytes(dims, kind.element_bytes),
            dims,
            chunk_dims: &extents,
            clipped: !is_chunked,
            ..Shape::default()
        };
        let chunks = survey.chunks[at[0].chunks..at[1].chunks].iter();
        let placed = chunks.map(|&chunk| Chunk {
            source: own,
            byte_offset: match inline
                .get(&file)
                .filter(|_| stored.storage == Storage::Compact)
            {
                Some(of_file) => of_file.begins.get(&object).copied().unwrap_or(0),
                None => chunk.byte_offset,
            },
            ..chunk
        });
        builder.dataset(kind, &shape, own, placed);
    }
    Some(builder)
}

/// The elements of a file's compact datasets, and where those of each object begin.
#[derive(Default)]
struct Inline {
    elements: Vec<u8>,
    begins: HashMap<usize, u64>,
}

fn inline(survey: &Survey, laid: &Laid, begins: &[Begin]) -> HashMap<u32, Inline> {
    let mut files: HashMap<u32, Inline> = HashMap::new();
    for &object in &laid.objects {
        let object = object as usize;
        if survey
            .kind_of(object)
            .is_none_or(|kind| kind.storage != Storage::Compact)
        {
            continue;
        }
        let of_file = files.entry(survey.file[object]).or_default();
        of_file.begins.insert(object, of_file.elements.len() as u64);
        for chunk in &survey.chunks[begins[object].chunks..begins[object + 1].chunks] {
            of_file.elements.extend(survey.elements(chunk));
        }
    }
    files
}
