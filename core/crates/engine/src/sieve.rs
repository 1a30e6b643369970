//! Wanted bytes of chunks that are stored as they are: read from the file without the rest.
//!
//! Law:
//! 1. Bytes that are contiguous in the file and in the result are read straight into the result.
//! 2. Others are read through a window: what lies between wanted bytes is read along as long as
//!    that is cheaper than another read, and the window stays small.

use crate::chunk_read::room;
use crate::counters::count;
use crate::read_ahead::{InHand, ReadAhead};
use crate::scatter::elements::{BlockCopy, Row, Unit};
use crate::scatter::out::Out;
use crate::task_error::TaskError;
use std::ops::Range;

/// Bytes whose reading costs about as much as another call.
const GAP_BYTES: usize = 8 << 10;
const WINDOW_BYTES: usize = 1 << 20;
const WINDOW_ROWS: usize = 1 << 12;
/// Where a part like this of the bytes is wanted, all are read.
const DENSE: usize = 4;

/// Rows of one chunk that are read at once.
#[derive(Debug, Default)]
pub struct Sieve {
    rows: Vec<Row>,
    span: Range<usize>,
    stored: Vec<u8>,
}

impl Sieve {
    fn clear(&mut self) {
        self.rows.clear();
        self.span = 0..0;
    }

    /// Add a row, if it lies near the others.
    fn take(&mut self, unit: &Unit<'_>, row: Row) -> bool {
        let reach = unit.reach(&row);
        if self.rows.is_empty() {
            self.span = reach;
        } else {
            let both = self.span.start.min(reach.start)..self.span.end.max(reach.end);
            let gap = both.len().saturating_sub(self.span.len() + reach.len());
            if gap > GAP_BYTES || both.len() > WINDOW_BYTES || self.rows.len() >= WINDOW_ROWS {
                return false;
            }
            self.span = both;
        }
        self.rows.push(row);
        true
    }

    /// Read the wanted bytes of a chunk that is stored as it is.
    pub fn read(
        &mut self,
        from: &mut ReadAhead<'_>,
        here: &InHand<'_>,
        unit: &Unit<'_>,
        mut out: Out<'_>,
    ) -> Result<(), TaskError> {
        if self.read_dense(from, here, unit, out.lend())? {
            return Ok(());
        }
        self.clear();
        let mut result = Ok(());
        let pairs = from.chunk_iter.pairs();
        unit.each_row(&here.cursor.segments, pairs, &mut |row| {
            split(unit, row, &mut |row| {
                if result.is_ok() && !self.take(unit, row) {
                    result = self.read_window(from, here, unit, out.lend());
                    self.clear();
                    self.take(unit, row);
                }
            });
        });
        result.and_then(|()| self.read_window(from, here, unit, out))
    }

    /// Read many rows at once, if they lie densely. False if they do not.
    fn read_dense(
        &mut self,
        from: &mut ReadAhead<'_>,
        here: &InHand<'_>,
        unit: &Unit<'_>,
        out: Out<'_>,
    ) -> Result<bool, TaskError> {
        let (segments, pairs) = (&here.cursor.segments, from.chunk_iter.pairs());
        if unit.only_row(segments, pairs).is_some() {
            return Ok(false);
        }
        let Some(blocks) = BlockCopy::new(unit, segments, pairs) else {
            return Ok(false);
        };
        let (span, bytes) = (blocks.span(), blocks.bytes());
        if span.len() > WINDOW_BYTES || span.len() > bytes * DENSE + GAP_BYTES {
            return Ok(false);
        }
        let stored = room(&mut self.stored, span.len(), here.number)?;
        from.read(here, span.start, stored)?;
        blocks.copy(stored, span.start, out);
        count(&from.record.decoded_bytes, bytes);
        Ok(true)
    }

    fn read_window(
        &mut self,
        from: &mut ReadAhead<'_>,
        here: &InHand<'_>,
        unit: &Unit<'_>,
        mut out: Out<'_>,
    ) -> Result<(), TaskError> {
        let (span, mut bytes) = (self.span.clone(), 0);
        if let [row] = &self.rows[..] {
            if let Some(row) = unit.straight(row) {
                let out = out.part(row.dst..row.dst + row.n * unit.bytes);
                from.read(here, span.start, out)?;
                unit.apply_fixes(out);
                count(&from.record.decoded_bytes, out.len());
                return Ok(());
            }
        }
        let stored = room(&mut self.stored, span.len(), here.number)?;
        from.read(here, span.start, stored)?;
        for row in &self.rows {
            unit.copy(row, stored, span.start, out.lend());
            bytes += row.n * unit.bytes;
        }
        count(&from.record.decoded_bytes, bytes);
        Ok(())
    }
}

/// Call `f` with parts of a row that each fit a window.
pub fn split(unit: &Unit<'_>, row: Row, f: &mut impl FnMut(Row)) {
    let step = row.step.unsigned_abs();
    let most = match step > unit.stored + GAP_BYTES {
        true => 1,
        false => (WINDOW_BYTES / step.max(1)).max(1),
    };
    if row.n <= most || unit.is_contiguous(&row) {
        return f(row);
    }
    let mut done = 0;
    while done < row.n {
        let n = most.min(row.n - done);
        f(Row {
            src: row.src.wrapping_add_signed(row.step * done as isize),
            dst: row.dst + done * unit.bytes,
            n,
            ..row
        });
        done += n;
    }
}
