//! The arena and stages as Python sees them.
//!
//! Law:
//! 1. A process has one arena.

use pyo3::prelude::*;
use serve::requests::arena::{self, Arena as Memory};
use serve::requests::stage_pool::StagePool;
use std::sync::Arc;

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
        })
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
