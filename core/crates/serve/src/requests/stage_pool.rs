//! Shelves of stages: memory for results, lent to one request at a time.
//!
//! Law:
//! 1. A lease is one stage in use. It goes back to its pool when the last one who needs it (the
//!    request, its readers, a view) is gone, from whichever thread, in whichever order.
//! 2. A pool of a fixed number has stages of one size. A growing one makes stages of the sizes
//!    that are asked for, and keeps them, within its limit.
//! 3. A view may outlive its request. A pool of a fixed number then no longer counts the stage
//!    (`StageLease::detach`) and takes other memory from the arena for the next request. It keeps one
//!    stage beyond its number, because a loop whose variable holds the last view needs two in turn.
//! 4. A closed pool lends nothing; its stages are given back to the arena as they return.
//! 5. The lock is never held while Python code can run. A forked child is lent nothing.
//!
//! It must never know of requests or Python.

use crate::requests::arena::{Arena, Region};
use os::sync::{Condvar, Mutex, MutexGuard};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Why there is no stage.
#[derive(Debug)]
pub enum Refusal {
    Closed,
    /// All are in use, for as long as the caller wanted to wait.
    Exhausted,
    /// No stage of this pool is so large: needed, the most there is.
    TooSmall(usize, usize),
    Memory(io::Error),
}

enum Kind {
    Fixed { size: usize, count: usize },
    Growing { limit: usize },
}

pub struct StagePool {
    arena: Arc<Arena>,
    kind: Kind,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Default)]
struct State {
    /// By size; the last one returned is the first one lent, as it is the warmest in the caches.
    free: BTreeMap<usize, Vec<Region>>,
    free_bytes: usize,
    lent_bytes: usize,
    /// By number, and so by age.
    lent: BTreeMap<u64, Instant>,
    next: u64,
    closed: bool,
}

impl State {
    fn pop(&mut self, size: usize) -> Option<Region> {
        let regions = self.free.get_mut(&size)?;
        let region = regions.pop()?;
        self.free_bytes -= region.len();
        Some(region)
    }

    /// Free stages to give back to the arena, largest first, until this many bytes are found.
    fn evict(&mut self, bytes: usize) -> Vec<Region> {
        let (mut found, mut sum) = (Vec::new(), 0);
        for regions in self.free.values_mut().rev() {
            while sum < bytes {
                let Some(region) = regions.pop() else {
                    break;
                };
                sum += region.len();
                found.push(region);
            }
        }
        self.free_bytes -= sum;
        found
    }
}

impl StagePool {
    /// `count` stages of `size` bytes.
    pub fn fixed(arena: &Arc<Arena>, size: usize, count: usize) -> io::Result<Arc<StagePool>> {
        let mut regions = Vec::new();
        for _ in 0..count {
            regions.push(arena.take(size)?);
        }
        let pool = StagePool::new(arena, Kind::Fixed { size, count });
        let mut state = pool.state();
        state.free_bytes = regions.iter().map(Region::len).sum();
        state.free.insert(0, regions);
        drop(state);
        Ok(Arc::new(pool))
    }

    /// Stages of any size, together at most `limit` bytes.
    pub fn growing(arena: &Arc<Arena>, limit: usize) -> Arc<StagePool> {
        Arc::new(StagePool::new(arena, Kind::Growing { limit }))
    }

    fn new(arena: &Arc<Arena>, kind: Kind) -> StagePool {
        StagePool {
            arena: arena.clone(),
            kind,
            state: Mutex::default(),
            returned: Condvar::new(),
        }
    }

    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lend a stage of at least `size` bytes; wait for one at most until `deadline`.
    pub fn take(
        self: &Arc<StagePool>,
        size: usize,
        deadline: Option<Instant>,
    ) -> Result<StageLease, Refusal> {
        if !self.arena.is_mine() {
            return Err(Refusal::Closed);
        }
        let (key, limit) = match self.kind {
            Kind::Fixed { size: each, .. } => (0, each),
            Kind::Growing { limit } => (size_class(size), limit),
        };
        if size > limit {
            return Err(Refusal::TooSmall(size, limit));
        }
        let mut state = self.state();
        loop {
            if state.closed {
                return Err(Refusal::Closed);
            }
            if let Some(region) = self.next(&mut state, key, size)? {
                return Ok(self.lend(&mut state, region));
            }
            let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
            match left {
                None | Some(Duration::ZERO) => return Err(Refusal::Exhausted),
                Some(left) => {
                    let woken = self.returned.wait_timeout(state, left);
                    state = woken.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// A stage that is free, or a new one; None if the pool may lend no more.
    fn next(&self, state: &mut State, key: usize, size: usize) -> Result<Option<Region>, Refusal> {
        if matches!(self.kind, Kind::Fixed { count, .. } if state.lent.len() >= count) {
            return Ok(None);
        }
        if let Some(region) = state.pop(key) {
            return Ok(Some(region));
        }
        let wanted = match self.kind {
            Kind::Fixed { size, .. } => size,
            Kind::Growing { limit } => {
                // A size a little under the limit must fit, though its class does not.
                let wanted = key.min(limit.max(size));
                if state.lent_bytes + wanted > limit && !state.lent.is_empty() {
                    return Ok(None);
                }
                let over = (state.lent_bytes + state.free_bytes + wanted).saturating_sub(limit);
                drop(state.evict(over));
                wanted
            }
        };
        self.arena.take(wanted).map(Some).map_err(Refusal::Memory)
    }

    fn lend(self: &Arc<StagePool>, state: &mut State, region: Region) -> StageLease {
        let number = state.next;
        state.next += 1;
        state.lent_bytes += region.len();
        state.lent.insert(number, Instant::now());
        let len = match self.kind {
            Kind::Fixed { size, .. } => size,
            Kind::Growing { .. } => region.len(),
        };
        StageLease {
            pool: self.clone(),
            region: Some(region),
            len,
            number,
        }
    }

    /// Lend no more. Stages in use stay so until they return.
    pub fn close(&self) {
        if self.arena.is_mine() {
            let mut state = self.state();
            state.closed = true;
            let free = std::mem::take(&mut state.free);
            state.free_bytes = 0;
            drop(state);
            drop(free);
            self.returned.notify_all();
        }
    }

    pub fn is_closed(&self) -> bool {
        !self.arena.is_mine() || self.state().closed
    }

    /// Stages in use, and seconds since the oldest was lent.
    pub fn lent(&self) -> (usize, f64) {
        if !self.arena.is_mine() {
            return (0, 0.0);
        }
        let state = self.state();
        let oldest = state.lent.first_key_value();
        let age = oldest.map_or(0.0, |(_, since)| since.elapsed().as_secs_f64());
        (state.lent.len(), age)
    }

    /// Bytes of all stages.
    pub fn used_bytes(&self) -> usize {
        if !self.arena.is_mine() {
            return 0;
        }
        let state = self.state();
        state.free_bytes + state.lent_bytes
    }
}

/// Sizes are rounded up so that a stage fits many: four steps between two powers of two.
fn size_class(size: usize) -> usize {
    let size = size.max(4096);
    let step = (size.next_power_of_two() / 8).max(4096);
    size.checked_next_multiple_of(step).unwrap_or(size)
}

/// A stage in use.
pub struct StageLease {
    pool: Arc<StagePool>,
    /// None only while it is dropped.
    region: Option<Region>,
    len: usize,
    number: u64,
}

impl StageLease {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// First byte in the arena.
    pub fn at(&self) -> usize {
        self.region.as_ref().map_or(0, Region::at)
    }

    pub fn base(&self) -> *mut u8 {
        self.region
            .as_ref()
            .map_or(std::ptr::null_mut(), Region::base)
    }

    /// The request is through, and only views keep the stage: a pool of a fixed number may lend
    /// another. A growing one counts it on, as its limit is one of bytes.
    pub fn detach(&self) {
        let pool = &self.pool;
        if pool.arena.is_mine() && matches!(pool.kind, Kind::Fixed { .. }) {
            self.uncount(&mut pool.state());
            pool.returned.notify_all();
        }
    }

    fn uncount(&self, state: &mut State) {
        if state.lent.remove(&self.number).is_some() {
            state.lent_bytes -= self.region.as_ref().map_or(0, Region::len);
        }
    }
}

impl Drop for StageLease {
    fn drop(&mut self) {
        let pool = &self.pool;
        if !pool.arena.is_mine() {
            return;
        }
        let mut state = pool.state();
        self.uncount(&mut state);
        let Some(region) = self.region.take() else {
            return;
        };
        let (key, most) = match pool.kind {
            Kind::Fixed { count, .. } => (0, count + 1 - state.lent.len()),
            Kind::Growing { .. } => (region.len(), usize::MAX),
        };
        let (closed, len) = (state.closed, region.len());
        let free = state.free.entry(key).or_default();
        let unwanted = if closed || free.len() >= most {
            Some(region)
        } else {
            free.push(region);
            state.free_bytes += len;
            None
        };
        drop(state);
        drop(unwanted);
        pool.returned.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arena() -> Arc<Arena> {
        Arena::new(64 << 20).unwrap()
    }

    #[test]
    fn a_stage_is_lent_once_at_a_time() {
        let pool = StagePool::fixed(&arena(), 100, 1).unwrap();
        let first = pool.take(100, None).unwrap();
        assert_eq!(first.len(), 100);
        assert!(matches!(pool.take(1, None), Err(Refusal::Exhausted)));
        assert_eq!(pool.lent().0, 1);
        drop(first);
        assert!(pool.take(0, None).is_ok());
        assert!(matches!(
            pool.take(101, None),
            Err(Refusal::TooSmall(101, 100))
        ));
    }

    #[test]
    fn a_detached_stage_makes_room_for_another() {
        let arena = arena();
        let pool = StagePool::fixed(&arena, 8, 1).unwrap();
        let page = arena.used_bytes();
        let first = pool.take(8, None).unwrap();
        first.detach();
        assert_eq!((pool.lent().0, pool.used_bytes()), (0, 0));
        let second = pool.take(8, None).unwrap();
        assert_ne!(first.at(), second.at());
        assert!(matches!(pool.take(8, None), Err(Refusal::Exhausted)));
        let (one, two) = (first.at(), second.at());
        drop(first);
        second.detach();
        let third = pool.take(8, None).unwrap();
        assert_eq!(third.at(), one);
        drop(second);
        // One beyond its number is free, but not lent.
        assert!(matches!(pool.take(8, None), Err(Refusal::Exhausted)));
        third.detach();
        assert_eq!(pool.take(8, None).unwrap().at(), two);
        assert_eq!(arena.used_bytes(), 2 * page);
        pool.close();
        assert_eq!(arena.used_bytes(), page);
        drop(third);
        assert_eq!(arena.used_bytes(), 0);
    }

    #[test]
    fn a_fixed_pool_keeps_one_stage_beyond_its_number() {
        let arena = arena();
        let pool = StagePool::fixed(&arena, 8, 2).unwrap();
        let page = arena.used_bytes() / 2;
        let take = |_| {
            let lease = pool.take(8, None).unwrap();
            lease.detach();
            lease
        };
        let held: Vec<StageLease> = (0..9).map(take).collect();
        assert_eq!(arena.used_bytes(), 9 * page);
        drop(held);
        assert_eq!(
            (arena.used_bytes(), pool.used_bytes()),
            (3 * page, 3 * page)
        );
    }

    #[test]
    fn waiting_ends_when_one_is_detached_or_there_is_no_memory_for_another() {
        let arena = arena();
        let pool = StagePool::fixed(&arena, 20 << 20, 1).unwrap();
        let mut held = vec![pool.take(8, None).unwrap()];
        let other = pool.clone();
        let deadline = Instant::now() + Duration::from_secs(30);
        let thread = std::thread::spawn(move || other.take(8, Some(deadline)));
        held[0].detach();
        held.push(thread.join().unwrap().unwrap());
        held[1].detach();
        held.push(pool.take(8, None).unwrap());
        held[2].detach();
        assert!(matches!(pool.take(8, None), Err(Refusal::Memory(_))));
        held.remove(1);
        assert!(pool.take(8, None).is_ok());
    }

    #[test]
    fn waiting_ends_when_one_returns() {
        let pool = StagePool::fixed(&arena(), 8, 2).unwrap();
        let held = (pool.take(8, None).unwrap(), pool.take(8, None).unwrap());
        let other = pool.clone();
        let thread = std::thread::spawn(move || {
            let deadline = Instant::now() + Duration::from_secs(30);
            other.take(8, Some(deadline)).map(|lease| lease.at())
        });
        let at = held.1.at();
        drop(held.1);
        assert_eq!(thread.join().unwrap().unwrap(), at);
    }

    #[test]
    fn closing_waits_for_nobody_and_frees_what_returns() {
        let arena = arena();
        let pool = StagePool::fixed(&arena, 8, 2).unwrap();
        let held = pool.take(8, None).unwrap();
        pool.close();
        assert!(arena.used_bytes() > 0);
        assert!(matches!(pool.take(8, None), Err(Refusal::Closed)));
        drop(held);
        assert_eq!(arena.used_bytes(), 0);
    }

    #[test]
    fn a_growing_pool_keeps_to_its_limit_and_uses_stages_again() {
        let arena = arena();
        let pool = StagePool::growing(&arena, 1 << 20);
        let first = pool.take(5000, None).unwrap();
        let at = first.at();
        drop(first);
        assert_eq!(pool.take(4500, None).unwrap().at(), at);
        let held: Vec<_> = (0..).map_while(|_| pool.take(100_000, None).ok()).collect();
        assert!(held.len() >= 8 && pool.used_bytes() <= 1 << 20);
        drop(held);
        // All that is free gives way to one that needs it.
        let all = pool.take(1 << 20, None).unwrap();
        assert_eq!((all.len(), pool.used_bytes()), (1 << 20, 1 << 20));
        assert!(matches!(pool.take(1, None), Err(Refusal::Exhausted)));
        assert!(matches!(
            pool.take(1 << 21, None),
            Err(Refusal::TooSmall(..))
        ));
        drop(all);
        pool.close();
        assert_eq!(arena.used_bytes(), 0);
    }
}
