//! Who wakes the parent, and when.
//!
//! Law: no process, no clock and no processor decides here; the header is told what they are.

use super::*;

/// No machine has such a processor: a reader that publishes here is not on it.
const NEAR: u32 = 1 << 20;
const PLENTY: u64 = 4;

struct Header(Vec<u64>);

impl Header {
    /// The parent sleeps until one task is published and it is late, or four are.
    fn of_sleeping_parent(n_readers: usize) -> (Header, Control) {
        let mut memory = Header(vec![0; control_bytes(n_readers, 8, 1).div_ceil(8)]);
        // SAFETY: as many bytes, 8-aligned and zero, that live as long as the test.
        let control = unsafe { Control::new(memory.0.as_mut_ptr().cast(), n_readers, 8, 1) };
        control.arm(1, PLENTY);
        control.head().parent_cpu.store(NEAR, SeqCst);
        // No time passes.
        control.head().armed_ns.store(u64::MAX, SeqCst);
        (memory, control)
    }
}

impl Control {
    fn is_asleep(&self) -> bool {
        self.head().wake_plenty.load(SeqCst) != 0
    }

    /// A reader is where the parent fell asleep.
    fn put_near(&self, reader: usize, has_task: bool) {
        let record = self.record(reader);
        record.cpu.store(u64::from(NEAR), SeqCst);
        record.current.store(u64::from(has_task), SeqCst);
    }

    /// Publishes `n` tasks, all by reader 0.
    fn publish_some(&self, tasks: std::ops::Range<u64>, next: Duration) {
        tasks.for_each(|task| self.publish(0, task, next));
    }
}

#[test]
fn the_parent_sleeps_until_there_is_plenty() {
    let (_memory, control) = Header::of_sleeping_parent(1);
    control.publish_some(0..PLENTY - 1, Duration::ZERO);
    assert!(control.is_asleep());
    control.publish_some(PLENTY - 1..PLENTY, Duration::ZERO);
    assert!(!control.is_asleep());
}

#[test]
fn a_reader_that_is_nearer_and_at_work_wakes_it() {
    let (_memory, control) = Header::of_sleeping_parent(3);
    control.put_near(2, true);
    control.publish_some(0..PLENTY, Duration::ZERO);
    assert!(control.is_asleep(), "left to reader 2");
    control.put_near(2, false);
    control.publish_some(PLENTY..PLENTY + 1, Duration::ZERO);
    assert!(!control.is_asleep(), "reader 2 has nothing in hand");
}

#[test]
fn it_is_waited_for_so_long_and_not_longer() {
    let (_memory, control) = Header::of_sleeping_parent(3);
    control.put_near(1, true);
    control.publish_some(0..PLENTY + 2, Duration::ZERO);
    assert!(control.is_asleep());
    control.publish_some(PLENTY + 2..PLENTY + 3, Duration::ZERO);
    assert!(
        !control.is_asleep(),
        "as many tasks more as there are readers"
    );

    let (_memory, control) = Header::of_sleeping_parent(3);
    control.put_near(1, true);
    control.publish_some(0..1, GATHER);
    assert!(control.is_asleep(), "late, but not much");
    control.publish_some(1..2, 2 * GATHER);
    assert!(!control.is_asleep());
}

#[test]
fn a_reader_with_nothing_more_to_do_wakes_it() {
    let (_memory, control) = Header::of_sleeping_parent(2);
    control.put_near(1, true);
    control.tell_rest();
    assert!(control.is_asleep(), "nothing is there");
    control.publish_some(0..1, Duration::ZERO);
    assert!(control.is_asleep());
    control.tell_rest();
    assert!(!control.is_asleep());
}

#[test]
fn a_failure_wakes_it() {
    let (_memory, control) = Header::of_sleeping_parent(2);
    control.put_near(1, true);
    control.fail(0);
    assert!(!control.is_asleep());
}
