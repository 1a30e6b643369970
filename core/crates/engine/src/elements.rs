//! Elements of virtual datasets, and what reads them.
//!
//! Law: a transfer knows that there are such datasets, and not how they are put together.

use crate::counters::Record;
use crate::task_error::TaskError;
use std::ops::Range;
use tables::dataset::Dataset;

/// Elements of a virtual dataset: a box, of which `out` is all.
pub struct Elements<'a> {
    pub dataset: &'a Dataset,
    pub offset: &'a [u64],
    pub extents: &'a [u64],
}

impl Elements<'_> {
    pub fn axis(&self, axis: usize) -> Range<u64> {
        self.offset[axis]..self.offset[axis].saturating_add(self.extents[axis])
    }

    pub fn n_dims(&self) -> usize {
        self.offset.len()
    }
}

/// Reads elements of the virtual datasets of one table.
pub trait ReadElements: Send {
    /// Write the requested elements into `out`, as they are delivered.
    fn read(
        &mut self,
        wanted: &Elements<'_>,
        out: &mut [u8],
        record: &Record,
    ) -> Result<(), TaskError>;
}
