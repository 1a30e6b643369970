//! The codec limit: fetch and decode alone, as fast as bare processes can.
//!
//! Law:
//! 1. The plan, the fetches and the filters are those of a stream. There is no ring, no claim, no
//!    scatter, and nothing is published: a process runs tasks `me`, `me + n`, ...
//! 2. Everything is decoded into one small private buffer, reused, so that it stays in cache.
//! 3. Clocks start when every process stands ready, and end when the last one is done.
//! 4. A chunk that does not decode is an error here too: a limit of wrong bytes is none.

use crate::engine::counters::Record;
use crate::engine::open_dataset::OpenDataset;
use crate::fetch::coalesce::{Run, runs};
use crate::fetch::data_file::{Fetch, FetchError};
use crate::filters::Pipeline;
use crate::os::clock::now_ns;
use crate::os::memory::{Mapping, file_len};
use crate::ring::control::Control;
use crate::ring::reader_loop::window;
use crate::tables::plan::{Chunk, KIND_LIBRARY, Member, Plan, Task};
use crate::task_error::TaskError;
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

/// In the control socket's number: this is a trial, not a stream.
pub const TRIAL: u32 = 1 << 31;

/// Map a trial's control header, which has no tapes behind it.
pub fn map_control(plan: &Plan, fd: BorrowedFd<'_>) -> io::Result<(Mapping, Control)> {
    if file_len(fd)? != plan.control_bytes() || !plan.control_fits() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the control header does not fit its plan",
        ));
    }
    let head = Mapping::new(fd, 0, plan.control_bytes(), true)?;
    // SAFETY: the size was just checked; the caller keeps the mapping beside the control.
    let control = unsafe { Control::new(head.base(), plan.n_readers(), plan.n_slots()) };
    Ok((head, control))
}

/// Run this process's share of `plan`, once all others are ready too.
pub fn run_share(plan: &Plan, control: Control, me: usize) {
    let record = control.record(me);
    record.pid.store(std::process::id(), Relaxed);
    let mut share = Share {
        plan,
        record,
        me: me as u64,
        sources: plan.members.iter().map(|_| None).collect(),
        stored: Vec::new(),
        decoded: Vec::new(),
    };
    let ready = std::panic::AssertUnwindSafe(|| share.open());
    let opened = std::panic::catch_unwind(ready).unwrap_or_else(|_| Err(panicked()));
    control.count(Duration::ZERO);
    control.wait_turn(1);
    record.begin_ns.store(now_ns(), SeqCst);
    let run = std::panic::AssertUnwindSafe(|| opened.and_then(|()| share.run()));
    let done = std::panic::catch_unwind(run).unwrap_or_else(|_| Err(panicked()));
    record.end_ns.store(now_ns(), SeqCst);
    if let Err(error) = done {
        record.set_error(record.current.load(Relaxed).saturating_sub(1), 0, &error);
    }
    control.count(Duration::ZERO);
}

fn panicked() -> TaskError {
    TaskError::Internal("the codec limit's loop panicked".into())
}

struct Share<'a> {
    plan: &'a Plan,
    record: &'a Record,
    me: u64,
    sources: Vec<Option<OpenDataset>>,
    stored: Vec<u8>,
    decoded: Vec<u8>,
}

/// A task with its requests in flight, for direct reads.
type Flight = (u64, Task, Vec<(Run, u64)>);

impl Share<'_> {
    fn open(&mut self) -> Result<(), TaskError> {
        for (place, member) in self.sources.iter_mut().zip(&self.plan.members) {
            *place = Some(OpenDataset::open(member, self.record, 0)?);
        }
        Ok(())
    }

    fn run(&mut self) -> Result<(), TaskError> {
        let step = self.plan.n_readers() as u64;
        let end = self.plan.lap_tasks();
        let window = window(self.plan);
        let mut next = self.me;
        let mut pending: VecDeque<Flight> = VecDeque::new();
        loop {
            while pending.len() < window && next < end {
                self.record.current.store(next + 1, Relaxed);
                pending.push_back(self.begin(next)?);
                next += step;
            }
            let Some((number, task, flights)) = pending.pop_front() else {
                break;
            };
            self.record.current.store(number + 1, Relaxed);
            self.complete(&task, flights)?;
            self.record.tasks.fetch_add(1, Relaxed);
        }
        // Once is enough for a number to be worth anything.
        for source in self.sources.iter().flatten() {
            let file = source.fetch.file();
            file.check_unchanged()
                .map_err(|error| TaskError::Fetch(0, error))?;
        }
        Ok(())
    }

    fn begin(&mut self, number: u64) -> Result<Flight, TaskError> {
        let (task, _) = self.plan.task(number);
        if task.kind == KIND_LIBRARY {
            return Err(TaskError::Internal("a library's task has no limit".into()));
        }
        let member = &self.plan.members[task.member as usize];
        let source = self.sources[task.member as usize].as_mut();
        let source = source.ok_or_else(|| TaskError::Internal("a file is not open".into()))?;
        let records = self.plan.records(&task);
        let first_record = records.start as u64;
        let chunks = &self.plan.chunks()[records];
        source.check(member, chunks, first_record)?;
        let mut found = Vec::new();
        runs(chunks, &mut found);
        let mut flights = Vec::new();
        for run in found {
            let ticket = match &mut source.fetch {
                Fetch::Direct(queue, _) => queue
                    .submit(run.byte_offset, run.len as usize)
                    .map_err(|error| TaskError::read(first_record, error))?,
                Fetch::Buffered(_) => 0,
            };
            flights.push((run, ticket));
        }
        Ok((number, task, flights))
    }

    fn complete(&mut self, task: &Task, flights: Vec<(Run, u64)>) -> Result<(), TaskError> {
        let member = &self.plan.members[task.member as usize];
        let records = self.plan.records(task);
        let first_record = records.start;
        let chunks = &self.plan.chunks()[records];
        let Some(source) = self.sources[task.member as usize].as_mut() else {
            return Ok(());
        };
        if chunks.is_empty() {
            let rows = (task.row_end - task.row_begin) as usize;
            room(&mut self.decoded, rows * member.row_bytes).fill(0);
        } else {
            for _ in chunks.len() as u64..task.n_chunks {
                room(&mut self.decoded, member.decoded_size).fill(0);
            }
        }
        for (run, ticket) in flights {
            let first = (first_record + run.chunks.start) as u64;
            let chunks = &chunks[run.chunks.clone()];
            let len = run.len as usize;
            if let Fetch::Direct(queue, _) = &mut source.fetch {
                let finished = queue.finish(ticket);
                let finished = finished.map_err(|error| TaskError::read(first, error))?;
                let got = finished.bytes().len() as u64;
                if got < run.len {
                    let expected = run.len;
                    return Err(TaskError::Fetch(first, FetchError::Short { expected, got }));
                }
                decode(
                    source,
                    &mut self.decoded,
                    member,
                    first,
                    chunks,
                    &run,
                    finished.bytes(),
                )?;
                if let Fetch::Direct(queue, _) = &mut source.fetch {
                    queue.recycle(finished);
                }
                continue;
            }
            let buffer = room(&mut self.stored, len);
            if let Fetch::Buffered(file) = &mut source.fetch {
                let have = file.read_cached(buffer, run.byte_offset);
                if have < len {
                    file.read(buffer, run.byte_offset, have)
                        .map_err(|error| TaskError::Fetch(first, error))?;
                }
            }
            let raw = |chunk: &Chunk| source.pipeline.is_identity(chunk.filter_mask);
            // Bytes that no filter changes are read straight into place: that was all.
            if !chunks.iter().all(raw) {
                decode(
                    source,
                    &mut self.decoded,
                    member,
                    first,
                    chunks,
                    &run,
                    buffer,
                )?;
            }
        }
        Ok(())
    }
}

/// Decode a fetched run's chunks, one after the other or some side by side, into the same place.
fn decode(
    source: &mut OpenDataset,
    decoded: &mut Vec<u8>,
    member: &Member,
    first: u64,
    chunks: &[Chunk],
    run: &Run,
    bytes: &[u8],
) -> Result<(), TaskError> {
    let stored = |chunk: &Chunk| {
        let from = (chunk.byte_offset - run.byte_offset) as usize;
        &bytes[from..from + chunk.stored_size as usize]
    };
    let pipeline = &mut source.pipeline;
    let size = member.decoded_size;
    let mut index = 0;
    while let Some(chunk) = chunks.get(index) {
        let filter_mask = chunk.filter_mask;
        let next = &chunks[index..];
        let next = &next[..pipeline.group_size(next.len())];
        let done = match next.len() {
            4 => decode_abreast::<4>(pipeline, room(decoded, 4 * size), next, stored),
            3 => decode_abreast::<3>(pipeline, room(decoded, 3 * size), next, stored),
            2 => decode_abreast::<2>(pipeline, room(decoded, 2 * size), next, stored),
            _ => false,
        };
        if done {
            index += next.len();
            continue;
        }
        // Bytes that no filter changes are there already.
        if !pipeline.is_identity(filter_mask) {
            let at = first + index as u64;
            pipeline
                .decode(filter_mask, stored(chunk), room(decoded, size))
                .map_err(|error| TaskError::Filter(at, error))?;
        }
        index += 1;
    }
    Ok(())
}

/// False: none is done.
fn decode_abreast<'s, const N: usize>(
    pipeline: &mut Pipeline,
    decoded: &mut [u8],
    chunks: &[Chunk],
    stored: impl Fn(&Chunk) -> &'s [u8],
) -> bool {
    let Some(chunks) = chunks.first_chunk::<N>().map(<[Chunk; N]>::each_ref) else {
        return false;
    };
    let mask = chunks[0].filter_mask;
    if chunks.iter().any(|chunk| chunk.filter_mask != mask) || !pipeline.wants_group(mask) {
        return false;
    }
    let mut outs = decoded.chunks_exact_mut(decoded.len() / N);
    let outs = chunks.map(|_| outs.next().expect("as many outs as chunks"));
    pipeline.decode_group(mask, chunks.map(stored), outs)
}

/// The first `len` bytes of a buffer that grows to its largest use and is kept.
fn room(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}
