//! A virtual dataset of any mappings: parts of its sources, of which its chunks are put together.
//!
//! Law:
//! 1. A part is a box with a step along each axis, on both sides (tables/parts.rs). Any other mapping is
//!    cut into the fewest such boxes, in the order of its elements if its sides differ in shape.
//! 2. A mapping of some bytes may have any number of parts: a `Budget` bounds what is made of it.

use super::Unfit;
use super::chunks::shown_mappings;
use super::selections::{Axis, paired_axes, regular};
use hdf5_format::virtual_layout::{Mapping, Selection};

/// Along an axis of a source that is one element long.
const NO_AXIS: u64 = u64::MAX;
/// Elements that are looked at one by one, bytes of all parts, and parts that are cut one by one.
const MAX_ELEMENTS: u64 = 1 << 21;
const MAX_PARTS_BYTES: u64 = 128 << 20;
const MAX_CUTS: u64 = 1 << 16;
const BEYOND: &str = "a virtual dataset whose mappings reach beyond its sources or itself";

/// Words of the parts, the first source that is shown, and how its axes belong to those of the dataset.
#[derive(Debug)]
pub struct Found {
    pub words: Vec<u64>,
    pub source: usize,
    pub pairs: Pairs,
}

pub type Pairs = Vec<(usize, usize)>;

/// First, step and count of the virtual dataset, then first and step of the source, along an axis.
type Piece = [u64; 5];

/// What mappings may still take, all together.
struct Budget {
    parts: u64,
    elements: u64,
    cuts: u64,
}

impl Budget {
    fn take(left: &mut u64, count: u64, what: &str) -> Result<(), Unfit> {
        *left = left
            .checked_sub(count)
            .ok_or_else(|| Unfit::because(format!("a virtual dataset of too many {what}")))?;
        Ok(())
    }

    fn parts(&mut self, count: u64) -> Result<(), Unfit> {
        Budget::take(&mut self.parts, count, "parts")
    }

    fn elements(&mut self, count: u64) -> Result<(), Unfit> {
        let what = "elements in mappings between different shapes";
        Budget::take(&mut self.elements, count, what)
    }

    fn cuts(&mut self, count: u64) -> Result<(), Unfit> {
        Budget::take(
            &mut self.cuts,
            count,
            "parts of mappings that are not regular",
        )
    }
}

/// The parts of a virtual dataset of these dims; `sources` has the dims of each, `None` where it is
/// missing, and `numbers` the source of each mapping. None: nothing is shown.
pub fn as_parts(
    dims: &[u64],
    mappings: &[Mapping],
    numbers: &[u32],
    sources: &[Option<Vec<u64>>],
) -> Result<Option<Found>, Unfit> {
    let most = sources.iter().flatten().map(Vec::len).max().unwrap_or(0);
    let len = 2 + 3 * (dims.len() + most);
    let mut budget = Budget {
        parts: MAX_PARTS_BYTES / (8 * len) as u64,
        elements: MAX_ELEMENTS,
        cuts: MAX_CUTS,
    };
    let mut alike = None;
    let mut rows: Vec<Vec<u64>> = Vec::new();
    let shown = shown_mappings(mappings, numbers, sources);
    for group in shown.chunk_by(|&one, &next| numbers[one] == numbers[next]) {
        let source = numbers[group[0]] as usize;
        let Some(source_dims) = &sources[source] else {
            continue;
        };
        let place = sources[..source].iter().flatten().count() as u64;
        let (found, pairs) = of_source((dims, source_dims), mappings, group, &mut budget)?;
        alike.get_or_insert((source, pairs));
        rows.extend(found.into_iter().map(|part| {
            let mut row = [vec![place], part].concat();
            row.resize(len, 0);
            row
        }));
    }
    rows.sort_by_key(|row| (row[2], row[1]));
    Ok(alike.map(|(source, pairs)| Found {
        words: [vec![most as u64], rows.concat()].concat(),
        source,
        pairs,
    }))
}

/// The parts of one source, without its number, and how axes belong together.
fn of_source(
    (dims, source_dims): (&[u64], &[u64]),
    mappings: &[Mapping],
    numbers: &[usize],
    budget: &mut Budget,
) -> Result<(Vec<Vec<u64>>, Pairs), Unfit> {
    let each = |number: &usize| {
        let mapping = &mappings[*number];
        let shown = regular(&mapping.in_virtual, dims)?;
        Some((*number, shown, regular(&mapping.in_source, source_dims)?))
    };
    let sides: Option<Vec<_>> = numbers.iter().map(each).collect();
    if let Some(sides) = &sides {
        for (_, shown, named) in sides {
            check(shown, dims)?;
            check(named, source_dims)?;
        }
        let are_steps = (sides.iter())
            .all(|(_, shown, named)| shown.iter().chain(named).all(|axis| step(axis).is_some()));
        if let Some(pairs) = are_steps.then(|| paired(sides)).flatten() {
            budget.parts(numbers.len() as u64)?;
            let whole = |(number, shown, named): &(usize, Vec<Axis>, Vec<Axis>)| {
                let shown = shown
                    .iter()
                    .map(|axis| [axis.start, step(axis).unwrap_or(1), axis.n_elements()]);
                let mut named: Vec<_> = (named.iter())
                    .map(|axis| [axis.start, step(axis).unwrap_or(1), NO_AXIS])
                    .collect();
                for &(axis, number) in &pairs {
                    named[number][2] = axis as u64;
                }
                words(*number, shown, named)
            };
            return Ok((sides.iter().map(whole).collect(), pairs));
        }
    }
    if numbers.len() > 1 {
        budget.cuts(numbers.len() as u64)?;
        let (mut found, mut first) = (Vec::new(), None);
        for number in numbers {
            let one = std::slice::from_ref(number);
            let (parts, pairs) = of_source((dims, source_dims), mappings, one, budget)?;
            found.extend(parts);
            first.get_or_insert(pairs);
        }
        return Ok((found, first.unwrap_or_default()));
    }
    if let Some(sides) = &sides {
        if let Some(pairs) = paired(sides) {
            return Ok((segments(&sides[0], &pairs, budget)?, pairs));
        }
    }
    let mapping = &mappings[numbers[0]];
    let shown = elements(&mapping.in_virtual, dims, budget)?;
    let named = elements(&mapping.in_source, source_dims, budget)?;
    Ok((
        runs(numbers[0], (&shown, dims), (&named, source_dims), budget)?,
        Vec::new(),
    ))
}

fn paired(sides: &[(usize, Vec<Axis>, Vec<Axis>)]) -> Option<Pairs> {
    let lengths = |axes: &[Axis]| axes.iter().map(Axis::n_elements).collect::<Vec<_>>();
    let shown: Vec<_> = sides.iter().map(|side| lengths(&side.1)).collect();
    let named: Vec<_> = sides.iter().map(|side| lengths(&side.2)).collect();
    paired_axes(&shown, &named)
}

fn check(axes: &[Axis], dims: &[u64]) -> Result<(), Unfit> {
    let is_beyond = |(axis, &dim): (&Axis, &u64)| axis.end() > i128::from(dim);
    match axes.iter().zip(dims).any(is_beyond) {
        true => Err(Unfit::because(BEYOND)),
        false => Ok(()),
    }
}

/// The step between all elements along an axis, if it is one.
fn step(axis: &Axis) -> Option<u64> {
    match axis {
        _ if axis.count == 1 || axis.stride == axis.block => Some(1),
        _ if axis.block == 1 => Some(axis.stride).filter(|&stride| stride > 0),
        _ => None,
    }
}

fn words(
    order: usize,
    shown: impl IntoIterator<Item = [u64; 3]>,
    named: impl IntoIterator<Item = [u64; 3]>,
) -> Vec<u64> {
    let axes = shown.into_iter().chain(named).flatten();
    std::iter::once(order as u64).chain(axes).collect()
}

/// Cut a mapping along each axis where either side leaves its progression.
fn segments(
    (order, shown, named): &(usize, Vec<Axis>, Vec<Axis>),
    pairs: &[(usize, usize)],
    budget: &mut Budget,
) -> Result<Vec<Vec<u64>>, Unfit> {
    let mut cut: Vec<Vec<Piece>> = Vec::new();
    for &(axis, number) in pairs {
        let (one, other) = (&shown[axis], &named[number]);
        if (one.count, one.block) == (other.count, other.block) {
            cut.push(alike(one, other, budget)?);
            continue;
        }
        budget.elements(one.n_elements())?;
        let sides = [one, other].map(|axis| axis.coordinates().collect::<Vec<_>>());
        cut.push(progressing(&sides[0], &sides[1], budget)?);
    }
    let n_parts = cut
        .iter()
        .fold(1u64, |n, pieces| n.saturating_mul(pieces.len() as u64));
    budget.parts(n_parts)?;
    budget.cuts(n_parts)?;
    let mut found = Vec::new();
    for part in 0..n_parts {
        let mut shown: Vec<_> = shown.iter().map(|axis| [axis.start, 1, 1]).collect();
        let mut named: Vec<_> = named.iter().map(|axis| [axis.start, 1, NO_AXIS]).collect();
        let mut rest = part as usize;
        for (&(axis, number), pieces) in pairs.iter().zip(&cut).rev() {
            let [first, step, count, start, stride] = pieces[rest % pieces.len()];
            rest /= pieces.len();
            shown[axis] = [first, step, count];
            named[number] = [start, stride, axis as u64];
        }
        found.push(words(*order, shown, named));
    }
    Ok(found)
}

/// The blocks of selections that have like ones, or what is at one place in each.
fn alike(shown: &Axis, named: &Axis, budget: &mut Budget) -> Result<Vec<Piece>, Unfit> {
    let &Axis {
        start,
        stride,
        count,
        block,
    } = shown;
    budget.cuts(count.min(block))?;
    Ok(match count < block {
        true => (0..count)
            .map(|at| {
                [
                    start + at * stride,
                    1,
                    block,
                    named.start + at * named.stride,
                    1,
                ]
            })
            .collect(),
        false => (0..block)
            .map(|at| [start + at, stride, count, named.start + at, named.stride])
            .collect(),
    })
}

/// Parts with one step on both sides.
fn progressing(shown: &[u64], named: &[u64], budget: &mut Budget) -> Result<Vec<Piece>, Unfit> {
    let step = |at: usize| [shown, named].map(|side| side[at + 1].wrapping_sub(side[at]));
    let last = shown.len().saturating_sub(1);
    let changes = (1..last).filter(|&at| step(at) != step(at - 1)).count();
    budget.cuts(changes as u64 / 2)?; // a part ends at each of them, or at every other
    let (mut found, mut begin) = (Vec::new(), 0);
    while begin < shown.len() {
        let mut end = (begin + 2).min(shown.len());
        while end < shown.len() && step(end - 1) == step(begin) {
            end += 1;
        }
        let [by, stride] = if end - begin > 1 { step(begin) } else { [1, 1] };
        found.push([shown[begin], by, (end - begin) as u64, named[begin], stride]);
        begin = end;
    }
    Ok(found)
}

/// The elements of a selection, in its order, as numbers in a dataspace.
fn elements(selection: &Selection, dims: &[u64], budget: &mut Budget) -> Result<Vec<u64>, Unfit> {
    let mut found = Vec::new();
    if let Some(axes) = regular(selection, dims) {
        check(&axes, dims)?;
        budget.elements(
            axes.iter()
                .fold(1, |n, axis| n.saturating_mul(axis.n_elements())),
        )?;
        let along = axes.iter().map(|axis| axis.coordinates().collect());
        put(&along.collect::<Vec<_>>(), dims, &mut found);
    } else if let Selection::Blocks { rank, bounds } = selection {
        if *rank != dims.len() {
            return Err(Unfit::because(BEYOND));
        }
        let blocks = bounds.chunks_exact(2 * rank);
        budget.cuts(blocks.len() as u64)?;
        for block in blocks {
            let (first, last) = block.split_at(*rank);
            if last.iter().zip(dims).any(|(last, dim)| last >= dim) {
                return Err(Unfit::because(BEYOND));
            }
            let sides = first.iter().zip(last);
            let lengths = sides.clone().map(|(a, b)| (b + 1).saturating_sub(*a));
            budget.elements(lengths.fold(1, u64::saturating_mul))?;
            let along = sides.map(|(&a, &b)| (a..=b).collect());
            put(&along.collect::<Vec<_>>(), dims, &mut found);
        }
    } else {
        return Err(Unfit::because(
            "a virtual dataset with a mapping of single points",
        ));
    }
    found.sort_unstable();
    Ok(found)
}

/// Add the elements at all these coordinates.
fn put(along: &[Vec<u64>], dims: &[u64], found: &mut Vec<u64>) {
    let mut numbers = vec![0];
    for (coordinates, dim) in along.iter().zip(dims) {
        let each = numbers
            .iter()
            .flat_map(|at| coordinates.iter().map(move |one| at * dim + one));
        numbers = each.collect();
    }
    found.extend(numbers);
}

/// Cut a mapping into runs that lie in one row of the last axis, on both sides.
fn runs(
    order: usize,
    (shown, dims): (&[u64], &[u64]),
    (named, source_dims): (&[u64], &[u64]),
    budget: &mut Budget,
) -> Result<Vec<Vec<u64>>, Unfit> {
    if shown.len() != named.len() {
        let why = "a virtual dataset with a mapping whose sides differ in length";
        return Err(Unfit::because(why));
    }
    let row = |elements: &[u64], dims: &[u64], at: usize| elements[at] / dims[dims.len() - 1];
    let goes_on = |at: usize| {
        [(shown, dims), (named, source_dims)]
            .into_iter()
            .all(|(elements, dims)| {
                elements[at] == elements[at - 1] + 1
                    && row(elements, dims, at) == row(elements, dims, at - 1)
            })
    };
    let begins: Vec<usize> = (0..shown.len())
        .filter(|&at| at == 0 || !goes_on(at))
        .collect();
    budget.parts(begins.len() as u64)?;
    let place = |mut element: u64, dims: &[u64]| {
        let mut axes = vec![[0, 1, 1]; dims.len()];
        for (axis, dim) in axes.iter_mut().zip(dims).rev() {
            axis[0] = element % dim;
            element /= dim;
        }
        axes
    };
    let ends = begins.iter().skip(1).copied().chain([shown.len()]);
    Ok((begins.iter().zip(ends))
        .map(|(&begin, end)| {
            let (mut one, mut other) =
                (place(shown[begin], dims), place(named[begin], source_dims));
            other.iter_mut().for_each(|axis| axis[2] = NO_AXIS);
            if let (Some(one), Some(other)) = (one.last_mut(), other.last_mut()) {
                (one[2], other[2]) = ((end - begin) as u64, dims.len() as u64 - 1);
            }
            words(order, one, other)
        })
        .collect())
}
