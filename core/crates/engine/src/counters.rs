//! What one reader tells about itself: what it has in hand, since when, and what it has done.
//!
//! Law:
//! 1. Only its reader writes it, and the parent reads it at any time; all is atomics.
//! 2. A reader that takes a dead one's number begins it anew: what was in hand is over.

use crate::task_error::{ErrorRecord, Failure, TaskError};
use os::clock::now_ns;
use os::sync::{AtomicU32, AtomicU64};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Instant;

/// Where a careful call of a library leaves the number + 1 of the chunk that it reads.
pub type Mark<'a> = Option<&'a AtomicU64>;

/// What one reader tells about itself; written by that reader only.
#[repr(C)]
pub struct Record {
    pub pid: AtomicU32,
    pub state: AtomicU32,
    /// The task in hand + 1, or 0.
    pub current: AtomicU64,
    /// The processor on which it published its last task.
    pub cpu: AtomicU64,
    /// Its chunk in hand + 1, or 0 (random access, and careful calls of a library).
    pub chunk: AtomicU64,
    pub tasks: AtomicU64,
    pub chunks: AtomicU64,
    pub library_tasks: AtomicU64,
    pub fetched_bytes: AtomicU64,
    pub decoded_bytes: AtomicU64,
    pub open_ns: AtomicU64,
    pub fetch_ns: AtomicU64,
    pub decode_ns: AtomicU64,
    pub wait_ns: AtomicU64,
    pub fetches: AtomicU64,
    /// Chunks that were found decoded, or not; bytes of those that are kept (random access).
    pub cache_hits: AtomicU64,
    pub cache_misses: AtomicU64,
    pub cache_bytes: AtomicU64,
    /// The codec limit's clock (codec_limit.rs).
    pub begin_ns: AtomicU64,
    pub end_ns: AtomicU64,
    /// Since when it has been inside a library (`now_ns`), or 0.
    library_ns: AtomicU64,
    /// Why the task in hand failed.
    pub error: ErrorRecord,
}

impl Record {
    /// One in memory of this process, with nothing done.
    pub fn new() -> Arc<Record> {
        // SAFETY: a record is atomics, for which zeros are valid.
        Arc::new(unsafe { std::mem::zeroed() })
    }

    /// A new process has this number: what its predecessor was at is over.
    pub fn begin(&self) {
        self.left_library();
        self.pid.store(std::process::id(), SeqCst);
        self.state.store(STATE_RUNNING, SeqCst);
    }

    /// Call a library, so that the parent sees since when. A careful call is given a word for the
    /// chunk that it reads, because readers died of its task before.
    pub fn call<T>(&self, careful: bool, library: impl FnOnce(Mark<'_>) -> T) -> T {
        self.chunk.store(0, Relaxed);
        self.library_ns.store(now_ns().max(1), SeqCst);
        let result = library(careful.then_some(&self.chunk));
        self.left_library();
        result
    }

    /// No library is called any more, whatever became of the call.
    pub fn left_library(&self) {
        self.library_ns.store(0, SeqCst);
        self.chunk.store(0, SeqCst);
    }

    /// Since when the reader with this pid has been inside a library, 0 for not, and the chunk there.
    pub fn inside(&self) -> (u32, u64, u64) {
        let word = |value: &AtomicU64| value.load(SeqCst);
        (
            self.pid.load(SeqCst),
            word(&self.library_ns),
            word(&self.chunk),
        )
    }

    /// The numbers that `COUNTERS` names.
    pub fn account(&self) -> [u64; 15] {
        let word = |value: &AtomicU64| value.load(Relaxed);
        [
            u64::from(self.state.load(SeqCst)),
            u64::from(self.pid.load(Relaxed)),
            word(&self.tasks),
            word(&self.chunks),
            word(&self.library_tasks),
            word(&self.fetches),
            word(&self.fetched_bytes),
            word(&self.decoded_bytes),
            word(&self.open_ns),
            word(&self.fetch_ns),
            word(&self.decode_ns),
            word(&self.wait_ns),
            word(&self.cache_hits),
            word(&self.cache_misses),
            word(&self.cache_bytes),
        ]
    }
}

impl Record {
    /// What `set_error` left here.
    pub fn failure(&self) -> Option<Failure> {
        self.error.get()
    }

    /// Leave the reason why `task` cannot be read, from `done_row` of the tape on, where the parent
    /// finds it.
    pub fn set_error(&self, task: u64, done_row: u64, error: &TaskError) {
        self.error.done_row.store(done_row, SeqCst);
        self.error.set(task, error);
    }
}

/// Add to a count of the caller's own record: nobody else writes it, so no locked instruction is needed.
pub fn count(total: &AtomicU64, more: impl TryInto<u64>) {
    let more = more.try_into().unwrap_or(0);
    total.store(total.load(Relaxed).wrapping_add(more), Relaxed);
}

/// Add the time since `start`.
pub fn add_ns(total: &AtomicU64, start: Instant) {
    count(total, start.elapsed().as_nanos());
}

/// Names of what `Record::account` tells, in its order. A ring tells the first twelve.
pub const COUNTERS: [&str; 15] = [
    "state",
    "pid",
    "tasks",
    "chunks",
    "library_tasks",
    "fetches",
    "fetched_bytes",
    "decoded_bytes",
    "open_ns",
    "fetch_ns",
    "decode_ns",
    "wait_ns",
    "cache_hits",
    "cache_misses",
    "cache_bytes",
];

/// `Record::state`.
pub const STATE_RUNNING: u32 = 1;
pub const STATE_FINISHED: u32 = 2;
pub const STATE_FAILED: u32 = 3;
/// A thread's: processes go on with the ring.
pub const STATE_HANDED_OVER: u32 = 4;

/// What a reader's record takes in shared memory.
pub const RECORD_BYTES: usize = 2048;
const _: () = assert!(size_of::<Record>() <= RECORD_BYTES);
