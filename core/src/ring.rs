//! The parent's side of the ring, as Python sees it.
//!
//! Law:
//! 1. A block is lent by a `Lease`. Views have the lease as their base; its rows go back to the
//!    readers when the last view is gone, whatever the order.
//! 2. The state mutex is never held while Python code can run (arrays are made outside it), so a
//!    garbage collection that drops a lease cannot deadlock.
//! 3. The mapping outlives the stream as long as a view of it lives.
//! 4. A forked child may look at the blocks it inherited, but never gives them back.
//! 5. Waiting releases the GIL and ends by its deadline; who died is the supervisor's question.

use crate::memory::{reserved_memfd, sealed_memfd};
use crate::plan::{ENDLESS, Plan};
use crate::reader::tape_rows;
use crate::serve::{RingMaps, map_ring};
use numpy::npyffi::{NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, get_type_object, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// What `receive` says when it has no block.
pub const ENDED: i32 = 0;
pub const EMPTY: i32 = 1;
pub const FAILED: i32 = 2;
pub const HELD: i32 = 3;
pub const CLOSED: i32 = 4;

/// A consumer that outruns the readers is woken for a few tasks at once, or after this long:
/// a wake for each would take time from the readers and gain nothing.
const GATHER: Duration = Duration::from_millis(1);

/// A failed task: kind, filter, detail, task, chunk, expected, got, text.
type Failure = (u32, u32, u32, u64, u64, u64, u64, String);

#[derive(Default)]
struct State {
    /// Tasks before this one are published.
    frontier: u64,
    next_block: u64,
    tail_block: u64,
    /// Blocks from `tail_block` on: given back?
    released: VecDeque<bool>,
    held: BTreeMap<u64, Instant>,
    closed: bool,
}

enum Container {
    Single,
    Tuple,
    Dict(Vec<Py<PyAny>>),
}

struct View {
    dtype: Py<PyArrayDescr>,
    row_shape: Vec<npy_intp>,
}

struct Inner {
    plan: Plan,
    maps: RingMaps,
    state: Mutex<State>,
    views: Vec<View>,
    container: Container,
    pid: u32,
}

impl Inner {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn block_rows(&self, block: u64) -> (u64, u64) {
        let begin = block.saturating_mul(self.plan.block_rows());
        (
            begin,
            (begin + self.plan.block_rows()).min(self.plan.end_row()),
        )
    }

    /// Blocks of the whole stream.
    fn total_blocks(&self) -> u64 {
        if self.plan.end_row() == ENDLESS {
            ENDLESS
        } else {
            self.plan.end_row().div_ceil(self.plan.block_rows())
        }
    }

    fn advance(&self, state: &mut State) -> u64 {
        let total = self.plan.total_tasks();
        while state.frontier < total && self.maps.control.is_published(state.frontier) {
            state.frontier += 1;
        }
        self.plan.ready_rows(state.frontier)
    }

    /// The next block if it is ready, or the reason why not.
    fn next(&self, state: &mut State) -> Result<u64, i32> {
        if state.closed {
            return Err(CLOSED);
        }
        let block = state.next_block;
        let (begin, end) = self.block_rows(block);
        if begin >= self.plan.end_row() {
            return Err(ENDED);
        }
        if self.advance(state) >= end {
            state.next_block += 1;
            state.released.push_back(false);
            state.held.insert(block, Instant::now());
            return Ok(block);
        }
        if self.maps.control.is_failed(state.frontier) {
            return Err(FAILED);
        }
        if self.maps.control.starved(&self.plan, state.frontier) {
            Err(HELD)
        } else {
            Err(EMPTY)
        }
    }

    /// Unpublished tasks below the end of the next block.
    fn missing(&self, state: &State) -> u64 {
        let (_, end) = self.block_rows(state.next_block);
        let total = self.plan.total_tasks();
        let (mut task, mut missing) = (state.frontier, 0);
        while task < total && self.plan.ready_rows(task) < end {
            missing += u64::from(!self.maps.control.is_published(task));
            task += 1;
        }
        missing
    }

    fn release(&self, block: u64) {
        if std::process::id() != self.pid {
            return;
        }
        let mut state = self.state();
        state.held.remove(&block);
        let at = (block - state.tail_block) as usize;
        if let Some(released) = state.released.get_mut(at) {
            *released = true;
        }
        let before = state.tail_block;
        while state.released.front() == Some(&true) {
            state.released.pop_front();
            state.tail_block += 1;
        }
        if state.tail_block != before {
            let (tail, _) = self.block_rows(state.tail_block);
            self.maps.control.move_tail(tail.min(self.plan.end_row()));
        }
    }

    /// Wait until a block is ready or `timeout` has passed.
    fn wait(&self, timeout: Duration) -> Result<u64, i32> {
        let deadline = Instant::now() + timeout;
        let mut margin = self.plan.n_readers() as u64;
        loop {
            let (reason, target, word) = {
                let mut state = self.state();
                match self.next(&mut state) {
                    Ok(block) => return Ok(block),
                    Err(reason @ (HELD | EMPTY)) => {
                        let target = self.maps.control.published() + self.missing(&state) + margin;
                        (reason, target, self.maps.control.arm(target))
                    }
                    Err(reason) => return Err(reason),
                }
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(reason);
            }
            if self.maps.control.published() < target {
                let limit = if margin > 0 { left.min(GATHER) } else { left };
                self.maps.control.sleep(word, limit);
            }
            margin = 0;
        }
    }
}

/// The rows of one block, lent until this is dropped.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Lease {
    inner: Arc<Inner>,
    block: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.inner.release(self.block);
    }
}

impl Lease {
    fn arrays<'py>(lease: &Bound<'py, Lease>) -> PyResult<Bound<'py, PyAny>> {
        let py = lease.py();
        let inner = &lease.get().inner;
        let mut arrays = Vec::with_capacity(inner.views.len());
        for member in 0..inner.views.len() {
            arrays.push(Lease::array(lease, member)?);
        }
        match &inner.container {
            Container::Single => arrays
                .pop()
                .ok_or_else(|| PyRuntimeError::new_err("no member")),
            Container::Tuple => Ok(PyTuple::new(py, arrays)?.into_any()),
            Container::Dict(keys) => {
                let dict = PyDict::new(py);
                for (key, array) in keys.iter().zip(arrays) {
                    dict.set_item(key.bind(py), array)?;
                }
                Ok(dict.into_any())
            }
        }
    }

    fn array<'py>(lease: &Bound<'py, Lease>, member: usize) -> PyResult<Bound<'py, PyAny>> {
        let py = lease.py();
        let this = lease.get();
        let inner = &this.inner;
        let view = &inner.views[member];
        let (begin, end) = inner.block_rows(this.block);
        let tape = &inner.maps.tapes[member];
        // SAFETY: the lease holds these rows: they are published and not given back.
        let rows = unsafe { tape_rows(tape, &inner.plan.members[member], begin, end - begin) };
        let mut dims = Vec::with_capacity(1 + view.row_shape.len());
        dims.push((end - begin) as npy_intp);
        dims.extend_from_slice(&view.row_shape);
        // SAFETY: NumPy's C API with the GIL held. `rows` has the size that dtype and dims give
        // (checked when the ring was made) and stays mapped and lent as long as the base lives,
        // which is this lease. Both calls steal the reference that they are given.
        unsafe {
            let array = PY_ARRAY_API.PyArray_NewFromDescr(
                py,
                get_type_object(py, NpyTypes::PyArray_Type),
                view.dtype.bind(py).clone().into_dtype_ptr(),
                dims.len() as i32,
                dims.as_mut_ptr(),
                std::ptr::null_mut(),
                rows.as_mut_ptr().cast(),
                NPY_ARRAY_WRITEABLE,
                std::ptr::null_mut(),
            );
            let array = Bound::from_owned_ptr_or_err(py, array)?;
            let base = lease.clone().into_any().into_ptr();
            if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base) != 0 {
                return Err(PyErr::fetch(py));
            }
            Ok(array)
        }
    }
}

/// One block on its way through ``with guard as block``.
#[pyclass(module = "multitables")]
pub struct Guard {
    lease: Option<Py<Lease>>,
}

#[pymethods]
impl Guard {
    fn __enter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.lease {
            Some(lease) => Lease::arrays(lease.bind(py)),
            None => Err(closed_error(py)),
        }
    }

    fn __exit__(
        &mut self,
        _kind: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _trace: &Bound<'_, PyAny>,
    ) {
        self.lease = None;
    }

    /// Tape rows `(first, end)` of this block, counted from the start of the stream.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        match &self.lease {
            Some(lease) => {
                let lease = lease.bind(py).get();
                Ok(lease.inner.block_rows(lease.block))
            }
            None => Err(closed_error(py)),
        }
    }
}

fn closed_error(py: Python<'_>) -> PyErr {
    let happened = "the guard was used after its with block: its rows went back to the ring";
    let advice = "Copy what you keep inside the with block, or get the next guard";
    let made = py
        .import("_multitables.errors")
        .and_then(|errors| errors.getattr("ClosedError"))
        .and_then(|class| {
            let options = PyDict::new(py);
            options.set_item("advice", advice)?;
            class.call((happened,), Some(&options))
        });
    match made {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}

/// One stream's shared memory and its blocks.
#[pyclass(frozen, module = "_multitables._core")]
pub struct Ring {
    inner: Arc<Inner>,
    fds: Mutex<Option<(OwnedFd, OwnedFd)>>,
}

#[pymethods]
impl Ring {
    /// Make a ring for `plan`. `views` gives each member's dtype and row shape, `keys` is None for
    /// one array, an empty list for a tuple, or the keys of a dict.
    #[new]
    fn new(
        py: Python<'_>,
        plan: &[u8],
        views: Vec<(Bound<'_, PyArrayDescr>, Vec<npy_intp>)>,
        keys: Option<Vec<Py<PyAny>>>,
    ) -> PyResult<Ring> {
        let plan_fd = sealed_memfd(c"multitables-plan", plan)?;
        let plan = Plan::open(plan_fd.as_fd()).map_err(PyValueError::new_err)?;
        if views.len() != plan.members.len() {
            return Err(PyValueError::new_err("views and members differ in number"));
        }
        let mut kept = Vec::with_capacity(views.len());
        for ((dtype, row_shape), member) in views.into_iter().zip(&plan.members) {
            let items: usize = row_shape.iter().map(|&n| n.max(0) as usize).product();
            if items.checked_mul(dtype.itemsize()) != Some(member.row_bytes) {
                return Err(PyValueError::new_err(
                    "a view's row has another size than the plan's",
                ));
            }
            kept.push(View {
                dtype: dtype.unbind(),
                row_shape,
            });
        }
        let container = match keys {
            None => Container::Single,
            Some(keys) if keys.is_empty() => Container::Tuple,
            Some(keys) => Container::Dict(keys),
        };
        // Reserving pages takes a while for large rings.
        let made: io::Result<(OwnedFd, RingMaps)> = py.detach(|| {
            let fd = reserved_memfd(c"multitables-ring", plan.ring_bytes())?;
            let maps = map_ring(&plan, fd.as_fd())?;
            Ok((fd, maps))
        });
        let (ring_fd, maps) = made?;
        let inner = Inner {
            plan,
            maps,
            state: Mutex::default(),
            views: kept,
            container,
            pid: std::process::id(),
        };
        Ok(Ring {
            inner: Arc::new(inner),
            fds: Mutex::new(Some((plan_fd, ring_fd))),
        })
    }

    /// The descriptors (plan, ring) to send to a reader.
    fn descriptors(&self) -> PyResult<(i32, i32)> {
        let fds = self.fds.lock().unwrap_or_else(PoisonError::into_inner);
        match &*fds {
            Some((plan, ring)) => Ok((plan.as_raw_fd(), ring.as_raw_fd())),
            None => Err(PyOSError::new_err("the ring's descriptors are closed")),
        }
    }

    /// The next block's guard, or one of ENDED, EMPTY, FAILED, HELD, CLOSED after `timeout_seconds`.
    fn receive(&self, py: Python<'_>, timeout_seconds: f64) -> PyResult<Py<PyAny>> {
        let inner = &self.inner;
        let ready = {
            let mut state = inner.state();
            inner.next(&mut state)
        };
        let ready = match ready {
            Err(EMPTY | HELD) if timeout_seconds > 0.0 => {
                let timeout = Duration::from_secs_f64(timeout_seconds.min(3600.0));
                py.detach(|| inner.wait(timeout))
            }
            ready => ready,
        };
        match ready {
            Ok(block) => {
                let lease = Py::new(
                    py,
                    Lease {
                        inner: inner.clone(),
                        block,
                    },
                )?;
                Ok(Py::new(py, Guard { lease: Some(lease) })?.into_any())
            }
            Err(reason) => Ok(reason.into_pyobject(py)?.into_any().unbind()),
        }
    }

    /// Blocks that can be received without waiting.
    fn ready_blocks(&self) -> u64 {
        let mut state = self.inner.state();
        if state.closed {
            return 0;
        }
        let rows = self.inner.advance(&mut state);
        let whole = rows / self.inner.plan.block_rows();
        let blocks = if rows >= self.inner.plan.end_row() {
            self.inner.total_blocks()
        } else {
            whole
        };
        blocks.saturating_sub(state.next_block)
    }

    /// Blocks received so far, blocks of the whole stream (None when endless).
    fn progress(&self) -> (u64, Option<u64>) {
        let total = self.inner.total_blocks();
        (
            self.inner.state().next_block,
            (total != ENDLESS).then_some(total),
        )
    }

    /// Blocks that the user holds: (first row, end row, seconds since it was lent), oldest first.
    fn held(&self) -> Vec<(u64, u64, f64)> {
        let state = self.inner.state();
        let age = |(&block, since): (&u64, &Instant)| {
            let (begin, end) = self.inner.block_rows(block);
            (begin, end, since.elapsed().as_secs_f64())
        };
        state.held.iter().map(age).collect()
    }

    /// End the stream: readers stop, waiting receivers return CLOSED. Lent blocks stay valid.
    fn close(&self) {
        if std::process::id() == self.inner.pid {
            self.inner.state().closed = true;
            self.inner.maps.control.stop();
        }
        *self.fds.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Why the oldest unpublished task failed: (kind, filter, detail, task, chunk, expected, got,
    /// text), or None.
    fn failure(&self) -> Option<Failure> {
        let task = self.inner.state().frontier;
        for reader in 0..self.inner.plan.n_readers() {
            let record = self.inner.maps.control.record(reader);
            let kind = record.error_kind.load(SeqCst);
            if kind == 0 || record.error_task.load(SeqCst) != task {
                continue;
            }
            let len = (record.text_len.load(Relaxed) as usize).min(record.text.len());
            let text: Vec<u8> = record.text[..len]
                .iter()
                .map(|byte| byte.load(Relaxed))
                .collect();
            return Some((
                kind,
                record.error_filter.load(Relaxed),
                record.error_detail.load(Relaxed),
                task,
                record.error_chunk.load(Relaxed),
                record.error_expected.load(Relaxed),
                record.error_got.load(Relaxed),
                String::from_utf8_lossy(&text).into_owned(),
            ));
        }
        None
    }

    /// Where a task lies: (member, first row of the dataset, end row, chunk as (grid index, byte
    /// offset, stored size) or None). `chunk` is the plan's number, by default the task's first.
    #[pyo3(signature = (task, chunk = None))]
    fn address(&self, task: u64, chunk: Option<u64>) -> (u32, u64, u64, Option<(u64, u64, u64)>) {
        let plan = &self.inner.plan;
        let (record, _) = plan.task(task);
        let chunks = plan.chunks();
        let found = match chunk {
            Some(chunk) => chunks.get(chunk as usize),
            None if record.n_chunks > 0 => chunks.get(record.first_chunk as usize),
            None => None,
        };
        let first = plan.first_row();
        (
            record.member,
            first + record.row_begin,
            first + record.row_end,
            found.map(|chunk| (chunk.grid_index, chunk.byte_offset, chunk.stored_size)),
        )
    }

    /// Tasks that a reader has claimed and not published, the one in hand first.
    fn claimed(&self, reader: usize) -> Vec<u64> {
        let mut tasks = self.inner.maps.control.inherited(reader);
        let current = self.inner.maps.control.record(reader).current.load(SeqCst);
        if let Some(at) = tasks.iter().position(|&task| task + 1 == current) {
            tasks.swap(0, at);
        }
        tasks
    }

    /// A reader's own account: (state, pid, tasks, chunks, library tasks, fetches, fetched bytes,
    /// decoded bytes, open ns, fetch ns, decode ns, wait ns).
    fn account(&self, reader: usize) -> PyResult<[u64; 12]> {
        if reader >= self.inner.plan.n_readers() {
            return Err(PyValueError::new_err("no such reader"));
        }
        let record = self.inner.maps.control.record(reader);
        let word = |value: &std::sync::atomic::AtomicU64| value.load(Relaxed);
        Ok([
            u64::from(record.state.load(SeqCst)),
            u64::from(record.pid.load(Relaxed)),
            word(&record.tasks),
            word(&record.chunks),
            word(&record.library_tasks),
            word(&record.fetches),
            word(&record.fetched_bytes),
            word(&record.decoded_bytes),
            word(&record.open_ns),
            word(&record.fetch_ns),
            word(&record.decode_ns),
            word(&record.wait_ns),
        ])
    }
}
