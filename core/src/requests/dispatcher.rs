//! The parent's side of the board: requests go out as tasks, and come back as flights.
//!
//! Law:
//! 1. A request goes out in as many tasks as there are readers that own a chunk of it.
//! 2. A flight that was dropped on its way is seen home by whoever comes by next.
//! 3. Locks are taken in the order flight, dispatch, and never while Python code can run.
//! 4. A forked child sends nothing.

use crate::requests::arena::{Arena, Region};
use crate::requests::handle::{self, Outcome, RequestHandle};
use crate::requests::stage_pool::{Refusal, StageLease, StagePool};
use crate::requests::work_queue::{INLINE_WORDS, WorkQueue};
use crate::tables::dataset::{Chunk, Dataset, DatasetTable};
use crate::task_error::TaskError;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// While one waits for memory or a slot, dropped flights are looked after so often.
const SWEEP: Duration = Duration::from_millis(2);
/// Regions for long asks that are kept for the next, and how long they may be.
const SPARE_ASKS: usize = 64;
const SPARE_ASK_BYTES: usize = 64 << 10;
/// A task may cost so many readers.
pub const DEATHS_ALLOWED: u64 = 2;

/// A dataset as the readers know it: a table of one, in the arena.
pub struct SharedDataset {
    pub id: u64,
    pub region: Region,
    pub len: usize,
    table: DatasetTable,
}

impl SharedDataset {
    pub fn new(arena: &Arc<Arena>, bytes: &[u8]) -> Result<SharedDataset, ShareError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut region = arena.take(bytes.len()).map_err(ShareError::Memory)?;
        region.write(bytes);
        let table = DatasetTable::over(arena.map().clone(), region.at(), bytes.len())
            .map_err(ShareError::Refused)?;
        if table.datasets.len() != 1 {
            return Err(ShareError::Refused("a request's table has one dataset"));
        }
        Ok(SharedDataset {
            id: NEXT.fetch_add(1, SeqCst),
            len: bytes.len(),
            region,
            table,
        })
    }

    pub fn dataset(&self) -> &Dataset {
        &self.table.datasets[0]
    }

    pub fn chunks(&self) -> &[Chunk] {
        self.table.chunks()
    }
}

pub enum ShareError {
    Memory(io::Error),
    Refused(&'static str),
}

/// Who shall answer an ask.
pub enum Request<'a> {
    /// The readers that own a chunk of it, each its part.
    Parts(&'a [u64], &'a [usize]),
    /// Any reader, through a library.
    Library(&'a [u8]),
}

impl Request<'_> {
    pub fn n_tasks(&self) -> usize {
        match self {
            Request::Parts(_, owners) => owners.len(),
            Request::Library(_) => 1,
        }
    }
}

pub struct Dispatcher {
    pub board: WorkQueue,
    pub arena: Arc<Arena>,
    state: Mutex<State>,
    fd: Mutex<Option<OwnedFd>>,
    closed: AtomicBool,
}

struct State {
    free: Vec<u32>,
    /// By slot.
    flights: Vec<Weak<RequestHandle>>,
    dropped: Vec<Arc<RequestHandle>>,
    spare_asks: Vec<Region>,
    pending: usize,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Dispatcher {
    pub fn new(
        arena: Arc<Arena>,
        n_readers: usize,
        n_slots: usize,
        cache_bytes: usize,
    ) -> io::Result<Arc<Dispatcher>> {
        let (fd, board) = WorkQueue::new(n_readers, n_slots, cache_bytes)?;
        Ok(Arc::new(Dispatcher {
            state: Mutex::new(State {
                free: (0..board.n_slots() as u32).rev().collect(),
                flights: (0..board.n_slots()).map(|_| Weak::new()).collect(),
                dropped: Vec::new(),
                spare_asks: Vec::new(),
                pending: 0,
            }),
            board,
            arena,
            fd: Mutex::new(Some(fd)),
            closed: AtomicBool::new(false),
        }))
    }

    /// The board's descriptor, until `stop`.
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

    /// Take a stage, see dropped flights home meanwhile, and wait at most until `deadline`.
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

    /// Send an ask out, in as many slots as it has tasks.
    pub fn send(
        self: &Arc<Dispatcher>,
        ask: &Request<'_>,
        slots: Vec<u32>,
        shared: Option<&Arc<SharedDataset>>,
        lease: StageLease,
        out_bytes: usize,
    ) -> io::Result<Arc<RequestHandle>> {
        let library = [self.board.least_loaded()];
        let (bytes, owners) = match ask {
            Request::Parts(words, owners) => (8 * words.len(), *owners),
            Request::Library(bytes) => (bytes.len(), &library[..]),
        };
        let is_inline = matches!(ask, Request::Parts(words, _) if words.len() <= INLINE_WORDS);
        let region = match is_inline || owners.is_empty() {
            true => None,
            false => match self.region_for_request(ask, bytes) {
                Ok(region) => Some(region),
                Err(error) => {
                    lock(&self.state).free.extend(slots);
                    return Err(error);
                }
            },
        };
        let flight = Arc::new(RequestHandle {
            dispatch: self.clone(),
            state: Mutex::new(handle::State {
                slots: slots.clone(),
                outcome: slots.is_empty().then_some(Outcome::Done),
                failure: None,
                more: None,
                cancelled: false,
                shape: Vec::new(),
                lease: None,
                ask: None,
                shared: shared.cloned(),
            }),
        });
        let mut state = lock(&flight.state);
        for (&slot, &owner) in slots.iter().zip(owners) {
            let place = self.board.slot(slot);
            place.part.store(owner as u32, SeqCst);
            place.n_parts.store(self.board.n_readers() as u32, SeqCst);
            place.ask_bytes.store(bytes as u64, SeqCst);
            let at = region
                .as_ref()
                .map_or(u64::MAX, |region| region.at() as u64);
            place.ask_at.store(at, SeqCst);
            if let (Request::Parts(words, _), true) = (ask, is_inline) {
                for (to, &word) in place.inline.iter().zip(*words) {
                    to.store(word, SeqCst);
                }
            }
            place.out_at.store(lease.at() as u64, SeqCst);
            place.out_bytes.store(out_bytes as u64, SeqCst);
            place.n_dims.store(0, SeqCst);
        }
        state.lease = Some(Arc::new(lease));
        state.ask = region;
        {
            let mut table = lock(&self.state);
            table.pending += slots.len();
            for &slot in &slots {
                table.flights[slot as usize] = Arc::downgrade(&flight);
            }
            // Under the lock: the parent's threads are one writer to the queues.
            for (&slot, &owner) in slots.iter().zip(owners) {
                self.board.submit(slot, owner);
            }
        }
        drop(state);
        Ok(flight)
    }

    fn region_for_request(&self, ask: &Request<'_>, bytes: usize) -> io::Result<Region> {
        let spare = {
            let mut state = lock(&self.state);
            let fits = |region: &Region| region.len() >= bytes;
            let found = state.spare_asks.iter().position(fits);
            found.map(|at| state.spare_asks.swap_remove(at))
        };
        let mut region = match spare {
            Some(region) => region,
            None => self.arena.take(bytes)?,
        };
        match ask {
            Request::Parts(words, _) => {
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                region.write(&bytes);
            }
            Request::Library(bytes) => region.write(bytes),
        }
        Ok(region)
    }

    /// So many free slots; None when there are none until `deadline`, or the board is closed.
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
                let seen = self.board.watch();
                self.board.wait_for_answers(seen, SWEEP);
                self.board.unwatch();
            }
        }
    }

    /// Slots and an ask that a flight does not need any more.
    pub(super) fn take_home(&self, slots: Vec<u32>, ask: Option<Region>) {
        let mut state = lock(&self.state);
        state.pending -= slots.len();
        state.free.extend(slots);
        if state.spare_asks.len() < SPARE_ASKS {
            let spare = ask.filter(|ask| ask.len() <= SPARE_ASK_BYTES);
            state.spare_asks.extend(spare);
        }
    }

    /// Nobody asks for this flight any more, which is still on its way.
    pub(super) fn reap(&self, flight: Arc<RequestHandle>) {
        lock(&self.state).dropped.push(flight);
    }

    /// See flights home that were dropped on their way.
    pub fn sweep(&self) {
        let dropped = std::mem::take(&mut lock(&self.state).dropped);
        let left: Vec<_> = dropped
            .into_iter()
            .filter(|flight| flight.poll().is_none())
            .collect();
        if !left.is_empty() {
            lock(&self.state).dropped.extend(left);
        }
    }

    /// Note every answer that there is, whether somebody waits for it or not.
    fn look_at_all(&self) {
        let flights: Vec<_> = lock(&self.state)
            .flights
            .iter()
            .map(Weak::upgrade)
            .collect();
        flights
            .iter()
            .flatten()
            .for_each(|flight| drop(flight.poll()));
        self.sweep();
    }

    /// Tasks that are not known to be answered.
    pub fn pending(&self) -> usize {
        self.look_at_all();
        lock(&self.state).pending
    }

    /// A dead reader's tasks are queued again, or fail if they killed before; the slots of these.
    pub fn recover(&self, reader: usize, status: i32) -> Vec<u32> {
        let mut failed = Vec::new();
        let chunk = self.board.record(reader).chunk.swap(0, SeqCst);
        for slot in self.board.claimed(reader) {
            let fail = |deaths| {
                if deaths >= DEATHS_ALLOWED {
                    let error = TaskError::Died(chunk.wrapping_sub(1), status, deaths);
                    self.board.slot(slot).error.set(u64::from(slot), &error);
                }
                deaths >= DEATHS_ALLOWED
            };
            let table = lock(&self.state);
            if self.board.recover(slot, reader, fail) {
                failed.push(slot);
            }
            drop(table);
        }
        failed
    }

    /// Send nothing more; what is on its way is still answered.
    pub fn close(&self) {
        if self.is_mine() {
            self.closed.store(true, SeqCst);
            self.board.close();
        }
    }

    /// End every flight now. The readers must be gone, or they would write on.
    pub fn stop(&self) {
        if self.is_mine() {
            self.closed.store(true, SeqCst);
            self.board.stop();
            let dropped = std::mem::take(&mut lock(&self.state).dropped);
            dropped.iter().for_each(|flight| drop(flight.poll()));
            lock(&self.state).spare_asks.clear();
            *lock(&self.fd) = None;
        }
    }
}

#[cfg(test)]
mod tests;
