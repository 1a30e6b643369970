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
/// Rows that are assembled from several parts at a time: they fit into the first cache of a core.
const STRIP_BYTES: usize = 32 << 10;

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

/// The target of a piece whose rows are read one behind the other.
struct Placed {
    row: StridedCopy,
    /// Bytes of a row of the request.
    row_bytes: usize,
    rows: Axis,
    /// The number of its first row among the requested rows.
    first: usize,
}

impl Placed {
    fn bytes(&self) -> usize {
        self.rows.count * self.rows.from as usize
    }

    fn whole(&self) -> StridedCopy {
        let mut copy = self.row.clone();
        copy.shift(0, self.first * self.row_bytes);
        copy.push(self.rows);
        copy
    }

    /// Copy the piece's part of some of the requested rows, if it has no steps.
    fn copy_rows(&self, rows: Range<usize>, read: &[u8], out: Out<'_>) {
        let (first, end) = (self.first, self.first + self.rows.count);
        let (begin, end) = (rows.start.max(first), rows.end.min(end));
        if begin < end {
            let axis = Axis {
                count: end - begin,
                ..self.rows
            };
            let from = (begin - first) * self.rows.from as usize;
            (self.row).copy_along(axis, from, read, begin * self.row_bytes, out);
        }
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
        let done = self.read_stored(wanted, bytes, record).and_then(|()| {
            let done = conversion.convert(conversion.place(&wanted.offset[1..]), bytes, out);
            done.map_err(|error| TaskError::Filter(NO_CHUNK, error))
        });
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
        let places: Vec<Placed> = pieces.iter().map(|piece| place(wanted, piece)).collect();
        let fill = match covers(&pieces, wanted) {
            true => &[][..],
            false => &wanted.dataset.stored_fill,
        };
        if let Some(rows) = strip(&places, out.len()) {
            return self.read_beside(&pieces, &places, rows, fill, out, record);
        }
        fill::repeat(fill, out);
        let mut pieces = pieces.iter().zip(places);
        pieces.try_for_each(|(piece, place)| self.read_piece(piece, place, out, record))
    }

    /// Read pieces that are parts of the same rows, and assemble these rows, some at a time.
    fn read_beside(
        &mut self,
        pieces: &[Piece<'_>],
        places: &[Placed],
        strip: usize,
        fill: &[u8],
        out: &mut [u8],
        record: &Record,
    ) -> Result<(), TaskError> {
        let len = places.iter().map(Placed::bytes).sum();
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut rest = room(&mut buffer, len, NO_CHUNK)?;
        for (piece, place) in pieces.iter().zip(places) {
            let (to, others) = rest.split_at_mut(place.bytes());
            self.read_into(piece, to, record)?;
            rest = others;
        }
        let row_bytes = places[0].row_bytes;
        let n_rows = out.len() / row_bytes;
        for first in (0..n_rows).step_by(strip) {
            let rows = first..(first + strip).min(n_rows);
            fill::repeat(fill, &mut out[rows.start * row_bytes..rows.end * row_bytes]);
            let mut read = &buffer[..len];
            for place in places {
                let (piece, others) = read.split_at(place.bytes());
                place.copy_rows(rows.clone(), piece, Out::of(out));
                read = others;
            }
        }
        self.buffer = buffer;
        Ok(())
    }

    fn read_piece(
        &mut self,
        piece: &Piece<'_>,
        place: Placed,
        out: &mut [u8],
        record: &Record,
    ) -> Result<(), TaskError> {
        let bytes = place.bytes();
        let copy = place.whole();
        if copy.is_item() {
            let to = out.get_mut(copy.to..copy.to + bytes);
            let odd = || TaskError::Internal("a part lies outside its chunk".into());
            return self.read_into(piece, to.ok_or_else(odd)?, record);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        self.read_into(piece, room(&mut buffer, bytes, NO_CHUNK)?, record)?;
        copy.copy_at(std::iter::once((0, 0)), &buffer[..bytes], Out::of(out));
        self.buffer = buffer;
        Ok(())
    }

    /// Read the elements of a piece, one behind the other.
    fn read_into(
        &mut self,
        piece: &Piece<'_>,
        to: &mut [u8],
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
        if slab.out_bytes() != to.len() {
            return Err(TaskError::Internal("a part is not what it shows".into()));
        }
        if self.context.begin(of, &slab, 0, 1) {
            let read = self.context.read(of, &slab, Out::of(to), record);
            // A file that cannot be opened is named by a chunk in it.
            let first = of.dataset().chunks_at;
            read.map_err(|error| match error {
                TaskError::Fetch(NO_CHUNK, error) => TaskError::Fetch(first, error),
                error => error,
            })?;
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

/// How many rows are put together at a time, if all pieces are rows or parts of them, one behind the
/// other, and none is in one piece where it goes.
fn strip(places: &[Placed], len: usize) -> Option<usize> {
    let row_bytes = places.first().filter(|_| places.len() > 1)?.row_bytes;
    let is_beside = |place: &Placed| {
        place.rows.to == row_bytes && place.rows.from != row_bytes as isize && place.rows.count > 1
    };
    let all: usize = places.iter().map(Placed::bytes).sum();
    let is_it = all <= len && places.iter().all(is_beside);
    is_it.then_some((STRIP_BYTES / row_bytes).max(1))
}

fn place(wanted: &Elements<'_>, piece: &Piece<'_>) -> Placed {
    let bytes = wanted.dataset.stored_element_bytes;
    let mut row = StridedCopy::item(bytes, 0, 0);
    let (mut from, mut to) = (bytes, bytes);
    let along = |axis: usize, from: usize, to: usize| Axis {
        count: piece.count(axis) as usize,
        from: from as isize,
        to: to * piece.part.axis(axis).1 as usize,
    };
    let first = |axis: usize| (piece.hull(axis).0 - wanted.offset[axis]) as usize;
    for axis in (1..wanted.n_dims()).rev() {
        row.shift(0, first(axis) * to);
        row.push(along(axis, from, to));
        from *= piece.count(axis) as usize;
        to *= wanted.extents[axis] as usize;
    }
    Placed {
        row,
        row_bytes: to,
        rows: along(0, from, to),
        first: first(0),
    }
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
