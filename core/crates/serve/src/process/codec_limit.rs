//! The codec limit: fetch and decode alone, as fast as bare processes can.
//!
//! Law:
//! 1. The engine is that of a stream, with a placement that does nothing (`PlaceNowhere`). There is no
//!    ring, no claim, and nothing is published: a process runs tasks `me`, `me + n`, ...
//! 2. Everything is decoded into one small private buffer, reused, so that it stays in cache.
//! 3. Clocks start when every process stands ready, and end when the last one is done.
//! 4. A decode error is an error here too; a rate for wrong bytes means nothing.

use crate::ring::control::Control;
use crate::ring::window::window;
use engine::assemble::assembler;
use engine::chunk_read::{ChunkRead, Fetches, Place};
use engine::counters::{Record, count};
use engine::fetch::coalesce::{RUN_BYTES, Run, runs};
use engine::fetch::queue::Turnstile;
use engine::open_dataset::{OpenDataset, check};
use engine::scatter::fill;
use engine::shared::Shared;
use engine::task_error::TaskError;
use os::clock::now_ns;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;
use tables::plan::{Chunk, Dataset, Plan, Task, Work};

/// In the control socket's number: this is a trial, not a stream.
pub const TRIAL: u32 = 1 << 31;

/// Run this process's part of `plan`, once all others are ready too.
pub fn run_part(plan: &Plan, control: Control, me: usize) {
    let record = control.record(me);
    record.pid.store(std::process::id(), Relaxed);
    let mut part = Part {
        plan,
        record,
        me: me as u64,
        open: Vec::new(),
        filled: Vec::new(),
    };
    let ready = std::panic::AssertUnwindSafe(|| part.open());
    let opened = std::panic::catch_unwind(ready).unwrap_or_else(|_| Err(panicked()));
    control.count(Duration::ZERO);
    control.wait_turn(1);
    record.begin_ns.store(now_ns(), SeqCst);
    let run = std::panic::AssertUnwindSafe(|| opened.and_then(|()| part.run()));
    let done = std::panic::catch_unwind(run).unwrap_or_else(|_| Err(panicked()));
    record.end_ns.store(now_ns(), SeqCst);
    if let Err(error) = done {
        record.set_error(record.current.load(Relaxed).saturating_sub(1), 0, &error);
    }
    control.count(Duration::ZERO);
}

fn panicked() -> TaskError {
    TaskError::Internal("the codec limit's loop panicked".into())
}

struct Part<'a> {
    plan: &'a Plan,
    record: &'a Record,
    me: u64,
    /// By dataset.
    open: Vec<OpenDataset>,
    filled: Vec<u8>,
}

/// A task whose fetches were asked for.
struct Submitted {
    number: u64,
    task: Task,
    runs: Vec<Run>,
    tickets: Vec<u64>,
}

impl Part<'_> {
    fn open(&mut self) -> Result<(), TaskError> {
        let (table, shared) = (&self.plan.table, Arc::new(Shared::new(0, None, assembler)));
        for dataset in &table.datasets {
            let open = OpenDataset::open(table, dataset, &shared, self.record, 0)?;
            self.open.push(open);
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), TaskError> {
        let step = self.plan.n_readers() as u64;
        let end = self.plan.lap_tasks();
        let window = window(self.plan);
        let mut next = self.me;
        let mut pending: VecDeque<Submitted> = VecDeque::new();
        loop {
            while pending.len() < window && next < end {
                self.record.current.store(next + 1, Relaxed);
                pending.push_back(self.submit(next)?);
                next += step;
            }
            let Some(submitted) = pending.pop_front() else {
                break;
            };
            self.record.current.store(submitted.number + 1, Relaxed);
            self.complete(&submitted)?;
            count(&self.record.tasks, 1);
        }
        // Once is enough for a number to be worth anything.
        let unchanged = self
            .open
            .iter()
            .try_for_each(|open| open.queue.check_unchanged());
        unchanged.map_err(|error| TaskError::Fetch(0, error))
    }

    fn submit(&mut self, number: u64) -> Result<Submitted, TaskError> {
        let (plan, (task, _)) = (self.plan, self.plan.task(number));
        if task.work() == Work::Library {
            return Err(TaskError::Internal("a library's task has no limit".into()));
        }
        let records = plan.records(&task);
        let first_record = records.start as u64;
        let chunks = &plan.table.chunks()[records];
        check(&plan.table, plan.dataset(&task), chunks, first_record)?;
        let mut found = Vec::new();
        let queue = &mut self.open[task.dataset as usize].queue;
        runs(chunks, queue.limits(RUN_BYTES), &mut found);
        let tickets = match queue.is_async() {
            true => queue.submit(&found, None),
            false => Vec::new(),
        };
        Ok(Submitted {
            number,
            task,
            runs: found,
            tickets,
        })
    }

    fn complete(&mut self, submitted: &Submitted) -> Result<(), TaskError> {
        let (plan, task) = (self.plan, &submitted.task);
        let records = plan.records(task);
        let first_record = records.start as u64;
        let chunks = &plan.table.chunks()[records];
        let dataset = plan.dataset(task);
        let open = &mut self.open[task.dataset as usize];
        let mut transfer = open.transfer(self.record, |_| PlaceNowhere {
            dataset,
            first_record,
            filled: &mut self.filled,
        });
        let fetches = Fetches {
            runs: &submitted.runs,
            tickets: &submitted.tickets,
            turn: None,
        };
        transfer.run(chunks, fetches)?;
        let grid = task.grid();
        if chunks.is_empty() {
            let rows = (task.row_end - task.row_begin) as usize;
            transfer.place.fill(rows * dataset.row_bytes);
            return Ok(());
        }
        let missing = grid.end - grid.start - chunks.len() as u64;
        (0..missing).for_each(|_| transfer.place.fill(dataset.decoded_size));
        Ok(())
    }
}

/// Decoded chunks go nowhere: what is measured is what comes before.
struct PlaceNowhere<'a> {
    dataset: &'a Dataset,
    first_record: u64,
    filled: &'a mut Vec<u8>,
}

impl PlaceNowhere<'_> {
    fn fill(&mut self, len: usize) {
        if self.filled.len() < len {
            self.filled.resize(len, 0);
        }
        fill::repeat(self.dataset.fill_shown(), &mut self.filled[..len]);
    }
}

// SAFETY: there are no targets.
unsafe impl Place for PlaceNowhere<'_> {
    fn read(&self, index: usize, chunk: &Chunk) -> ChunkRead {
        let dataset = self.dataset;
        let row = chunk.grid_index / dataset.inner_chunks().max(1) * dataset.chunk_dims[0];
        ChunkRead {
            number: self.number(index),
            grid_index: chunk.grid_index,
            row,
            size: dataset.decoded_size_at(row),
            wanted: 0..0,
        }
    }

    fn number(&self, index: usize) -> u64 {
        self.first_record + index as u64
    }

    fn dataset_of(&self, _: &ChunkRead) -> &Dataset {
        self.dataset
    }

    fn target(&mut self, _: &ChunkRead) -> Option<*mut [u8]> {
        None
    }

    fn place(&mut self, _: &ChunkRead, _: &[u8]) {}

    fn placed(&mut self, _: &ChunkRead) {}

    fn fill_rows(&mut self, read: &ChunkRead) {
        self.fill(read.size);
    }
}
