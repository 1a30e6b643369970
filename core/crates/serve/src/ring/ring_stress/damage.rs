//! Readers against a chunk that cannot be read: all before it is lent, and then the end is told.
//!
//! Law:
//! 1. Dataset 0 is fetched, several chunks to a task; dataset 1 comes from the library, in tasks of
//!    another length.
//! 2. However the readers are scheduled, the same blocks come.

use super::{Closer, PATIENCE, PLAIN, ROW_BYTES, Race};
use crate::ring::leases::{EMPTY, FAILED, HELD, Leases};
use crate::ring::reader_loop::{End, Reader};
use crate::shared_ring::Shared;
use engine::counters::{Mark, STATE_FAILED, STATE_FINISHED};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tables::plan::KIND_LIBRARY;
use testing::fixtures::{TestDataset, TestFile, TestPlan, XorShift64, fill_rows};

const CHUNKS_OF_A_TASK: u64 = 4;

impl Race {
    /// A plan whose chunk `bad` lies behind the end of the file.
    fn damaged_plan(&self, bad: usize) -> (TestPlan, TestFile) {
        let mut stored = vec![0; (self.n_rows * ROW_BYTES) as usize];
        fill_rows(0, 0, &mut stored);
        let file = TestFile::new(&format!("{}-{bad}", self.name), &stored);
        let mut chunks = Vec::new();
        for row in (0..self.n_rows).step_by(self.chunk_rows as usize) {
            let rows = self.chunk_rows.min(self.n_rows - row);
            chunks.push([chunks.len() as u64, row * ROW_BYTES, rows * ROW_BYTES, 0]);
        }
        chunks[bad][1] = 1 << 40;
        let mut tasks = Vec::new();
        let fetched = CHUNKS_OF_A_TASK * self.chunk_rows;
        for row in (0..self.n_rows).step_by(fetched as usize) {
            let (end, first) = ((row + fetched).min(self.n_rows), row / self.chunk_rows);
            let n_chunks = (end - row).div_ceil(self.chunk_rows);
            tasks.push([0, 0, row, end, first, n_chunks, 1]);
        }
        let read = self.chunk_rows + 2;
        for row in (0..self.n_rows).step_by(read as usize) {
            let end = (row + read).min(self.n_rows);
            tasks.push([1, u64::from(KIND_LIBRARY), row, end, 0, 0, 0]);
        }
        tasks.sort_by_key(|task| (task[2], task[0]));
        let dataset = TestDataset::new(self.chunk_rows, 2 | u64::from(self.direct));
        let plan = TestPlan {
            n_rows: self.n_rows,
            datasets: vec![dataset.clone(), dataset],
            tasks,
            chunks,
            n_readers: self.n_readers,
            block_rows: self.block_rows,
            capacity_rows: 2 * (self.block_rows + fetched) + self.extra_rows,
            cyclic: false,
            order: None,
            cache_bytes: 0,
        };
        (plan, file)
    }

    /// How many blocks are lent before the failure is told.
    fn blocks_before(&self, bad: usize) -> u64 {
        let (plan, file) = self.damaged_plan(bad);
        let shared = Shared::new(&plan.encode(&file));
        let (plan, maps) = shared.map();
        let book = Leases::new(plan, maps.into(), 0).unwrap();
        let rows: Vec<u64> = (0..self.n_rows).collect();
        std::thread::scope(|scope| {
            for me in 0..self.n_readers as usize {
                let shared = &shared;
                scope.spawn(move || {
                    let (plan, maps) = shared.map();
                    let mut random = XorShift64((me + 31 * bad) as u64 + 1);
                    let mut library = |_: &str, start: u64, _: u64, out: &mut [u8], _: Mark<'_>| {
                        if random.below(4) == 0 {
                            std::thread::sleep(Duration::from_micros(random.below(200)));
                        }
                        fill_rows(1, start, out);
                        Ok(())
                    };
                    let end = Reader::new(&plan, &maps, me).run(&mut library);
                    let state = match end {
                        End::Failed => STATE_FAILED,
                        _ => STATE_FINISHED,
                    };
                    maps.control.record(me).state.store(state, SeqCst);
                });
            }
            let _end = Closer(&book);
            let begun = Instant::now();
            let mut blocks = 0;
            loop {
                assert!(begun.elapsed() < PATIENCE, "{}: stuck", self.name);
                match book.wait(Duration::from_millis(2)) {
                    Ok(block) => {
                        self.check(&book, std::slice::from_ref(&rows), block);
                        book.release(block);
                        blocks += 1;
                    }
                    Err(FAILED) => break,
                    Err(reason) => assert!(reason == EMPTY || reason == HELD),
                }
            }
            assert!(book.maps.control.is_failed(book.state().frontier));
            book.close();
            blocks
        })
    }
}

#[test]
fn all_before_damage_is_lent() {
    for direct in [false, true] {
        for (n_readers, block_rows) in [(1, 5), (3, 5), (3, 64), (4, 1)] {
            let race = Race {
                name: "damage",
                n_rows: 1501,
                n_readers,
                block_rows,
                direct,
                ..PLAIN
            };
            if direct && !race.direct_works() {
                continue;
            }
            for bad in (3..race.n_rows.div_ceil(race.chunk_rows) as usize).step_by(17) {
                let row = bad as u64 * race.chunk_rows;
                assert_eq!(race.blocks_before(bad), row / block_rows, "chunk {bad}");
            }
        }
    }
}
