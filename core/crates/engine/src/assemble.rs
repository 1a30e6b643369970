//! Chunks of virtual datasets, which are put together of parts of other datasets.
//!
//! Law:
//! 1. Only what is wanted of a chunk is put together. What no part shows is the fill value.
//! 2. A part is a selection of the dataset that it shows, read as any other is: from what is kept of it,
//!    each chunk once, into its place where that is in one piece.
//! 3. Errors name the chunk of the dataset that is shown.

use crate::chunk_read::{NO_CHUNK, room};
use crate::counters::Record;
use crate::elements::{Elements, ReadElements};
use crate::read_context::ReadContext;
use crate::scatter::fill;
use crate::scatter::out::Out;
use crate::scatter::strided::{Axis, StridedCopy};
use crate::select::selection::{HEAD_WORDS, Hyperslab, KIND_NATIVE};
use crate::shared::{SelectedDataset, Shared};
use crate::task_error::TaskError;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tables::dataset::{Dataset, DatasetTable};
use tables::parts::Part;

/// Of a chunk of which two tasks have parts, the second one finds it here.
const SHOWN_BYTES: usize = 64 << 20;
/// Parts of one chunk that are compared with each other, to see whether they leave gaps.
const MAX_COMPARED: usize = 32;

/// What is wanted of one part: along each axis of the virtual dataset, the numbers of its elements.
struct Piece<'a> {
    part: Part<'a>,
    steps: Vec<Range<u64>>,
}

impl Piece<'_> {
    fn count(&self, axis: usize) -> u64 {
        self.steps[axis].end - self.steps[axis].start
    }

    fn elements(&self) -> u64 {
        (0..self.steps.len()).map(|axis| self.count(axis)).product()
    }

    /// The first element along an axis, and the last.
    fn hull(&self, axis: usize) -> (u64, u64) {
        let (start, step, _) = self.part.axis(axis);
        let at = |number: u64| start + number * step;
        (at(self.steps[axis].start), at(self.steps[axis].end - 1))
    }

    fn is_apart(&self, other: &Piece<'_>) -> bool {
        (0..self.steps.len()).any(|axis| {
            let (a, b) = (self.hull(axis), other.hull(axis));
            a.1 < b.0 || b.1 < a.0
        })
    }
}

/// Puts chunks of virtual datasets of one table together.
struct Assembler {
    table: Arc<DatasetTable>,
    shared: Arc<Shared>,
    context: ReadContext,
    datasets: HashMap<usize, SelectedDataset>,
    found: Vec<usize>,
    words: Vec<u64>,
    buffer: Vec<u8>,
    /// Elements that are to be converted.
    stored: Vec<u8>,
}

/// What reads the virtual datasets of a table.
pub fn assembler(table: &Arc<DatasetTable>, shared: &Arc<Shared>) -> Box<dyn ReadElements> {
    let virtuals = table.datasets.iter().filter(|of| !of.parts.is_empty());
    Box::new(Assembler {
        context: ReadContext::one_of(virtuals.count(), shared.clone()),
        table: table.clone(),
        shared: shared.clone(),
        datasets: HashMap::new(),
        found: Vec::new(),
        words: Vec::new(),
        buffer: Vec::new(),
        stored: Vec::new(),
    })
}

impl ReadElements for Assembler {
    fn read(
        &mut self,
        wanted: &Elements<'_>,
        out: &mut [u8],
        record: &Record,
    ) -> Result<(), TaskError> {
        let Some(conversion) = &wanted.dataset.conversion else {
            return self.read_stored(wanted, out, record);
        };
        let mut stored = std::mem::take(&mut self.stored);
        let bytes = room(&mut stored, conversion.stored_size(out.len()), NO_CHUNK)?;
        let done = self.read_stored(wanted, bytes, record);
        conversion.convert(conversion.place(&wanted.offset[1..]), bytes, out);
        self.stored = stored;
        done
    }
}

impl Assembler {
    fn read_stored(
        &mut self,
        wanted: &Elements<'_>,
        out: &mut [u8],
        record: &Record,
    ) -> Result<(), TaskError> {
        let parts = &wanted.dataset.parts;
        let mut found = std::mem::take(&mut self.found);
        parts.in_rows(wanted.axis(0), &mut found);
        let pieces = found.iter().map(|&number| {
            let part = parts.part(number);
            let steps = (0..wanted.n_dims()).map(|axis| part.steps(axis, wanted.axis(axis)));
            Piece {
                part,
                steps: steps.collect(),
            }
        });
        let pieces: Vec<Piece<'_>> = pieces.filter(|piece| piece.elements() > 0).collect();
        self.found = found;
        if !covers(&pieces, wanted) {
            fill::repeat(&wanted.dataset.stored_fill, out);
        }
        let mut done = Ok(());
        for piece in &pieces {
            done = done.and_then(|()| self.read_piece(wanted, piece, out, record));
        }
        done
    }

    fn read_piece(
        &mut self,
        wanted: &Elements<'_>,
        piece: &Piece<'_>,
        out: &mut [u8],
        record: &Record,
    ) -> Result<(), TaskError> {
        let number = piece.part.dataset();
        if !self.datasets.contains_key(&number) {
            let of = self.shared.dataset_of(self.table.clone(), number);
            let of = of.map_err(|reason| TaskError::Internal(reason.into()))?;
            self.datasets.insert(number, of);
        }
        let of = &self.datasets[&number];
        select(piece, of.dataset(), &mut self.words);
        let slab = Hyperslab::parse(&self.words, of.dataset());
        let slab = slab.map_err(|reason| TaskError::Internal(reason.into()))?;
        let (from, mut copy) = place(wanted, piece);
        copy.shift(0, from);
        let odd = || TaskError::Internal("a part lies outside its chunk".into());
        let to = match copy.is_item() {
            true => out.get_mut(from..from + slab.out_bytes()).ok_or_else(odd)?,
            false => room(&mut self.buffer, slab.out_bytes(), of.dataset().chunks_at)?,
        };
        if self.context.begin(of, &slab, 0, 1) {
            let read = self.context.read(of, &slab, Out::of(to), record);
            // A file that cannot be opened is named by a chunk in it.
            let first = of.dataset().chunks_at;
            read.map_err(|error| match error {
                TaskError::Fetch(NO_CHUNK, error) => TaskError::Fetch(first, error),
                error => error,
            })?;
        }
        if !copy.is_item() {
            let read = &self.buffer[..slab.out_bytes()];
            copy.copy_at(std::iter::once((0, 0)), read, Out::of(out));
        }
        Ok(())
    }
}

/// What a stream keeps decoded of datasets that virtual ones show, beside what it keeps of others.
pub fn kept_bytes(table: &DatasetTable, cache_bytes: u64) -> usize {
    let is_virtual = table.datasets.iter().any(|of| !of.parts.is_empty());
    match is_virtual {
        true => SHOWN_BYTES + cache_bytes as usize,
        false => 0,
    }
}

/// No element is left to the fill value.
fn covers(pieces: &[Piece<'_>], wanted: &Elements<'_>) -> bool {
    let all: u64 = wanted.extents.iter().product();
    let shown: u64 = pieces.iter().map(Piece::elements).sum();
    let is_apart = |(number, piece): (usize, &Piece<'_>)| {
        let others = &pieces[number + 1..];
        others.iter().all(|other| piece.is_apart(other))
    };
    shown == all && pieces.len() <= MAX_COMPARED && pieces.iter().enumerate().all(is_apart)
}

/// Where a piece begins among the wanted elements, in bytes, and how it is copied there from one behind
/// the other.
fn place(wanted: &Elements<'_>, piece: &Piece<'_>) -> (usize, StridedCopy) {
    let bytes = wanted.dataset.stored_element_bytes;
    let mut copy = StridedCopy::item(bytes, 0, 0);
    let (mut at, mut from, mut to) = (0, bytes, bytes);
    for axis in (0..wanted.n_dims()).rev() {
        let (_, step, _) = piece.part.axis(axis);
        let count = piece.count(axis) as usize;
        at += (piece.hull(axis).0 - wanted.offset[axis]) as usize * to;
        copy.push(Axis {
            count,
            from: from as isize,
            to: to * step as usize,
        });
        from *= count;
        to *= wanted.extents[axis] as usize;
    }
    (at, copy)
}

/// The words of the selection that a piece is of its source.
fn select(piece: &Piece<'_>, source: &Dataset, words: &mut Vec<u64>) {
    let n_dims = source.dims.len();
    words.clear();
    words.resize(HEAD_WORDS, 0);
    (words[0], words[6], words[8]) = (KIND_NATIVE, n_dims as u64, source.element_bytes as u64);
    for axis in 0..n_dims {
        let (start, step, belongs) = piece.part.source_axis(axis);
        let steps = belongs.map_or(0..1, |axis| piece.steps[axis].clone());
        let first = start + steps.start * step;
        words.extend([first, step, steps.end - steps.start, 0]);
    }
}
