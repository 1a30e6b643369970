//! A task that a reader has claimed: where its rows go, and what is under way for it.
//!
//! Law:
//! 1. Values; whose they are is the loop's (reader_loop.rs).

use engine::fetch::coalesce::Run;
use engine::shuffle_task::ShuffleTask;
use engine::task_error::TaskError;
use std::ops::Range;
use tables::plan::Task;

/// What a task has under way before it is completed: its chunks, if it is a share, and for direct
/// reads its runs and their tickets.
#[derive(Default)]
pub(super) struct Begun {
    pub share: Option<ShuffleTask>,
    pub runs: Vec<Run>,
    pub tickets: Vec<u64>,
    /// How many of its chunks can be fetched, and why no more.
    pub sound: Option<(usize, TaskError)>,
}

/// A task, and where its lap begins on the tape.
#[derive(Clone, Copy)]
pub(super) struct Claimed {
    pub(super) global: u64,
    pub(super) task: Task,
    pub(super) lap_row: u64,
}

impl Claimed {
    /// Its rows on the tape.
    pub(super) fn rows(&self) -> Range<u64> {
        self.lap_row + self.task.row_begin..self.lap_row + self.task.row_end
    }
}

/// A claimed task, or why it cannot be read.
pub(super) struct Pending {
    pub global: u64,
    pub begun: Result<Begun, TaskError>,
}
