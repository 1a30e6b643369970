//! Which chunks a hyperslab touches, and what of each goes where in the result.
//!
//! Law:
//! 1. A hyperslab is a product of lines: the boxes at points together, and each axis. Along a line a chunk
//!    holds a segment; one segment of each line is what a chunk has to give.
//! 2. Ranges stay ranges, never lists: a million rows cost as little as one. Lists and points are
//!    sorted by chunk, so that each chunk comes once.
//! 3. Each element of the result belongs to exactly one chunk, and to the part that owns it.
//! 4. Several readers of one hyperslab share its chunks by their numbers, or by their turns.
//! 5. Pure numbers: bytes within a chunk and within the result, no memory is touched here. What is
//!    kept from request to request is room for numbers.

use crate::select::selection::{Axis, Hyperslab, MAX_DIMS, chunks_along, each_chunk};
use std::ops::Range;
use tables::plan::Dataset;

/// What of a dataset's shape every request needs.
#[derive(Debug)]
pub struct Geometry {
    /// Chunks from one to the next along each dimension, in the row-major grid.
    grid_strides: Vec<u64>,
    /// Bytes from one index to the next along each dimension, in a chunk.
    byte_strides: Vec<usize>,
    /// Chunks of the whole grid.
    pub n_chunks: u64,
}

impl Geometry {
    /// None: the grid has more chunks than can be numbered.
    pub fn new(dataset: &Dataset) -> Option<Geometry> {
        let n = dataset.dims.len();
        let mut grid_strides = vec![0; n];
        let mut byte_strides = vec![0; n];
        let (mut grid, mut bytes) = (1u64, dataset.element_bytes);
        for dim in (0..n).rev() {
            grid_strides[dim] = grid;
            byte_strides[dim] = bytes;
            grid = grid.checked_mul(chunks_along(dataset.dims[dim], dataset.chunk_dims[dim]))?;
            bytes = bytes.checked_mul(usize::try_from(dataset.chunk_dims[dim]).ok()?)?;
        }
        Some(Geometry {
            grid_strides,
            byte_strides,
            n_chunks: grid,
        })
    }
}

/// One listed index, or `n` neighbours: the chunk's number along its line, the bytes in the chunk and
/// in the result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pair {
    grid_index: u64,
    pub src: usize,
    pub dst: usize,
    /// More than one only where nothing lies between two of them, there and here.
    pub n: usize,
}

/// An axis, or the points.
#[derive(Clone, Copy, Debug)]
struct Line {
    start: u64,
    step: i64,
    count: u64,
    /// Indices of one chunk.
    chunk: u64,
    /// From one index to the next in a chunk and in the result, and from chunk to chunk.
    src: usize,
    dst: usize,
    grid_stride: u64,
    /// Listed: `count` pairs from here.
    pairs_at: Option<usize>,
}

/// What one chunk has of one line.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    grid_index: u64,
    next: u64,
    /// Listed: these pairs. Else `n` indices from `src` and `dst`, so far apart.
    pub pairs_at: Option<usize>,
    pub n: usize,
    pub src: usize,
    pub dst: usize,
    pub src_step: isize,
    pub dst_step: usize,
}

/// How far the iteration over the touched chunks has come.
#[derive(Clone, Debug, Default)]
pub struct Cursor {
    pub segments: Vec<Segment>,
    pub grid_index: u64,
    /// How many chunks of this part came before.
    pub turn: u64,
}

/// The lines of one hyperslab, for one part of it.
#[derive(Debug, Default)]
pub struct ChunkIter {
    lines: Vec<Line>,
    pairs: Vec<Pair>,
    part: u64,
    n_parts: u64,
    /// Before this turn the iteration ends.
    end: u64,
    /// Elements that lie together, in a chunk as in the result, count as one.
    pub together: usize,
}

impl Line {
    /// How many chunks it passes through.
    fn n_segments(&self, pairs: &[Pair]) -> u64 {
        let Some(at) = self.pairs_at else {
            if self.count == 0 || self.step.unsigned_abs() > self.chunk {
                return self.count;
            }
            // None is left out between the first and the last.
            let along = |number: u64| self.index(number) / self.chunk;
            return along(0).abs_diff(along(self.count - 1)) + 1;
        };
        let listed = &pairs[at..at + self.count as usize];
        let chunks = listed.chunk_by(|a, b| a.grid_index == b.grid_index);
        chunks.count() as u64
    }

    fn index(&self, number: u64) -> u64 {
        (self.start).wrapping_add((self.step as u64).wrapping_mul(number))
    }

    fn segment(&self, number: u64, pairs: &[Pair]) -> Segment {
        if let Some(at) = self.pairs_at {
            let at = at + number as usize;
            let grid_index = pairs[at].grid_index;
            let rest = &pairs[at..at + (self.count - number) as usize];
            let n = rest
                .iter()
                .take_while(|pair| pair.grid_index == grid_index)
                .count();
            return Segment {
                grid_index,
                next: number + n as u64,
                pairs_at: Some(at),
                n,
                src: 0,
                dst: 0,
                src_step: 0,
                dst_step: 0,
            };
        }
        let index = self.index(number);
        let along = index / self.chunk;
        let within = index - along * self.chunk;
        let n = match self.step {
            1 => self.chunk - within,
            0 => u64::MAX,
            step if step > 0 => (self.chunk - 1 - within) / step as u64 + 1,
            step => within / step.unsigned_abs() + 1,
        };
        let n = n.min(self.count - number);
        Segment {
            grid_index: along * self.grid_stride,
            next: number + n,
            pairs_at: None,
            n: n as usize,
            src: within as usize * self.src,
            dst: number as usize * self.dst,
            // Wrapping: with one index only, the step may be anything.
            src_step: (self.step as isize).wrapping_mul(self.src as isize),
            dst_step: self.dst,
        }
    }
}

/// Add the units of a block, which begins at a pair: along each axis how many, and their distances
/// in the chunk and in the result.
fn push_block(pairs: &mut Vec<Pair>, first: Pair, block: &[(usize, usize, usize)], together: bool) {
    match *block {
        [] => pairs.push(first),
        [(n, ..)] if together => pairs.push(Pair { n, ..first }),
        [(count, src, dst), ref inner @ ..] => {
            for number in 0..count {
                let mut pair = first;
                pair.src += number * src;
                pair.dst += number * dst;
                push_block(pairs, pair, inner, together);
            }
        }
    }
}

impl ChunkIter {
    /// Begin with what part `part` of `n_parts` has of a hyperslab that is not empty.
    pub fn set(
        &mut self,
        slab: &Hyperslab<'_>,
        dataset: &Dataset,
        geometry: &Geometry,
        part: u64,
        n_parts: u64,
    ) {
        self.lines.clear();
        self.pairs.clear();
        (self.part, self.n_parts, self.together) = (part, n_parts.max(1), 1);
        self.end = u64::MAX;
        let mut n_axes = slab.axes();
        let entire = slab.runs.is_empty() && dataset.field_bytes == dataset.element_bytes;
        if entire {
            // Trailing axes that are whole in the chunk and in the result lie together.
            while n_axes > 0 {
                let dim = slab.k + n_axes - 1;
                let extent = dataset.dims[dim];
                let whole = slab.axis(n_axes - 1).is_whole(extent);
                if !whole || dataset.chunk_dims[dim] != extent {
                    break;
                }
                self.together *= extent as usize;
                n_axes -= 1;
            }
        }
        let alone = n_axes + usize::from(slab.k > 0) == 1;
        let mut dst = slab.element_bytes * self.together;
        for number in (0..n_axes).rev() {
            let axis = slab.axis(number);
            let dim = slab.k + number;
            let mut line = Line {
                start: axis.start,
                step: axis.step,
                count: axis.count,
                chunk: dataset.chunk_dims[dim],
                src: geometry.byte_strides[dim],
                dst,
                grid_stride: geometry.grid_strides[dim],
                pairs_at: None,
            };
            dst *= axis.count as usize;
            if axis.list.is_some() {
                self.list(&axis, &mut line, alone);
            } else if !axis.spans.is_empty() {
                self.spans(&axis, &mut line, alone, entire && self.lines.is_empty());
            }
            self.lines.push(line);
        }
        if slab.k > 0 {
            let together = entire && self.lines.is_empty();
            let line = self.boxes(slab, dataset, geometry, dst, (alone, together));
            self.lines.push(line);
        }
        self.lines.reverse();
    }

    fn list(&mut self, axis: &Axis<'_>, line: &mut Line, alone: bool) {
        let at = self.pairs.len();
        let indices = axis.list.unwrap_or_default();
        for (number, &index) in indices.iter().enumerate() {
            let along = index / line.chunk;
            let pair = Pair {
                grid_index: along * line.grid_stride,
                src: (index - along * line.chunk) as usize * line.src,
                dst: number * line.dst,
                n: 1,
            };
            self.push(pair, alone);
        }
        line.pairs_at = Some(at);
        line.count = self.sort(at);
    }

    /// One pair for what a chunk has of a span, where its units are neighbours; else one for each.
    fn spans(&mut self, axis: &Axis<'_>, line: &mut Line, alone: bool, together: bool) {
        let at = self.pairs.len();
        let mut number = 0;
        for span in axis.spans.chunks_exact(2) {
            let (mut index, end) = (span[0], span[0] + span[1]);
            while index < end {
                let along = index / line.chunk;
                let within = index - along * line.chunk;
                let n = match together {
                    true => (line.chunk - within).min(end - index) as usize,
                    false => 1,
                };
                let pair = Pair {
                    grid_index: along * line.grid_stride,
                    src: within as usize * line.src,
                    dst: number * line.dst,
                    n,
                };
                self.push(pair, alone);
                index += n as u64;
                number += n;
            }
        }
        line.pairs_at = Some(at);
        line.count = self.sort(at);
    }

    /// The parts of boxes that lie in chunks: rows of neighbouring units, or else a pair for each unit.
    fn boxes(
        &mut self,
        slab: &Hyperslab<'_>,
        dataset: &Dataset,
        geometry: &Geometry,
        dst: usize,
        (alone, together): (bool, bool),
    ) -> Line {
        let (at, k) = (self.pairs.len(), slab.k);
        let (extents, chunks) = (slab.extents, &dataset.chunk_dims[..k]);
        let mut dst_strides = [dst; MAX_DIMS];
        let mut box_bytes = dst;
        for dim in (0..k).rev() {
            dst_strides[dim] = box_bytes;
            box_bytes *= extents[dim] as usize;
        }
        for number in 0..slab.points.len() {
            let origin = slab.origin(number, &dataset.dims);
            each_chunk(&origin[..k], extents, chunks, &mut |along| {
                // Until they are sorted `n` has the box.
                let mut pair = Pair {
                    dst: number * box_bytes,
                    n: number,
                    ..Pair::default()
                };
                for dim in 0..k {
                    let begin = origin[dim].max(along[dim] * chunks[dim]);
                    let within = (begin - along[dim] * chunks[dim]) as usize;
                    pair.grid_index += along[dim] * geometry.grid_strides[dim];
                    pair.src += within * geometry.byte_strides[dim];
                    pair.dst += (begin - origin[dim]) as usize * dst_strides[dim];
                }
                self.push(pair, alone);
                true
            });
        }
        let mut count = self.sort(at);
        let is_points = extents.iter().all(|&extent| extent == 1);
        if is_points {
            self.pairs[at..].iter_mut().for_each(|pair| pair.n = 1);
        } else {
            for overlap in self.pairs.split_off(at) {
                let origin = slab.origin(overlap.n, &dataset.dims);
                let mut block = [(0, 0, 0); MAX_DIMS];
                for dim in 0..k {
                    let n_chunks = chunks_along(dataset.dims[dim], chunks[dim]);
                    let along = overlap.grid_index / geometry.grid_strides[dim] % n_chunks;
                    let begin = origin[dim].max(along * chunks[dim]);
                    let end = (origin[dim] + extents[dim]).min((along + 1) * chunks[dim]);
                    let count = (end - begin) as usize;
                    block[dim] = (count, geometry.byte_strides[dim], dst_strides[dim]);
                }
                let first = Pair { n: 1, ..overlap };
                push_block(&mut self.pairs, first, &block[..k], together);
            }
            count = (self.pairs.len() - at) as u64;
        }
        Line {
            start: 0,
            step: 0,
            count,
            chunk: 1,
            src: 0,
            dst,
            grid_stride: 0,
            pairs_at: Some(at),
        }
    }

    /// A line that is alone decides whose a chunk is: what others own need not be sorted.
    fn push(&mut self, pair: Pair, alone: bool) {
        if !alone || self.n_parts == 1 || pair.grid_index % self.n_parts == self.part {
            self.pairs.push(pair);
        }
    }

    /// Bring the pairs from `at` on into the order of chunks; how many there are.
    fn sort(&mut self, at: usize) -> u64 {
        let pairs = &mut self.pairs[at..];
        let key = |pair: &Pair| (pair.grid_index, pair.src);
        if !pairs.is_sorted_by_key(key) {
            pairs.sort_unstable_by_key(key);
        }
        pairs.len() as u64
    }

    pub fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// Go to the first chunk of this part. False: there are no more.
    pub fn begin(&self, cursor: &mut Cursor) -> bool {
        cursor.segments.clear();
        cursor.turn = 0;
        if self.lines.iter().any(|line| line.count == 0) {
            return false;
        }
        let first = self.lines.iter().map(|line| line.segment(0, &self.pairs));
        cursor.segments.extend(first);
        self.number(cursor) || self.advance(cursor)
    }

    /// Go to the next chunk of this part. False: there are no more.
    pub fn next(&self, cursor: &mut Cursor) -> bool {
        cursor.turn + 1 < self.end && self.next_of_all(cursor)
    }

    /// The same, wherever the iteration ends: others will come to that chunk.
    pub fn next_of_all(&self, cursor: &mut Cursor) -> bool {
        let found = self.advance(cursor);
        cursor.turn += u64::from(found);
        found
    }

    /// Go on to the first of these turns, and end with the last. False: there are no such chunks.
    pub fn seek(&mut self, cursor: &mut Cursor, turns: Range<u64>) -> bool {
        self.end = turns.end;
        while cursor.turn < turns.start {
            if !self.next(cursor) {
                return false;
            }
        }
        true
    }

    /// All chunks, whosever they are.
    pub fn n_chunks(&self) -> u64 {
        let segments = self.lines.iter().map(|line| line.n_segments(&self.pairs));
        segments.fold(1, u64::saturating_mul)
    }

    fn advance(&self, cursor: &mut Cursor) -> bool {
        loop {
            let carry = |(line, segment): (&Line, &Segment)| segment.next < line.count;
            let Some(last) = self.lines.iter().zip(&cursor.segments).rposition(carry) else {
                return false;
            };
            let next = cursor.segments[last].next;
            cursor.segments[last] = self.lines[last].segment(next, &self.pairs);
            for (line, segment) in self.lines.iter().zip(&mut cursor.segments).skip(last + 1) {
                *segment = line.segment(0, &self.pairs);
            }
            if self.number(cursor) {
                return true;
            }
        }
    }

    /// No chunk comes behind this one.
    pub fn is_last(&self, cursor: &Cursor) -> bool {
        let ends = |(line, segment): (&Line, &Segment)| segment.next >= line.count;
        cursor.turn + 1 >= self.end || self.lines.iter().zip(&cursor.segments).all(ends)
    }

    /// Number the chunk; whether it belongs to this part.
    fn number(&self, cursor: &mut Cursor) -> bool {
        cursor.grid_index = cursor
            .segments
            .iter()
            .map(|segment| segment.grid_index)
            .sum();
        self.n_parts == 1 || cursor.grid_index % self.n_parts == self.part
    }
}
