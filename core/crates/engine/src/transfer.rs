//! A read: stored chunks are fetched, decoded, and placed into memory that is given.
//!
//! Law:
//! 1. Each chunk is fetched and decoded once, and an error names it by the number of its record.
//! 2. A chunk whose decoded bytes are what its place wants is decoded there; others go through one
//!    reused buffer.
//! 3. Neighbours may be decoded together. Where anything is wrong with one of them, each is decoded
//!    again, alone, and errors are as if that were all.
//! 4. Where bytes go is the placement's; whose memory it is, its maker's. Neither claims nor slots, and
//!    nothing of Python is known here.

use crate::chunk_read::{ChunkRead, Fetches, NO_CHUNK, Place, room};
use crate::counters::{Record, add_ns, count};
use crate::elements::{Elements, ReadElements};
use crate::fetch::coalesce::Run;
use crate::fetch::error::FetchError;
use crate::fetch::queue::{FetchQueue, Fetched};
use crate::scatter::fill;
use crate::task_error::TaskError;
use hdf5_filters::{GroupItem, Pipeline};
use std::ops::Range;
use std::time::Instant;
use tables::dataset::{Chunk, Dataset};

/// Decoding begins when more stored bytes than this are fetched, and enough chunks for a group.
const TOGETHER_BYTES: u64 = 256 << 10;

/// One task's chunks on their way.
pub struct Transfer<'a, P> {
    pub record: &'a Record,
    pub queue: &'a mut FetchQueue,
    pub pipeline: &'a mut Pipeline,
    /// Of a virtual dataset.
    pub assembler: Option<&'a mut Box<dyn ReadElements>>,
    pub decoded: &'a mut Vec<u8>,
    pub place: P,
}

impl<P: Place> Transfer<'_, P> {
    /// Fetch, decode and place the chunks that are in runs.
    pub fn run(&mut self, chunks: &[Chunk], fetches: Fetches<'_>) -> Result<(), TaskError> {
        let before = self.queue.fetches();
        let result = self.run_all(chunks, fetches);
        if result.is_err() {
            let tickets = fetches.tickets.iter();
            tickets.for_each(|&ticket| self.queue.discard(ticket));
        }
        count(&self.record.fetches, self.queue.fetches() - before);
        let start = Instant::now();
        self.place.flush();
        add_ns(&self.record.decode_ns, start);
        result
    }

    fn run_all(&mut self, chunks: &[Chunk], fetches: Fetches<'_>) -> Result<(), TaskError> {
        let Fetches {
            mut runs,
            mut tickets,
            turn,
        } = fetches;
        while let Some(run) = runs.first() {
            let start = Instant::now();
            let as_stored = |chunk: &Chunk| self.pipeline.is_identity(chunk.filter_mask);
            let in_place = !self.queue.is_async()
                && chunks[run.chunks.clone()].iter().all(as_stored)
                && (self.place)
                    .fetch_in_place(self.queue, runs, chunks, turn)
                    .map_err(|error| self.failed(run, error))?;
            let asked = if in_place { 1 } else { self.together(runs) };
            let (mut n, mut result) = (asked, Ok(()));
            if !in_place {
                let (fetched, all) = self.queue.next(runs, tickets, asked, turn);
                add_ns(&self.record.fetch_ns, start);
                n = fetched.n_runs();
                // What comes before an error is good.
                let decoded = self.decode(chunks, runs, &fetched);
                self.queue.recycle(fetched);
                result = decoded.and(all.map_err(|error| self.failed(&runs[n], error)));
            } else {
                add_ns(&self.record.fetch_ns, start);
                count(&self.record.decoded_bytes, run.len);
            }
            let bytes: u64 = runs[..n].iter().map(|run| run.len).sum();
            count(&self.record.fetched_bytes, bytes);
            result?;
            runs = &runs[n..];
            tickets = tickets.get(n..).unwrap_or_default();
        }
        Ok(())
    }

    fn failed(&self, run: &Run, error: FetchError) -> TaskError {
        TaskError::Fetch(self.place.number(run.chunks.start), error)
    }

    /// How many of these runs to fetch before their chunks are decoded.
    fn together(&self, runs: &[Run]) -> usize {
        let most = self.pipeline.max_group();
        if most == 1 {
            return 1;
        }
        let (mut chunks, mut bytes) = (0, 0);
        let is_enough = |run: &Run| {
            let enough = chunks >= most && bytes + run.len > TOGETHER_BYTES;
            (chunks, bytes) = (chunks + run.chunks.len(), bytes + run.len);
            enough
        };
        runs.iter().position(is_enough).unwrap_or(runs.len()).max(1)
    }

    /// Decode the chunks of some runs, and bring them to their places.
    fn decode(
        &mut self,
        chunks: &[Chunk],
        runs: &[Run],
        fetched: &Fetched,
    ) -> Result<(), TaskError> {
        let start = Instant::now();
        let stored = fetched.parts(runs).flat_map(|(run, bytes)| {
            run.chunks.clone().map(move |index| {
                let chunk = &chunks[index];
                let from = (chunk.byte_offset - run.byte_offset) as usize;
                (index, &bytes[from..from + chunk.stored_size as usize])
            })
        });
        let stored: Vec<(usize, &[u8])> = stored.collect();
        let mut left = stored.as_slice();
        while let Some(&(index, bytes)) = left.first() {
            let masks = left.iter().map(|(index, _)| chunks[*index].filter_mask);
            let n = self.pipeline.group_size(left.len(), masks);
            if n > 1 && self.decode_group(chunks, &left[..n]) {
                left = &left[n..];
                continue;
            }
            self.decode_chunk(index, &chunks[index], bytes)?;
            left = &left[1..];
        }
        add_ns(&self.record.decode_ns, start);
        Ok(())
    }

    fn decode_chunk(
        &mut self,
        index: usize,
        chunk: &Chunk,
        stored: &[u8],
    ) -> Result<(), TaskError> {
        let read = self.place.read(index, chunk);
        let wrong = |error| TaskError::Filter(read.number, error);
        count(&self.record.decoded_bytes, read.size);
        if self.pipeline.is_identity(chunk.filter_mask) && stored.len() == read.size {
            self.place.place(&read, stored);
            return Ok(());
        }
        let mask = chunk.filter_mask;
        if self.pipeline.by_place().is_some() {
            let place = self.place.dataset_of(&read).place(read.grid_index);
            self.pipeline.at(place);
        }
        if let Some(conversion) = self.pipeline.conversion_alone(mask) {
            let done = self.place.convert(&read, conversion, stored);
            if done.map_err(wrong)? {
                return Ok(());
            }
        }
        if let Some(target) = self.place.target(&read) {
            // SAFETY: the placement's promise; nothing else refers to this memory now.
            let out = unsafe { &mut *target };
            let needed = || self.place.dataset_of(&read).needed(read.grid_index);
            let done = self.pipeline.decode(mask, stored, out, needed);
            match done {
                Ok(()) => self.place.placed(&read),
                Err(_) => self.place.released(&read),
            }
            return done.map_err(wrong);
        }
        let decoded = room(self.decoded, read.size, read.number)?;
        let needed = || self.place.dataset_of(&read).needed(read.grid_index);
        let done = self.pipeline.decode(mask, stored, decoded, needed);
        done.map_err(wrong)?;
        self.place.place(&read, decoded);
        Ok(())
    }

    /// Decode some chunks together. False if each has to be decoded alone.
    fn decode_group(&mut self, chunks: &[Chunk], group: &[(usize, &[u8])]) -> bool {
        let reads = group.iter().map(|(i, _)| self.place.read(*i, &chunks[*i]));
        let reads: Vec<ChunkRead> = reads.collect();
        let targets = reads.iter().map(|read| self.place.target(read));
        let targets: Vec<Option<*mut [u8]>> = targets.collect();
        let done = !overlap(&targets) && self.decode_items(chunks, group, &reads, &targets);
        if !done {
            reads.iter().for_each(|read| self.place.released(read));
        }
        done
    }

    /// Decode a group into these targets. False if each chunk has to be decoded alone.
    fn decode_items(
        &mut self,
        chunks: &[Chunk],
        group: &[(usize, &[u8])],
        reads: &[ChunkRead],
        targets: &[Option<*mut [u8]>],
    ) -> bool {
        let of_room = reads
            .iter()
            .zip(targets)
            .filter(|(_, target)| target.is_none());
        let len = of_room.map(|(read, _)| read.size).sum();
        let Ok(mut rest) = room(self.decoded, len, NO_CHUNK) else {
            return false;
        };
        let mut items: Vec<GroupItem<'_>> = Vec::with_capacity(group.len());
        for ((read, target), (_, stored)) in reads.iter().zip(targets).zip(group) {
            let out = match target {
                // SAFETY: the placement's promise; targets do not overlap, as just checked.
                Some(target) => unsafe { &mut **target },
                None => {
                    let (out, others) = std::mem::take(&mut rest).split_at_mut(read.size);
                    rest = others;
                    out
                }
            };
            items.push(GroupItem { stored, out });
        }
        let mask = chunks[group[0].0].filter_mask;
        if !self.pipeline.decode_group(mask, &mut items) {
            return false;
        }
        for ((read, target), item) in reads.iter().zip(targets).zip(items) {
            count(&self.record.decoded_bytes, read.size);
            match target {
                Some(_) => self.place.placed(read),
                None => self.place.place(read, item.out),
            }
        }
        true
    }

    /// Put together the rows that are wanted of a virtual dataset's chunk.
    fn assemble(&mut self, dataset: &Dataset, read: &ChunkRead) -> Result<(), TaskError> {
        let Some(assembler) = &mut self.assembler else {
            return Ok(());
        };
        let (offset, extents) = (&mut Vec::new(), &mut dataset.chunk_dims.clone());
        dataset.chunk_offset(read.grid_index, offset);
        let row_bytes = dataset.decoded_size / dataset.chunk_dims[0] as usize;
        if let Some(target) = self.place.target(read) {
            extents[0] = (read.size / row_bytes) as u64;
            let wanted = Elements {
                dataset,
                offset,
                extents,
            };
            // SAFETY: the placement's promise; nothing else refers to this memory now.
            let done = assembler.read(&wanted, unsafe { &mut *target }, self.record);
            match done {
                Ok(()) => self.place.placed(read),
                Err(_) => self.place.released(read),
            }
            return done;
        }
        let rows = self.place.rows(read);
        if rows.is_empty() {
            return Ok(());
        }
        let first = (rows.start - offset[0]) as usize * row_bytes;
        (offset[0], extents[0]) = (rows.start, rows.end - rows.start);
        let wanted = Elements {
            dataset,
            offset,
            extents,
        };
        let decoded = room(self.decoded, read.size, read.number)?;
        let bytes = first..first + extents[0] as usize * row_bytes;
        assembler.read(&wanted, &mut decoded[bytes], self.record)?;
        self.place.place(read, decoded);
        Ok(())
    }

    /// Write the fill value where a chunk was never stored.
    pub fn fill(&mut self, dataset: &Dataset, read: &ChunkRead) -> Result<(), TaskError> {
        if self.assembler.is_some() {
            return self.assemble(dataset, read);
        }
        if dataset.inner_chunks() == 1 && dataset.fills_evenly() {
            self.place.fill_rows(read);
        } else {
            let decoded = room(self.decoded, read.size, read.number)?;
            match &dataset.conversion {
                Some(one) if !one.is_even() => {
                    let place = dataset.place(read.grid_index);
                    let done = one.repeat(place, &dataset.stored_fill, decoded);
                    done.map_err(|error| TaskError::Filter(read.number, error))?;
                }
                _ => fill::repeat(&dataset.fill, decoded),
            }
            self.place.place(read, decoded);
        }
        count(&self.record.decoded_bytes, read.size);
        Ok(())
    }
}

fn overlap(targets: &[Option<*mut [u8]>]) -> bool {
    let ranges = targets.iter().flatten().map(|target| {
        let begin = target.cast::<u8>() as usize;
        begin..begin + target.len()
    });
    let ranges: Vec<Range<usize>> = ranges.collect();
    ranges.iter().enumerate().any(|(i, a)| {
        let mut behind = ranges[i + 1..].iter();
        behind.any(|b| a.start < b.end && b.start < a.end)
    })
}
