//! Questions about many objects of a file, which several threads answer in the order of the file.
//!
//! Law:
//! 1. An answer does not depend on the other objects, nor on the number of threads.
//! 2. Each page of the file is read once.
//! 3. Where a store has the file, objects are tried out together: what their answers lack is fetched at
//!    once, until they lack nothing. So each level of a structure is one wait.

use super::blocks::Ranges;
use super::cursor::UNDEFINED;
use super::error::Result;
use super::file::{File, Found, ObjectKind};
use super::layout::{Layout, layout};
use super::link::{Link, Target};
use super::object_header::message;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::Builder;
use std::time::Duration;

/// No object: the path leads to nothing.
pub const NOWHERE: i64 = -1;
/// `File::find` says where the path leads: into another file, or through damage.
pub const ELSEWHERE: i64 = -2;
/// Objects that are worth a thread.
const MIN_OBJECTS: usize = 256;
/// Objects that are tried out together, or more of them that lie within these bytes: what is fetched
/// for them must be kept until they are read.
const TRIED: usize = 256;
const TRIED_BYTES: u64 = 32 << 20;
/// Trials of an object, and what they fetch at most for all that are tried out together: half of what a
/// source keeps. The question itself reads the rest.
const TRIALS: usize = 8;
const EXPECTED_BYTES: u64 = 64 << 20;
/// Objects that are prefetched along, because a prefetched group links to them.
const MAX_TARGETS: usize = 4096;
/// About how much is read of the index of a dataset's chunks.
const INDEX_BYTES: u64 = 2 << 10;

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
            let mut left = part;
            while let Some(&first) = left.first() {
                let end = offsets[first].saturating_add(TRIED_BYTES);
                let near = left.partition_point(|&number| offsets[number] < end);
                let (some, others) = left.split_at(near.max(TRIED).min(left.len()));
                let ask = |&number: &usize| (number, question(number, offsets[number]));
                self.expect(some, |number| drop(ask(number)));
                all.extend(some.iter().map(ask));
                left = others;
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

    /// Prefetch the objects at these offsets: with links of groups and their targets, and where chunks of
    /// datasets are.
    pub fn prefetch(&self, offsets: &[u64]) {
        if !self.blocks.wants_prefetch() {
            return;
        }
        let look_at_all = |objects: &[u64]| {
            self.expect(objects, |&offset| drop(self.look_at(offset)));
        };
        look_at_all(offsets);
        let mut targets = Vec::new();
        let find_targets = || targets.extend(offsets.iter().flat_map(|&one| self.targets(one)));
        drop(self.blocks.lacking(find_targets));
        targets.truncate(MAX_TARGETS);
        look_at_all(&targets);
    }

    /// The objects that hard links of a group lead to. Other objects have no links.
    fn targets(&self, offset: u64) -> Vec<u64> {
        let links = self.object(offset).and_then(|header| match header.kind() {
            ObjectKind::Group => self.links(&header),
            _ => Ok(Vec::new()),
        });
        let target = |link: Link| match link.target {
            Target::Hard(offset) => Some(offset),
            _ => None,
        };
        links
            .unwrap_or_default()
            .into_iter()
            .filter_map(target)
            .collect()
    }

    /// Read the parts of an object that a walk reads.
    fn look_at(&self, offset: u64) -> Result<()> {
        let header = self.object(offset)?;
        if header.kind() == ObjectKind::Group {
            return self.links(&header).map(drop);
        }
        let Some(message) = header.find(message::LAYOUT) else {
            return Ok(());
        };
        match layout(&mut self.blocks.cursor(&message.body))? {
            Layout::Chunked(chunked) if chunked.address != UNDEFINED => {
                (self.blocks.block_within(chunked.address, INDEX_BYTES)).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Try a question out on several objects, and fetch what it lacks, until it lacks nothing.
    fn expect<O: Copy>(&self, objects: &[O], question: impl Fn(&O)) {
        if !self.blocks.wants_prefetch() {
            return;
        }
        let mut objects = objects.to_vec();
        let (mut before, mut left) = (Ranges::new(), EXPECTED_BYTES);
        for _ in 0..TRIALS {
            let mut lacking = Ranges::new();
            objects.retain(|object| {
                let own = self.blocks.lacking(|| question(object));
                lacking.extend_from_slice(&own);
                !own.is_empty()
            });
            lacking.sort_unstable();
            lacking.dedup();
            let bytes = lacking
                .iter()
                .fold(0, |sum: u64, one| sum.saturating_add(one.1));
            // The question itself fails where ranges could not be fetched, with the error of its read.
            if lacking.is_empty() || lacking == before || bytes > left {
                return;
            }
            self.blocks.fetch(&lacking);
            (before, left) = (lacking, left - bytes);
        }
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
