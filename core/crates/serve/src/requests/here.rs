//! What a process has that answers its own requests.
//!
//! Law:
//! 1. All who answer in this process have one cache of chunks, as large as those of readers together.
//! 2. A thread that waits for an answer takes the tasks that no other thread has.

use crate::requests::answer::Answerer;
use crate::requests::handle::lock;
use engine::chunk_cache::processes::ProcessCache;
use engine::counters::Record;
use engine::shared::Shared;
use os::memory::Mapping;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, OnceLock};

pub struct Here {
    cache_bytes: usize,
    others: Option<Arc<ProcessCache>>,
    /// Whether this process answers, and whether threads of it do.
    is_open: AtomicBool,
    has_threads: AtomicBool,
    shared: OnceLock<Arc<Shared>>,
    spare: Mutex<Vec<Spare>>,
    records: Mutex<Vec<Arc<Record>>>,
}

/// What one thread answers with while it waits.
pub(super) struct Spare {
    pub answerer: Answerer,
    pub record: Arc<Record>,
}

impl Here {
    pub fn new(cache_bytes: usize, others: Option<Arc<ProcessCache>>) -> Here {
        Here {
            cache_bytes,
            others,
            is_open: AtomicBool::new(false),
            has_threads: AtomicBool::new(false),
            shared: OnceLock::new(),
            spare: Mutex::default(),
            records: Mutex::default(),
        }
    }

    pub fn is_open(&self) -> bool {
        self.is_open.load(SeqCst)
    }

    pub fn open(&self, is_open: bool) {
        self.is_open.store(is_open, SeqCst);
    }

    pub fn start_threads(&self) {
        self.has_threads.store(true, SeqCst);
    }

    /// Only who waits answers, so that a request is best not cut into parts.
    pub fn is_alone(&self) -> bool {
        self.is_open() && !self.has_threads.load(SeqCst)
    }

    /// One more who answers.
    pub(super) fn answerer(&self, arena: &Arc<Mapping>) -> Answerer {
        let others = || self.others.clone();
        let shared = (self.shared).get_or_init(|| Answerer::shared(self.cache_bytes, others()));
        Answerer::with(arena.clone(), shared.clone())
    }

    pub(super) fn take(&self, arena: &Arc<Mapping>) -> Spare {
        let spare = lock(&self.spare).pop();
        spare.unwrap_or_else(|| {
            let record = Record::new();
            lock(&self.records).push(record.clone());
            Spare {
                answerer: self.answerer(arena),
                record,
            }
        })
    }

    pub(super) fn give(&self, spare: Spare) {
        lock(&self.spare).push(spare);
    }

    /// Add what was done by those who waited to the account of reader `me`, and say what all keep.
    pub fn account(&self, me: usize, account: &mut [u64; 15]) {
        let Some(shared) = self.shared.get() else {
            return;
        };
        account[14] = 0;
        if me == 0 {
            for record in lock(&self.records).iter() {
                let counts = record.account();
                (2..14).for_each(|at| account[at] += counts[at]);
            }
            account[14] = shared.cache.bytes() as u64;
        }
    }
}
