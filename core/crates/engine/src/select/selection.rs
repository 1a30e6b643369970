//! The selection of a request in normal form: boxes at points, axes and byte runs, arranged.
//!
//! Law:
//! 1. The words are written by `_multitables/wire/request_bytes.py` and read here; both number the same.
//! 2. `parse` checks everything: counts, offsets, products, and every index against the dataset's
//!    dims. Later code indexes freely.
//! 3. Nothing is copied out of the words, and nothing allocated to look at them.
//! 4. Knows nothing of files, stored chunks or memory; of the grid of chunks only what owners need.

use crate::select::arrangement::Arrangement;
use tables::plan::Dataset;

/// `words[0]` of a request that is served here.
pub const KIND_NATIVE: u64 = 0;
/// Words before the axes, and of each.
pub const HEAD_WORDS: usize = 9;
pub const AXIS_WORDS: usize = 4;
/// The step of an axis with a list that is one of spans; its start is their number.
const SPANS: u64 = 0;
/// HDF5 has no more dimensions.
pub const MAX_DIMS: usize = 32;
/// As many residues as `Residues` holds; plans have fewer readers.
const MAX_OWNERS: usize = 256;

type Refused = &'static str;

/// Of which dataset a request is: its number, and its table's place in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TablePlace {
    pub dataset: u64,
    pub at: usize,
    pub len: usize,
}

impl TablePlace {
    pub fn parse(words: &[u64]) -> Result<TablePlace, Refused> {
        match words {
            [KIND_NATIVE, dataset, at, len, ..] => TablePlace::new(*dataset, *at, *len),
            _ => Err("the request is not one for a hyperslab"),
        }
    }

    pub fn new(dataset: u64, at: u64, len: u64) -> Result<TablePlace, Refused> {
        Ok(TablePlace {
            dataset,
            at: usize::try_from(at).map_err(|_| "the request's table is out of range")?,
            len: usize::try_from(len).map_err(|_| "the request's table is out of range")?,
        })
    }
}

/// The indices of one remaining axis: `count` of them from `start`, or a list, or spans.
#[derive(Clone, Copy, Debug)]
pub struct Axis<'a> {
    pub start: u64,
    pub step: i64,
    pub count: u64,
    pub list: Option<&'a [u64]>,
    /// Begin and length of each span, in the order of the result; none: there are no spans.
    pub spans: &'a [u64],
}

impl Axis<'_> {
    pub fn index(&self, number: u64) -> u64 {
        match self.list {
            Some(list) => list[number as usize],
            None => (self.start).wrapping_add((self.step as u64).wrapping_mul(number)),
        }
    }

    /// Exactly the whole of a dimension, in order.
    pub fn is_whole(&self, dim: u64) -> bool {
        let is_range = self.list.is_none() && self.spans.is_empty();
        is_range && self.start == 0 && self.count == dim && (self.step == 1 || dim == 1)
    }
}

/// A checked request.
#[derive(Clone, Copy, Debug)]
pub struct Hyperslab<'a> {
    words: &'a [u64],
    n_axes: usize,
    /// How many leading dimensions the points select together.
    pub k: usize,
    /// Row-major numbers over these, at which boxes begin.
    pub points: &'a [u64],
    /// Of each box along each of these; a point alone is a box of one element.
    pub extents: &'a [u64],
    /// Byte offset in the field and length, of each contiguous run; none: the entire field.
    pub runs: &'a [u64],
    /// Delivered of one element.
    pub element_bytes: usize,
    /// Where rows of what is selected are placed; None: as they are selected.
    pub arrangement: Option<Arrangement<'a>>,
    out_bytes: usize,
}

impl<'a> Hyperslab<'a> {
    pub fn parse(words: &'a [u64], dataset: &Dataset) -> Result<Hyperslab<'a>, Refused> {
        const SHORT: Refused = "the request is shorter than it says";
        let head = words.get(..HEAD_WORDS).ok_or(SHORT)?;
        TablePlace::parse(head)?;
        let [_, _, _, _, k, n_points, n_axes, n_runs, element_bytes] = *head else {
            return Err(SHORT);
        };
        let n_dims = dataset.dims.len();
        if n_dims > MAX_DIMS || k.checked_add(n_axes) != Some(n_dims as u64) {
            return Err("the request has another number of dimensions than its dataset");
        }
        if k == 0 && n_points != 0 {
            return Err("the request has points, but no axes for them");
        }
        let (k, n_axes) = (k as usize, n_axes as usize);
        let extents_at = HEAD_WORDS + n_axes * AXIS_WORDS;
        let extents = part(words, extents_at, k as u64).ok_or(SHORT)?;
        let points_at = extents_at + k;
        let points = part(words, points_at, n_points).ok_or(SHORT)?;
        let runs_words = n_runs.checked_mul(2).ok_or(SHORT)?;
        let mut slab = Hyperslab {
            words,
            n_axes,
            k,
            points,
            extents,
            runs: &[],
            element_bytes: element_bytes as usize,
            arrangement: None,
            out_bytes: 0,
        };
        let lists_at = points_at + points.len();
        let mut runs_at = lists_at;
        let boxes = if k > 0 { n_points } else { 1 };
        let mut elements = product(extents).and_then(|each| each.checked_mul(boxes));
        for number in 0..n_axes {
            let [start, step, count, list_at] = slab.axis_words(number).ok_or(SHORT)?;
            let dim = dataset.dims[k + number];
            if list_at == 0 {
                check_range(start, step as i64, count, dim)?;
            } else {
                let at = usize::try_from(list_at).map_err(|_| SHORT)?;
                let n_words = if step == SPANS {
                    start.checked_mul(2)
                } else {
                    Some(count)
                };
                let list = part(words, at, n_words.ok_or(SHORT)?).ok_or(SHORT)?;
                if at < lists_at {
                    return Err("a list of the request lies in its head");
                }
                if step == SPANS {
                    check_spans(list, count, dim)?;
                } else {
                    check_below(list, dim)?;
                }
                runs_at = runs_at.max(at + list.len());
            }
            // A count of zero makes all of it nothing, however large the others are.
            elements = match count {
                0 => Some(0),
                _ => elements.and_then(|product: u64| product.checked_mul(count)),
            };
        }
        if k > 0 {
            let extent = product(&dataset.dims[..k]).ok_or("the points' axes are too large")?;
            check_below(points, extent)?;
            check_boxes(&slab, &dataset.dims[..k])?;
        }
        slab.runs = part(words, runs_at, runs_words).ok_or(SHORT)?;
        check_runs(slab.runs, element_bytes, dataset.field_bytes as u64)?;
        slab.out_bytes = bytes_of(elements, element_bytes)?;
        let behind = &words[runs_at + slab.runs.len()..];
        slab.arrangement = Arrangement::parse(behind, slab.out_bytes)?;
        Ok(slab)
    }

    fn axis_words(&self, number: usize) -> Option<[u64; AXIS_WORDS]> {
        let at = HEAD_WORDS + number * AXIS_WORDS;
        self.words.get(at..)?.first_chunk().copied()
    }

    /// The dataset's axes behind those that the points select.
    pub fn axes(&self) -> usize {
        self.n_axes
    }

    /// Axis `number` of these.
    pub fn axis(&self, number: usize) -> Axis<'a> {
        let [start, step, count, list_at] = self.axis_words(number).unwrap_or_default();
        let listed = |n_words: u64| &self.words[list_at as usize..][..n_words as usize];
        let (list, spans) = match (list_at, step) {
            (0, _) => (None, &[][..]),
            (_, SPANS) => (None, listed(2 * start)),
            _ => (Some(listed(count)), &[][..]),
        };
        Axis {
            start,
            step: step as i64,
            count,
            list,
            spans,
        }
    }

    /// Bytes of the result.
    pub fn out_bytes(&self) -> usize {
        (self.arrangement).map_or(self.out_bytes, |arranged| arranged.out_bytes())
    }

    /// The readers, of `n_readers`, to whom the touched chunks belong, ascending: the distinct
    /// `grid_index % n_readers`.
    pub fn owners(&self, dataset: &Dataset, n_readers: usize) -> Vec<usize> {
        if self.out_bytes == 0 || n_readers == 0 {
            return Vec::new();
        }
        if n_readers == 1 {
            return vec![0];
        }
        if n_readers > MAX_OWNERS {
            return (0..n_readers).collect();
        }
        // A chunk's number is a sum, one term for each axis, and the terms are independent: so are
        // their residues, and no product of axes is enumerated.
        let n = n_readers as u64;
        let mut all = Residues::one(0);
        let mut stride = 1;
        for number in (0..self.n_axes).rev() {
            let dim = self.k + number;
            let chunk = dataset.chunk_dims[dim];
            let n_chunks = chunks_along(dataset.dims[dim], chunk);
            if n_chunks > 1 {
                let terms = axis_residues(&self.axis(number), chunk, stride, n);
                all = all.plus(&terms, n_readers);
                stride = stride * (n_chunks % n) % n;
            }
            if all.count() == n_readers {
                return all.list();
            }
        }
        if self.k > 0 {
            let terms = self.point_residues(dataset, stride, n);
            all = all.plus(&terms, n_readers);
        }
        all.list()
    }

    fn point_residues(&self, dataset: &Dataset, stride: u64, n: u64) -> Residues {
        let (dims, chunks) = (&dataset.dims[..self.k], &dataset.chunk_dims[..self.k]);
        let mut factors = [0; MAX_DIMS];
        let mut factor = stride;
        for axis in (0..self.k).rev() {
            factors[axis] = factor;
            factor = factor * (chunks_along(dims[axis], chunks[axis]) % n) % n;
        }
        let mut found = Residues::default();
        let mut count = 0;
        for number in 0..self.points.len() {
            let origin = self.origin(number, dims);
            each_chunk(&origin[..self.k], self.extents, chunks, &mut |along| {
                let terms = along
                    .iter()
                    .zip(factors)
                    .map(|(at, factor)| at % n * factor);
                count += u64::from(found.add((terms.sum::<u64>() % n) as usize));
                count < n
            });
            if count == n {
                break;
            }
        }
        found
    }

    /// Where box `number` begins.
    pub fn origin(&self, number: usize, dims: &[u64]) -> [u64; MAX_DIMS] {
        let (mut rest, mut origin) = (self.points[number], [0; MAX_DIMS]);
        for axis in (1..self.k).rev() {
            origin[axis] = rest % dims[axis];
            rest /= dims[axis];
        }
        origin[0] = rest;
        origin
    }
}

/// Call `f` with the coordinates of each chunk that a box touches, until it returns false.
pub fn each_chunk(
    origin: &[u64],
    extents: &[u64],
    chunks: &[u64],
    f: &mut impl FnMut(&[u64]) -> bool,
) {
    let k = origin.len();
    let mut along = [0; MAX_DIMS];
    for axis in 0..k {
        along[axis] = origin[axis] / chunks[axis];
    }
    loop {
        if !f(&along[..k]) {
            return;
        }
        let last = |axis: usize| (origin[axis] + extents[axis] - 1) / chunks[axis];
        let Some(axis) = (0..k).rev().find(|&axis| along[axis] < last(axis)) else {
            return;
        };
        along[axis] += 1;
        for inner in axis + 1..k {
            along[inner] = origin[inner] / chunks[inner];
        }
    }
}

/// Chunks along one axis.
pub fn chunks_along(dim: u64, chunk: u64) -> u64 {
    if dim <= chunk { 1 } else { dim.div_ceil(chunk) }
}

fn part(words: &[u64], at: usize, count: u64) -> Option<&[u64]> {
    words.get(at..)?.get(..usize::try_from(count).ok()?)
}

fn product(factors: &[u64]) -> Option<u64> {
    factors.iter().try_fold(1u64, |all, &n| all.checked_mul(n))
}

fn bytes_of(elements: Option<u64>, element_bytes: u64) -> Result<usize, Refused> {
    let bytes = match element_bytes {
        0 => Some(0),
        _ => elements.and_then(|count| count.checked_mul(element_bytes)),
    };
    let bytes = bytes.and_then(|bytes| isize::try_from(bytes).ok());
    bytes
        .map(|bytes| bytes as usize)
        .ok_or("the request's result is too large")
}

fn check_below(indices: &[u64], end: u64) -> Result<(), Refused> {
    // Not `any`: without an early end the compiler compares several at once.
    let most = indices.iter().fold(0, |most, &index| index.max(most));
    if !indices.is_empty() && most >= end {
        return Err("an index of the request is out of bounds");
    }
    Ok(())
}

/// No box is empty, and each lies in the dataset.
fn check_boxes(slab: &Hyperslab<'_>, dims: &[u64]) -> Result<(), Refused> {
    const OUTSIDE: Refused = "a box of the request is empty or out of bounds";
    let fits = |(&extent, &dim): (&u64, &u64)| (1..=dim.max(1)).contains(&extent);
    if !slab.extents.iter().zip(dims).all(fits) {
        return Err(OUTSIDE);
    }
    if slab.extents.iter().all(|&extent| extent == 1) {
        return Ok(());
    }
    for number in 0..slab.points.len() {
        let origin = slab.origin(number, dims);
        let mut axes = origin.iter().zip(slab.extents).zip(dims);
        if axes.any(|((at, extent), dim)| *extent > dim - at) {
            return Err(OUTSIDE);
        }
    }
    Ok(())
}

/// Spans lie below `dim`, and have `count` indices together.
fn check_spans(spans: &[u64], count: u64, dim: u64) -> Result<(), Refused> {
    let mut sum = 0u64;
    for span in spans.chunks_exact(2) {
        let end = span[0].checked_add(span[1]);
        if span[1] == 0 || end.is_none_or(|end| end > dim) {
            return Err("a span of the request is empty or out of bounds");
        }
        sum = sum.saturating_add(span[1]);
    }
    match sum == count {
        true => Ok(()),
        false => Err("the request's spans have another length than their axis"),
    }
}

fn check_range(start: u64, step: i64, count: u64, dim: u64) -> Result<(), Refused> {
    if count == 0 {
        return Ok(());
    }
    let last = i128::from(step) * i128::from(count - 1) + i128::from(start);
    if start >= dim || last < 0 || last >= i128::from(dim) {
        return Err("a range of the request is out of bounds");
    }
    Ok(())
}

fn check_runs(runs: &[u64], element_bytes: u64, field_bytes: u64) -> Result<(), Refused> {
    const WRONG: Refused = "the request's runs do not fit the field";
    if runs.is_empty() {
        return (element_bytes == field_bytes).then_some(()).ok_or(WRONG);
    }
    let mut sum = 0u64;
    for run in runs.chunks_exact(2) {
        let end = run[0].checked_add(run[1]).ok_or(WRONG)?;
        if end > field_bytes {
            return Err(WRONG);
        }
        sum = sum.checked_add(run[1]).ok_or(WRONG)?;
    }
    (sum == element_bytes).then_some(()).ok_or(WRONG)
}

/// A set of numbers below `MAX_OWNERS`.
#[derive(Clone, Copy, Default)]
struct Residues([u64; MAX_OWNERS / 64]);

impl Residues {
    fn one(number: usize) -> Residues {
        let mut one = Residues::default();
        one.add(number);
        one
    }

    /// False when it was there before.
    fn add(&mut self, number: usize) -> bool {
        let (word, bit) = (&mut self.0[number / 64], 1 << (number % 64));
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(at, &word)| {
            let mut left = word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
                left &= left - 1;
                Some(64 * at + bit)
            })
        })
    }

    /// All sums of one of each, modulo `n`.
    fn plus(&self, other: &Residues, n: usize) -> Residues {
        let mut sums = Residues::default();
        for a in self.numbers() {
            for b in other.numbers() {
                sums.add((a + b) % n);
            }
        }
        sums
    }

    fn list(&self) -> Vec<usize> {
        let mut list = Vec::with_capacity(self.count());
        list.extend(self.numbers());
        list
    }
}

/// The residues of `stride` times the chunk coordinates that an axis touches.
fn axis_residues(axis: &Axis<'_>, chunk: u64, stride: u64, n: u64) -> Residues {
    let mut found = Residues::default();
    let mut count = 0;
    // More there cannot be.
    let most = n / gcd(stride, n);
    let mut touch = |grid_index: u64| {
        count += u64::from(found.add((grid_index % n * stride % n) as usize));
        count < most
    };
    let step = axis.step.unsigned_abs();
    if !axis.spans.is_empty() {
        let _ = (axis.spans.chunks_exact(2))
            .all(|span| (span[0] / chunk..=(span[0] + span[1] - 1) / chunk).all(&mut touch));
    } else if axis.list.is_none() && step <= chunk {
        let (a, b) = (axis.index(0) / chunk, axis.index(axis.count - 1) / chunk);
        // No coordinate between is left out.
        let _ = (a.min(b)..=a.max(b)).all(&mut touch);
    } else {
        let _ = (0..axis.count).all(|number| touch(axis.index(number) / chunk));
    }
    found
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
