//! The parent's side of the ring, as Python sees it.
//!
//! Law:
//! 1. The lock of the leases is never held while Python code can run (arrays are made outside it), so a
//!    garbage collection that drops a lease cannot deadlock.
//! 2. The mapping outlives the stream as long as a view of it lives.
//! 3. Waiting releases the GIL. What is ready and what is lent is for leases.rs to say.

use super::child::{Child, refused};
use super::chunks::{self, ChunkRecord};
use super::descriptor::Descriptor;
use super::lease::{Guards, Inner, guard};
use super::views::{Container, View, Views, known};
use engine::task_error::Failure;
use numpy::PyArray1;
use os::memory::{Mapping, sealed_memfd};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serve::process::ring_threads;
use serve::ring::control;
use serve::ring::kept_rings::ring_for;
use serve::ring::leases::{EMPTY, HELD, Leases};
use serve::ring::maps::map_ring;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tables::plan::{Chunk, ENDLESS, Plan};

/// One stream's shared memory and its blocks.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Ring {
    inner: Arc<Inner>,
    /// The plan's, and the ring's, if another process has made it.
    fds: Mutex<Descriptors>,
}

impl Ring {
    fn over(inner: Inner, plan: OwnedFd, ring: Option<OwnedFd>) -> Ring {
        Ring {
            inner: Arc::new(inner),
            fds: Mutex::new(Some((plan, ring))),
        }
    }
}

impl Ring {
    /// A ring for threads; processes get one only with the plan's descriptor.
    pub(super) fn plain(
        leases: Leases,
        views: Vec<View>,
        keys: Option<Vec<Py<PyAny>>>,
        plan: Option<OwnedFd>,
    ) -> Ring {
        let inner = Inner {
            leases: Arc::new(leases),
            views,
            container: Container::of(keys),
            first_row: 0,
        };
        Ring {
            inner: Arc::new(inner),
            fds: Mutex::new(plan.map(|plan| (plan, None))),
        }
    }
}

type Planned<'py> = (
    Bound<'py, PyArray1<u64>>,
    Vec<Bound<'py, PyArray1<ChunkRecord>>>,
);
type Descriptors = Option<(OwnedFd, Option<OwnedFd>)>;

impl Ring {
    /// Those of the plan and the ring; None: it is closed.
    fn open_descriptors<'a>(
        &'a self,
        kept: &'a Descriptors,
    ) -> Option<(BorrowedFd<'a>, BorrowedFd<'a>)> {
        let (plan, ring) = kept.as_ref()?;
        let ring = ring.as_ref().or(self.inner.leases.maps.fd.as_ref())?;
        Some((plan.as_fd(), ring.as_fd()))
    }
}

#[pymethods]
impl Ring {
    /// Make a ring for `plan`. `views` gives each tape's dtype and row shape, `keys` is None for
    /// one array, an empty list for a tuple, or the keys of a dict. `first_row`: rows of the stream
    /// that other rings delivered before. `consumer`: its number among the ring's consumers.
    #[new]
    #[pyo3(signature = (plan, views, keys, first_row=0, consumer=0))]
    fn new(
        py: Python<'_>,
        plan: &[u8],
        views: Views<'_>,
        keys: Option<Vec<Py<PyAny>>>,
        first_row: u64,
        consumer: u64,
    ) -> PyResult<Ring> {
        let plan_fd = sealed_memfd(c"multitables-plan", plan)?;
        let plan = Plan::over(Plan::mapped(plan_fd.as_fd())?).map_err(PyValueError::new_err)?;
        let views = known(views, &plan)?;
        // Reserving pages takes a while for large rings.
        let maps = py.detach(|| ring_for(&plan))?;
        let inner = Inner {
            leases: Arc::new(Leases::new(plan, maps, consumer)?),
            views,
            container: Container::of(keys),
            first_row,
        };
        Ok(Ring::over(inner, plan_fd, None))
    }

    /// The ring of another process, by its descriptors, for one of its consumers. Without `views`
    /// it takes no blocks.
    #[staticmethod]
    #[pyo3(signature = (plan, ring, consumer=0, views=None, keys=None))]
    fn attached(
        plan: &Descriptor,
        ring: &Descriptor,
        consumer: u64,
        views: Option<Views<'_>>,
        keys: Option<Vec<Py<PyAny>>>,
    ) -> PyResult<Ring> {
        let (plan_fd, ring_fd) = (plan.taken()?, ring.taken()?);
        let plan = Plan::over(Plan::mapped(plan_fd.as_fd())?).map_err(PyValueError::new_err)?;
        let views = views.map_or(Ok(Vec::new()), |views| known(views, &plan))?;
        let maps = map_ring(&plan, ring_fd.as_fd())?;
        let inner = Inner {
            leases: Arc::new(Leases::new(plan, maps.into(), consumer)?),
            views,
            container: Container::of(keys),
            first_row: 0,
        };
        Ok(Ring::over(inner, plan_fd, Some(ring_fd)))
    }

    /// Keep a descriptor open until the ring is closed and nothing of it is lent.
    fn keep_open(&self, descriptor: &Descriptor) -> PyResult<()> {
        self.inner.leases.keep_open(descriptor.taken()?);
        Ok(())
    }

    /// A consumer is gone: the others go on without it.
    fn leave(&self, consumer: usize) -> PyResult<()> {
        if consumer >= self.inner.leases.plan.n_consumers() {
            return Err(PyValueError::new_err("no such consumer"));
        }
        self.inner.leases.leave(consumer);
        Ok(())
    }

    /// Stop the readers, though consumers may still take blocks.
    fn stop(&self) {
        self.inner.leases.stop();
    }

    /// Send it to a reader, which has this number in it; nothing, if it is closed.
    fn send_to(&self, child: &Child, number: u32) -> PyResult<()> {
        match self.open_descriptors(&self.fds.lock().unwrap_or_else(PoisonError::into_inner)) {
            Some((plan, ring)) => {
                self.inner.leases.keep(false);
                child.0.send(number, &[plan, ring]).map_err(refused)
            }
            None => Ok(()),
        }
    }

    /// The descriptors (plan, ring), for processes that are no readers.
    fn descriptors(&self) -> PyResult<(i32, i32)> {
        match self.open_descriptors(&self.fds.lock().unwrap_or_else(PoisonError::into_inner)) {
            Some((plan, ring)) => Ok((plan.as_raw_fd(), ring.as_raw_fd())),
            None => Err(PyOSError::new_err("the ring's descriptors are closed")),
        }
    }

    /// Read all of it before this returns, as its only reader. False: it does not hold all.
    fn read_here(&self, py: Python<'_>) -> bool {
        py.detach(|| ring_threads::read_here(&self.inner.leases))
    }

    /// Let a thread of this process be its reader of this number.
    fn start_thread(&self, number: usize) -> PyResult<()> {
        ring_threads::start(&self.inner.leases, number).map_err(refused)
    }

    /// Its readers are at rest, and no other process has it: its memory may serve another stream.
    fn keep(&self) {
        self.inner.leases.keep(true);
    }

    /// The next block's guard, or one of ENDED, EMPTY, FAILED, HELD, CLOSED after `timeout_seconds`.
    fn receive(&self, py: Python<'_>, timeout_seconds: f64) -> PyResult<Py<PyAny>> {
        let inner = &self.inner;
        let ready = inner.leases.try_next();
        let ready = match ready {
            Err(EMPTY | HELD) if timeout_seconds > 0.0 => {
                let timeout = Duration::from_secs_f64(timeout_seconds.min(3600.0));
                py.detach(|| inner.leases.wait(timeout))
            }
            ready => ready,
        };
        match ready {
            Ok(block) => guard(py, inner, block),
            Err(reason) => Ok(reason.into_pyobject(py)?.into_any().unbind()),
        }
    }

    /// Iterate over the guards; where none is ready, `get` waits for the next one.
    fn guards(&self, get: Py<PyAny>) -> Guards {
        let inner = self.inner.clone();
        Guards { inner, get }
    }

    /// The plan's tasks, as its words, and the chunks of each dataset, all of one file.
    fn planned<'py>(&self, py: Python<'py>) -> Planned<'py> {
        let plan = &self.inner.leases.plan;
        let datasets = plan.table.datasets.iter();
        let of_one = |&chunk: &Chunk| Chunk { source: 0, ..chunk };
        let chunks =
            datasets.map(|dataset| plan.table.chunks_of(dataset).iter().map(of_one).collect());
        let chunks = chunks.map(|chunks| chunks::array(py, chunks)).collect();
        (PyArray1::from_vec(py, plan.task_words()), chunks)
    }

    /// Blocks that can be received without waiting.
    fn ready_blocks(&self) -> u64 {
        self.inner.leases.ready_blocks()
    }

    /// The consumer that has to give blocks back before readers can go on; None: they can.
    fn waits_for(&self) -> Option<usize> {
        self.inner.leases.waits_for(&self.inner.leases.state())
    }

    /// Blocks received so far, blocks of the whole stream (None when endless).
    fn progress(&self) -> (u64, Option<u64>) {
        let total = self.inner.leases.total_blocks();
        (
            self.inner.leases.state().next_block,
            (total != ENDLESS).then_some(total),
        )
    }

    /// Blocks that the user holds: (first row, end row, seconds since it was lent), oldest first.
    fn held(&self) -> Vec<(u64, u64, f64)> {
        let held = self.inner.leases.held().into_iter();
        held.map(|(begin, end, since)| (begin, end, since.elapsed().as_secs_f64()))
            .collect()
    }

    /// Address and bytes of each mapping in which blocks lie.
    fn memory(&self) -> Vec<(usize, usize)> {
        let tapes = &self.inner.leases.maps.tapes;
        let place = |tape: &Mapping| (tape.base() as usize, tape.len());
        tapes.iter().map(place).collect()
    }

    /// End the stream: readers stop, waiting receivers return CLOSED. Lent blocks stay valid.
    fn close(&self) {
        self.inner.leases.close();
        *self.fds.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Why the oldest unpublished task failed: (kind, filter, detail, task, chunk, expected, got,
    /// text), or None.
    fn failure(&self) -> Option<Failure> {
        let leases = &self.inner.leases;
        let task = leases.state().frontier;
        (0..leases.plan.n_readers())
            .filter_map(|reader| leases.maps.control.record(reader).failure())
            .find(|failure| failure.3 == task)
    }

    /// Where a task lies: (dataset, first row of the dataset, end row, chunk as (grid index, byte
    /// offset, stored size) or None). `chunk` is the plan's number, by default the task's first.
    #[pyo3(signature = (task, chunk = None))]
    fn address(&self, task: u64, chunk: Option<u64>) -> (u32, u64, u64, Option<(u64, u64, u64)>) {
        self.inner.leases.plan.address(task, chunk)
    }

    /// Tasks that a reader has claimed and not published, the one in hand first.
    fn claimed(&self, reader: usize) -> Vec<u64> {
        let mut tasks = self.inner.leases.maps.control.inherited(reader);
        let current = self
            .inner
            .leases
            .maps
            .control
            .record(reader)
            .current
            .load(SeqCst);
        if let Some(at) = tasks.iter().position(|&task| task + 1 == current) {
            tasks.swap(0, at);
        }
        tasks
    }

    /// A reader inside a library: (pid, since when in ns of the monotonic clock or 0, its chunk's
    /// number in the grid + 1 or 0).
    fn inside(&self, reader: usize) -> PyResult<(u32, u64, u64)> {
        if reader >= self.inner.leases.plan.n_readers() {
            return Err(PyValueError::new_err("no such reader"));
        }
        Ok(self.inner.leases.maps.control.record(reader).inside())
    }

    /// A reader's own account: (state, pid, tasks, chunks, library tasks, fetches, fetched bytes,
    /// decoded bytes, open ns, fetch ns, decode ns, wait ns).
    fn counters(&self, reader: usize) -> PyResult<[u64; 12]> {
        if reader >= self.inner.leases.plan.n_readers() {
            return Err(PyValueError::new_err("no such reader"));
        }
        let account = self.inner.leases.maps.control.record(reader).account();
        Ok(std::array::from_fn(|at| account[at]))
    }
}

/// Bytes of a ring's control header.
#[pyfunction]
pub fn control_bytes(n_readers: usize, n_slots: usize, n_consumers: usize) -> usize {
    control::control_bytes(n_readers, n_slots, n_consumers)
}
