//! Malformed plans and files: nothing may be written outside, panic, or take memory without bound.
//!
//! Law:
//! 1. A malformed plan is refused, or the reader ends with a record of its failure.
//! 2. The file's own numbers (addresses and sizes of chunks) come from strangers, so each wrong one has
//!    its own error.

use crate::process::codec_limit::run_part;
use crate::process::trial::Trial;
use crate::ring::control::Control;
use crate::ring::maps::map_ring;
use crate::ring::reader_loop::{End, Reader};
use crate::shared_ring::Shared;
use engine::counters::Mark;
use engine::task_error::error_kind;
use os::memory::{Mapping, reserved_memfd, sealed_memfd};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tables::plan::Plan;
use testing::fixtures::{ROW_WORDS, TestDataset, TestFile, TestPlan, fill_rows};

const ROW_BYTES: u64 = 8 * ROW_WORDS as u64;

/// Four chunks of four rows, with room behind each for a checksum, all in the ring at once.
fn honest(name: &str, filters: &[(u64, u64)], flags: u64) -> (TestPlan, TestFile) {
    let step = 4 * ROW_BYTES + 4;
    let mut stored = Vec::new();
    for chunk in 0..4 {
        let mut rows = vec![0; 4 * ROW_BYTES as usize];
        fill_rows(0, 4 * chunk, &mut rows);
        stored.extend(rows);
        stored.extend([0; 4]);
    }
    let file = TestFile::new(name, &stored);
    let extra = if filters.is_empty() { 0 } else { 4 };
    let dataset = TestDataset {
        filters: filters.to_vec(),
        ..TestDataset::new(4, flags)
    };
    let plan = TestPlan {
        n_rows: 16,
        datasets: vec![dataset.clone(), dataset],
        tasks: (0..4)
            .flat_map(|n| {
                [
                    [0, 0, 4 * n, 4 * n + 4, n, 1, 1],
                    [1, 1, 4 * n, 4 * n + 4, 0, 0, 0],
                ]
            })
            .collect(),
        chunks: (0..4)
            .map(|n| [n, n * step, 4 * ROW_BYTES + extra, 0])
            .collect(),
        n_readers: 1,
        block_rows: 4,
        capacity_rows: 16,
        cyclic: false,
        order: None,
        cache_bytes: 0,
    };
    (plan, file)
}

/// Run the only reader; the kind of its failure, and how many rows came from the library.
fn outcome(plan: &TestPlan, file: &TestFile) -> (End, u32, u64) {
    let shared = Shared::new(&plan.encode(file));
    let (plan, maps) = shared.map();
    let mut rows = 0;
    let mut library = |_: &str, start: u64, stop: u64, _: &mut [u8], _: Mark<'_>| {
        rows += stop - start;
        Ok(())
    };
    let end = Reader::new(&plan, &maps, 0).run(&mut library);
    (
        end,
        maps.control
            .record(0)
            .failure()
            .map_or(0, |failure| failure.0),
        rows,
    )
}

#[test]
fn lies_about_chunks_are_told_apart() {
    for flags in [0, 1] {
        let (plan, file) = honest("lies", &[], flags);
        let direct = flags == 1;
        if direct && !direct_works(&file) {
            continue;
        }
        assert_eq!(outcome(&plan, &file), (End::Done, 0, 16));
        let lie = |at: usize, value: u64| {
            let mut plan = plan.clone();
            plan.chunks[2][at] = value;
            outcome(&plan, &file)
        };
        for byte_offset in [1 << 40, u64::MAX - 1, 1 << 63, 4 * (4 * ROW_BYTES + 4) - 8] {
            assert_eq!(lie(1, byte_offset), (End::Failed, error_kind::SHORT, 8));
        }
        for stored_size in [1 << 40, u64::MAX, 1 << 63] {
            assert_eq!(lie(2, stored_size), (End::Failed, error_kind::SHORT, 8));
        }
        assert_eq!(lie(2, 8), (End::Failed, error_kind::FILTER_SIZE, 8));
        assert_eq!(lie(2, 0), (End::Failed, error_kind::FILTER_SIZE, 8));
    }
}

/// A window has all words of a row, in either order, or it is refused.
#[test]
fn lies_about_windows_are_refused() {
    let (mut plan, file) = honest("windows", &[], 0);
    let (all, backward) = (ROW_WORDS as u64, (-1i64) as u64);
    let mut opened = |window: [u64; 3]| {
        plan.datasets[0].window = Some(window);
        let fd = sealed_memfd(c"lie", &plan.encode(&file)).unwrap();
        match Plan::open(fd.as_fd()) {
            Ok(_) => assert_eq!(outcome(&plan, &file), (End::Done, 0, 16)),
            Err(reason) => return reason,
        }
        ""
    };
    assert_eq!(opened([0, 1, all]), "");
    assert_eq!(opened([0, backward, all]), "");
    let size = "a row of the plan has another size than its dataset";
    for fewer in [[0, 1, all - 1], [0, 1, 0], [all - 1, 1 << 63, 1]] {
        assert_eq!(opened(fewer), size);
    }
    let outside = "a window of the plan lies outside its axis";
    for far in [1, all, 1 << 63, u64::MAX] {
        assert_eq!(opened([far, 1, all]), outside);
        assert_eq!(opened([0, 1, all.saturating_add(far)]), outside);
        assert_eq!(opened([0, 1 + far.min(1 << 63), all]), outside);
    }
    assert_eq!(opened([0, 0, all]), outside);
}

/// Each row of a lap has a task of each dataset, and a task has the chunks of its rows.
#[test]
fn plans_that_leave_rows_out_are_refused() {
    let (plan, file) = honest("rows", &[], 0);
    let reason = |change: &dyn Fn(&mut TestPlan)| {
        let mut lie = plan.clone();
        change(&mut lie);
        let fd = sealed_memfd(c"lie", &lie.encode(&file)).unwrap();
        Plan::open(fd.as_fd()).err().unwrap_or("")
    };
    assert_eq!(reason(&|_| {}), "");
    let no_task = "rows of the plan have no task";
    for task in 0..8 {
        assert_eq!(
            reason(&|lie| lie.tasks.retain(|other| *other != plan.tasks[task])),
            no_task
        );
        assert_eq!(reason(&|lie| lie.tasks[task][3] -= 1), no_task);
    }
    let range = "a task of the plan is out of range";
    for task in [0, 2, 4, 6] {
        assert_eq!(reason(&|lie| lie.tasks[task][5] = 0), range);
        assert_eq!(reason(&|lie| lie.tasks[task][4] = 4), range);
        // Its chunks are those of other rows.
        assert_eq!(reason(&|lie| lie.tasks[task][4] ^= 1), range);
    }
    assert_eq!(reason(&|lie| lie.tasks.clear()), no_task);
    // Half of each row.
    let halves = |lie: &mut TestPlan| {
        lie.datasets[0].chunk_words /= 2;
        lie.tasks.iter_mut().for_each(|task| task[4] *= 2);
    };
    assert_eq!(reason(&halves), no_task);
    let grid = "a chunk of the plan lies outside its grid";
    assert_eq!(reason(&|lie| lie.chunks[3][0] = 4), grid);
    assert_eq!(reason(&|lie| lie.chunks[3][0] = 2), grid);
    assert_eq!(reason(&|lie| lie.chunks.swap(0, 1)), grid);
    // One that has no record was never stored.
    assert_eq!(reason(&|lie| lie.chunks.retain(|chunk| chunk[0] != 1)), "");
}

/// Whatever stood in the ring before, every row of a task is written before it is published.
#[test]
fn no_row_is_what_stood_in_the_ring() {
    const STALE: u8 = 0xA5;
    for flags in [0, 1, 16] {
        let (mut plan, file) = honest("stale", &[], flags & 1);
        if flags & 1 == 1 && !direct_works(&file) {
            continue;
        }
        plan.datasets[1].flags |= flags & 16;
        for stored in 0..16 {
            let mut some = plan.clone();
            some.chunks.retain(|chunk| stored >> chunk[0] & 1 == 1);
            let shared = Shared::new(&some.encode(&file));
            let (plan, maps) = shared.map();
            for (map, tape) in maps.tapes.iter().zip(&plan.tapes) {
                // SAFETY: this test alone has the ring.
                unsafe { map.base().write_bytes(STALE, tape.bytes) };
            }
            // A library may leave out what was never stored.
            let mut library = |_: &str, start: u64, _: u64, out: &mut [u8], _: Mark<'_>| {
                let (_, later) = out.split_at_mut(2 * ROW_BYTES as usize);
                fill_rows(1, start + 2, later);
                Ok(())
            };
            let end = Reader::new(&plan, &maps, 0).run(&mut library);
            assert_eq!(end, End::Done);
            for (number, tape) in maps.tapes.iter().enumerate() {
                let mut expected = vec![0; 16 * ROW_BYTES as usize];
                fill_rows(number, 0, &mut expected);
                for (row, bytes) in expected.chunks_mut(ROW_BYTES as usize).enumerate() {
                    let is_stored = match number {
                        0 => stored >> (row / 4) & 1 == 1,
                        _ => row % 4 >= 2,
                    };
                    if !is_stored {
                        bytes.fill(0);
                    }
                }
                // SAFETY: the reader is done.
                let got = unsafe { std::slice::from_raw_parts(tape.base(), expected.len()) };
                assert!(got == expected, "dataset {number}, stored {stored:b}");
            }
        }
    }
}

#[test]
fn absurd_sizes_inside_the_file_are_the_librarys() {
    let (mut plan, _) = honest("absurd", &[], 0);
    let file = TestFile::new("absurd-large", &vec![0; 1 << 20]);
    plan.chunks[2][2] = 1 << 19;
    assert_eq!(outcome(&plan, &file), (End::Done, 0, 20));
}

#[test]
fn unknown_filters_and_parameters_are_the_librarys() {
    let (plan, file) = honest("unknown", &[(31_999, 0)], 0);
    assert_eq!(outcome(&plan, &file), (End::Done, 0, 32));
}

#[test]
fn a_checksum_that_does_not_match_fails_in_order() {
    for flags in [0, 1] {
        let (plan, file) = honest("checksum", &[(3, 0)], flags);
        if flags == 0 || direct_works(&file) {
            let failed = (End::Failed, error_kind::FILTER_CHECKSUM, 0);
            assert_eq!(outcome(&plan, &file), failed);
        }
    }
}

/// A direct reader has several tasks in hand. One that cannot begin must not keep those before it
/// from being delivered: the parent waits for the oldest.
#[test]
fn tasks_before_a_failure_are_delivered() {
    let (mut plan, file) = honest("before", &[], 1);
    if !direct_works(&file) {
        return;
    }
    plan.chunks[3][1] = 1 << 40;
    let shared = Shared::new(&plan.encode(&file));
    let (plan, maps) = shared.map();
    let mut library = |_: &str, _: u64, _: u64, _: &mut [u8], _: Mark<'_>| Ok(());
    let end = Reader::new(&plan, &maps, 0).run(&mut library);
    assert_eq!(end, End::Failed);
    let published = (0..8).take_while(|&task| maps.control.is_published(task));
    assert_eq!(published.count(), 6);
    assert!(maps.control.is_failed(6));
}

#[test]
fn a_file_that_changed_is_not_read() {
    let (plan, file) = honest("changed", &[], 0);
    let encoded = plan.encode(&file);
    let shared = Shared::new(&encoded);
    std::fs::write(&file.0, b"another").unwrap();
    let (plan, maps) = shared.map();
    let mut library = |_: &str, _: u64, _: u64, _: &mut [u8], _: Mark<'_>| Ok(());
    let end = Reader::new(&plan, &maps, 0).run(&mut library);
    assert_eq!(end, End::Failed);
    let kind = maps
        .control
        .record(0)
        .failure()
        .map_or(0, |failure| failure.0);
    assert_eq!(kind, error_kind::CHANGED);
}

/// Of a sparse ring a reader makes the pages of its rows; a shortage of them is no SIGBUS.
#[test]
fn pages_that_cannot_be_made_fail_their_task() {
    let (plan, file) = honest("pages", &[], 0);
    let shared = Shared::new(&plan.encode(&file));
    let null: OwnedFd = File::open("/dev/null").unwrap().into();
    let ring = shared.ring().try_clone_to_owned().unwrap();
    for (fd, wanted) in [(null, error_kind::MEMORY), (ring, 0)] {
        let (plan, mut maps) = shared.map();
        (maps.fd, maps.is_sparse) = (Some(fd), true);
        maps.control.clear(&plan);
        let mut library = |_: &str, _: u64, _: u64, _: &mut [u8], _: Mark<'_>| Ok(());
        Reader::new(&plan, &maps, 0).run(&mut library);
        let failure = maps.control.record(0).failure();
        assert_eq!(failure.map_or(0, |failure| failure.0), wanted);
    }
}

#[test]
fn any_word_of_a_plan_may_lie() {
    let (plan, file) = honest("words", &[(2, 8)], 0);
    let values = [0, 1, 3, 1 << 20, 1 << 32, 1 << 62, 1 << 63];
    let accepted = with_each_word(&plan.encode(&file), &values);
    assert!(accepted > 100, "{accepted}");
}

/// Put these values, and the largest ones, in the place of each word of a plan, and read what is
/// still accepted; how often that was.
pub fn with_each_word(encoded: &[u8], values: &[u64]) -> usize {
    let shared = Shared::new(encoded);
    let mut accepted = 0;
    for word in 0..encoded.len() / 8 {
        for value in values.iter().chain(&[u64::MAX - 7, u64::MAX]) {
            let mut lie = encoded.to_vec();
            lie[8 * word..8 * word + 8].copy_from_slice(&value.to_le_bytes());
            let plan = sealed_memfd(c"lie", &lie).unwrap();
            let Ok(plan) = Plan::open(plan.as_fd()) else {
                continue;
            };
            let Ok(maps) = map_ring(&plan, shared.ring()) else {
                continue;
            };
            accepted += 1;
            // SAFETY: the mapping of the header is at least this long.
            unsafe { maps.head.base().write_bytes(0, plan.control_bytes()) };
            run_briefly(&plan, &maps.control, || {
                let mut library = |_: &str, _: u64, _: u64, _: &mut [u8], _: Mark<'_>| Ok(());
                Reader::new(&plan, &maps, 0).run(&mut library);
            });
        }
    }
    accepted
}

/// Stop the stream when `run` waits for space that a lie keeps from coming.
pub fn run_briefly(plan: &Plan, control: &Control, run: impl FnOnce() + Send) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            ended.store(true, SeqCst);
            run
        });
        let start = Instant::now();
        while !ended.load(SeqCst) && start.elapsed() < Duration::from_millis(20) {
            std::thread::sleep(Duration::from_micros(50));
        }
        control.stop();
        let ran = thread.join().unwrap();
        assert!(ran.is_ok(), "{plan:?}");
    });
}

#[test]
fn the_codec_limit_is_measured_or_refused() {
    for (filters, kind) in [(vec![], 0), (vec![(3, 0)], error_kind::FILTER_CHECKSUM)] {
        let (mut plan, file) = honest("limit", &filters, 0);
        plan.tasks.retain(|task| task[0] == 0);
        plan.datasets.truncate(1);
        plan.n_readers = 3;
        let trial = Trial::open(&plan.encode(&file)).unwrap();
        std::thread::scope(|scope| {
            for me in 0..3 {
                let (plan, control) = trial.parts();
                scope.spawn(move || run_part(plan, control, me));
            }
            let start = Instant::now();
            while !trial.look(Duration::from_millis(10)) {
                assert!(start.elapsed() < Duration::from_secs(10));
            }
        });
        assert!(trial.elapsed_seconds() > 0.0);
        let failure = trial.first_failure();
        assert_eq!(failure.map_or(0, |failure| failure.0), kind);
    }
}

pub fn direct_works(file: &TestFile) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_DIRECT);
    options.open(&file.0).is_ok()
}

/// What another process could change or shorten is not believed.
#[test]
fn memory_that_is_not_sealed_is_refused() {
    let (plan, file) = honest("seals", &[], 0);
    let encoded = plan.encode(&file);
    let open = reserved_memfd(c"open", encoded.len()).unwrap();
    let map = Mapping::new(open.as_fd(), 0, encoded.len(), true).unwrap();
    // SAFETY: as many bytes, which nobody else knows.
    unsafe {
        map.base()
            .copy_from_nonoverlapping(encoded.as_ptr(), encoded.len())
    };
    let reason = Plan::mapped(open.as_fd()).err().unwrap().to_string();
    assert_eq!(reason, "shared memory is not sealed");
    let plan = Plan::open(sealed_memfd(c"plan", &encoded).unwrap().as_fd()).unwrap();
    let ring = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&file.0)
        .unwrap();
    ring.set_len(plan.ring_bytes() as u64).unwrap();
    assert!(map_ring(&plan, ring.as_fd()).is_err());
}
