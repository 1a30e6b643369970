//! A ring's memory, mapped as its plan describes it.
//!
//! Law:
//! 1. A ring that does not fit its plan, or whose size may change, is refused before anything of it is
//!    used: another process may have sent it.

use super::control::{Control, control_fits};
use os::memory::{Mapping, SIZE_SEALS, sealed_len};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use tables::plan::{Plan, Tape};

/// The two mappings of a ring: its control header and its tapes.
pub struct RingMaps {
    pub head: Mapping,
    pub tapes: Vec<Mapping>,
    pub control: Control,
    /// Of a ring that this process has made: its memory.
    pub fd: Option<OwnedFd>,
}

impl RingMaps {
    /// It has the layout of a plan's ring.
    pub fn fits(&self, plan: &Plan) -> bool {
        let tapes = self.tapes.iter().map(Mapping::len);
        control_fits(plan)
            && self.head.len() == plan.control_bytes()
            && tapes.eq(plan.tapes.iter().map(|tape| 2 * tape.bytes))
    }

    /// Bytes of its memory.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.tapes.iter().map(|tape| tape.len() / 2).sum::<usize>()
    }
}

/// Map a ring as the plan describes it.
pub fn map_ring(plan: &Plan, fd: BorrowedFd<'_>) -> io::Result<RingMaps> {
    let (head, control) = map_control(plan, fd, plan.ring_bytes())?;
    let tape = |tape: &Tape| Mapping::double(fd, tape.at, tape.bytes);
    let tapes = plan.tapes.iter().map(tape);
    let tapes = tapes.collect::<io::Result<Vec<_>>>()?;
    Ok(RingMaps {
        head,
        tapes,
        control,
        fd: None,
    })
}

/// Map the control header of a plan, in memory of this length. The caller keeps both together.
pub fn map_control(
    plan: &Plan,
    fd: BorrowedFd<'_>,
    bytes: usize,
) -> io::Result<(Mapping, Control)> {
    if sealed_len(fd, SIZE_SEALS)? != bytes || !control_fits(plan) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "shared memory does not fit its plan",
        ));
    }
    let head = Mapping::new(fd, 0, plan.control_bytes(), true)?;
    let control = control_of(plan, &head);
    Ok((head, control))
}

/// The control header of a plan that it fits into, at `head`. The caller keeps both together.
pub(super) fn control_of(plan: &Plan, head: &Mapping) -> Control {
    assert!(control_fits(plan) && plan.control_bytes() <= head.len());
    // SAFETY: the size was just checked; the caller keeps the mapping beside the control.
    unsafe {
        Control::new(
            head.base(),
            plan.n_readers(),
            plan.n_slots(),
            plan.n_consumers(),
        )
    }
}
