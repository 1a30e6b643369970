//! A plan and its ring for tests, in memory as processes share it.
//!
//! Law:
//! 1. It may be mapped as often as there are processes.

use crate::ring::maps::{RingMaps, map_ring};
use os::memory::{reserved_memfd, sealed_memfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tables::plan::Plan;

/// An encoded plan and its ring, which may be mapped as often as there are processes.
pub struct Shared {
    plan: OwnedFd,
    ring: OwnedFd,
}

impl Shared {
    pub fn new(encoded: &[u8]) -> Shared {
        let plan = sealed_memfd(c"test-plan", encoded).unwrap();
        let bytes = Plan::open(plan.as_fd()).unwrap().ring_bytes();
        let ring = reserved_memfd(c"test-ring", bytes).unwrap();
        Shared { plan, ring }
    }

    pub fn ring(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    pub fn map(&self) -> (Plan, RingMaps) {
        let plan = Plan::open(self.plan.as_fd()).unwrap();
        let maps = map_ring(&plan, self.ring.as_fd()).unwrap();
        (plan, maps)
    }
}
