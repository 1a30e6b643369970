//! Tables of datasets, and plans of streams with them, as another process writes them.
//!
//! Law:
//! 1. A table is refused, or what follows from it can be looked at.
//! 2. A plan is refused, or runs to its end: rows are delivered, or a reader says why not.
//!
//! Input: the table, or the plan.

use engine::counters::Mark;
use os::memory::{reserved_memfd, sealed_memfd};
use serve::ring::maps::map_ring;
use serve::ring::reader_loop::Reader;
use std::os::fd::AsFd;
use tables::dataset::{DatasetTable, Memory};
use tables::plan::{ENDLESS, Plan};

const MAX_BYTES: usize = 1 << 20;
const MAX_TASKS: u64 = 64;
const MAX_ROWS: u64 = 1 << 16;

pub fn datasets(bytes: &[u8]) {
    if let Ok(table) = DatasetTable::over(Memory::copied(bytes), 0, bytes.len()) {
        look(&table);
    }
}

fn look(table: &DatasetTable) {
    let mut offset = Vec::new();
    for dataset in &table.datasets {
        let _ = (
            dataset.inner_chunks(),
            dataset.whole_rows(),
            dataset.fill_shown(),
        );
        let ends = [
            0,
            1,
            dataset.grid_chunks / 2,
            dataset.grid_chunks.wrapping_sub(1),
        ];
        for number in ends
            .into_iter()
            .filter(|&number| number < dataset.grid_chunks)
        {
            dataset.chunk_offset(number, &mut offset);
            let _ = (dataset.number_in_file(number), dataset.needed(number));
            let _ = (
                table.stored(dataset, 0..number),
                dataset.decoded_size_at(offset[0]),
            );
        }
        let mut found = Vec::new();
        dataset
            .parts
            .in_rows(0..dataset.dims[0].min(100), &mut found);
        for number in found {
            let part = dataset.parts.part(number);
            assert!(part.dataset() < table.datasets.len());
        }
    }
}

/// Its bytes lie in the table, and little comes of them.
pub fn is_small(table: &DatasetTable) -> bool {
    let here =
        |source: &tables::source::Source| !source.inline.is_empty() && source.access.is_none();
    let chunk = |of: &tables::plan::Dataset| of.decoded_size.max(of.stored_size(of.decoded_size));
    table.sources.iter().all(here)
        && !table.sources.is_empty()
        && table
            .datasets
            .iter()
            .all(|of| chunk(of) <= MAX_BYTES && of.dims[0] <= MAX_ROWS)
}

pub fn plan(bytes: &[u8]) {
    let Ok(fd) = sealed_memfd(c"plan", bytes) else {
        return;
    };
    let mapped = Plan::mapped(fd.as_fd()).expect("a sealed memfd");
    let Ok(plan) = Plan::over(mapped) else {
        return;
    };
    look(&plan.table);
    let is_long = plan.total_tasks() > MAX_TASKS || plan.end_row() == ENDLESS;
    if is_long || plan.ring_bytes() > MAX_BYTES || plan.lap_rows() > MAX_ROWS {
        return;
    }
    for task in 0..plan.total_tasks() {
        let _ = (
            plan.address(task, None),
            plan.ready_rows(task),
            plan.lap(task),
        );
    }
    let small_order = plan
        .order
        .as_ref()
        .is_none_or(|(order, _)| order.n_rows <= MAX_ROWS);
    if !is_small(&plan.table) || !small_order {
        return;
    }
    let ring = reserved_memfd(c"ring", plan.ring_bytes()).expect("memory");
    let Ok(maps) = map_ring(&plan, ring.as_fd()) else {
        return;
    };
    // Nobody looks at the rows: all of the ring is free at once.
    for consumer in 0..plan.n_consumers() {
        maps.control.move_tail(consumer, plan.end_row());
    }
    let mut library = |_: &str, _: u64, _: u64, _: &mut [u8], _: Mark<'_>| Ok(());
    Reader::new(&plan, &maps, 0).run(&mut library);
}
