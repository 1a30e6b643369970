//! A ring's memory, mapped as its plan describes it.
//!
//! Law:
//! 1. A ring that does not fit its plan is refused before anything of it is used.

use super::control::{Control, control_fits};
use crate::os::memory::{Mapping, file_len};
use crate::tables::plan::{Plan, Tape};
use std::io;
use std::os::fd::BorrowedFd;

/// The two mappings of a ring: its control header and its tapes.
pub struct RingMaps {
    pub head: Mapping,
    pub tapes: Vec<Mapping>,
    pub control: Control,
}

/// Map a ring as the plan describes it.
pub fn map_ring(plan: &Plan, fd: BorrowedFd<'_>) -> io::Result<RingMaps> {
    if file_len(fd)? != plan.ring_bytes() || !control_fits(plan) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the ring does not fit its plan",
        ));
    }
    let head = Mapping::new(fd, 0, plan.control_bytes(), true)?;
    let tape = |tape: &Tape| Mapping::double(fd, tape.at, tape.bytes);
    let tapes = plan.tapes.iter().map(tape);
    let tapes = tapes.collect::<io::Result<Vec<_>>>()?;
    // SAFETY: the header has the size that was just checked and lives as long as `RingMaps`, with
    // which the control is only ever used.
    let control = unsafe {
        Control::new(
            head.base(),
            plan.n_readers(),
            plan.n_slots(),
            plan.n_consumers(),
        )
    };
    Ok(RingMaps {
        head,
        tapes,
        control,
    })
}
