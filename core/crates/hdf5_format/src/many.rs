//! Questions about many objects of a file, which several threads answer in the order of the file.
//!
//! Law:
//! 1. An answer does not depend on the other objects, nor on the number of threads.
//! 2. Each page of the file is read once; where a store has it, what comes next is prefetched.

use super::error::Result;
use super::file::{File, Found};
use super::layout::{Layout, layout};
use super::link::Link;
use super::object_header::{ObjectHeader, message};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

/// No object: the path leads to nothing.
pub const NOWHERE: i64 = -1;
/// `File::find` says where the path leads: into another file, or through damage.
pub const ELSEWHERE: i64 = -2;
/// Objects that are worth a thread.
const MIN_OBJECTS: usize = 256;
/// Objects that are prefetched at a time, and about how many bytes are read at each.
const PREFETCHED: usize = 256;
const PREFETCHED_BYTES: u64 = 2 << 10;

/// What ends a long call early: its reads fail then.
pub trait Interruption: Sync {
    /// Do something for the calling thread, in another one.
    fn helping(&self, act: &mut dyn FnMut()) {
        act();
    }

    /// The calling thread calls it while it waits for others.
    fn look(&self) {}
}

/// It does not end early.
impl Interruption for () {}

/// Time between two looks at it.
const PULSE: Duration = Duration::from_millis(50);

impl File {
    /// Where a path leads from each of the groups at these offsets: the offset of an object, or
    /// `NOWHERE`, or `ELSEWHERE`.
    pub fn find_from(
        &self,
        offsets: &[u64],
        path: &[u8],
        interruption: &dyn Interruption,
    ) -> Vec<i64> {
        let find = |_, offset| self.find(offset, path).map_or(ELSEWHERE, |to| to.number());
        self.each(offsets, interruption, &find)
    }

    /// All links of each of the groups at these offsets.
    pub fn links_of(
        &self,
        offsets: &[u64],
        interruption: &dyn Interruption,
    ) -> Result<Vec<Vec<Link>>> {
        let links = |_, offset| self.links(&*self.object(offset)?);
        self.each(offsets, interruption, &links)
            .into_iter()
            .collect()
    }

    /// Answer a question about each of the objects at these offsets, by its number and its offset.
    pub(super) fn each<T: Send>(
        &self,
        offsets: &[u64],
        interruption: &dyn Interruption,
        question: &(dyn Fn(usize, u64) -> T + Sync),
    ) -> Vec<T> {
        let mut order: Vec<usize> = (0..offsets.len()).collect();
        order.sort_by_key(|&number| offsets[number]);
        let answered = |part: &[usize]| -> Vec<(usize, T)> {
            let mut all = Vec::with_capacity(part.len());
            for some in part.chunks(PREFETCHED) {
                let wanted: Vec<u64> = some.iter().map(|&number| offsets[number]).collect();
                self.prefetch(&wanted);
                let answers = some
                    .iter()
                    .map(|&number| (number, question(number, offsets[number])));
                all.extend(answers);
            }
            all
        };
        let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut parts = order.chunks(order.len().div_ceil(n_threads).max(MIN_OBJECTS));
        let mut all: Vec<_> = std::thread::scope(|scope| {
            let (answered, first) = (&answered, parts.next());
            let (outbox, inbox) = channel();
            let mut refused = Vec::new();
            for part in parts {
                let outbox = outbox.clone();
                // This does not fail: `inbox` lives until all have sent.
                let help = move || {
                    interruption.helping(&mut || drop(outbox.send(answered(part))));
                };
                if Builder::new().spawn_scoped(scope, help).is_err() {
                    refused.push(part); // where there are no more threads, this one does it
                }
            }
            drop(outbox);
            let mut all = first.map_or_else(Vec::new, answered);
            for part in refused {
                all.append(&mut answered(part));
            }
            loop {
                match inbox.recv_timeout(PULSE) {
                    Ok(mut more) => all.append(&mut more),
                    Err(RecvTimeoutError::Timeout) => interruption.look(),
                    Err(RecvTimeoutError::Disconnected) => break all,
                }
            }
        });
        all.sort_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, answer)| answer).collect()
    }

    /// Prefetch the objects at these offsets, with the indexes of their chunks.
    pub fn prefetch(&self, offsets: &[u64]) {
        if !self.blocks.wants_prefetch() {
            return;
        }
        let near = |offsets: &[u64]| {
            let offsets = offsets.iter().copied();
            self.blocks.prefetch(offsets, PREFETCHED_BYTES);
        };
        near(offsets);
        let named = |&offset: &u64| self.named_by(offset).unwrap_or_default();
        near(&offsets.iter().flat_map(named).collect::<Vec<_>>());
    }

    /// Where the index of a dataset's chunks begins, or the tree and the heap of a group.
    fn named_by(&self, offset: u64) -> Result<Vec<u64>> {
        let header = ObjectHeader::read(&self.blocks, offset)?;
        if let Some(message) = header.find(message::LAYOUT) {
            return Ok(match layout(&mut self.blocks.cursor(&message.body))? {
                Layout::Chunked(chunked) => vec![chunked.address],
                _ => Vec::new(),
            });
        }
        let Some(message) = header.find(message::SYMBOL_TABLE) else {
            return Ok(Vec::new());
        };
        let mut cursor = self.blocks.cursor(&message.body);
        Ok(vec![cursor.offset()?, cursor.offset()?])
    }
}

impl Found {
    /// The offset of an object, or `NOWHERE`, or `ELSEWHERE`.
    pub fn number(&self) -> i64 {
        match self {
            Found::Object(offset) => i64::try_from(*offset).unwrap_or(ELSEWHERE),
            Found::External { .. } => ELSEWHERE,
            _ => NOWHERE,
        }
    }
}
