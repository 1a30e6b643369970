//! Requests answered: the datasets that were asked for lately, and what reads them.
//!
//! Law:
//! 1. A request is checked against its dataset before anything is done for it; one that does not fit
//!    is an internal error.
//! 2. A bounded number of datasets is known at a time; the least recently used is forgotten first.

use engine::assemble::assembler;
use engine::chunk_cache::processes::ProcessCache;
use engine::counters::Record;
use engine::fetch::queue::Turn;
use engine::fetch::recent::Recent;
use engine::heap_read::{
    Descriptors, HeapFile, KIND_HEAP, LEFT_OUT, first_of, leave_out, picture_bytes,
};
use engine::pieces::{KIND_PIECES, OpenPieces, Pieces};
use engine::read_context::ReadContext;
use engine::scatter::out::Out;
use engine::select::selection::{Hyperslab, TablePlace};
use engine::shared::{SelectedDataset, Shared};
use engine::task_error::TaskError;
use os::memory::Mapping;
use std::sync::Arc;
use tables::dataset::Fingerprint;
use tables::dataset::{DatasetTable, Memory};

/// Datasets that are known at a time.
const KNOWN: usize = 64;

/// Files whose heaps are read at a time, each with collections that it keeps.
const HEAPS: usize = 16;

/// Tables of which pieces are read at a time.
const TABLES: usize = 8;

/// Answers the requests of one work queue, in one reader.
pub struct Answerer {
    arena: Arc<Mapping>,
    shared: Arc<Shared>,
    datasets: Recent<TablePlace, SelectedDataset>,
    context: ReadContext,
    heaps: Recent<Fingerprint, HeapFile>,
    tables: Recent<TablePlace, OpenPieces>,
}

impl Answerer {
    pub fn new(arena: Arc<Mapping>, cache_limit_bytes: usize) -> Answerer {
        Answerer::with(arena, Answerer::shared(cache_limit_bytes, None))
    }

    /// One of several that have something in common.
    pub fn with(arena: Arc<Mapping>, shared: Arc<Shared>) -> Answerer {
        Answerer {
            arena,
            datasets: Recent::new(KNOWN),
            context: ReadContext::new(shared.clone()),
            heaps: Recent::new(HEAPS),
            tables: Recent::new(TABLES),
            shared,
        }
    }

    /// The files and chunks that several answerers have in common; `others` is memory for chunks of more
    /// processes.
    pub fn shared(cache_limit_bytes: usize, others: Option<Arc<ProcessCache>>) -> Arc<Shared> {
        Arc::new(Shared::new(cache_limit_bytes, others, assembler))
    }

    /// One that has not begun anything, in place of this one.
    pub fn anew(&self) -> Answerer {
        Answerer::with(self.arena.clone(), self.shared.clone())
    }

    /// Write what part `part` of `n_parts` owns of the result into `out`, which is all of it. Pieces
    /// on a rotating disk are fetched in their turn.
    pub fn answer(
        &mut self,
        words: &[u64],
        (part, n_parts): (u64, u64),
        mut out: Out<'_>,
        record: &Record,
        turn: Option<Turn<'_>>,
    ) -> Result<(), TaskError> {
        let internal = |reason: &str| TaskError::Internal(reason.into());
        let place = table_place(words).map_err(internal)?;
        let table = || {
            let memory = Memory::taken(&self.arena, place.at, place.len)?;
            DatasetTable::over(memory, 0, place.len)
        };
        if words[0] == KIND_PIECES {
            let wanted = Pieces::parse(words).map_err(internal)?;
            let make = || Ok((place, OpenPieces::new(table()?)));
            let open = self.tables.get_or_make(|known| *known == place, make);
            let open = open.map_err(internal)?;
            let out = out.first(wanted.out_bytes);
            let out = out.ok_or_else(|| internal("a result that is larger than its room"))?;
            let files = &self.shared.files;
            return open.read(&wanted, (part, n_parts), out, files, record, turn);
        }
        let make = || Ok((place, self.shared.dataset(table()?)?));
        let dataset = self.datasets.get_or_make(|known| *known == place, make);
        let dataset = dataset.map_err(internal)?;
        if words[0] == KIND_HEAP {
            let of = dataset.dataset();
            let wanted = Descriptors::parse(words, picture_bytes(of)).map_err(internal)?;
            let (conversion, files) = (of.conversion.as_deref(), &self.shared.files);
            let out = out.first(wanted.out_bytes);
            let mut out = out.ok_or_else(|| internal("a result that is larger than its room"))?;
            for (source, rows) in wanted.by_source(wanted.part(part, n_parts)) {
                if source == LEFT_OUT {
                    leave_out(&wanted, &rows, out.lend())?;
                    continue;
                }
                let source = dataset.table.sources.get(source as usize);
                let source = source.ok_or_else(|| internal("a file that the table lacks"))?;
                let fingerprint = source.fingerprint;
                let open = || {
                    let heap = HeapFile::open(source, files, first_of(&rows))?;
                    Ok((fingerprint, heap))
                };
                let heap = (self.heaps).get_or_make(|known| *known == fingerprint, open)?;
                heap.read(&wanted, &rows, conversion, out.lend(), record)?;
            }
            return Ok(());
        }
        let slab = Hyperslab::parse(words, dataset.dataset()).map_err(internal)?;
        let room = out.len();
        let Some(out) = out.first(slab.out_bytes()) else {
            let reason = format!("a result of {} bytes, room for {room}", slab.out_bytes());
            return Err(TaskError::Internal(reason));
        };
        match self.context.begin(dataset, &slab, part, n_parts) {
            true => self.context.read(dataset, &slab, out, record),
            false => Ok(()),
        }
    }
}

/// Which table a request is of.
fn table_place(words: &[u64]) -> Result<TablePlace, &'static str> {
    match words {
        [KIND_HEAP | KIND_PIECES, dataset, at, len, ..] => TablePlace::new(*dataset, *at, *len),
        _ => TablePlace::parse(words),
    }
}
