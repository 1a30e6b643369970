//! The arena and stages as Python sees them.
//!
//! Law:
//! 1. A process has one arena.
//! 2. Requests whose results lie together have one stage, until none of them needs it.

use pyo3::prelude::*;
use serve::requests::arena::{self, Arena as Memory};
use serve::requests::stage_pool::{StageLease, StagePool};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The arena of this process; made by the first who needs it, gone with the last.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Arena(pub(super) Arc<Memory>);

#[pymethods]
impl Arena {
    /// The arena that there is, or a new one of `limit_bytes`.
    #[new]
    fn new(limit_bytes: usize) -> PyResult<Arena> {
        Ok(Arena(arena::shared(limit_bytes)?))
    }

    #[getter]
    fn used_bytes(&self) -> usize {
        self.0.used_bytes()
    }

    /// False in a forked child.
    #[getter]
    fn is_mine(&self) -> bool {
        self.0.is_mine()
    }
}

/// Where results can go: one stage, several, or as many as are needed within a limit.
#[pyclass(frozen, subclass, module = "_multitables._core")]
pub struct Stages {
    pub(super) pool: Arc<StagePool>,
    limit: usize,
    count: Option<usize>,
    /// The stage that all requests have; None: each has its own.
    one: Option<Mutex<Weak<StageLease>>>,
}

impl Stages {
    /// The stage of other requests, if results lie together and one of them still has it.
    pub(super) fn lent_to_others(&self, size: usize) -> Option<Arc<StageLease>> {
        let one = self.one.as_ref()?;
        let lease = one.lock().unwrap_or_else(PoisonError::into_inner).upgrade();
        lease.filter(|lease| lease.len() >= size)
    }

    /// Requests to come have this stage, too, if results lie together.
    pub(super) fn lend_to_others(&self, lease: &Arc<StageLease>) {
        if let Some(one) = &self.one {
            *one.lock().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(lease);
        }
    }
}

#[pymethods]
impl Stages {
    /// `count` stages of `n_bytes`; without a count, stages of any size within `n_bytes` together.
    #[new]
    #[pyo3(signature = (arena, n_bytes, count = None))]
    fn new(arena: &Arena, n_bytes: usize, count: Option<usize>) -> PyResult<Stages> {
        let pool = match count {
            Some(count) => StagePool::fixed(&arena.0, n_bytes, count)?,
            None => StagePool::growing(&arena.0, n_bytes),
        };
        Ok(Stages {
            pool,
            limit: n_bytes,
            count,
            one: None,
        })
    }

    /// A stage of these for several requests; each of them writes a part of it.
    fn together(&self) -> Stages {
        Stages {
            pool: self.pool.clone(),
            limit: self.limit,
            count: self.count,
            one: Some(Mutex::default()),
        }
    }

    #[getter]
    fn n_bytes(&self) -> usize {
        self.limit
    }

    #[getter]
    fn count(&self) -> Option<usize> {
        self.count
    }

    #[getter]
    fn used_bytes(&self) -> usize {
        self.pool.used_bytes()
    }

    /// Stages in use, and seconds since the oldest of them was lent.
    fn lent(&self) -> (usize, f64) {
        self.pool.lent()
    }

    #[getter]
    fn closed(&self) -> bool {
        self.pool.is_closed()
    }

    fn close(&self) {
        self.pool.close();
    }
}
