//! Small streams in every order of steps (os/sync/races.rs).
//!
//! Law:
//! 1. Readers do what reader_loop.rs does with the control header, and the parent what py/ring.rs does
//!    with the leases; bytes are one word for each row.
//! 2. A row is written while no block shows it, and shown when its last write is done.
//! 3. A sleeper is woken by what it waits for, never by its deadline: here it has none.

use crate::ring::control::{Claim, Control, control_bytes};
use crate::ring::leases::{CLOSED, ENDED, FAILED, Leases};
use crate::ring::maps::RingMaps;
use engine::counters::{STATE_FINISHED, STATE_RUNNING};
use engine::task_error::TaskError;
use os::memory::{Mapping, sealed_memfd};
use os::sync::races::{explore, until_killed};
use shuttle::thread;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;
use tables::plan::{KIND_LIBRARY, Plan};
use testing::fixtures::{TestDataset, TestFile, TestPlan};

const HOUR: Duration = Duration::from_secs(3600);

struct Case {
    n_rows: u64,
    n_readers: usize,
    n_consumers: usize,
    capacity: u64,
    /// What a reader expects of its next task, which decides when it wakes the parent.
    next: Duration,
}

/// One more reader, or one interruption more, takes ten times as long.
const CASE: Case = Case {
    n_rows: 3,
    n_readers: 2,
    n_consumers: 1,
    capacity: 2,
    next: Duration::ZERO,
};

impl Case {
    /// A task, and a block, for each row.
    fn encode(&self) -> Vec<u8> {
        let dataset = TestDataset::new(1, 16);
        let plan = TestPlan {
            n_rows: self.n_rows,
            datasets: vec![dataset],
            tasks: (0..self.n_rows)
                .map(|row| [0, u64::from(KIND_LIBRARY), row, row + 1, 0, 0, 0])
                .collect(),
            chunks: Vec::new(),
            n_readers: self.n_readers as u64,
            block_rows: 1,
            capacity_rows: self.capacity,
            cyclic: false,
            order: None,
            cache_bytes: 0,
        };
        let mut encoded = plan.encode(&TestFile::new("races", b""));
        // The last word of the header says how many consumers there are.
        encoded[8 * 18..8 * 19].copy_from_slice(&(self.n_consumers as u64).to_le_bytes());
        encoded
    }

    /// In every order, with a stream of this case.
    fn explore(self, interruptions: usize, case: impl Fn(&Arc<Stream>) + Send + Sync + 'static) {
        let encoded = self.encode();
        let (this, encoded) = (Arc::new(self), Arc::new(encoded));
        explore(interruptions, move || {
            case(&Arc::new(Stream::new(&this, &encoded)));
        });
    }
}

/// One stream, as its processes share it.
struct Stream {
    case: Arc<Case>,
    leases: Vec<Leases>,
    /// What the ring's rows hold: 0: nobody's, or the number of the task + 1.
    rows: Vec<AtomicU64>,
}

impl Stream {
    fn new(case: &Arc<Case>, encoded: &[u8]) -> Stream {
        let fd = sealed_memfd(c"races", encoded).unwrap();
        let plan = || Plan::open(fd.as_fd()).unwrap();
        let (readers, slots) = (plan().n_readers(), plan().n_slots());
        let head = || Mapping::private(control_bytes(readers, slots, case.n_consumers)).unwrap();
        let shared = head();
        // SAFETY: as many bytes, zero, aligned to a page; the first consumer's maps keep them.
        let control = unsafe { Control::new(shared.base(), readers, slots, case.n_consumers) };
        let mut heads = vec![shared];
        heads.resize_with(case.n_consumers, head);
        let leases = heads.into_iter().zip(0..).map(|(head, consumer)| {
            let maps = RingMaps {
                head,
                tapes: Vec::new(),
                control,
                fd: None,
                is_sparse: false,
            };
            Leases::new(plan(), maps.into(), consumer).unwrap()
        });
        Stream {
            case: case.clone(),
            leases: leases.collect(),
            rows: (0..case.capacity).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    fn control(&self) -> Control {
        self.leases[0].maps.control
    }

    fn row(&self, row: u64) -> &AtomicU64 {
        &self.rows[(row % self.case.capacity) as usize]
    }

    /// What a reader does, and fails at.
    fn read(&self, me: usize, fails: Option<u64>) {
        let (plan, control) = (&self.leases[0].plan, self.control());
        let record = control.record(me);
        record.state.store(STATE_RUNNING, SeqCst);
        let mut inherited = control.inherited(me).into_iter();
        loop {
            let claim = inherited
                .next()
                .map_or_else(|| control.try_claim(plan, me), Claim::Task);
            let task = match claim {
                Claim::Task(task) => task,
                Claim::Full => {
                    control.wait_for_space(plan, HOUR);
                    continue;
                }
                Claim::Done => {
                    control.tell_rest();
                    break;
                }
                Claim::Stopped => break,
            };
            record.current.store(task + 1, SeqCst);
            if fails == Some(task) {
                let reason = TaskError::Internal(String::new());
                record.set_error(task, task, &reason);
                control.fail(task);
                break;
            }
            let before = self.row(task).swap(task + 1, SeqCst);
            assert!(before == 0 || before == task + 1, "row {task} is in use");
            control.publish(me, task, self.case.next);
            record.current.store(0, SeqCst);
        }
        record.state.store(STATE_FINISHED, SeqCst);
    }

    /// What a consumer does with blocks, until there are no more; how many it had, and why.
    fn consume(&self, consumer: usize) -> (u64, i32) {
        let leases = &self.leases[consumer];
        let mut count = 0;
        loop {
            match leases.wait(HOUR) {
                Ok(block) => {
                    let (row, _) = leases.block_rows(block);
                    let held = self.row(row).swap(0, SeqCst);
                    assert_eq!(held, row + 1, "a block of row {row}");
                    leases.release(block);
                    count += 1;
                }
                Err(why) => return (count, why),
            }
        }
    }

    fn start(
        self: &Arc<Stream>,
        f: impl FnOnce(&Stream) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let this = self.clone();
        thread::spawn(move || f(&this))
    }
}

fn all_end(threads: Vec<thread::JoinHandle<()>>) {
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn each_row_is_shown_once_and_in_order() {
    for next in [Duration::ZERO, HOUR] {
        for (n_readers, capacity, interruptions) in [(1, 1, 2), (1, 2, 2), (2, 2, 1)] {
            let case = Case {
                n_readers,
                capacity,
                next,
                ..CASE
            };
            case.explore(interruptions, move |stream| {
                let read = |me| stream.start(move |stream| stream.read(me, None));
                let readers = (0..n_readers).map(read).collect();
                assert_eq!(stream.consume(0), (3, ENDED));
                all_end(readers);
            });
        }
    }
}

/// A reader dies before each of its steps, and another takes its number.
#[test]
fn death_at_any_step_loses_no_row() {
    let killed = Arc::new(AtomicBool::new(true));
    let mut steps = 0;
    while killed.swap(false, SeqCst) {
        let (killed, case) = (killed.clone(), Case { n_rows: 2, ..CASE });
        case.explore(1, move |stream| {
            let killed = killed.clone();
            let dies = stream.start(move |stream| {
                if until_killed(steps, || stream.read(0, None)).is_none() {
                    killed.store(true, SeqCst);
                    stream.read(0, None);
                }
            });
            let other = stream.start(|stream| stream.read(1, None));
            assert_eq!(stream.consume(0), (2, ENDED));
            all_end(vec![dies, other]);
        });
        steps += 1;
    }
    assert!(steps > 20, "{steps}");
}

#[test]
fn all_end_when_the_stream_is_closed() {
    let case = Case {
        n_rows: 2,
        n_readers: 1,
        capacity: 1,
        ..CASE
    };
    case.explore(1, |stream| {
        let reader = stream.start(|stream| stream.read(0, None));
        let waits = stream.start(|stream| {
            let (_, why) = stream.consume(0);
            assert!([CLOSED, ENDED].contains(&why), "{why}");
        });
        stream.leases[0].close();
        all_end(vec![reader, waits]);
    });
}

#[test]
fn blocks_before_a_failure_are_shown_and_none_behind_it() {
    CASE.explore(1, |stream| {
        let readers = [0, 1].map(|me| stream.start(move |stream| stream.read(me, Some(1))));
        assert_eq!(stream.consume(0), (1, FAILED));
        stream.leases[0].close();
        all_end(readers.into());
    });
}

#[test]
fn consumers_that_share_a_ring_have_each_block_once_and_wait_for_none_that_left() {
    for leaves in [false, true] {
        let case = Case {
            n_readers: 1,
            n_consumers: 2,
            ..CASE
        };
        case.explore(1, move |stream| {
            let reader = stream.start(|stream| stream.read(0, None));
            let other = stream.start(move |stream| match leaves {
                true => stream.leases[1].close(),
                false => assert_eq!(stream.consume(1), (1, ENDED)),
            });
            assert_eq!(stream.consume(0), (2, ENDED));
            stream.leases[0].close();
            all_end(vec![reader, other]);
        });
    }
}

/// A waiter sleeps through no step of another.
#[test]
fn turns_go_in_their_order() {
    explore(2, || {
        let turns = Arc::new(os::turns::Turns::default());
        let gone = Arc::new(AtomicU64::new(0));
        let threads = [2, 1, 0].map(|number| {
            let (turns, gone) = (turns.clone(), gone.clone());
            thread::spawn(move || {
                turns.wait(number, || true);
                assert_eq!(gone.fetch_add(1, SeqCst), number);
                turns.pass(number);
            })
        });
        all_end(threads.into());
    });
}
