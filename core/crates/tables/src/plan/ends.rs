//! Streams whose blocks are not all of one size.
//!
//! Law:
//! 1. Such a stream is counted in blocks: the header, the ring and the tail count blocks,
//!    and a task lies from the first block that has rows of it to the last. All other streams are
//!    counted in rows. `Step` is either.
//! 2. Each tape has rows of its own; its ends are rows of its dataset, a first one and one for each
//!    block. Blocks may be without rows of a tape.

use super::{Plan, Refused, Tape, Task};
use crate::words::table;
use std::ops::Range;

/// The unit of a stream: a row, or a block.
pub type Step = u64;

impl Plan {
    /// Where the blocks of a tape end, if they are not all of one size.
    fn ends(&self, tape: &Tape) -> Option<&[u64]> {
        let each = self.header.lap_rows + 1;
        // SAFETY: the range was checked in `open`; the bytes do not change and are plain words.
        let all = unsafe { table::<u64>(&self.map, self.ends_at, self.header.n_ends * each) };
        let begin = tape.ends? * each as usize;
        Some(&all[begin..begin + each as usize])
    }

    /// The row of its dataset with which a tape begins.
    pub fn first_row(&self, tape: &Tape) -> u64 {
        self.ends(tape)
            .map_or(self.header.first_row, |ends| ends[0])
    }

    /// Rows of a tape in a lap.
    pub(super) fn rows_of_lap(&self, tape: &Tape) -> u64 {
        self.ends(tape)
            .map_or(self.header.lap_rows, |ends| ends[ends.len() - 1] - ends[0])
    }

    /// The steps of a lap in which a task has rows.
    pub fn span(&self, task: &Task) -> Range<Step> {
        let tape = self.tape(task);
        match self.ends(tape) {
            None => task.row_begin..task.row_end,
            Some(ends) => {
                let end = ends[0].saturating_add(task.row_end);
                self.step(tape, task.row_begin)..ends.partition_point(|&at| at < end) as u64
            }
        }
    }

    /// The step in which a row of a tape lies.
    pub fn step(&self, tape: &Tape, row: u64) -> Step {
        self.ends(tape).map_or(row, |ends| {
            let row = ends[0].saturating_add(row);
            (ends.partition_point(|&at| at <= row) as u64).saturating_sub(1)
        })
    }

    /// The rows that a tape has in some steps.
    pub fn rows(&self, tape: &Tape, steps: Range<Step>) -> Range<u64> {
        self.ends(tape).map_or(steps.clone(), |ends| {
            ends[steps.start as usize] - ends[0]..ends[steps.end as usize] - ends[0]
        })
    }

    /// The step up to which a failed task is complete: it decodes chunks in order, up to the bad one.
    pub fn done_before(&self, global: u64, chunk: Option<u64>) -> Step {
        let (task, lap_row) = self.task(global);
        let (tape, dataset) = (self.tape(&task), self.dataset(&task));
        let records = self.records(&task);
        let before = chunk.map(|at| (at as usize).saturating_sub(records.start));
        let chunks = &self.table.chunks()[records];
        let Some(left) = before.and_then(|before| chunks.get(before..)) else {
            return self.ready_rows(global);
        };
        let mut offset = Vec::new();
        let rows = left.iter().map(|chunk| {
            dataset.chunk_offset(chunk.grid_index, &mut offset);
            offset[0].saturating_sub(self.first_row(tape))
        });
        let row = rows.min().unwrap_or(0);
        lap_row + self.step(tape, row.clamp(task.row_begin, task.row_end))
    }

    /// Ends that ascend, whose rows fit their tapes, of a stream without an order and of one lap.
    pub(super) fn check_ends(&self) -> Result<(), Refused> {
        let header = &self.header;
        let with_ends = |tape: &Tape| tape.ends.is_some();
        if !self.tapes.iter().any(with_ends) {
            return Ok(());
        }
        let is_one = header.block_rows == 1 && header.end_row == header.lap_rows;
        if !self.tapes.iter().all(with_ends) || !is_one || self.order.is_some() {
            return Err("a plan of blocks is of another kind");
        }
        let ahead = header.capacity_rows.min(header.lap_rows) as usize;
        for tape in &self.tapes {
            let ends = self.ends(tape).unwrap_or_default();
            let ascends = ends.is_sorted();
            let most = ends.iter().zip(&ends[ahead..]);
            let most = most.map(|(begin, end)| end.saturating_sub(*begin)).max();
            let bytes = most.unwrap_or(0).checked_mul(tape.row_bytes as u64);
            if !ascends || bytes.is_none_or(|bytes| bytes > tape.bytes as u64) {
                return Err("the blocks of a plan do not fit its tapes");
            }
        }
        match self.tasks().iter().any(|task| task.repeat() != 1) {
            true => Err("a plan of blocks repeats tasks"),
            false => Ok(()),
        }
    }
}
