//! Which rows of a lap have a task: all of them, on each tape, or the plan is refused.
//!
//! Law:
//! 1. A tape's tasks follow each other by their rows. Several may have the same rows: each has some
//!    columns of the chunk grid, or is one share of a window, and together they have all.
//! 2. Pure; a plan may say anything.

use crate::dataset::Dataset;
use crate::task::{Task, Work};
use crate::words::Refused;

/// How far one tape's tasks have come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coverage {
    /// Rows before this one have all their tasks.
    row: u64,
    /// Of the rows from there on: up to which part they have tasks, of how many parts, and where
    /// these tasks end and what they begin with.
    part: u64,
    parts: u64,
    end: u64,
    position: u64,
}

impl Coverage {
    /// The next task, whose last row (of the last repetition) is the one before `end`.
    pub fn add(&mut self, task: &Task, dataset: &Dataset, end: u64) -> Result<(), Refused> {
        let (begin_part, end_part, parts, position) = match task.work() {
            Work::Share(share) => (share.number, share.number + 1, share.count, share.position),
            Work::Library => (0, 1, 1, 0),
            Work::Chunks(grid) => {
                let (begin, end, parts) = columns(dataset, grid);
                (begin, end, parts, 0)
            }
        };
        let follows = task.row_begin == self.row && begin_part == self.part;
        let alike = (parts, end, position) == (self.parts, self.end, self.position);
        if !follows || begin_part > 0 && !alike {
            return Err("rows of the plan have no task");
        }
        (self.parts, self.end, self.position) = (parts, end, position);
        self.part = end_part;
        if end_part == parts {
            (self.row, self.part) = (end, 0);
        }
        Ok(())
    }

    /// All rows have all their tasks.
    pub fn is_whole(&self, lap_rows: u64) -> bool {
        self.row == lap_rows && self.part == 0
    }
}

/// A task's chunks of the grid have its rows, which are whole or of one row of chunks.
pub fn has_rows(
    dataset: &Dataset,
    task: &Task,
    grid: std::ops::Range<u64>,
    first_row: u64,
) -> bool {
    if grid.is_empty() || grid.end > dataset.grid_chunks {
        return false;
    }
    let (inner, outer) = (dataset.inner_chunks(), u128::from(dataset.chunk_dims[0]));
    let chunk_rows = grid.start / inner..grid.end.div_ceil(inner);
    let rows = u128::from(task.row_end - task.row_begin) * u128::from(task.repeat());
    let begin = u128::from(first_row) + u128::from(task.row_begin);
    let (_, _, parts) = columns(dataset, grid);
    u128::from(chunk_rows.start) * outer <= begin
        && begin + rows <= u128::from(chunk_rows.end) * outer
        && (parts == 1 || chunk_rows.end - chunk_rows.start == 1 && task.repeat() == 1)
}

/// Which columns of the grid these chunks are, of how many; whole rows are one.
fn columns(dataset: &Dataset, grid: std::ops::Range<u64>) -> (u64, u64, u64) {
    let inner = dataset.inner_chunks();
    match inner == 0 || grid.start % inner == 0 && grid.end % inner == 0 {
        true => (0, 1, 1),
        false => (grid.start % inner, (grid.end - 1) % inner + 1, inner),
    }
}
