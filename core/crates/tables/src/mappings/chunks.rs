//! A virtual dataset whose mappings fit the chunks of their sources: a table of their chunks.
//!
//! Law:
//! 1. A chunk of the virtual dataset is one chunk of a source, whole, or as far as the virtual dataset
//!    goes. What does not fit is not for this file.
//! 2. A table of chunks grows with those that are stored, and its length is known before it is made.
//! 3. Where two mappings show one chunk, the later one does. A chunk of no mapping is the fill value.

use super::selections::{boxed, paired_axes};
use hdf5_format::chunk::Chunk;
use hdf5_format::virtual_layout::{Mapping, Selection};

/// Chunks that mappings show beside four for each that a source stores.
const FREE_CHUNKS: u64 = 1 << 20;

/// A source, whose chunks decode as those of all others do.
pub struct Source<'a> {
    pub dims: Vec<u64>,
    pub chunks: &'a [Chunk],
    /// A chunk that is not stored is as one of the virtual dataset.
    pub fills_alike: bool,
}

/// Chunks, the source of each, and their extents.
pub type Shown = (Vec<Chunk>, Vec<u32>, Vec<u64>);

/// A mapping as a box on both sides: first elements and lengths.
struct Boxes {
    source: usize,
    order: usize,
    shown: Vec<(u64, u64)>,
    named: Vec<(u64, u64)>,
}

/// Numbers of mappings that show something, sorted by their sources; `None` of a source: it is missing.
pub fn shown_mappings<T>(
    mappings: &[Mapping],
    numbers: &[u32],
    sources: &[Option<T>],
) -> Vec<usize> {
    let shows = |&number: &usize| {
        let mapping = &mappings[number];
        let is_there = sources
            .get(numbers[number] as usize)
            .is_some_and(Option::is_some);
        is_there
            && [&mapping.in_virtual, &mapping.in_source]
                .iter()
                .all(|of| **of != Selection::None)
    };
    let mut found: Vec<usize> = (0..mappings.len()).filter(shows).collect();
    found.sort_by_key(|&number| numbers[number]);
    found
}

/// The chunks of a virtual dataset of these dims; None: its mappings do not fit them. `numbers` has the
/// source of each mapping.
pub fn as_chunks(
    dims: &[u64],
    mappings: &[Mapping],
    numbers: &[u32],
    sources: &[Option<Source<'_>>],
    source_chunk: &[u64],
) -> Option<Shown> {
    let mut boxes = Vec::new();
    for order in shown_mappings(mappings, numbers, sources) {
        let source = numbers[order] as usize;
        let named = &sources[source].as_ref()?.dims;
        boxes.push(Boxes {
            source,
            order,
            shown: boxed(&mappings[order].in_virtual, dims)?,
            named: boxed(&mappings[order].in_source, named)?,
        });
    }
    let lengths = |of: &[(u64, u64)]| of.iter().map(|&(_, length)| length).collect::<Vec<_>>();
    let shown: Vec<_> = boxes.iter().map(|one| lengths(&one.shown)).collect();
    let named: Vec<_> = boxes.iter().map(|one| lengths(&one.named)).collect();
    let pairs = paired_axes(&shown, &named)?;
    let mut extents = vec![1; dims.len()];
    for &(axis, number) in &pairs {
        extents[axis] = *source_chunk.get(number)?;
    }
    let is_paired = |number: usize| pairs.iter().any(|pair| pair.1 == number);
    let are_plain = (0..source_chunk.len()).all(|axis| source_chunk[axis] == 1 || is_paired(axis));
    if !are_plain
        || !boxes
            .iter()
            .all(|one| one.fits(dims, &extents, source_chunk))
    {
        return None;
    }
    let total = boxes.iter().map(|one| {
        one.count(&extents)
            .iter()
            .map(|&n| n as f64)
            .product::<f64>()
    });
    let n_stored: usize = sources
        .iter()
        .flatten()
        .map(|source| source.chunks.len())
        .sum();
    if total.sum::<f64>() > (FREE_CHUNKS + 4 * n_stored as u64) as f64 {
        return None;
    }
    let mut found = matched(dims, &extents, source_chunk, &pairs, &boxes, sources)?;
    // Of equal chunks the last one stays, if it is stored.
    found.sort_by_key(|&(at, order, ..)| (at, order));
    let (mut chunks, mut of) = (Vec::new(), Vec::new());
    for (number, &(grid_index, _, chunk, source)) in found.iter().enumerate() {
        let is_last = found
            .get(number + 1)
            .is_none_or(|next| next.0 != grid_index);
        if let Some(chunk) = chunk.filter(|_| is_last) {
            chunks.push(Chunk {
                grid_index,
                ..chunk
            });
            of.push(source);
        }
    }
    Some((chunks, of, extents))
}

/// A chunk that a mapping shows: its number in the grid, the mapping's, the chunk if it is stored, and
/// its source.
type Match = (u64, usize, Option<Chunk>, u32);

/// All chunks of all mappings. None: one is not stored, and is not as one of the virtual dataset.
fn matched(
    dims: &[u64],
    extents: &[u64],
    source_chunk: &[u64],
    pairs: &[(usize, usize)],
    boxes: &[Boxes],
    sources: &[Option<Source<'_>>],
) -> Option<Vec<Match>> {
    let grid = strides(dims, extents)?;
    let mut found = Vec::new();
    for one in boxes {
        let source = sources[one.source].as_ref()?;
        let source_grid = strides(&source.dims, source_chunk)?;
        let first = (one.shown.iter().zip(extents).zip(&grid))
            .map(|((&(start, _), &extent), &stride)| start / extent * stride);
        let first_named = (one.named.iter().zip(source_chunk).zip(&source_grid))
            .map(|((&(start, _), &extent), &stride)| start / extent * stride);
        let mut beside = vec![0; dims.len()];
        for &(axis, number) in pairs {
            beside[axis] = source_grid[number];
        }
        let (first, first_named) = (first.sum::<u64>(), first_named.sum::<u64>());
        for (at, at_source) in steps(&one.count(extents), &grid, &beside) {
            let chunk = stored(source.chunks, first_named + at_source);
            if chunk.is_none() && !source.fills_alike {
                return None;
            }
            found.push((first + at, one.order, chunk, one.source as u32));
        }
    }
    Some(found)
}

impl Boxes {
    /// Chunks along each axis.
    fn count(&self, extents: &[u64]) -> Vec<u64> {
        let each = self.shown.iter().zip(extents);
        each.map(|(&(_, length), &extent)| length.div_ceil(extent))
            .collect()
    }

    /// Both sides begin and end where chunks do, or where the virtual dataset ends.
    fn fits(&self, dims: &[u64], extents: &[u64], source_chunk: &[u64]) -> bool {
        let shown = self.shown.iter().zip(extents).zip(dims);
        let named = self.named.iter().zip(source_chunk);
        let begins = |start: u64, extent: u64| start.checked_rem(extent) == Some(0);
        shown
            .into_iter()
            .all(|((&(start, length), &extent), &dim)| {
                let end = start + length;
                begins(start, extent) && (begins(end, extent) || end == dim)
            })
            && named
                .into_iter()
                .all(|(&(start, _), &extent)| begins(start, extent))
    }
}

/// How far apart in a grid's numbers neighbours along each axis are. None: too far.
fn strides(dims: &[u64], extents: &[u64]) -> Option<Vec<u64>> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        let along = dims[axis].div_ceil(extents[axis]);
        strides[axis - 1] = along.checked_mul(strides[axis])?;
    }
    let along = dims.first().map_or(1, |&dim| dim.div_ceil(extents[0]));
    strides
        .first()
        .map_or(Some(1), |first| first.checked_mul(along))?;
    Some(strides)
}

/// All places of a grid in row-major order, as their distances from the first in two other grids.
fn steps<'a>(
    count: &'a [u64],
    grid: &'a [u64],
    beside: &'a [u64],
) -> impl Iterator<Item = (u64, u64)> + 'a {
    let total = count.iter().product::<u64>();
    (0..total).map(move |number| {
        let (mut rest, mut at) = (number, (0, 0));
        for axis in (0..count.len()).rev() {
            let step = rest % count[axis];
            rest /= count[axis];
            at = (at.0 + step * grid[axis], at.1 + step * beside[axis]);
        }
        at
    })
}

fn stored(chunks: &[Chunk], grid_index: u64) -> Option<Chunk> {
    let at = chunks.binary_search_by_key(&grid_index, |chunk| chunk.grid_index);
    at.ok().map(|at| chunks[at])
}
