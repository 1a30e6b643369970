//! One piece of a plan's work: which rows it delivers to a tape, and how.
//!
//! Law:
//! 1. The layout of a record is written by `_multitables/plan/tasks.py` and read here.
//! 2. Only what a kind uses of its record is read (`work`).

use std::ops::Range;

/// `Task::kind`: decode these chunks of the grid.
pub const KIND_CHUNKS: u32 = 0;
/// `Task::kind`: read through an HDF5 library instead of fetch and decode.
pub const KIND_LIBRARY: u32 = 1;
/// `Task::kind`: a share of a window of the epoch's order; its rows go where the order says.
pub const KIND_SHARE: u32 = 2;

/// One piece of work: the rows of the lap that it delivers to a tape, and how (`work`).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub dataset: u32,
    pub tape: u32,
    kind: u32,
    share: u32,
    shares: u32,
    reserved: u32,
    pub row_begin: u64,
    pub row_end: u64,
    first_chunk: u64,
    n_chunks: u64,
    repeat: u64,
    position: u64,
}

/// How a task gets its rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// From these chunks of the dataset's grid, stored or not. Of chunks that were never stored,
    /// several such pieces follow each other (`Task::repeat`); those of several tapes, for the same
    /// rows, take turns.
    Chunks(Range<u64>),
    Library,
    Share(Share),
}

/// A share of a window of the epoch's order; the task's rows are the whole window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The position at which the window begins.
    pub position: u64,
    /// Which share, of how many.
    pub number: u64,
    pub count: u64,
}

impl Task {
    /// All chunks of some rows of a dataset, for the tape of the same number.
    pub fn whole(dataset: u32, rows: Range<u64>, first_chunk: u64, n_chunks: u64) -> Task {
        Task {
            dataset,
            tape: dataset,
            kind: KIND_CHUNKS,
            share: 0,
            shares: 0,
            reserved: 0,
            row_begin: rows.start,
            row_end: rows.end,
            first_chunk,
            n_chunks,
            repeat: 1,
            position: 0,
        }
    }

    pub fn work(&self) -> Work {
        match self.kind {
            KIND_LIBRARY => Work::Library,
            KIND_SHARE => Work::Share(Share {
                position: self.position,
                number: self.share.into(),
                count: self.shares.into(),
            }),
            _ => Work::Chunks(self.first_chunk..self.first_chunk.saturating_add(self.n_chunks)),
        }
    }

    /// How many such pieces follow each other.
    pub fn repeat(&self) -> u64 {
        match self.kind {
            KIND_CHUNKS => self.repeat,
            _ => 1,
        }
    }

    /// Its chunks of the grid; none where a library reads, or an order says which.
    pub fn grid(&self) -> Range<u64> {
        match self.work() {
            Work::Chunks(grid) => grid,
            _ => 0..0,
        }
    }

    pub fn share(&self) -> Option<Share> {
        match self.work() {
            Work::Share(share) => Some(share),
            _ => None,
        }
    }

    /// Both are repeated, for the same rows.
    pub(super) fn takes_turns_with(&self, other: &Task) -> bool {
        let rows = |task: &Task| (task.row_begin, task.row_end, task.repeat());
        self.repeat() > 1 && rows(self) == rows(other)
    }
}
