//! Rings of streams that have ended, for the next ones: their pages are there, and mapped.
//!
//! Law:
//! 1. The kernel zeroes each new page, and enters it into a page table, which takes longer than to fill
//!    it. So a ring whose stream has ended is kept for one of the same layout.
//! 2. Only a ring that nobody else can write or see any more is kept: its blocks are given back, its
//!    readers have said that they are at rest (`Leases::keep`), and no other process has it.
//! 3. A bounded part of memory is kept, the oldest goes first. It is given back when no stream ran for
//!    some seconds, when `release` is called, and before a ring is refused for want of memory.
//! 4. Nobody waits: who finds the list locked does without it. A forked child keeps nothing of its
//!    parent's.

use crate::ring::maps::{RingMaps, control_of, new_ring};
use os::fork::ForkMark;
use os::idle_threads;
use os::limits::available_bytes;
use std::io;
use std::sync::{Arc, Mutex};
use tables::plan::Plan;

/// What is kept together, at most; and a part of the memory that there is.
const MAX_BYTES: usize = 64 << 20;
const LITTLE_PART: u64 = 32;
const MAX_RINGS: usize = 16;

struct Kept {
    mark: ForkMark,
    maps: Arc<RingMaps>,
}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

/// A ring for `plan`: a kept one, or a new one.
pub fn ring_for(plan: &Plan) -> io::Result<Arc<RingMaps>> {
    // Who gave it back may hold it for another moment.
    let is_free = |kept: &Kept| kept.mark.is_mine() && Arc::strong_count(&kept.maps) == 1;
    let found = KEPT.try_lock().ok().and_then(|mut kept| {
        let at = kept
            .iter()
            .rposition(|one| is_free(one) && one.maps.fits(plan))?;
        Some(kept.remove(at).maps)
    });
    if let Some(mut maps) = found.and_then(Arc::into_inner) {
        maps.control = control_of(plan, &maps.head);
        maps.control.clear(plan);
        return Ok(Arc::new(maps));
    }
    let made = || new_ring(plan).map(Arc::new);
    made().or_else(|error| match release() {
        true => made(),
        false => Err(error),
    })
}

/// Keep a ring that its stream needs no more.
pub(super) fn keep(maps: Arc<RingMaps>) {
    let most = MAX_BYTES.min((available_bytes() / LITTLE_PART) as usize);
    let (Ok(mark), true) = (ForkMark::new(), maps.bytes() <= most) else {
        return;
    };
    let mut gone = Vec::new();
    if let Ok(mut kept) = KEPT.try_lock() {
        kept.push(Kept { mark, maps });
        let bytes = |kept: &[Kept]| kept.iter().map(|kept| kept.maps.bytes()).sum::<usize>();
        while kept.len() > MAX_RINGS || bytes(&kept) > most {
            gone.push(kept.remove(0));
        }
    }
    // Unmapped when the others can be looked at again.
    drop(gone);
    idle_threads::rest_later(at_rest);
}

/// Give all that is kept back. False: there was nothing.
pub fn release() -> bool {
    let gone = KEPT.try_lock().map(|mut kept| std::mem::take(&mut *kept));
    gone.is_ok_and(|gone| !gone.is_empty())
}

/// What to do when no reader has had work for a while.
pub fn at_rest() {
    release();
}
