//! Selected elements of a chunk, copied to where the result has them.
//!
//! Law:
//! 1. Pure copying between memory that the caller gives; every copy is checked as a whole.
//! 2. Bytes that are contiguous on both sides are copied at once.
//! 3. Strings end here where HDF5's conversion ends them, element by element.
//! 4. Knows nothing of files, filters or the cache.

use crate::scatter::arrange::arrange;
use crate::scatter::fill::repeat;
use crate::scatter::out::Out;
use crate::scatter::strided::{Axis, MIN_LISTED_FOR, StridedCopy};
use crate::select::arrangement::Arrangement;
use crate::select::chunk_iter::{Pair, Segment};
use crate::select::selection::Hyperslab;
use hdf5_filters::convert::Conversion;
use std::ops::Range;
use tables::plan::Dataset;

/// `n` units of a chunk, `step` bytes apart from byte `src` on, which are contiguous in the result
/// from byte `dst` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub src: usize,
    pub step: isize,
    pub dst: usize,
    pub n: usize,
}

/// What is copied at once: an element's field, some runs of it, or several elements that lie
/// together.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// Where it begins in its element.
    pub at: usize,
    /// Its bytes in the chunk, from the first to the last, and in the result.
    pub stored: usize,
    pub bytes: usize,
    /// Several runs: byte offset in the unit and length of each.
    runs: &'a [u64],
    fixes: &'a [Conversion],
    /// Fixes are those of fields of this size.
    field_bytes: usize,
    /// Where rows of the result are placed; None: as they are selected.
    arrangement: Option<Arrangement<'a>>,
}

impl<'a> Unit<'a> {
    pub fn new(slab: &Hyperslab<'a>, dataset: &'a Dataset, together: usize) -> Unit<'a> {
        let mut unit = Unit {
            at: dataset.field_offset,
            stored: dataset.field_bytes * together,
            bytes: slab.element_bytes * together,
            runs: slab.runs,
            fixes: &dataset.fixes,
            field_bytes: dataset.field_bytes,
            arrangement: slab.arrangement,
        };
        if let ([offset, _], true) = (slab.runs, dataset.fixes.is_empty()) {
            unit.at += *offset as usize;
            unit.stored = unit.bytes;
            unit.runs = &[];
        }
        unit
    }

    /// Its bytes are the same in the chunk and in the result.
    pub fn is_plain(&self) -> bool {
        let is_arranged = self.arrangement.is_some();
        self.runs.is_empty() && self.fixes.is_empty() && self.stored == self.bytes && !is_arranged
    }

    /// The bytes of a chunk that a row reaches over.
    pub fn reach(&self, row: &Row) -> Range<usize> {
        let last = row
            .src
            .wrapping_add_signed(row.step.wrapping_mul(row.n as isize - 1));
        row.src.min(last)..row.src.max(last) + self.stored
    }

    /// It is one piece of the chunk, and nothing else.
    pub fn lies_together(&self, row: &Row) -> bool {
        self.runs.is_empty() && (row.n == 1 || row.step == self.stored as isize)
    }

    /// A row that is the same bytes in the chunk and in the result, apart from fixes.
    pub fn is_contiguous(&self, row: &Row) -> bool {
        self.straight(row).is_some()
    }

    /// Such a row, and where it lies in the result.
    pub fn straight(&self, row: &Row) -> Option<Row> {
        let dst = match &self.arrangement {
            None => Some(row.dst),
            Some(to) => to.straight(row.dst..row.dst + row.n * self.bytes),
        };
        let row = dst.map(|dst| Row { dst, ..*row });
        row.filter(|row| self.lies_together(row))
    }

    /// Copy a row from `chunk`, which begins at byte `base` of the decoded chunk.
    pub fn copy(&self, row: &Row, chunk: &[u8], base: usize, mut out: Out<'_>) {
        if let Some(to) = &self.arrangement {
            return self.copy_arranged(to, row, chunk, base, out);
        }
        let out = out.part(row.dst..row.dst + row.n * self.bytes);
        let from = row.src - base;
        if !self.runs.is_empty() {
            return self.copy_runs(from, row.step, chunk, out);
        }
        if self.is_contiguous(row) {
            out.copy_from_slice(&chunk[from..from + out.len()]);
        } else {
            let axis = Axis {
                count: row.n,
                from: row.step,
                to: self.bytes,
            };
            axis.copy_items(self.bytes, from, chunk, 0, Out::of(out));
        }
        self.apply_fixes(out);
    }

    /// Where the row is not as the result has it, it is made so first.
    fn copy_arranged(
        &self,
        to: &Arrangement<'_>,
        row: &Row,
        chunk: &[u8],
        base: usize,
        out: Out<'_>,
    ) {
        let (from, len) = (row.src - base, row.n * self.bytes);
        if self.lies_together(row) && self.fixes.is_empty() {
            return arrange(to, row.dst, &chunk[from..from + len], out);
        }
        let (mut made, plain) = (vec![0; len], self.unarranged());
        let here = Row { dst: 0, ..*row };
        plain.copy(&here, chunk, base, Out::of(&mut made));
        arrange(to, row.dst, &made, out);
    }

    fn unarranged(&self) -> Unit<'a> {
        Unit {
            arrangement: None,
            ..*self
        }
    }

    fn copy_runs(&self, mut from: usize, step: isize, chunk: &[u8], out: &mut [u8]) {
        // A string may begin before a run and end in it, so the whole field is fixed first.
        let mut fixed = vec![
            0;
            if self.fixes.is_empty() {
                0
            } else {
                self.stored
            }
        ];
        for unit in out.chunks_exact_mut(self.bytes) {
            let mut field = &chunk[from..from + self.stored];
            if !fixed.is_empty() {
                fixed.copy_from_slice(field);
                self.apply_fixes(&mut fixed);
                field = &fixed;
            }
            self.pick_runs(field, unit);
            from = from.wrapping_add_signed(step);
        }
    }

    fn pick_runs(&self, field: &[u8], unit: &mut [u8]) {
        let mut to = 0;
        for run in self.runs.chunks_exact(2) {
            let (offset, len) = (run[0] as usize, run[1] as usize);
            unit[to..to + len].copy_from_slice(&field[offset..offset + len]);
            to += len;
        }
    }

    /// Change what HDF5's conversion changes in whole fields.
    pub fn apply_fixes(&self, fields: &mut [u8]) {
        for fix in self.fixes {
            for element in fields.chunks_exact_mut(self.field_bytes) {
                fix.apply(element);
            }
        }
    }

    /// One unit of an unallocated chunk, as the result shows it.
    pub fn fill_value(&self, dataset: &Dataset, value: &mut Vec<u8>) {
        let field = dataset.fill_shown();
        value.clear();
        if self.runs.is_empty() {
            let skipped = self.at - dataset.field_offset;
            let element = self.bytes.min(dataset.field_bytes);
            value.extend_from_slice(&field[skipped..skipped + element]);
        } else {
            value.resize(self.bytes, 0);
            self.pick_runs(field, value);
        }
    }

    /// Where a row of an unallocated chunk belongs.
    pub fn fill(&self, row: &Row, value: &[u8], mut out: Out<'_>) {
        if let Some(to) = &self.arrangement {
            let mut made = vec![0; row.n * self.bytes];
            repeat(value, &mut made);
            return arrange(to, row.dst, &made, out);
        }
        repeat(value, out.part(row.dst..row.dst + row.n * self.bytes));
    }

    /// The only row of a chunk, if there is only one.
    pub fn only_row(&self, segments: &[Segment], pairs: &[Pair]) -> Option<Row> {
        let mut row = Row {
            src: self.at,
            step: self.stored as isize,
            dst: 0,
            n: 1,
        };
        for segment in segments {
            if row.n > 1 {
                return None;
            }
            match segment.pairs_at {
                None => {
                    row.src += segment.src;
                    row.dst += segment.dst;
                    (row.n, row.step) = (segment.n, segment.src_step);
                    if row.n > 1 && segment.dst_step != self.bytes {
                        return None;
                    }
                }
                Some(at) if segment.n == 1 => {
                    let pair = pairs[at];
                    row.src += pair.src;
                    row.dst += pair.dst;
                    (row.n, row.step) = (pair.n, self.stored as isize);
                }
                Some(_) => return None,
            }
        }
        Some(row)
    }

    /// Call `f` with each row of what a chunk has to give.
    pub fn each_row(&self, segments: &[Segment], pairs: &[Pair], f: &mut impl FnMut(Row)) {
        self.cursor(segments, pairs, self.at, 0, f);
    }

    fn cursor(
        &self,
        segments: &[Segment],
        pairs: &[Pair],
        src: usize,
        dst: usize,
        f: &mut impl FnMut(Row),
    ) {
        let Some((segment, inner)) = segments.split_first() else {
            let step = self.stored as isize;
            return f(Row {
                src,
                step,
                dst,
                n: 1,
            });
        };
        let Some(at) = segment.pairs_at else {
            if inner.is_empty() {
                return f(Row {
                    src: src + segment.src,
                    step: segment.src_step,
                    dst: dst + segment.dst,
                    n: segment.n,
                });
            }
            let (mut src, mut dst) = (src + segment.src, dst + segment.dst);
            for _ in 0..segment.n {
                self.cursor(inner, pairs, src, dst, f);
                src = src.wrapping_add_signed(segment.src_step);
                dst += segment.dst_step;
            }
            return;
        };
        let pairs_here = &pairs[at..at + segment.n];
        if !inner.is_empty() {
            for pair in pairs_here {
                self.cursor(inner, pairs, src + pair.src, dst + pair.dst, f);
            }
            return;
        }
        // Neighbours on both sides are one row.
        let mut rest = pairs_here;
        while let Some((first, behind)) = rest.split_first() {
            let mut n = first.n;
            let follows = |pair: &&Pair| {
                let is_next = pair.src == first.src + n * self.stored
                    && pair.dst == first.dst + n * self.bytes;
                n += if is_next { pair.n } else { 0 };
                is_next
            };
            let more = behind.iter().take_while(follows).count();
            f(Row {
                src: src + first.src,
                step: self.stored as isize,
                dst: dst + first.dst,
                n,
            });
            rest = &behind[more..];
        }
    }
}

/// What a chunk has to give where only the outermost axis may be a list: the same block for each of
/// its indices.
pub struct BlockCopy<'a> {
    block: StridedCopy,
    outer: &'a Segment,
    /// Of the outer axis, if it is a list.
    pairs: &'a [Pair],
}

impl<'a> BlockCopy<'a> {
    /// None: one of the inner axes is a list, or the units are not plain, or there is but one axis.
    pub fn new(
        unit: &Unit<'_>,
        segments: &'a [Segment],
        pairs: &'a [Pair],
    ) -> Option<BlockCopy<'a>> {
        let (outer, inner) = segments.split_first()?;
        let is_list = |segment: &Segment| segment.pairs_at.is_some();
        if !unit.is_plain() || inner.is_empty() || inner.iter().any(is_list) {
            return None;
        }
        let mut block = StridedCopy::item(unit.bytes, unit.at, 0);
        for segment in inner.iter().rev() {
            block.shift(segment.src, segment.dst);
            block.push(axis(segment));
        }
        if outer.n >= MIN_LISTED_FOR {
            block.list();
        }
        let pairs = outer
            .pairs_at
            .map_or(&[][..], |at| &pairs[at..at + outer.n]);
        Some(BlockCopy {
            block,
            outer,
            pairs,
        })
    }

    /// The bytes of the chunk from the first that is wanted to the last.
    pub fn span(&self) -> Range<usize> {
        let outer = self.outer;
        let reach = outer.src_step.wrapping_mul(outer.n as isize - 1);
        let ends = [outer.src, outer.src.wrapping_add_signed(reach)];
        let listed = self.pairs.iter().map(|pair| pair.src);
        let begins = || {
            listed
                .clone()
                .chain(ends.into_iter().filter(|_| self.pairs.is_empty()))
        };
        let (first, last) = (begins().min().unwrap_or(0), begins().max().unwrap_or(0));
        let StridedCopy { from, from_len, .. } = self.block;
        first + from..last + from + from_len
    }

    /// How many bytes are wanted.
    pub fn bytes(&self) -> usize {
        self.outer.n * self.block.bytes()
    }

    /// Copy all blocks; `chunk` begins at byte `base` of the decoded chunk.
    pub fn copy(&self, chunk: &[u8], base: usize, out: Out<'_>) {
        let (block, outer) = (&self.block, self.outer);
        if outer.pairs_at.is_some() {
            let position = |pair: &Pair| (pair.src.wrapping_sub(base), pair.dst);
            return block.copy_at(self.pairs.iter().map(position), chunk, out);
        }
        block.copy_along(
            axis(outer),
            outer.src.wrapping_sub(base),
            chunk,
            outer.dst,
            out,
        );
    }
}

fn axis(segment: &Segment) -> Axis {
    Axis {
        count: segment.n,
        from: segment.src_step,
        to: segment.dst_step,
    }
}
