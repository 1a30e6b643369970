//! A task that a reader has claimed: where its rows go, and what is under way for it.
//!
//! Law:
//! 1. Values; whose they are is the loop's (reader_loop.rs).

use crate::ring::maps::RingMaps;
use crate::ring::tape::tape_bytes;
use engine::fetch::coalesce::Run;
use engine::shuffle_task::ShuffleTask;
use engine::task_error::TaskError;
use std::ops::Range;
use tables::plan::{Plan, Task};

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
    /// The ring's pages for its rows are there.
    has_pages: bool,
}

impl Pending {
    pub(super) fn new(global: u64, begun: Result<Begun, TaskError>) -> Pending {
        let has_pages = false;
        Pending {
            global,
            begun,
            has_pages,
        }
    }

    /// Make the ring's pages for its rows, if they may be missing.
    pub(super) fn make_pages(&mut self, plan: &Plan, maps: &RingMaps) {
        if !maps.is_sparse || std::mem::replace(&mut self.has_pages, true) {
            return;
        }
        let (task, lap_row) = plan.task(self.global);
        let (at, of) = (task.tape as usize, &plan.tapes[task.tape as usize]);
        let rows = lap_row + task.row_begin..lap_row + task.row_end;
        // Further rows lie where others were before.
        if rows.start.saturating_mul(of.row_bytes as u64) < of.bytes as u64 {
            if let Err(error) = maps.make_pages(plan, at, tape_bytes(of, rows)) {
                self.begun = Err(TaskError::Memory(error));
            }
        }
    }
}
