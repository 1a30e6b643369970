//! The work queue: where the parent leaves tasks for readers and finds their answers.
//!
//! Law:
//! 1. Everything that changes is an atomic in shared memory; a process may die between any two.
//! 2. A slot is a task: a part of what one request asks for. Its state word says whose it is: the
//!    parent's (FREE, or answered), a queue's (READY), or a reader's (CLAIMED). The one that a word
//!    names may write the slot, nobody else.
//! 3. Each reader has a queue of slot numbers, so that a chunk is always asked of the one that may
//!    have it in its cache. An entry is a hint: only the slot's word decides, so an entry may be
//!    stale. Others help a reader that is behind or slow.
//! 4. Sleepers are woken only when they said that they sleep: no system call in a busy stream.
//! 5. This file knows nothing of what is asked, of files or of Python.
//!
//! A state word is `generation << 8 | code`: a slot used again never looks as it did before.

mod parent;

use engine::counters::{RECORD_BYTES, Record};
use engine::fetch::queue::Turnstile;
use engine::task_error::ErrorRecord;
use os::clock::now_ns;
use os::futex;
use os::memory::{Mapping, SIZE_SEALS, reserved_memfd, sealed_len};
use os::sync::{AtomicU32, AtomicU64, IS_MODEL, Pad};
use os::turns::Turns;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

/// In the control socket's number: a work queue and an arena come with it.
pub const WORK_QUEUE: u32 = 1 << 30;
/// Words of a request that find room in the slot itself.
pub const INLINE_WORDS: usize = 32;
/// More dimensions than NumPy's arrays have.
pub const MAX_DIMS: usize = 64;

const MAGIC: u64 = u64::from_le_bytes(*b"MTBOARD1");
const MAX_READERS: usize = 200;
/// Who is no reader, but answers a task instead of waiting for it.
pub const HERE: usize = MAX_READERS;
const MAX_SLOTS: usize = 1 << 20;

const FREE: u32 = 0;
const READY: u32 = 1;
pub const DONE: u32 = 2;
pub const FAILED: u32 = 3;
/// A library's result is larger than the stage: nothing was written.
pub const MORE: u32 = 4;
const CLAIMED: u32 = 16;

/// A reader looks so often for a task before it sleeps.
const LOOKS: u32 = if IS_MODEL { 1 } else { 64 };
/// Who has been busy with one task for so long is helped with the next: to decode a chunk that is in
/// another reader's cache costs more than to wait for a shorter one.
const LONG: Duration = Duration::from_micros(30);
/// An idle reader looks so often whether another, who has a task waiting, has become one to help.
const GLANCE: Duration = Duration::from_micros(50);
/// How long a task waits for those before it to reach the disk.
const PATIENCE: Duration = Duration::from_secs(1);

#[repr(C)]
struct Head {
    /// These four are read once, when the queue is opened.
    magic: AtomicU64,
    n_readers: AtomicU64,
    n_slots: AtomicU64,
    cache_bytes: AtomicU64,
    stop: AtomicU32,
    closing: AtomicU32,
    /// Moves with every answer while this many threads wait.
    answers_word: AtomicU32,
    watched: AtomicU32,
    /// Readers keep to their own tasks, whose chunks they keep: no other decodes these, too.
    own: AtomicU32,
    _half: AtomicU32,
    _pad0: Pad<9>,
    /// Tasks that were handed out. On a cache line of its own, as it moves with every task.
    submitted: AtomicU64,
    turns: Turns,
    _pad1: Pad<13>,
}

/// Slot numbers for one reader; the parent alone puts them in.
#[repr(C)]
struct Queue {
    head: AtomicU64,
    _pad0: Pad<15>,
    tail: AtomicU64,
    word: AtomicU32,
    sleeping: AtomicU32,
    /// Its reader is busy with something long.
    slow: AtomicU32,
    _half: AtomicU32,
    /// Since when its reader has been busy with one task (`now_ns`), or 0.
    busy_ns: AtomicU64,
    _pad1: Pad<12>,
}

#[repr(C)]
pub struct Slot {
    state: AtomicU32,
    waited: AtomicU32,
    pub part: AtomicU32,
    pub n_parts: AtomicU32,
    /// Where the request begins in the arena, or `u64::MAX`: it is inline.
    pub request_at: AtomicU64,
    pub request_bytes: AtomicU64,
    pub out_at: AtomicU64,
    pub out_bytes: AtomicU64,
    /// Bytes and shape of a library's result.
    pub result_bytes: AtomicU64,
    pub n_dims: AtomicU64,
    pub dims: [AtomicU64; MAX_DIMS],
    pub deaths: AtomicU64,
    /// Its number among all tasks, which is its turn at a rotating disk.
    pub number: AtomicU64,
    pub inline: [AtomicU64; INLINE_WORDS],
    pub error: ErrorRecord,
}

/// A mapped work queue.
pub struct WorkQueue {
    map: Mapping,
    n_readers: usize,
    n_slots: usize,
    cache_bytes: usize,
}

/// What a reader is to do.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    Task(u32),
    Nothing,
    /// No more tasks will come.
    Over,
}

/// Entries of a queue: each slot may stand in it twice, the second time after a death.
fn queue_entries(n_slots: usize) -> usize {
    2 * n_slots
}

fn queue_bytes(n_slots: usize) -> usize {
    size_of::<Queue>() + queue_entries(n_slots) * 4
}

fn board_bytes(n_readers: usize, n_slots: usize) -> usize {
    size_of::<Head>()
        + n_readers * (RECORD_BYTES + queue_bytes(n_slots))
        + n_slots * size_of::<Slot>()
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

impl WorkQueue {
    /// Make a work queue; `n_slots` is a power of two.
    pub fn new(
        n_readers: usize,
        n_slots: usize,
        cache_bytes: usize,
    ) -> io::Result<(OwnedFd, WorkQueue)> {
        let fd = reserved_memfd(c"multitables-work_queue", board_bytes(n_readers, n_slots))?;
        let map = Mapping::new(fd.as_fd(), 0, board_bytes(n_readers, n_slots), true)?;
        // SAFETY: the mapping is page aligned and longer than the head, which is all atomics.
        let head = unsafe { &*map.base().cast::<Head>() };
        head.magic.store(MAGIC, SeqCst);
        head.n_readers.store(n_readers as u64, SeqCst);
        head.n_slots.store(n_slots as u64, SeqCst);
        head.cache_bytes.store(cache_bytes as u64, SeqCst);
        drop(map);
        let work_queue = WorkQueue::open(fd.as_fd())?;
        Ok((fd, work_queue))
    }

    pub fn open(fd: BorrowedFd<'_>) -> io::Result<WorkQueue> {
        let len = sealed_len(fd, SIZE_SEALS)?;
        if len < size_of::<Head>() {
            return Err(refused("the work_queue is shorter than its head"));
        }
        let map = Mapping::new(fd, 0, len, true)?;
        // SAFETY: the mapping is page aligned and long enough; all of a head is atomics.
        let head = unsafe { &*map.base().cast::<Head>() };
        let (n_readers, n_slots) = (head.n_readers.load(SeqCst), head.n_slots.load(SeqCst));
        let cache_bytes = head.cache_bytes.load(SeqCst) as usize;
        let in_range = head.magic.load(SeqCst) == MAGIC
            && (1..=MAX_READERS as u64).contains(&n_readers)
            && n_slots.is_power_of_two()
            && n_slots <= MAX_SLOTS as u64;
        if !in_range || board_bytes(n_readers as usize, n_slots as usize) != len {
            return Err(refused("the work_queue's head does not fit its bytes"));
        }
        Ok(WorkQueue {
            map,
            n_readers: n_readers as usize,
            n_slots: n_slots as usize,
            cache_bytes,
        })
    }

    fn head(&self) -> &Head {
        // SAFETY: checked in `open`; all of a head is atomics, which others may write at any time.
        unsafe { &*self.map.base().cast::<Head>() }
    }

    pub fn n_readers(&self) -> usize {
        self.n_readers
    }

    pub fn n_slots(&self) -> usize {
        self.n_slots
    }

    pub fn cache_bytes(&self) -> usize {
        self.cache_bytes
    }

    pub fn record(&self, reader: usize) -> &Record {
        assert!(reader < self.n_readers);
        let at = size_of::<Head>() + reader * RECORD_BYTES;
        // SAFETY: inside the mapping (checked in `open` and just above), 8-aligned, all atomics.
        unsafe { &*self.map.base().add(at).cast::<Record>() }
    }

    fn queue(&self, reader: usize) -> (&Queue, &[AtomicU32]) {
        assert!(reader < self.n_readers);
        let queues_at = size_of::<Head>() + self.n_readers * RECORD_BYTES;
        let at = queues_at + reader * queue_bytes(self.n_slots);
        // SAFETY: inside the mapping, 8-aligned (every size before it is a multiple of 8).
        unsafe {
            let queue = self.map.base().add(at);
            let entries = queue.add(size_of::<Queue>()).cast::<AtomicU32>();
            (
                &*queue.cast::<Queue>(),
                std::slice::from_raw_parts(entries, queue_entries(self.n_slots)),
            )
        }
    }

    pub fn slot(&self, slot: u32) -> &Slot {
        assert!((slot as usize) < self.n_slots);
        let slots_at = board_bytes(self.n_readers, self.n_slots) - self.n_slots * size_of::<Slot>();
        let at = slots_at + slot as usize * size_of::<Slot>();
        // SAFETY: inside the mapping, 8-aligned, all atomics.
        unsafe { &*self.map.base().add(at).cast::<Slot>() }
    }

    fn code(&self, slot: u32) -> u32 {
        self.slot(slot).state.load(SeqCst) & 255
    }

    /// Change a slot's code if it is `from`; whether it was.
    fn change(&self, slot: u32, from: u32, to: u32) -> bool {
        let state = &self.slot(slot).state;
        let seen = state.load(SeqCst);
        seen & 255 == from
            && state
                .compare_exchange(seen, seen & !255 | to, SeqCst, SeqCst)
                .is_ok()
    }

    pub fn stopped(&self) -> bool {
        self.head().stop.load(SeqCst) != 0
    }

    // ---- readers

    /// The next task for `me`, if there is one now.
    pub fn next(&self, me: usize) -> Next {
        if self.stopped() {
            return Next::Over;
        }
        if let Some(task) = self.claim(me, me) {
            return Next::Task(task);
        }
        let others = (1..self.n_readers).map(|step| (me + step) % self.n_readers);
        for other in others {
            if !self.is_behind(other) {
                continue;
            }
            if let Some(task) = self.claim(other, me) {
                return Next::Task(task);
            }
        }
        let closing = self.head().closing.load(SeqCst) != 0;
        if closing && self.backlog(me) == 0 {
            return Next::Over;
        }
        Next::Nothing
    }

    /// A task waits for this reader, which others would do sooner.
    fn is_behind(&self, reader: usize) -> bool {
        let (queue, _) = self.queue(reader);
        match self.backlog(reader) {
            0 => false,
            _ if self.head().own.load(SeqCst) != 0 => queue.slow.load(SeqCst) != 0,
            1 => queue.slow.load(SeqCst) != 0 || self.is_busy(reader),
            _ => true,
        }
    }

    /// It has been at one task for long.
    fn is_busy(&self, reader: usize) -> bool {
        let since = self.queue(reader).0.busy_ns.load(SeqCst);
        since != 0 && u128::from(now_ns().saturating_sub(since)) > LONG.as_nanos()
    }

    /// Entries of a reader's queue, stale ones too.
    fn backlog(&self, reader: usize) -> u64 {
        let (queue, _) = self.queue(reader);
        let head = queue.head.load(SeqCst);
        queue.tail.load(SeqCst).saturating_sub(head)
    }

    fn claim(&self, from: usize, me: usize) -> Option<u32> {
        let (queue, entries) = self.queue(from);
        loop {
            let head = queue.head.load(SeqCst);
            if head >= queue.tail.load(SeqCst) {
                return None;
            }
            let slot = entries[head as usize % entries.len()].load(SeqCst);
            let mine =
                (slot as usize) < self.n_slots && self.change(slot, READY, CLAIMED + me as u32);
            // The first one moves on, be the entry claimed, stale or another's.
            let _ = queue.head.compare_exchange(head, head + 1, SeqCst, SeqCst);
            if mine {
                self.queue(me).0.busy_ns.store(now_ns(), SeqCst);
                return Some(slot);
            }
        }
    }

    /// Look for a task again and again for a moment, then sleep until one comes, at most `limit`.
    pub fn wait_for_task(&self, me: usize, limit: Duration) -> Next {
        for _ in 0..LOOKS {
            match self.next(me) {
                Next::Nothing => std::hint::spin_loop(),
                next => return next,
            }
        }
        let (queue, _) = self.queue(me);
        let word = queue.word.load(SeqCst);
        queue.sleeping.store(1, SeqCst);
        let next = self.next(me);
        if next == Next::Nothing {
            let glance = (0..self.n_readers).any(|reader| self.backlog(reader) > 0);
            let limit = if glance { GLANCE } else { limit };
            futex::wait(&queue.word, word, limit);
        }
        queue.sleeping.store(0, SeqCst);
        next
    }

    /// This reader begins or ends something long: others may take from its queue meanwhile.
    pub fn slow(&self, me: usize, is_slow: bool) {
        self.queue(me).0.slow.store(u32::from(is_slow), SeqCst);
        if is_slow && self.backlog(me) > 0 {
            self.wake_another(me);
        }
    }

    /// A claimed task's answer is complete.
    pub fn answer(&self, slot: u32, me: usize, code: u32) {
        if me < self.n_readers {
            self.queue(me).0.busy_ns.store(0, SeqCst);
        }
        if self.change(slot, CLAIMED + me as u32, code) {
            self.tell(slot);
        }
    }

    fn tell(&self, slot: u32) {
        let (slot, head) = (self.slot(slot), self.head());
        if slot.waited.load(SeqCst) != 0 && slot.waited.swap(0, SeqCst) != 0 {
            futex::wake_all(&slot.state);
        }
        if head.watched.load(SeqCst) != 0 {
            head.answers_word.fetch_add(1, SeqCst);
            futex::wake_all(&head.answers_word);
        }
    }

    fn wake(&self, reader: usize) {
        let (queue, _) = self.queue(reader);
        queue.word.fetch_add(1, SeqCst);
        futex::wake_all(&queue.word);
    }

    fn wake_another(&self, than: usize) {
        let sleeping = |&reader: &usize| self.queue(reader).0.sleeping.load(SeqCst) != 0;
        let mut others = (0..self.n_readers).filter(|&reader| reader != than);
        if let Some(reader) = others.find(sleeping) {
            self.wake(reader);
        }
    }
}

impl Turnstile for WorkQueue {
    /// Wait for this task's turn. One before it may never be done, so this does not wait for ever.
    fn wait_turn(&self, task: u64) {
        let end = Instant::now() + PATIENCE;
        let patient = || !self.stopped() && Instant::now() < end;
        self.head().turns.wait(task, patient);
    }

    fn pass_turn(&self, task: u64) {
        self.head().turns.pass(task);
    }
}

/// Let a waiting thread look again at least so often.
pub fn until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
