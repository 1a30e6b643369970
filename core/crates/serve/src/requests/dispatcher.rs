//! The parent's side of the work queue: requests go out as tasks, and come back as handles.
//!
//! Law:
//! 1. A request goes out in as many tasks as there are readers that own a chunk of it.
//! 2. A handle dropped while in flight is reaped by the next caller.
//! 3. Locks are taken in the order handle, dispatch, and never while Python code can run.
//! 4. A forked child sends nothing.

use crate::requests::arena::{Arena, Region};
use crate::requests::handle::{self, Outcome, Reaper, RequestHandle, lock};
use crate::requests::here::Here;
use crate::requests::shared_dataset::SharedDataset;
use crate::requests::stage_pool::{Refusal, StageLease, StagePool};
use crate::requests::work_queue::{INLINE_WORDS, Slot, WorkQueue};
use engine::chunk_cache::processes::{ProcessCache, shared_with_siblings};
use engine::task_error::TaskError;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// While one waits for memory or a slot, dropped handles are reaped this often.
const SWEEP: Duration = Duration::from_millis(2);
/// Regions for long requests that are kept for the next, and how long they may be.
const SPARE_REQUESTS: usize = 64;
const SPARE_REQUEST_BYTES: usize = 64 << 10;
/// Readers that may die of a task before it fails.
pub const DEATHS_ALLOWED: u64 = 2;

/// Who shall answer a request.
pub enum Request<'a> {
    /// The readers that own a chunk of it, each its part.
    Parts(&'a [u64], &'a [usize]),
    /// As many readers as this, each an equal share.
    Shares(&'a [u64], usize),
    /// Any reader, through a library.
    Library(&'a [u8]),
}

impl Request<'_> {
    pub fn n_tasks(&self) -> usize {
        match self {
            Request::Parts(_, owners) => owners.len(),
            Request::Shares(_, count) => *count,
            Request::Library(_) => 1,
        }
    }

    /// What a native request says.
    fn words(&self) -> &[u64] {
        match self {
            Request::Parts(words, _) | Request::Shares(words, _) => words,
            Request::Library(_) => &[],
        }
    }
}

pub struct Dispatcher {
    pub work_queue: WorkQueue,
    pub arena: Arc<Arena>,
    state: Mutex<State>,
    fd: Mutex<Option<OwnedFd>>,
    closed: AtomicBool,
    /// Readers may write after the end.
    outlived: AtomicBool,
    /// Who answers in this process.
    pub here: Here,
    /// Memory for chunks that readers of other processes decode, too.
    pub others: Option<Arc<ProcessCache>>,
}

struct State {
    free: Vec<u32>,
    /// By slot.
    handles: Vec<Weak<RequestHandle>>,
    dropped: Vec<Arc<RequestHandle>>,
    spare_requests: Vec<Region>,
    pending: usize,
}

impl Dispatcher {
    pub fn new(
        arena: Arc<Arena>,
        n_readers: usize,
        n_slots: usize,
        cache_bytes: usize,
        others: Option<Arc<ProcessCache>>,
    ) -> io::Result<Arc<Dispatcher>> {
        let (fd, work_queue) = WorkQueue::new(n_readers, n_slots, cache_bytes)?;
        let siblings = || shared_with_siblings().filter(|_| cache_bytes > 0);
        let others = others.or_else(siblings);
        Ok(Arc::new(Dispatcher {
            state: Mutex::new(State {
                free: (0..work_queue.n_slots() as u32).rev().collect(),
                handles: (0..work_queue.n_slots()).map(|_| Weak::new()).collect(),
                dropped: Vec::new(),
                spare_requests: Vec::new(),
                pending: 0,
            }),
            here: Here::new(n_readers * cache_bytes, others.clone()),
            others,
            work_queue,
            arena,
            fd: Mutex::new(Some(fd)),
            closed: AtomicBool::new(false),
            outlived: AtomicBool::new(false),
        }))
    }

    /// The work queue's descriptor, until `stop`.
    pub fn with_fd<T>(&self, look: impl FnOnce(Option<&OwnedFd>) -> T) -> T {
        look(lock(&self.fd).as_ref())
    }

    /// True in the process that made this, false in its forked children.
    pub fn is_mine(&self) -> bool {
        self.arena.is_mine()
    }

    pub fn is_closed(&self) -> bool {
        !self.is_mine() || self.closed.load(SeqCst)
    }

    /// Take a stage, reap dropped handles meanwhile, and wait at most until `deadline`.
    pub fn stage(
        &self,
        pool: &Arc<StagePool>,
        size: usize,
        deadline: Option<Instant>,
    ) -> Result<StageLease, Refusal> {
        loop {
            match pool.take(size, None) {
                Err(Refusal::Exhausted) => {}
                taken => return taken,
            }
            self.sweep();
            let end = deadline.map(|deadline| deadline.min(Instant::now() + SWEEP));
            match pool.take(size, end) {
                Err(Refusal::Exhausted) if end < deadline && !self.is_closed() => {}
                taken => return taken,
            }
        }
    }

    /// Send a request out, in as many slots as it has tasks.
    pub fn send(
        self: &Arc<Dispatcher>,
        request: &Request<'_>,
        slots: Vec<u32>,
        shared: Option<&Arc<SharedDataset>>,
        lease: Arc<StageLease>,
        out_bytes: usize,
    ) -> io::Result<Arc<RequestHandle>> {
        let n_readers = self.work_queue.n_readers();
        let first = self.work_queue.least_loaded();
        let any: Vec<usize> = (0..slots.len())
            .map(|at| (first + at) % n_readers)
            .collect();
        // To each reader its part, or to any reader the next one.
        let owners = match request {
            Request::Parts(_, owners) => *owners,
            Request::Shares(..) | Request::Library(_) => &any,
        };
        let words = request.words();
        let bytes = match request {
            Request::Library(bytes) => bytes.len(),
            _ => size_of_val(words),
        };
        let is_inline = !words.is_empty() && words.len() <= INLINE_WORDS;
        let region = match is_inline || owners.is_empty() {
            true => None,
            false => match self.region_for_request(request, bytes) {
                Ok(region) => Some(region),
                Err(error) => {
                    lock(&self.state).free.extend(slots);
                    return Err(error);
                }
            },
        };
        let handle = Arc::new(RequestHandle {
            reaper: self.clone(),
            state: Mutex::new(handle::State {
                n_tasks: slots.len(),
                slots: slots.clone(),
                outcome: slots.is_empty().then_some(Outcome::Done),
                failure: None,
                more: None,
                cancelled: false,
                shape: Vec::new(),
                lease: None,
                request: None,
                shared: shared.cloned(),
            }),
        });
        let mut state = lock(&handle.state);
        for (at, (&slot, &owner)) in slots.iter().zip(owners).enumerate() {
            let part = match request {
                Request::Shares(_, count) => (at, *count),
                _ => (owner, n_readers),
            };
            let place = self.work_queue.slot(slot);
            place.request_bytes.store(bytes as u64, SeqCst);
            set_task(place, part, region.as_ref(), is_inline.then_some(words));
            place.out_at.store(lease.at() as u64, SeqCst);
            place.out_bytes.store(out_bytes as u64, SeqCst);
        }
        state.lease = Some(lease);
        state.request = region;
        {
            let mut table = lock(&self.state);
            table.pending += slots.len();
            for &slot in &slots {
                table.handles[slot as usize] = Arc::downgrade(&handle);
            }
            // Under the lock: the parent's threads are one writer to the queues.
            for (&slot, &owner) in slots.iter().zip(owners) {
                self.work_queue.submit(slot, owner);
            }
        }
        drop(state);
        Ok(handle)
    }

    fn region_for_request(&self, request: &Request<'_>, bytes: usize) -> io::Result<Region> {
        let spare = {
            let mut state = lock(&self.state);
            let fits = |region: &Region| region.len() >= bytes;
            let found = state.spare_requests.iter().position(fits);
            found.map(|at| state.spare_requests.swap_remove(at))
        };
        let mut region = match spare {
            Some(region) => region,
            None => self.arena.take(bytes)?,
        };
        match request {
            Request::Library(bytes) => region.write(bytes),
            _ => {
                let words = request.words().iter();
                let bytes: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
                region.write(&bytes);
            }
        }
        Ok(region)
    }

    /// `count` free slots; None when there are none until `deadline`, or the work queue is closed.
    pub fn slots(&self, count: usize, deadline: Option<Instant>) -> Option<Vec<u32>> {
        loop {
            if self.is_closed() {
                return None;
            }
            {
                let mut state = lock(&self.state);
                if state.free.len() >= count {
                    let at = state.free.len() - count;
                    return Some(state.free.split_off(at));
                }
            }
            // Answers that nobody has looked at hold slots too.
            self.look_at_all();
            if lock(&self.state).free.len() < count {
                if deadline.is_none_or(|deadline| Instant::now() >= deadline) {
                    return None;
                }
                let seen = self.work_queue.watch();
                self.work_queue.wait_for_answers(seen, SWEEP);
                self.work_queue.unwatch();
            }
        }
    }

    /// The request that a task is of.
    pub(super) fn handle_of(&self, slot: u32) -> Option<Arc<RequestHandle>> {
        lock(&self.state).handles[slot as usize].upgrade()
    }

    /// A claimed task is for another reader.
    pub(super) fn put_back(&self, slot: u32, reader: usize) {
        let table = lock(&self.state);
        self.work_queue.put_back(slot, reader);
        drop(table);
    }

    /// Reap handles that were dropped on their way.
    pub fn sweep(&self) {
        let dropped = std::mem::take(&mut lock(&self.state).dropped);
        let left: Vec<_> = dropped
            .into_iter()
            .filter(|handle| handle.poll().is_none())
            .collect();
        if !left.is_empty() {
            lock(&self.state).dropped.extend(left);
        }
    }

    /// Note every answer that there is, whether somebody waits for it or not.
    fn look_at_all(&self) {
        let handles: Vec<_> = lock(&self.state)
            .handles
            .iter()
            .map(Weak::upgrade)
            .collect();
        handles
            .iter()
            .flatten()
            .for_each(|handle| drop(handle.poll()));
        self.sweep();
    }

    /// Whether more than one task is not answered; it looks at answers only if it may be so.
    pub fn has_several(&self) -> bool {
        lock(&self.state).pending > 1 && self.pending() > 1
    }

    /// Tasks that are not known to be answered.
    pub fn pending(&self) -> usize {
        self.look_at_all();
        lock(&self.state).pending
    }

    /// A dead reader's tasks are queued again, or fail if they killed before; the slots of these.
    pub fn recover(&self, reader: usize, status: i32) -> Vec<u32> {
        let mut failed = Vec::new();
        let chunk = self.work_queue.record(reader).chunk.swap(0, SeqCst);
        for slot in self.work_queue.claimed(reader) {
            let fail = |deaths| {
                if deaths >= DEATHS_ALLOWED {
                    let error = TaskError::Died(chunk.wrapping_sub(1), status, deaths);
                    self.work_queue
                        .slot(slot)
                        .error
                        .set(u64::from(slot), &error);
                }
                deaths >= DEATHS_ALLOWED
            };
            let table = lock(&self.state);
            if self.work_queue.recover(slot, reader, fail) {
                failed.push(slot);
            }
            drop(table);
        }
        self.work_queue.tell_answered();
        failed
    }

    /// Send nothing more; what is on its way is still answered.
    pub fn close(&self) {
        if self.is_mine() {
            self.closed.store(true, SeqCst);
            self.work_queue.close();
        }
    }

    /// End every handle now. The readers must be gone; where some outlive their kill, what they may
    /// still write into is never used again.
    pub fn stop(&self, outlived: bool) {
        if self.is_mine() {
            self.outlived.store(outlived, SeqCst);
            self.closed.store(true, SeqCst);
            self.work_queue.stop();
            let dropped = std::mem::take(&mut lock(&self.state).dropped);
            dropped.iter().for_each(|handle| drop(handle.poll()));
            lock(&self.state).spare_requests.clear();
            *lock(&self.fd) = None;
        }
    }
}

/// Say in a slot which part of a request it is, and where the request lies: in a region, or in the slot.
fn set_task(place: &Slot, part: (usize, usize), region: Option<&Region>, inline: Option<&[u64]>) {
    place.part.store(part.0 as u32, SeqCst);
    place.n_parts.store(part.1 as u32, SeqCst);
    let at = region.map_or(u64::MAX, |region| region.at() as u64);
    place.request_at.store(at, SeqCst);
    for (to, &word) in place.inline.iter().zip(inline.unwrap_or_default()) {
        to.store(word, SeqCst);
    }
    place.n_dims.store(0, SeqCst);
}

impl Reaper for Dispatcher {
    fn is_mine(&self) -> bool {
        Dispatcher::is_mine(self)
    }

    fn work_queue(&self) -> &WorkQueue {
        &self.work_queue
    }

    fn outlived(&self) -> bool {
        self.outlived.load(SeqCst)
    }

    fn take_home(&self, slots: Vec<u32>, request: Option<Region>) {
        let mut state = lock(&self.state);
        state.pending -= slots.len();
        state.free.extend(slots);
        if state.spare_requests.len() < SPARE_REQUESTS {
            let spare = request.filter(|request| request.len() <= SPARE_REQUEST_BYTES);
            state.spare_requests.extend(spare);
        }
    }

    fn reap(&self, handle: Arc<RequestHandle>) {
        lock(&self.state).dropped.push(handle);
    }
}

#[cfg(test)]
mod tests;
