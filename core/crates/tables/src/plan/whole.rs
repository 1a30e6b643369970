//! The plan of a stream that its ring holds whole, made of a table of datasets of equal length.
//!
//! Law:
//! 1. Readers have about equally many tasks, each of enough chunks to decode them in groups.
//! 2. A tape has one of few sizes, so that the ring of one stream serves the next one.
//! 3. It is checked as every plan is.

use super::{Header, MAGIC, Memory, Plan, Refused, TapeRecord, Task, table};
use crate::dataset::{Dataset, DatasetTable};
use crate::words::put;
use os::memory::page_bytes;
use std::sync::Arc;

/// Slots of tasks in the control header, at least.
const MIN_SLOTS: usize = 16;
/// Bytes of a task, about.
const TASK_BYTES: u64 = 1 << 20;
/// The shortest tape, and how many sizes lie between one and its double.
const MIN_TAPE_BYTES: u64 = 64 << 10;
const SIZES: u64 = 4;

impl Plan {
    /// The records of its tasks, as a plan's bytes have them.
    pub fn task_words(&self) -> Vec<u64> {
        let mut words = Vec::new();
        put(&mut words, self.tasks());
        words
    }

    /// Its bytes, for other processes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: they were checked to be there, and do not change.
        unsafe { table::<u8>(&self.map, 0, self.header.total_bytes) }
    }

    /// The plan for the first rows of all datasets of a table, in blocks of `block_rows`; `table` are its
    /// words and its bytes. `control_bytes` are those of a control header with this number of slots.
    pub fn whole(
        (table, table_bytes): (&Arc<Vec<u64>>, usize),
        rows: u64,
        block_rows: u64,
        n_readers: usize,
        control_bytes: impl Fn(usize) -> usize,
    ) -> Result<Plan, Refused> {
        let datasets = DatasetTable::over(Memory::Private(table.clone()), 0, table_bytes)?;
        let datasets = &datasets.datasets;
        let numbered = || datasets.iter().zip(0..);
        let of_all = numbered().map(|(dataset, number)| tasks(dataset, number, rows, n_readers));
        let mut tasks = of_all.collect::<Vec<_>>().concat();
        tasks.sort_by_key(|task| task.row_begin);
        let n_slots = (tasks.len() + 1).next_power_of_two().max(MIN_SLOTS);
        let control_bytes = control_bytes(n_slots).next_multiple_of(page_bytes()) as u64;
        let block_rows = block_rows.min(rows.max(1));
        let mut ring_bytes = control_bytes;
        let mut tapes = Vec::with_capacity(datasets.len());
        for (dataset, number) in numbered() {
            let needed = rows.max(1).checked_mul(dataset.row_bytes as u64);
            let bytes = tape_bytes(needed.ok_or("the rows are too long")?);
            tapes.push(TapeRecord {
                dataset: u64::from(number),
                at: ring_bytes,
                bytes,
                caches: 0,
                ends: 0,
            });
            ring_bytes = ring_bytes.saturating_add(bytes);
        }
        let head = size_of::<Header>() + size_of_val(&tapes[..]) + size_of_val(&tasks[..]);
        let len = head + table_bytes;
        let header = Header {
            magic: MAGIC,
            total_bytes: len as u64,
            n_tapes: tapes.len() as u64,
            n_tasks: tasks.len() as u64,
            n_order: 0,
            n_listed: 0,
            n_readers: n_readers as u64,
            n_slots: n_slots as u64,
            first_row: 0,
            lap_rows: rows,
            end_row: rows,
            capacity_rows: rows.max(1),
            block_rows,
            control_bytes,
            ring_bytes,
            lap_blocks: 0,
            cache_bytes: 0,
            n_ends: 0,
            n_consumers: 1,
        };
        let mut words = Vec::with_capacity(head / 8 + table.len());
        put(&mut words, &[header]);
        put(&mut words, &tapes);
        put(&mut words, &tasks);
        words.extend_from_slice(table);
        Plan::checked(Memory::Private(Arc::new(words)), len)
    }
}

/// Tasks for the first rows of a dataset, of whole chunks.
fn tasks(dataset: &Dataset, number: u32, rows: u64, n_readers: usize) -> Vec<Task> {
    let (outer, inner) = (dataset.chunk_dims[0], dataset.inner_chunks());
    let chunk_rows = rows.div_ceil(outer);
    let n_bytes = rows.saturating_mul(dataset.row_bytes as u64);
    let n_tasks = n_bytes.div_ceil(TASK_BYTES).max(1);
    let each = chunk_rows
        .div_ceil(n_tasks.next_multiple_of(n_readers as u64))
        .max(1);
    let begins = (0..chunk_rows).step_by(each as usize);
    begins
        .map(|begin| {
            let end = (begin + each).min(chunk_rows);
            let of_rows = begin * outer..end.saturating_mul(outer).min(rows);
            let chunks = (end - begin).saturating_mul(inner);
            Task::whole(number, of_rows, begin.saturating_mul(inner), chunks)
        })
        .collect()
}

/// A size for a tape of at least `needed` bytes, in whole pages.
fn tape_bytes(needed: u64) -> u64 {
    let step = (needed.max(1).ilog2() as u64).min(62);
    let step = ((1 << step) / SIZES).max(MIN_TAPE_BYTES);
    needed.max(1).div_ceil(step).saturating_mul(step)
}
