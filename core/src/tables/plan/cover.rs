//! Which rows of a lap have a task: all of them, in each member, or the plan is refused.
//!
//! Law:
//! 1. A member's tasks follow each other by their rows. Several may have the same rows: each has some
//!    columns of the chunk grid, or is one share of a window, and together they have all.
//! 2. Pure; a plan may say anything.

use super::{KIND_SHARE, Member, Refused, Task};

/// How far one member's tasks have come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cover {
    /// Rows before this one have all their tasks.
    row: u64,
    /// Of the rows from there on: up to which part they have tasks, of how many parts, and where
    /// these tasks end and what they begin with.
    part: u64,
    parts: u64,
    end: u64,
    position: u64,
}

impl Cover {
    /// The next task, whose last row (of the last repetition) is the one before `end`.
    pub fn add(&mut self, task: &Task, member: &Member, end: u64) -> Result<(), Refused> {
        let refused = Err("rows of the plan have no task");
        let (begin_part, end_part, parts, position) = match task.kind {
            KIND_SHARE => {
                let (share, shares) = task.share();
                (
                    share.into(),
                    u64::from(share) + 1,
                    shares.into(),
                    task.first_chunk,
                )
            }
            _ => {
                let (begin, end, parts) = member.columns(task);
                (begin, end, parts, 0)
            }
        };
        let follows = task.row_begin == self.row && begin_part == self.part;
        let alike = (parts, end, position) == (self.parts, self.end, self.position);
        if !follows || begin_part > 0 && !alike {
            return refused;
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
