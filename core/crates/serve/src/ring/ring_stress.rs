//! Readers, consumers and deaths against each other, over one ring.
//!
//! Law:
//! 1. Readers are threads here, each with mappings of its own as a process has; the ring's code is
//!    the one that ships.
//! 2. Every row says what it is, and is looked at when its block is lent and again just before it
//!    is given back: nothing may have written to it meanwhile.
//! 3. Nothing here waits for ever: without progress the test fails.

use crate::ring::leases::{CLOSED, ENDED, FAILED, Leases};
use crate::ring::reader_loop::{End, Reader};
use crate::ring::tape::tape_rows;
use crate::ring::window::window;
use crate::shared_ring::Shared;
use engine::counters::Mark;
use os::memory::sealed_memfd;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tables::plan::{KIND_LIBRARY, Plan};
use testing::fixtures::{
    ROW_WORDS, TestDataset, TestFile, TestPlan, XorShift64, fill_rows, payload,
};

mod damage;
mod shares;

const ROW_BYTES: u64 = 8 * ROW_WORDS as u64;
const PATIENCE: Duration = Duration::from_secs(30);

struct Race {
    name: &'static str,
    n_rows: u64,
    chunk_rows: u64,
    block_rows: u64,
    extra_rows: u64,
    n_readers: u64,
    n_consumers: usize,
    cyclic_blocks: Option<u64>,
    deaths: bool,
    direct: bool,
    turnstile: bool,
    mixed: Option<shares::Mixed>,
}

impl Race {
    /// Dataset 0 is fetched from a file, dataset 1 comes from the library (a function here).
    fn plan(&self) -> (TestPlan, TestFile) {
        if let Some(mixed) = self.mixed {
            return self.mixed_plan(mixed);
        }
        let mut stored = vec![0; (self.n_rows * ROW_BYTES) as usize];
        fill_rows(0, 0, &mut stored);
        let file = TestFile::new(self.name, &stored);
        let (mut tasks, mut chunks) = (Vec::new(), Vec::new());
        for (index, row) in (0..self.n_rows)
            .step_by(self.chunk_rows as usize)
            .enumerate()
        {
            let end = (row + self.chunk_rows).min(self.n_rows);
            let index = index as u64;
            chunks.push([index, row * ROW_BYTES, (end - row) * ROW_BYTES, 0]);
            tasks.push([0, 0, row, end, index, 1, 1]);
            tasks.push([1, u64::from(KIND_LIBRARY), row, end, 0, 0, 0]);
        }
        let flags = 2 | u64::from(self.direct) | (4 * u64::from(self.turnstile));
        let dataset = TestDataset::new(self.chunk_rows, flags);
        let plan = TestPlan {
            n_rows: self.n_rows,
            datasets: vec![dataset.clone(), dataset],
            tasks,
            chunks,
            n_readers: self.n_readers,
            block_rows: self.block_rows,
            capacity_rows: 2 * (self.block_rows + self.chunk_rows) + self.extra_rows,
            cyclic: self.cyclic_blocks.is_some(),
            order: None,
            cache_bytes: 0,
        };
        (plan, file)
    }

    fn run(&self) {
        let (plan, file) = self.plan();
        let shared = Shared::new(&plan.encode(&file));
        let (plan, maps) = shared.map();
        let book = Leases::new(plan, maps.into(), 0).unwrap();
        let laps = book.plan.end_row() / book.plan.lap_rows();
        let per_lap = book.plan.lap_rows().div_ceil(self.block_rows);
        let total = self.cyclic_blocks.unwrap_or(laps * per_lap);
        let order = self.mixed.map(|mixed| self.order(mixed));
        let wanted: Vec<_> = match &order {
            Some(order) => (0..total / per_lap + 9)
                .map(|lap| order.rows(lap))
                .collect(),
            None => vec![(0..self.n_rows).collect()],
        };
        let seen = Mutex::new(BTreeSet::new());
        let moved = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for me in 0..self.n_readers as usize {
                let shared = &shared;
                scope.spawn(move || self.read(shared, me));
            }
            for number in 0..self.n_consumers as u64 {
                let (book, seen, moved, wanted) = (&book, &seen, &moved, &wanted);
                scope.spawn(move || {
                    // Whatever happens here, the readers have to end, or the scope never does.
                    let _end = Closer(book);
                    let look = |block| self.check(book, wanted, block);
                    self.consume(book, XorShift64(number * 77 + 5), total, seen, moved, &look);
                });
            }
        });
        assert_eq!(seen.into_inner().unwrap(), (0..total).collect());
    }

    /// Whether this file system has direct I/O.
    fn direct_works(&self) -> bool {
        let (_, file) = self.plan();
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(libc::O_DIRECT);
        options.open(&file.0).is_ok()
    }

    fn read(&self, shared: &Shared, me: usize) {
        let mut random = XorShift64(me as u64 + 1);
        loop {
            // After a death everything is mapped anew, as in a new process.
            let (plan, maps) = shared.map();
            if self.deaths && random.below(3) == 0 {
                // Killed with a task claimed, whose turn nobody but its heir will pass on.
                maps.control.try_claim(&plan, me);
                continue;
            }
            let mut library = |_: &str, start: u64, stop: u64, out: &mut [u8], _: Mark<'_>| {
                let dies = self.deaths && random.below(10) == 0;
                let half = out.len() / 16 * 8;
                fill_rows(1, start, &mut out[..half]);
                if random.below(8) == 0 {
                    std::thread::sleep(Duration::from_micros(random.below(300)));
                }
                if dies {
                    std::panic::resume_unwind(Box::new("killed"));
                }
                assert_eq!(out.len() as u64, (stop - start) * ROW_BYTES);
                fill_rows(1, start, out);
                Ok(())
            };
            let mut reader = Reader::new(&plan, &maps, me);
            let run = std::panic::AssertUnwindSafe(|| reader.run(&mut library));
            match std::panic::catch_unwind(run) {
                Ok(end) => {
                    assert_ne!(end, End::Failed);
                    return;
                }
                Err(_) if maps.control.stopped() => return,
                Err(_) => {}
            }
        }
    }

    fn consume(
        &self,
        book: &Leases,
        mut random: XorShift64,
        total: u64,
        seen: &Mutex<BTreeSet<u64>>,
        moved: &AtomicU64,
        look: &dyn Fn(u64),
    ) {
        let mut held: Vec<u64> = Vec::new();
        let (mut since, mut before) = (Instant::now(), 0);
        loop {
            let now = moved.load(SeqCst);
            if now != before {
                (since, before) = (Instant::now(), now);
            }
            assert!(since.elapsed() < PATIENCE, "{}: stuck", self.name);
            match book.wait(Duration::from_millis(2)) {
                Ok(block) => {
                    look(block);
                    moved.fetch_add(1, SeqCst);
                    if block < total {
                        assert!(seen.lock().unwrap().insert(block), "lent twice");
                    }
                    held.push(block);
                    if block >= total {
                        break; // an endless stream, and enough of it
                    }
                    if random.below(3) == 0 {
                        continue;
                    }
                }
                Err(ENDED | CLOSED) => break,
                Err(reason) => assert_ne!(reason, FAILED),
            }
            if !held.is_empty() {
                let block = held.swap_remove(random.below(held.len() as u64) as usize);
                look(block);
                book.release(block);
            }
        }
        for block in held {
            look(block);
            book.release(block);
        }
    }

    /// `wanted` are the dataset's rows, for each lap or for all.
    fn check(&self, book: &Leases, wanted: &[Vec<u64>], block: u64) {
        let (begin, end) = book.block_rows(block);
        for (number, tape) in book.plan.tapes.iter().enumerate() {
            // SAFETY: the block is lent, so nobody else may write here: that is the test.
            let mut rows = unsafe { tape_rows(&book.maps.tapes[number], tape, begin, end - begin) };
            let all = 0..rows.len();
            for (at, word) in rows.part(all).chunks_exact(8).enumerate() {
                let row = begin + (at / ROW_WORDS) as u64;
                let lap = (row / book.plan.lap_rows()) as usize % wanted.len();
                let row = wanted[lap][(row % book.plan.lap_rows()) as usize];
                let wanted = payload(number, row, at % ROW_WORDS);
                let got = u64::from_le_bytes(word.try_into().unwrap());
                assert_eq!(got, wanted, "{}: block {block}, row {row}", self.name);
            }
        }
    }
}

/// Closes the stream when a consumer ends in a panic.
struct Closer<'a>(&'a Leases);

impl Drop for Closer<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() || self.0.plan.end_row() == tables::plan::ENDLESS {
            self.0.close();
        }
    }
}

const PLAIN: Race = Race {
    name: "plain",
    n_rows: 20_011,
    chunk_rows: 7,
    block_rows: 5,
    extra_rows: 0,
    n_readers: 3,
    n_consumers: 2,
    cyclic_blocks: None,
    deaths: false,
    direct: false,
    turnstile: false,
    mixed: None,
};

#[test]
fn blocks_smaller_than_chunks() {
    PLAIN.run();
}

#[test]
fn blocks_larger_than_chunks() {
    Race {
        name: "large",
        chunk_rows: 3,
        block_rows: 64,
        extra_rows: 17,
        ..PLAIN
    }
    .run();
}

#[test]
fn endless_streams_cross_the_end() {
    Race {
        name: "endless",
        n_rows: 101,
        chunk_rows: 10,
        block_rows: 13,
        cyclic_blocks: Some(1500),
        ..PLAIN
    }
    .run();
}

#[test]
fn dead_readers_are_replaced() {
    Race {
        name: "deaths",
        n_rows: 5_003,
        deaths: true,
        ..PLAIN
    }
    .run();
}

#[test]
fn turns_are_taken() {
    Race {
        name: "turns",
        turnstile: true,
        deaths: true,
        n_rows: 5_003,
        ..PLAIN
    }
    .run();
}

/// A reader that dies with the turn, or while others wait for theirs, stops nobody.
#[test]
fn turns_at_direct_reads_outlive_readers() {
    let race = Race {
        name: "direct-turns",
        direct: true,
        turnstile: true,
        deaths: true,
        chunk_rows: 20,
        extra_rows: 2000,
        n_rows: 10_007,
        ..PLAIN
    };
    if race.direct_works() {
        race.run();
    }
}

/// Too many requests at once would be served in order of arrival, not in that of their places.
#[test]
fn direct_readers_hold_less_on_rotating_disks() {
    for (name, turnstile, tasks) in [("window", false, 16), ("window-turns", true, 5)] {
        let (plan, file) = Race {
            name,
            direct: true,
            turnstile,
            n_rows: 4 * 4096,
            chunk_rows: 4096,
            extra_rows: 400 * 4096,
            n_readers: 6,
            ..PLAIN
        }
        .plan();
        let plan = sealed_memfd(c"window", &plan.encode(&file)).unwrap();
        assert_eq!(window(&Plan::open(plan.as_fd()).unwrap()), tasks);
    }
}

#[test]
fn direct_readers_hold_several_tasks() {
    let race = Race {
        name: "direct",
        direct: true,
        deaths: true,
        chunk_rows: 20,
        extra_rows: 2000,
        n_rows: 10_007,
        ..PLAIN
    };
    if race.direct_works() {
        race.run();
    }
}
