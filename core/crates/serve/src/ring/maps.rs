//! A ring's memory, mapped as its plan describes it.
//!
//! Law:
//! 1. A ring that does not fit its plan, or whose size may change, is refused before anything of it is
//!    used: another process may have sent it.
//! 2. To make the pages of a large ring takes as long as a store takes to answer. So readers of a store
//!    make them, each those of its rows, while its requests are on their way. Other rings have theirs.

use super::control::{Control, control_fits};
use os::memory::{Mapping, SIZE_SEALS, begun_memfd, reserve, reserved_memfd, sealed_len};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tables::plan::{Plan, Tape};

/// The two mappings of a ring: its control header and its tapes.
pub struct RingMaps {
    pub head: Mapping,
    pub tapes: Vec<Mapping>,
    pub control: Control,
    /// Of a ring that this process has made, or whose pages it makes: its memory.
    pub fd: Option<OwnedFd>,
    /// Readers make its pages.
    pub is_sparse: bool,
}

impl RingMaps {
    /// It has the layout of a plan's ring.
    pub fn fits(&self, plan: &Plan) -> bool {
        let tapes = self.tapes.iter().map(Mapping::len);
        control_fits(plan)
            && (is_sparse(plan) || !self.is_sparse)
            && self.head.len() == plan.control_bytes()
            && tapes.eq(plan.tapes.iter().map(|tape| 2 * tape.bytes))
    }

    /// Bytes of its memory.
    pub fn bytes(&self) -> usize {
        self.head.len() + self.tapes.iter().map(|tape| tape.len() / 2).sum::<usize>()
    }

    /// Make the pages of these bytes of a tape before they are first written, if they may be missing.
    pub fn make_pages(&self, plan: &Plan, tape: usize, bytes: Range<usize>) -> io::Result<()> {
        let (at, len) = (plan.tapes[tape].at, plan.tapes[tape].bytes);
        let part = bytes.start..bytes.end.min(len); // what is behind it was there before
        match &self.fd {
            Some(fd) if self.is_sparse && !part.is_empty() => {
                reserve(fd.as_fd(), at + part.start, part.len())?;
                self.tapes[tape].enter(part);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether readers of a plan make the pages of its ring.
fn is_sparse(plan: &Plan) -> bool {
    plan.table.access().is_some()
}

/// A new ring for a plan.
pub fn new_ring(plan: &Plan) -> io::Result<RingMaps> {
    let (name, bytes) = (c"multitables-ring", plan.ring_bytes());
    let fd = match is_sparse(plan) {
        true => begun_memfd(name, bytes, plan.control_bytes())?,
        false => reserved_memfd(name, bytes)?,
    };
    let maps = map_ring(plan, fd.as_fd())?;
    Ok(RingMaps {
        fd: Some(fd),
        ..maps
    })
}

/// Map a ring as the plan describes it.
pub fn map_ring(plan: &Plan, fd: BorrowedFd<'_>) -> io::Result<RingMaps> {
    let (head, control) = map_control(plan, fd, plan.ring_bytes())?;
    let is_sparse = is_sparse(plan);
    let tape = |tape: &Tape| Mapping::double(fd, tape.at, tape.bytes, is_sparse);
    let tapes = plan.tapes.iter().map(tape);
    let tapes = tapes.collect::<io::Result<Vec<_>>>()?;
    Ok(RingMaps {
        head,
        tapes,
        control,
        fd: None,
        is_sparse,
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
