//! The queue of fetches from the sources of one dataset: asked for, then taken in order.
//!
//! Operations: `submit` asks for runs; `next` gives the bytes of the first ones that are left; `recycle`
//! takes their memory back. `read` fills memory of the caller, and `read_places` several pieces of it,
//! through the page cache.
//!
//! Law:
//! 1. Through the page cache, the kernel is asked for what it lacks, and only then: a warm file costs no
//!    extra system call. Around it, and from a store, several reads are in flight. Where one source is an
//!    object of a store, all are read in that way.
//! 2. On a rotating disk requests are made in the order of the tape, each task's in its turn; who keeps
//!    that order (`Turnstile`) is handed in.
//! 3. Of the files beside the dataset's own a bounded number is open. One that is closed for another is
//!    compared first, if it was read.
//! 4. Knows nothing of chunks, rows and filters.

use super::buffer::grow;
use super::coalesce::{Limits, Run};
use super::data_file::{DataFile, OpenFiles};
use super::direct::{Direct, Finished};
use super::error::FetchError;
use super::recent::Recent;
use super::remote::object::Object;
use super::remote::queue::{Origin, RemoteQueue};
use os::descriptors::at_most;
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tables::dataset::{Dataset, DatasetTable, Source};

/// Files that are open beside the dataset's own.
const OPEN: usize = 32;

/// Lets tasks make their requests one at a time, in order.
pub trait Turnstile {
    fn wait_turn(&self, task: u64);
    fn pass_turn(&self, task: u64);
}

/// A task that takes its turn.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    pub turnstile: &'a dyn Turnstile,
    pub task: u64,
}

/// Make requests when it is their turn, and pass it on before they are done: others may follow.
fn in_turn<T>(turn: Option<Turn<'_>>, request: impl FnOnce() -> T) -> T {
    let Some(turn) = turn else {
        return request();
    };
    turn.turnstile.wait_turn(turn.task);
    let result = request();
    turn.turnstile.pass_turn(turn.task);
    result
}

/// How a reader gets stored bytes.
#[derive(Debug)]
enum Way {
    Buffered(Vec<u8>),
    Direct(Direct),
    Remote(RemoteQueue),
}

#[derive(Debug)]
pub struct FetchQueue {
    /// It comes first, so that its reads have ended when the file is closed.
    way: Way,
    /// Of requests of a store.
    limits: Option<Limits>,
    sources: Sources,
    /// The page cache missed lately: what is claimed is asked for at once.
    pub cold: bool,
    /// Direct reads that have ended.
    finished: u64,
}

/// The dataset's own file, and others in which chunks of it lie.
#[derive(Debug)]
struct Sources {
    /// None: it is an object, or one of several files, which are opened when they are read.
    own: Option<(u32, DataFile)>,
    objects: HashMap<u32, Arc<Object>>,
    all: Arc<[Source]>,
    open: Recent<u32, DataFile>,
    files: OpenFiles,
    /// Of files that were closed.
    fetches: u64,
}

impl Sources {
    fn file(&mut self, number: u32, way: &mut Way) -> Result<&mut DataFile, FetchError> {
        if let Some((own, file)) = &mut self.own {
            if *own == number {
                return Ok(file);
            }
        }
        let is_it = |known: &u32| *known == number;
        if !self.open.has(is_it) {
            if let Some(file) = self.open.make_room() {
                if let Way::Direct(queue) = way {
                    queue.settle().map_err(FetchError::Read)?;
                }
                self.fetches += file.fetches;
                file.check_unchanged()?;
            }
        }
        let source = self.all.get(number as usize);
        self.open.get_or_make(is_it, || {
            let source = source.ok_or_else(no_source)?;
            let direct = matches!(way, Way::Direct(_));
            Ok((number, DataFile::open(source, direct, &self.files)?))
        })
    }
}

fn no_source() -> FetchError {
    FetchError::Open(io::ErrorKind::NotFound.into())
}

/// The bytes of one run.
#[derive(Debug)]
pub enum Landed {
    Direct(Finished),
    Remote(Vec<u8>),
}

impl Landed {
    fn bytes(&self) -> &[u8] {
        match self {
            Landed::Direct(finished) => finished.bytes(),
            Landed::Remote(bytes) => bytes,
        }
    }
}

/// The bytes of some runs.
#[derive(Debug)]
pub enum Fetched {
    /// One run's behind the other's, and how many runs they are.
    Buffered(Vec<u8>, usize),
    Each(Vec<Landed>),
}

impl Fetched {
    pub fn n_runs(&self) -> usize {
        match self {
            Fetched::Buffered(_, n_runs) => *n_runs,
            Fetched::Each(landed) => landed.len(),
        }
    }

    /// The runs that were fetched, and their bytes; `runs` are those that were asked for.
    pub fn parts<'a>(&'a self, runs: &'a [Run]) -> impl Iterator<Item = (&'a Run, &'a [u8])> {
        let mut from = 0;
        let runs = runs[..self.n_runs()].iter().enumerate();
        runs.map(move |(index, run)| match self {
            Fetched::Buffered(bytes, _) => {
                let begin = from;
                from += run.len as usize;
                (run, &bytes[begin..from])
            }
            Fetched::Each(landed) => (run, landed[index].bytes()),
        })
    }
}

impl FetchQueue {
    pub fn open(
        table: &DatasetTable,
        dataset: &Dataset,
        files: &OpenFiles,
    ) -> Result<FetchQueue, FetchError> {
        let source = table.source(dataset);
        let way = match (table.access(), source.direct) {
            (Some(access), _) => {
                Way::Remote(RemoteQueue::new(access.memory_bytes, access.requests))
            }
            (None, true) => Way::Direct(Direct::new().map_err(FetchError::Open)?),
            (None, false) => Way::Buffered(Vec::new()),
        };
        let own = match source.access.is_some() || source.listed {
            true => None,
            false => {
                // Beside objects, ranges of files lie anywhere in memory.
                let direct = matches!(way, Way::Direct(_));
                Some(DataFile::open(source, direct, files)?)
            }
        };
        let limits = table.access().map(|access| Limits {
            gap_bytes: access.gap_bytes,
            run_bytes: access.request_bytes,
        });
        Ok(FetchQueue {
            way,
            limits,
            sources: Sources {
                own: own.map(|file| (dataset.source as u32, file)),
                objects: HashMap::new(),
                all: table.sources.clone(),
                open: Recent::new(at_most(OPEN, table.datasets.len())),
                files: files.clone(),
                fetches: 0,
            },
            cold: false,
            finished: 0,
        })
    }

    /// Reads are submitted, and waited for later.
    pub fn is_async(&self) -> bool {
        !matches!(self.way, Way::Buffered(_))
    }

    /// What one fetch may bring: of files, `run_bytes`.
    pub fn limits(&self, run_bytes: u64) -> Limits {
        self.limits.unwrap_or(Limits::within(run_bytes))
    }

    /// Requests go to a store, where many are in flight.
    pub fn is_remote(&self) -> bool {
        matches!(self.way, Way::Remote(_))
    }

    /// System calls that fetched something, and requests of stores.
    pub fn fetches(&self) -> u64 {
        let own = self.sources.own.iter().map(|(_, file)| file.fetches);
        let others = self.sources.open.values().map(|file| file.fetches);
        let objects = self.sources.objects.values();
        let requests = objects.map(|object| object.requests.load(Relaxed));
        let files = own.chain(others).chain(requests).sum::<u64>();
        files + self.sources.fetches + self.finished
    }

    /// The files are still those that were indexed. Ask after a fetch, before its bytes are used.
    pub fn check_unchanged(&self) -> Result<(), FetchError> {
        let own = self.sources.own.iter().map(|(_, file)| file);
        let is_direct = matches!(self.way, Way::Direct(_)); // whose reads end later
        let others = self.sources.open.values();
        let read = others.filter(|file| file.was_read() || is_direct);
        own.chain(read).try_for_each(DataFile::check_unchanged)
    }

    fn file(&mut self, source: u32) -> Result<&mut DataFile, FetchError> {
        self.sources.file(source, &mut self.way)
    }

    /// The page cache has the first byte of a run.
    fn has_cached(&mut self, run: &Run) -> bool {
        let file = self.file(run.source);
        file.is_ok_and(|file| file.has_cached(run.byte_offset))
    }

    /// Tell the kernel what will be wanted soon.
    pub fn hint(&mut self, source: u32, byte_offset: u64, len: u64) {
        // What cannot be opened fails when it is read.
        if let Ok(file) = self.file(source) {
            file.hint(byte_offset, len);
        }
    }

    fn hint_all(&mut self, runs: &[Run]) {
        for run in runs {
            self.hint(run.source, run.byte_offset, run.len);
        }
    }

    /// Set a task's fetches going, in its turn. Returns the tickets of direct reads, one a run; what
    /// cannot be started is started again, and fails, when it is taken.
    pub fn submit(&mut self, runs: &[Run], turn: Option<Turn<'_>>) -> Vec<u64> {
        if !self.is_async() {
            // Others may have read it, or the kernel, which reads ahead of itself.
            self.cold = !runs.iter().all(|run| self.has_cached(run));
        }
        in_turn(turn, || match self.is_async() {
            true => {
                let submit = |run: &Run| self.submit_run(run).ok();
                runs.iter().map_while(submit).collect()
            }
            false => {
                if self.cold {
                    self.hint_all(runs);
                }
                Vec::new()
            }
        })
    }

    fn submit_run(&mut self, run: &Run) -> Result<u64, FetchError> {
        let origin = self.origin(run.source)?;
        let (begin, len) = (run.byte_offset, run.len as usize);
        match (&mut self.way, origin) {
            (Way::Direct(queue), Origin::File(file)) => {
                let ticket = queue.submit(&file, begin, len);
                ticket.map_err(FetchError::Read)
            }
            (Way::Remote(queue), origin) => Ok(queue.submit(origin, begin, len)),
            _ => Err(FetchError::Read(io::ErrorKind::Unsupported.into())),
        }
    }

    fn origin(&mut self, number: u32) -> Result<Origin, FetchError> {
        if let Some(object) = self.sources.objects.get(&number) {
            return Ok(Origin::Object(object.clone()));
        }
        let source = self
            .sources
            .all
            .get(number as usize)
            .ok_or_else(no_source)?;
        if !source.inline.is_empty() {
            return Ok(Origin::Memory(source.inline.clone()));
        }
        if let Some(object) = Object::of(source, &self.sources.files.caches) {
            let object = Arc::new(object);
            self.sources.objects.insert(number, object.clone());
            return Ok(Origin::Object(object));
        }
        Ok(Origin::File(self.file(number)?.descriptor().clone()))
    }

    /// The bytes of the first `count` of the runs that are left, whose tickets these are. Where one
    /// fails, those before it are there, and the error.
    pub fn next(
        &mut self,
        left: &[Run],
        tickets: &[u64],
        count: usize,
        turn: Option<Turn<'_>>,
    ) -> (Fetched, Result<(), FetchError>) {
        match &mut self.way {
            Way::Direct(_) | Way::Remote(_) => self.land_all(&left[..count], tickets),
            Way::Buffered(spare) => {
                let stored = std::mem::take(spare);
                self.read_all(left, count, stored, turn)
            }
        }
    }

    fn read_all(
        &mut self,
        left: &[Run],
        count: usize,
        mut stored: Vec<u8>,
        turn: Option<Turn<'_>>,
    ) -> (Fetched, Result<(), FetchError>) {
        let len = left[..count].iter().map(|run| run.len as usize).sum();
        let (mut n_runs, mut from) = (0, 0);
        let mut result = grow(&mut stored, len).map_err(FetchError::Read);
        while result.is_ok() && n_runs < count {
            let left = &left[n_runs..];
            let to = from + left[0].len as usize;
            result = self.read_run(&mut stored[from..to], left, turn);
            n_runs += usize::from(result.is_ok());
            from = to;
        }
        (Fetched::Buffered(stored, n_runs), result)
    }

    fn land_all(&mut self, runs: &[Run], tickets: &[u64]) -> (Fetched, Result<(), FetchError>) {
        let mut landed = Vec::with_capacity(runs.len());
        for (index, run) in runs.iter().enumerate() {
            match self.land(run, tickets.get(index)) {
                Ok(finished) => landed.push(finished),
                Err(error) => return (Fetched::Each(landed), Err(error)),
            }
        }
        (Fetched::Each(landed), Ok(()))
    }

    /// Take the memory of fetched bytes back for the next ones.
    pub fn recycle(&mut self, fetched: Fetched) {
        match (&mut self.way, fetched) {
            (Way::Buffered(spare), Fetched::Buffered(stored, _)) => *spare = stored,
            (_, Fetched::Each(landed)) => landed.into_iter().for_each(|one| self.recycle_run(one)),
            _ => {}
        }
    }

    fn recycle_run(&mut self, landed: Landed) {
        match (&mut self.way, landed) {
            (Way::Direct(queue), Landed::Direct(finished)) => queue.recycle(finished),
            (Way::Remote(queue), Landed::Remote(bytes)) => queue.recycle(bytes),
            _ => {}
        }
    }

    /// Fill `out` with the first of the runs that are left of a task, through the page cache.
    pub fn read_run(
        &mut self,
        out: &mut [u8],
        left: &[Run],
        turn: Option<Turn<'_>>,
    ) -> Result<(), FetchError> {
        let cold = self.cold;
        let missed = self.read(out, left[0].source, left[0].byte_offset, |queue| {
            if !cold {
                in_turn(turn, || queue.hint_all(left));
            }
        })?;
        self.cold |= missed;
        Ok(())
    }

    /// Fill `out` through the page cache. Where it lacks something, `ahead` may ask for more than that
    /// first; true then.
    pub fn read(
        &mut self,
        out: &mut [u8],
        source: u32,
        byte_offset: u64,
        ahead: impl FnOnce(&mut FetchQueue),
    ) -> Result<bool, FetchError> {
        if self.is_async() {
            return Err(FetchError::Read(io::ErrorKind::Unsupported.into()));
        }
        let have = self.file(source)?.read_cached(out, byte_offset);
        if have == out.len() {
            return Ok(false);
        }
        ahead(self);
        self.file(source)?.read(out, byte_offset, have)?;
        Ok(true)
    }

    /// Fill places one after the other with what the page cache has. False: they were not all filled,
    /// and may hold anything.
    ///
    /// # Safety
    /// The places must be the caller's to write, for as long as this takes.
    pub unsafe fn read_places(&mut self, places: &[libc::iovec], run: &Run) -> bool {
        if self.is_async() {
            return false;
        }
        let file = self.file(run.source);
        // SAFETY: the caller's promise.
        file.is_ok_and(|file| unsafe { file.read_places(places, run.byte_offset) })
    }

    /// A read is not wanted any more.
    pub fn discard(&mut self, ticket: u64) {
        match &mut self.way {
            Way::Direct(queue) => {
                if let Ok(finished) = queue.finish(ticket) {
                    queue.recycle(finished);
                }
            }
            Way::Remote(queue) => queue.discard(ticket),
            Way::Buffered(_) => {}
        }
    }

    fn land(&mut self, run: &Run, ticket: Option<&u64>) -> Result<Landed, FetchError> {
        let ticket = match ticket {
            Some(&ticket) => ticket,
            None => self.submit_run(run)?,
        };
        let landed = match &mut self.way {
            Way::Direct(queue) => {
                let finished = queue.finish(ticket).map_err(FetchError::Read)?;
                self.finished += 1;
                Landed::Direct(finished)
            }
            Way::Remote(queue) => Landed::Remote(queue.finish(ticket)?),
            Way::Buffered(_) => return Err(FetchError::Read(io::ErrorKind::Unsupported.into())),
        };
        let (expected, got) = (run.len, landed.bytes().len() as u64);
        if got < expected {
            self.recycle_run(landed);
            return Err(FetchError::Short { expected, got });
        }
        Ok(landed)
    }
}
