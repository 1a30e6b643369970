//! What a reader keeps open for one member: asks for the stored bytes of tasks, and reads them.
//!
//! Law:
//! 1. What the plan says of the file is checked before it is fetched, so that no number in a file
//!    can ask for more memory than the file is long.
//! 2. On a rotating disk requests are made in the order of the tape, each task's in its turn.
//! 3. Knows nothing of rows: whoever calls says which bytes, and where to.

use crate::engine::counters::Record;
use crate::fetch::coalesce::Run;
use crate::fetch::data_file::{DataFile, Fetch, FetchError};
use crate::filters::{FilterError, FilterErrorKind, Pipeline};
use crate::ring::control::Control;
use crate::scatter::interleave::Interleaver;
use crate::tables::plan::{Chunk, Member, UNALLOCATED};
use crate::task_error::TaskError;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Stored chunks longer than twice the decoded size and this are left to the library.
const PLAUSIBLE_EXTRA_BYTES: u64 = 1 << 16;

/// What a reader keeps open for one member.
pub struct OpenDataset {
    pub fetch: Fetch,
    pub pipeline: Pipeline,
    pub stored: Vec<u8>,
    pub decoded: Vec<u8>,
    pub offset: Vec<u64>,
    pub interleaver: Interleaver,
    /// The page cache missed lately: what is claimed is asked for at once.
    pub cold: bool,
}

impl OpenDataset {
    pub fn open(
        member: &Member,
        record: &Record,
        first_chunk: u64,
    ) -> Result<OpenDataset, TaskError> {
        let start = Instant::now();
        let pipeline = Pipeline::new(&member.filters, member.decoded_size)
            .map_err(TaskError::UnknownFilter)?;
        let fetch = Fetch::open(member).map_err(|error| TaskError::Fetch(first_chunk, error))?;
        add_ns(&record.open_ns, start);
        Ok(OpenDataset {
            fetch,
            pipeline,
            stored: Vec::new(),
            decoded: Vec::new(),
            offset: Vec::new(),
            interleaver: Interleaver::default(),
            cold: false,
        })
    }

    /// Set the fetches of a claimed task going, in its turn. Returns direct reads, with their tickets;
    /// through the page cache the kernel is asked for what it lacks.
    pub fn begin(
        &mut self,
        found: Vec<Run>,
        turn: Option<Turn<'_>>,
    ) -> io::Result<Vec<(Run, u64)>> {
        if let Fetch::Buffered(file) = &mut self.fetch {
            // Others may have read it, or the kernel, which reads ahead of itself.
            self.cold = !found.iter().all(|run| file.has_cached(run.byte_offset));
        }
        in_turn(turn, || match &mut self.fetch {
            Fetch::Buffered(file) if self.cold => {
                hint(file, &found);
                Ok(Vec::new())
            }
            Fetch::Buffered(_) => Ok(Vec::new()),
            Fetch::Direct(queue, _) => {
                let submit = |run: Run| {
                    let ticket = queue.submit(run.byte_offset, run.len as usize)?;
                    Ok((run, ticket))
                };
                found.into_iter().map(submit).collect()
            }
        })
    }

    /// Read the first of the runs that are left of a task.
    pub fn read(
        &mut self,
        target: &mut [u8],
        rest: &[Run],
        turn: Option<Turn<'_>>,
    ) -> Result<(), FetchError> {
        let Fetch::Buffered(file) = &mut self.fetch else {
            return Err(FetchError::Read(io::ErrorKind::Unsupported.into()));
        };
        let begin = rest[0].byte_offset;
        let have = file.read_cached(target, begin);
        if have == target.len() {
            return Ok(());
        }
        if !self.cold {
            self.cold = true;
            in_turn(turn, || hint(file, rest));
        }
        file.read(target, begin, have)
    }

    /// Stored chunks lie inside the file and are not absurdly large, or nothing is fetched.
    pub fn check(
        &self,
        member: &Member,
        chunks: &[Chunk],
        first_chunk: u64,
    ) -> Result<(), TaskError> {
        let file_bytes = member.source_bytes();
        // Filters that cannot shrink a chunk make it a little larger.
        let plausible = (member.decoded_size as u64).saturating_mul(2) + PLAUSIBLE_EXTRA_BYTES;
        for (at, chunk) in (first_chunk..).zip(chunks) {
            if chunk.byte_offset == UNALLOCATED {
                continue;
            }
            let end = chunk.byte_offset.checked_add(chunk.stored_size);
            if end.is_none_or(|end| end > file_bytes) {
                let got = file_bytes.saturating_sub(chunk.byte_offset);
                let expected = chunk.stored_size;
                return Err(TaskError::Fetch(at, FetchError::Short { expected, got }));
            }
            if chunk.stored_size > plausible {
                let error = FilterError {
                    filter: 0,
                    // The library may know a way to read such a chunk.
                    kind: FilterErrorKind::Unsupported,
                    expected: member.decoded_size as u64,
                    got: chunk.stored_size,
                };
                return Err(TaskError::Filter(at, error));
            }
        }
        Ok(())
    }
}

/// A task that takes its turn: on a rotating disk requests are made in the order of the tape.
#[derive(Clone, Copy)]
pub struct Turn<'a> {
    pub control: &'a Control,
    pub task: u64,
}

impl<'a> Turn<'a> {
    pub fn of(member: &Member, control: &'a Control, task: u64) -> Option<Turn<'a>> {
        member.turnstile.then_some(Turn { control, task })
    }
}

/// Make requests when it is their turn, and pass it on before they are done: others may follow.
fn in_turn<T>(turn: Option<Turn<'_>>, request: impl FnOnce() -> T) -> T {
    let Some(turn) = turn else {
        return request();
    };
    turn.control.wait_turn(turn.task);
    let result = request();
    turn.control.pass_turn(turn.task);
    result
}

fn hint(file: &mut DataFile, found: &[Run]) {
    for run in found {
        file.hint(run.byte_offset, run.len);
    }
}

/// Make `buffer` at least `len` bytes long; too little memory is an error, not an abort.
pub fn grow(buffer: &mut Vec<u8>, len: usize, at: u64) -> Result<(), TaskError> {
    if buffer.len() < len {
        let more = buffer.try_reserve_exact(len - buffer.len());
        more.map_err(|_| TaskError::read(at, std::io::Error::from_raw_os_error(libc::ENOMEM)))?;
        buffer.resize(len, 0);
    }
    Ok(())
}

/// Add the time since `start` to a reader's account.
pub fn add_ns(total: &std::sync::atomic::AtomicU64, start: Instant) {
    total.fetch_add(start.elapsed().as_nanos() as u64, Relaxed);
}
