//! Datasets read inside the caller's process, on threads of ours.
//!
//! Law:
//! 1. A read that is little work is its caller's alone. Of others the caller and the threads that are
//!    free claim some chunks at a time; each chunk is one thread's. Of an object of a store there are
//!    more threads than cores: each waits for its own requests, so that many are in flight.
//! 2. However a read ends, no thread works for it any more when it returns. Of several errors the
//!    first in the order of chunks is told, and no panic leaves this file.
//! 3. A forked child makes threads, cache and descriptors of its own. Its parent's stay where they are,
//!    neither locked nor freed. Children of one parent share the chunks that they decode.
//! 4. Nothing is opened or started before a read needs it.

use engine::assemble::assembler;
use engine::chunk_cache::processes::shared_with_siblings;
use engine::chunk_read::NO_CHUNK;
use engine::counters::Record;
use engine::read_context::ReadContext;
use engine::scatter::out::Out;
use engine::select::selection::Hyperslab;
use engine::shared::{SelectedDataset, Shared};
use engine::task_error::{TaskError, panicked};
use os::fork::ForkMark;
use os::interrupt;
use os::workers::{PULSE, Workers};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tables::access::Access;
use tables::dataset::{Dataset, DatasetTable, Memory};

/// Less work than this, in bytes to decode, is not worth waking a thread; nor is as much as this to
/// copy.
const MIN_SHARED_BYTES: u64 = if cfg!(test) { 256 } else { 256 << 10 };
const MIN_COPIED_BYTES: u64 = if cfg!(test) { 256 } else { 2 << 20 };
/// What is claimed at once, unless a chunk is larger.
const BLOCK_BYTES: u64 = if cfg!(test) { 512 } else { 1 << 20 };
const BLOCK_CHUNKS: u64 = 64;
/// Blocks for each thread, at least, so that none waits long for another.
const BLOCKS_EACH: u64 = 4;
/// Threads that read an object, and what each of them claims at once: a request or two.
const REMOTE_THREADS: u64 = 16;
const REMOTE_BLOCK_BYTES: u64 = 4 << 20;

/// How often a read asks whether it is interrupted.
const ASKED_EVERY: Duration = if cfg!(test) { Duration::ZERO } else { PULSE };

/// Threads and decoded chunks that datasets share.
pub struct LocalReader {
    pub n_threads: usize,
    pub cache_bytes: usize,
    state: AtomicPtr<State>,
}

/// What one process has of a `LocalReader`.
struct State {
    mark: ForkMark,
    /// None: they could not be started.
    workers: OnceLock<Option<Workers>>,
    /// Beside them, for objects of stores.
    remote_workers: OnceLock<Option<Workers>>,
    shared: Arc<Shared>,
    /// Those that no read has at the moment.
    #[expect(clippy::vec_box, reason = "they are taken and given back by each read")]
    contexts: Mutex<Vec<Box<Context>>>,
    records: Mutex<Vec<Arc<Record>>>,
}

/// What one thread reads with.
struct Context {
    read: ReadContext,
    record: Arc<Record>,
}

impl LocalReader {
    pub fn new(n_threads: usize, cache_bytes: usize) -> std::io::Result<Arc<LocalReader>> {
        let state = State::new(cache_bytes)?;
        Ok(Arc::new(LocalReader {
            n_threads: n_threads.max(1),
            cache_bytes,
            state: AtomicPtr::new(Box::into_raw(Box::new(state))),
        }))
    }

    /// Know the first dataset of a table, which is in the first bytes of some memory.
    pub fn dataset(
        self: &Arc<LocalReader>,
        table: Memory,
        n_bytes: usize,
    ) -> Result<LocalDataset, &'static str> {
        let table = DatasetTable::over(table, 0, n_bytes)?;
        if table.datasets.iter().any(|dataset| dataset.by_library) {
            return Err("a library reads this dataset");
        }
        let state = self.state().map_err(|_| "there is no memory")?;
        Ok(LocalDataset {
            dataset: state.shared.dataset(table)?,
            reader: self.clone(),
        })
    }

    /// What was done in this process, in the order of `COUNTERS`.
    pub fn counters(&self) -> std::io::Result<[u64; 15]> {
        let state = self.state()?;
        let mut all = [0u64; 15];
        for record in state
            .records
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
        {
            for (sum, more) in all.iter_mut().zip(record.account()) {
                *sum += more;
            }
        }
        all[14] = state.shared.cache.bytes() as u64;
        Ok(all)
    }

    fn state(&self) -> std::io::Result<&State> {
        let known = self.state.load(Acquire);
        // SAFETY: a state is not freed before its reader is.
        let state = unsafe { &*known };
        match state.mark.is_mine() {
            true => Ok(state),
            false => self.begin_again(known),
        }
    }

    /// A forked child: another thread of it may do this at the same time.
    #[cold]
    fn begin_again(&self, parents: *mut State) -> std::io::Result<&State> {
        let mine = Box::into_raw(Box::new(State::new(self.cache_bytes)?));
        let exchanged = (self.state).compare_exchange(parents, mine, AcqRel, Acquire);
        let state = exchanged.map_or_else(
            |theirs| {
                // SAFETY: made above, and known to nobody else.
                drop(unsafe { Box::from_raw(mine) });
                theirs
            },
            |_| mine,
        );
        // SAFETY: as in `state`.
        Ok(unsafe { &*state })
    }
}

impl Drop for LocalReader {
    fn drop(&mut self) {
        // SAFETY: it came from a box, and nobody has the reader any more.
        let state = unsafe { Box::from_raw(*self.state.get_mut()) };
        if !state.mark.is_mine() {
            Box::leak(state);
        }
    }
}

impl State {
    fn new(cache_bytes: usize) -> std::io::Result<State> {
        let others = shared_with_siblings().filter(|_| cache_bytes > 0);
        Ok(State {
            mark: ForkMark::new()?,
            workers: OnceLock::new(),
            remote_workers: OnceLock::new(),
            shared: Arc::new(Shared::new(cache_bytes, others, assembler)),
            contexts: Mutex::default(),
            records: Mutex::default(),
        })
    }

    /// Do something with a context that nobody else has.
    fn with<T>(&self, act: impl FnOnce(&mut Context) -> T) -> T {
        let contexts = || self.contexts.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = contexts().pop();
        let mut context = spare.unwrap_or_else(|| self.new_context());
        let result = act(&mut context);
        contexts().push(context);
        result
    }

    fn new_context(&self) -> Box<Context> {
        let record = Record::new();
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        records.push(record.clone());
        Box::new(Context {
            read: ReadContext::new(self.shared.clone()),
            record,
        })
    }

    fn workers(&self, n_threads: usize, is_remote: bool) -> Option<&Workers> {
        let (known, count) = match is_remote {
            true => (&self.remote_workers, n_threads.max(REMOTE_THREADS as usize)),
            false => (&self.workers, n_threads),
        };
        let workers = known.get_or_init(|| Workers::new(count - 1).ok());
        workers.as_ref().filter(|_| count > 1)
    }
}

/// A dataset, or one field of it.
pub struct LocalDataset {
    reader: Arc<LocalReader>,
    dataset: SelectedDataset,
}

/// The chunks of a read, some of which are claimed at a time.
struct Blocks {
    /// Of a block.
    n_chunks: u64,
    n_blocks: u64,
    /// Of all that may be at it.
    n_threads: u64,
    next: AtomicU64,
    /// The first block that failed.
    failed: Mutex<Option<(u64, TaskError)>>,
}

/// A read of one selection.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    of: &'a SelectedDataset,
    slab: &'a Hyperslab<'a>,
    /// Which several threads write.
    out: &'a Out<'a>,
}

impl LocalDataset {
    pub fn dataset(&self) -> &Dataset {
        self.dataset.dataset()
    }

    pub fn table(&self) -> &DatasetTable {
        &self.dataset.table
    }

    /// Read a selection if that is no more than a copy: a microsecond. False: it is not.
    pub fn read_at_once(&self, slab: &Hyperslab<'_>, out: &mut [u8]) -> bool {
        let Ok(state) = self.reader.state() else {
            return false;
        };
        state.with(|context| {
            let (read, of) = (&mut context.read, &self.dataset);
            read.begin(of, slab, 0, 1) && read.read_at_once(of, slab, out, &context.record)
        })
    }

    /// Read a selection. Where it takes long, `interrupted` is asked now and then whether to stop; then
    /// what is read is anything.
    pub fn read(
        &self,
        slab: &Hyperslab<'_>,
        out: &mut [u8],
        mut interrupted: impl FnMut() -> bool,
    ) -> Result<(), TaskError> {
        let state = self.reader.state();
        let state = state.map_err(|error| TaskError::read(NO_CHUNK, error))?;
        let wanted = Wanted {
            of: &self.dataset,
            slab,
            out: &Out::of(out),
        };
        state.with(|context| {
            let has_any = guarded(state, context, |context| {
                Ok(context.read.begin(wanted.of, slab, 0, 1))
            })?;
            if !has_any {
                return Ok(());
            }
            let n_chunks = context.read.n_chunks();
            let n_threads = self.reader.n_threads as u64;
            let access = self.table().access();
            let blocks = Blocks::new(self.dataset(), slab, n_chunks, n_threads, access);
            let Some(blocks) = blocks else {
                return guarded(state, context, |context| wanted.read(context));
            };
            let mut asked = Instant::now();
            let mut ask = || {
                let is_time = asked.elapsed() >= ASKED_EVERY;
                if is_time {
                    asked = Instant::now();
                }
                is_time && interrupted()
            };
            match state.workers(self.reader.n_threads, access.is_some()) {
                None => blocks.read(state, context, wanted, &mut ask),
                Some(workers) => {
                    let flag = interrupt::flag();
                    let help = || {
                        interrupt::helping(&flag, || {
                            state.with(|context| {
                                let begun = guarded(state, context, |context| {
                                    Ok(context.read.begin(wanted.of, slab, 0, 1))
                                });
                                if let Ok(true) = begun {
                                    blocks.read(state, context, wanted, &mut || false);
                                }
                            })
                        });
                    };
                    let helpers = (blocks.n_threads - 1).min(blocks.n_blocks - 1) as usize;
                    let ask = std::cell::RefCell::new(ask);
                    workers.run(
                        helpers,
                        &help,
                        || blocks.read(state, context, wanted, &mut || ask.borrow_mut()()),
                        || {
                            if ask.borrow_mut()() {
                                blocks.stop();
                            }
                        },
                    );
                }
            }
            blocks.end()
        })
    }
}

impl Wanted<'_> {
    fn read(self, context: &mut Context) -> Result<(), TaskError> {
        // SAFETY: of all threads that have it only this one writes the bytes of the chunks that it
        // reads now, which it has claimed.
        let out = unsafe { self.out.shared() };
        let Context { read, record } = context;
        read.read(self.of, self.slab, out, record)
    }
}

impl Blocks {
    /// None: it is little work.
    fn new(
        dataset: &Dataset,
        slab: &Hyperslab<'_>,
        n_chunks: u64,
        n_threads: u64,
        access: Option<&Access>,
    ) -> Option<Blocks> {
        // Of what is stored as it is only the wanted bytes are read.
        let as_stored = dataset.is_as_stored() && dataset.parts.is_empty();
        let (each, least) = match as_stored {
            true => (slab.out_bytes() as u64 / n_chunks, MIN_COPIED_BYTES),
            false => (dataset.decoded_size as u64, MIN_SHARED_BYTES),
        };
        if n_chunks < 2 || each.saturating_mul(n_chunks) < least {
            return None;
        }
        let (n_threads, fair, most) = match access {
            None => (
                n_threads,
                n_chunks.div_ceil(n_threads * BLOCKS_EACH),
                BLOCK_BYTES,
            ),
            Some(access) => {
                // What all have asked for is within the bound of one.
                let bound = access.memory_bytes / each.max(1);
                let n_threads = REMOTE_THREADS.max(n_threads).min(bound).max(n_threads);
                let most = REMOTE_BLOCK_BYTES.min(access.memory_bytes / n_threads);
                (n_threads, n_chunks.div_ceil(n_threads), most)
            }
        };
        let of_block = (most / each.max(1)).min(fair).clamp(1, BLOCK_CHUNKS);
        Some(Blocks {
            n_chunks: of_block,
            n_blocks: n_chunks.div_ceil(of_block),
            n_threads,
            next: AtomicU64::new(0),
            failed: Mutex::new(None),
        })
    }

    /// Read one block after the other, until all are claimed.
    fn read(
        &self,
        state: &State,
        context: &mut Context,
        wanted: Wanted<'_>,
        interrupted: &mut dyn FnMut() -> bool,
    ) {
        loop {
            let block = self.next.fetch_add(1, Relaxed);
            let from = block.saturating_mul(self.n_chunks);
            if block >= self.n_blocks || !context.read.seek(from..from + self.n_chunks) {
                return;
            }
            if let Err(error) = guarded(state, context, |context| wanted.read(context)) {
                self.fail(block, error);
            }
            if interrupted() {
                self.stop();
            }
        }
    }

    /// What is not claimed yet stays so.
    fn stop(&self) {
        self.next.fetch_max(self.n_blocks, Relaxed);
    }

    fn fail(&self, block: u64, error: TaskError) {
        self.stop();
        let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
        if failed.as_ref().is_none_or(|(first, _)| block < *first) {
            *failed = Some((block, error));
        }
    }

    fn end(self) -> Result<(), TaskError> {
        let failed = self.failed.into_inner();
        match failed.unwrap_or_else(PoisonError::into_inner) {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }
}

/// Do something with a context, which after a panic is in no known state.
fn guarded<T>(
    state: &State,
    context: &mut Context,
    act: impl FnOnce(&mut Context) -> Result<T, TaskError>,
) -> Result<T, TaskError> {
    let done = catch_unwind(AssertUnwindSafe(|| act(context)));
    done.unwrap_or_else(|panic| {
        context.read = ReadContext::new(state.shared.clone());
        Err(panicked(&*panic))
    })
}

#[cfg(test)]
mod tests;
