//! Random access as Python sees it: arena, stages, datasets, the work queue and handles.
//!
//! Law:
//! 1. No lock is held while Python code can run. Waiting releases the GIL.
//! 2. Refusals are exceptions of errors.py's kinds only in Python: here they are codes.

use super::child::{Child, refused};
use super::descriptor::Descriptor;
use super::request_handle::{RequestHandle, deadline_in};
use super::stages::{Arena, Stages};
use super::table::Table;
use super::words::{not_shared, words_of};
use engine::chunk_cache::processes::ProcessCache;
use engine::heap_read::{Descriptors, KIND_HEAP, picture_bytes};
use engine::select::selection::Hyperslab;
use numpy::npyffi::npy_intp;
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use serve::process::request_threads;
use serve::requests::dispatcher::{Dispatcher, Request};
use serve::requests::handle::RequestHandle as Inner;
use serve::requests::in_process;
use serve::requests::shared_dataset::SharedDataset;
use serve::requests::stage_pool::{Refusal, StageLease};
use serve::requests::work_queue::WORK_QUEUE;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

mod refusals {
    pyo3::create_exception!(_core, Refused, pyo3::exceptions::PyException);
    pyo3::create_exception!(_core, Closed, Refused);
    pyo3::create_exception!(_core, Exhausted, Refused);
    pyo3::create_exception!(_core, TooSmall, Refused);
}
pub use refusals::{Closed, Exhausted, Refused, TooSmall};

fn refusal(reason: Refusal) -> PyErr {
    match reason {
        Refusal::Closed => Closed::new_err(()),
        Refusal::Exhausted => Exhausted::new_err("stage"),
        Refusal::TooSmall(needed, have) => TooSmall::new_err((needed, have)),
        Refusal::Memory(error) => PyOSError::new_err(error),
    }
}

/// A dataset, or one field of it, as the readers know it.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Dataset {
    shared: Arc<SharedDataset>,
    dtype: Py<PyArrayDescr>,
    row_shape: Vec<npy_intp>,
    row_bytes: usize,
}

/// The work queue of one reader object.
#[pyclass(frozen, module = "_multitables._core")]
pub struct WorkQueue(pub(super) Arc<Dispatcher>);

impl WorkQueue {
    pub(super) fn send(
        &self,
        py: Python<'_>,
        request: &Request<'_>,
        shared: Option<&Arc<SharedDataset>>,
        stages: &Stages,
        out_bytes: usize,
        timeout: f64,
    ) -> PyResult<Arc<Inner>> {
        let dispatch = &self.0;
        if dispatch.is_closed() {
            return Err(Closed::new_err(()));
        }
        if !Arc::ptr_eq(stages.pool.arena(), &dispatch.arena) {
            return Err(PyValueError::new_err("a stage of another arena"));
        }
        let is_native = !matches!(request, Request::Library(_));
        if let Some(lease) = stages.lent_to_others(out_bytes).filter(|_| is_native) {
            return self.send_into(py, request, shared, lease, out_bytes, timeout);
        }
        let deadline = deadline_in(timeout);
        // First without waiting, and without letting the GIL go.
        let lease = match dispatch.stage(&stages.pool, out_bytes, None) {
            Err(Refusal::Exhausted) if deadline.is_some() => {
                py.detach(|| dispatch.stage(&stages.pool, out_bytes, deadline))
            }
            lease => lease,
        };
        // A library's result may be as large as the stage.
        let lease = lease.map_err(refusal)?;
        let out_bytes = match request {
            Request::Library(_) => lease.len(),
            _ => out_bytes,
        };
        let lease = Arc::new(lease);
        if is_native {
            stages.lend_to_others(&lease);
        }
        self.send_into(py, request, shared, lease, out_bytes, timeout)
    }

    fn send_into(
        &self,
        py: Python<'_>,
        request: &Request<'_>,
        shared: Option<&Arc<SharedDataset>>,
        lease: Arc<StageLease>,
        out_bytes: usize,
        timeout: f64,
    ) -> PyResult<Arc<Inner>> {
        let (dispatch, deadline) = (&self.0, deadline_in(timeout));
        let slots = dispatch.slots(request.n_tasks(), None);
        let slots = match slots {
            None => py.detach(|| dispatch.slots(request.n_tasks(), deadline)),
            slots => slots,
        };
        match slots {
            Some(slots) => Ok(dispatch.send(request, slots, shared, lease, out_bytes)?),
            None if dispatch.is_closed() => Err(Closed::new_err(())),
            None => Err(Exhausted::new_err("slot")),
        }
    }

    fn native(
        &self,
        py: Python<'_>,
        dataset: &Dataset,
        words: &[u64],
        stages: &Stages,
        timeout: f64,
    ) -> PyResult<(Arc<Inner>, usize)> {
        // Its place would mean other bytes there.
        if !dataset.shared.region.is_of(&self.0.arena) {
            return Err(PyValueError::new_err("a dataset of another arena"));
        }
        let of = dataset.shared.dataset();
        let n_readers = self.0.work_queue.n_readers();
        let (out_bytes, owners) = if words.first() == Some(&KIND_HEAP) {
            let wanted = Descriptors::parse(words, picture_bytes(of));
            let wanted = wanted.map_err(PyValueError::new_err)?;
            (wanted.out_bytes, wanted.owners(n_readers))
        } else {
            let slab = Hyperslab::parse(words, of).map_err(PyValueError::new_err)?;
            (slab.out_bytes(), slab.owners(of, n_readers))
        };
        let request = match self.0.here.is_alone() && owners.len() > 1 {
            true => Request::Shares(words, 1),
            false => Request::Parts(words, &owners),
        };
        let shared = Some(&dataset.shared);
        let inner = self.send(py, &request, shared, stages, out_bytes, timeout)?;
        Ok((inner, out_bytes))
    }
}

#[pymethods]
impl WorkQueue {
    /// `n_slots` is a power of two. `chunks`: memory for chunks (`Descriptor.for_chunks`), which its
    /// readers share with those of other processes.
    #[new]
    #[pyo3(signature = (arena, n_readers, n_slots, cache_bytes, chunks=None))]
    fn new(
        arena: &Arena,
        n_readers: usize,
        n_slots: usize,
        cache_bytes: usize,
        chunks: Option<&Descriptor>,
    ) -> PyResult<WorkQueue> {
        let open = |memory: &Descriptor| Ok::<_, PyErr>(ProcessCache::open(memory.copied()?)?);
        let others = chunks.map(open).transpose()?.map(Arc::new);
        let arena = arena.0.clone();
        let dispatch = Dispatcher::new(arena, n_readers, n_slots, cache_bytes, others)?;
        Ok(WorkQueue(dispatch))
    }

    /// Let a thread of this process answer as reader `number`.
    fn start_thread(&self, py: Python<'_>, number: usize) -> PyResult<()> {
        Ok(py.detach(|| request_threads::start(&self.0, number))?)
    }

    /// From now on each reader does its own tasks, whose chunks it keeps.
    fn keep_own(&self) {
        self.0.work_queue.keep_own();
    }

    /// Let who waits answer, and threads; or let threads leave, as processes answer from now on.
    fn answer_here(&self, is_here: bool) {
        in_process::answer_here(&self.0, is_here);
    }

    /// Send it to a reader, which has this number in it; nothing, if it has ended.
    fn send_to(&self, child: &Child, number: u32) -> PyResult<()> {
        let (arena, others) = (self.0.arena.fd(), &self.0.others);
        let send = |fd: &OwnedFd| {
            let both = [fd.as_fd(), arena].into_iter();
            let all: Vec<_> = both
                .chain(others.iter().map(|others| others.fd()))
                .collect();
            child.0.send(number | WORK_QUEUE, &all)
        };
        self.0
            .with_fd(|fd| fd.map_or(Ok(()), send))
            .map_err(refused)
    }

    /// Give readers the dataset of a table.
    fn dataset(
        &self,
        table: &Table,
        dtype: Bound<'_, PyArrayDescr>,
        row_shape: Vec<npy_intp>,
    ) -> PyResult<Dataset> {
        let shared = SharedDataset::new(&self.0.arena, table.bytes()).map_err(not_shared)?;
        if shared.table().datasets.is_empty() {
            return Err(PyValueError::new_err("a request's table has a dataset"));
        }
        let row_bytes = shared.dataset().row_bytes;
        let items: usize = row_shape.iter().map(|&n| n.max(0) as usize).product();
        if items.checked_mul(dtype.itemsize()) != Some(row_bytes) {
            return Err(PyValueError::new_err(
                "a row has another size than the table's",
            ));
        }
        Ok(Dataset {
            shared: Arc::new(shared),
            dtype: dtype.unbind(),
            row_shape,
            row_bytes,
        })
    }

    /// Ask for whole rows `start`, `start + step`, ...; `scalar`: for one, without the row axis.
    #[expect(
        clippy::too_many_arguments,
        reason = "Python's own call, by position, for speed"
    )]
    fn rows(
        &self,
        py: Python<'_>,
        dataset: &Dataset,
        start: u64,
        step: i64,
        count: u64,
        scalar: bool,
        stages: &Stages,
        timeout: f64,
    ) -> PyResult<RequestHandle> {
        let of = dataset.shared.dataset();
        let mut words = [0u64; 9 + 4 * MAX_AXES];
        let n = of.dims.len();
        if n > MAX_AXES {
            return Err(PyValueError::new_err("too many dimensions"));
        }
        self.address(dataset, &mut words);
        words[6] = n as u64;
        words[8] = of.field_bytes as u64;
        words[9..13].copy_from_slice(&[start, step as u64, count, 0]);
        for axis in 1..n {
            let at = 9 + 4 * axis;
            words[at..at + 4].copy_from_slice(&[0, 1, of.dims[axis], 0]);
        }
        let (inner, out_bytes) = self.native(py, dataset, &words[..9 + 4 * n], stages, timeout)?;
        let mut shape = Vec::with_capacity(1 + dataset.row_shape.len());
        if !scalar {
            shape.push(count as npy_intp);
        }
        shape.extend_from_slice(&dataset.row_shape);
        debug_assert_eq!(out_bytes, count as usize * dataset.row_bytes);
        Ok(RequestHandle {
            of: self.0.clone(),
            inner,
            dtype: dataset.dtype.clone_ref(py),
            shape: Some(shape),
            out_bytes,
        })
    }

    /// Ask what `words` say (a native request, in which the dataset is filled in here).
    #[expect(
        clippy::too_many_arguments,
        reason = "Python's own call, by position, for speed"
    )]
    fn hyperslab(
        &self,
        py: Python<'_>,
        dataset: &Dataset,
        words: &[u8],
        dtype: Bound<'_, PyArrayDescr>,
        shape: Vec<npy_intp>,
        stages: &Stages,
        timeout: f64,
    ) -> PyResult<RequestHandle> {
        let mut words = words_of(words)?;
        if words.len() < 4 {
            return Err(PyValueError::new_err("a request has four words at least"));
        }
        self.address(dataset, &mut words);
        let (inner, out_bytes) = self.native(py, dataset, &words, stages, timeout)?;
        let handle = RequestHandle {
            of: self.0.clone(),
            inner,
            dtype: dtype.unbind(),
            shape: Some(shape),
            out_bytes,
        };
        handle.check_shape(py)?;
        Ok(handle)
    }

    /// Ask any reader to read through a library.
    fn library(
        &self,
        py: Python<'_>,
        request: &[u8],
        dtype: Bound<'_, PyArrayDescr>,
        n_bytes: usize,
        stages: &Stages,
        timeout: f64,
    ) -> PyResult<RequestHandle> {
        let inner = self.send(
            py,
            &Request::Library(request),
            None,
            stages,
            n_bytes,
            timeout,
        )?;
        Ok(RequestHandle {
            of: self.0.clone(),
            inner,
            dtype: dtype.unbind(),
            shape: None,
            out_bytes: 0,
        })
    }

    /// Ask again through a library, into the stage of a handle that has failed.
    fn library_again(
        &self,
        py: Python<'_>,
        request: &[u8],
        handle: &RequestHandle,
    ) -> PyResult<RequestHandle> {
        let lease = handle.inner.take_stage();
        let lease = lease.ok_or_else(|| PyValueError::new_err("the handle has no stage"))?;
        let (request, len) = (Request::Library(request), lease.len());
        let lease = Arc::new(lease);
        let inner = self.send_into(py, &request, None, lease, len, RETRY_SECONDS)?;
        Ok(RequestHandle {
            of: self.0.clone(),
            inner,
            dtype: handle.dtype.clone_ref(py),
            shape: None,
            out_bytes: 0,
        })
    }

    /// Slots of the tasks that a reader has claimed.
    fn claimed(&self, reader: usize) -> Vec<u32> {
        self.0.work_queue.claimed(reader)
    }

    /// After a reader's death its tasks are queued again; the slots of those that fail instead,
    /// because they killed before.
    fn recover(&self, reader: usize, status: i32) -> Vec<u32> {
        self.0.recover(reader, status)
    }

    /// A reader inside a library: (pid, since when in ns of the monotonic clock or 0, its chunk's
    /// number in the grid + 1 or 0).
    fn inside(&self, reader: usize) -> PyResult<(u32, u64, u64)> {
        if reader >= self.0.work_queue.n_readers() {
            return Err(PyValueError::new_err("no such reader"));
        }
        Ok(self.0.work_queue.record(reader).inside())
    }

    /// A reader's own account: (state, pid, tasks, chunks, library tasks, fetches, fetched bytes,
    /// decoded bytes, open ns, fetch ns, decode ns, wait ns, cache hits, misses, bytes).
    fn counters(&self, reader: usize) -> PyResult<[u64; 15]> {
        if reader >= self.0.work_queue.n_readers() {
            return Err(PyValueError::new_err("no such reader"));
        }
        let mut account = self.0.work_queue.record(reader).account();
        self.0.here.account(reader, &mut account);
        Ok(account)
    }

    /// Whether more than one task is not answered.
    fn has_several(&self) -> bool {
        self.0.has_several()
    }

    /// Tasks that are not known to be answered.
    fn pending(&self) -> usize {
        self.0.pending()
    }

    /// Which of these handles have ended; waits for an answer, at most so long, if none has.
    fn ended(
        &self,
        py: Python<'_>,
        handles: Vec<Py<RequestHandle>>,
        timeout_seconds: f64,
    ) -> Vec<usize> {
        let seen = self.0.work_queue.watch();
        let look = || -> Vec<usize> {
            let ended = |handle: &Py<RequestHandle>| handle.get().inner.poll().is_some();
            let all = handles.iter().enumerate();
            all.filter(|(_, handle)| ended(handle))
                .map(|(at, _)| at)
                .collect()
        };
        let mut found = look();
        let deadline = deadline_in(timeout_seconds);
        if let Some(deadline) = deadline.filter(|_| found.is_empty()) {
            py.detach(|| {
                let left = deadline.saturating_duration_since(Instant::now());
                self.0.work_queue.wait_for_answers(seen, left);
            });
            found = look();
        }
        self.0.work_queue.unwatch();
        found
    }

    /// Wake the threads that wait in `ended`.
    fn wake(&self) {
        self.0.work_queue.wake_all();
    }

    /// Take no more requests; readers leave when all are answered.
    fn close(&self) {
        self.0.close();
    }

    /// End every handle now; call it when the readers are gone, or say that some outlive their kill.
    fn stop(&self, outlived: bool) {
        self.0.stop(outlived);
    }
}

/// HDF5's own limit is 32.
const MAX_AXES: usize = 32;
/// Seconds to wait for a slot for a second try.
const RETRY_SECONDS: f64 = 60.0;

impl WorkQueue {
    fn address(&self, dataset: &Dataset, words: &mut [u64]) {
        let shared = &dataset.shared;
        words[1] = shared.id;
        words[2] = shared.region.at() as u64;
        words[3] = shared.len as u64;
    }
}

#[pymethods]
impl Dataset {
    /// A chunk of the shared, by its number there: (grid index, byte offset, stored size).
    fn chunk(&self, number: usize) -> Option<(u64, u64, u64)> {
        let chunk = self.shared.chunks().get(number)?;
        Some((chunk.grid_index, chunk.byte_offset, chunk.stored_size))
    }
}
