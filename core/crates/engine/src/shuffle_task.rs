//! A share of a window: which chunks one task fetches, and where their rows go.
//!
//! Law:
//! 1. The rows of a window, in the order of the dataset, are cut into shares of about equal length
//!    where a dataset's chunks begin: every chunk of a window is in one share of each dataset.
//! 2. All readers cut alike. A window is computed once by each reader that has a share of it, not
//!    once for each share; a large one of a full shuffle by the rows, of which each share has its own.
//! 3. Of rows that are stored as they are, a chunk read is a piece, or where few are wanted a run of
//!    them.
//! 4. Pure but for that memory: no files, no tapes.

use crate::chunk_read::{ChunkRead, NO_CHUNK};
use crate::fetch::coalesce::RUN_BYTES;
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use tables::plan::{Chunk, Dataset, Plan, Share, Task, UNALLOCATED};
use tables::shuffle::order::{Epoch, Order};
use tables::shuffle::row_map::RowMap;

/// Windows that are remembered. Tasks are claimed in order, and those in hand have theirs already;
/// only a task that is run again may want one before the last.
const REMEMBERED: usize = 2;
/// Rows without a filter are fetched in pieces that stay in a core's cache until they are copied, ...
const PIECE_BYTES: u64 = 128 << 10;
/// ... and row by row where less than this part of a piece is wanted.
const SPARSE: u64 = 4;

/// What one task does. Its rows are counted by their index in `rows`.
pub struct ShuffleTask {
    /// Of the whole window, or of this share alone.
    pub rows: Rc<RowMap>,
    /// Those of this share.
    range: Range<usize>,
    outer: u64,
    pub reads: Vec<ChunkRead>,
    /// Their records, for `runs`, and how much one fetch may bring.
    pub chunks: Vec<Chunk>,
    pub run_bytes: u64,
}

/// Rows of the dataset that a library reads at once, and which of them are wanted.
pub struct Span {
    pub begin: u64,
    pub end: u64,
    pub wanted: Range<usize>,
}

/// The windows that a reader has in hand.
pub struct Windows<'a> {
    order: Option<(&'a Order, u64)>,
    epoch: Option<(u64, Epoch<'a>)>,
    /// `(lap, position, rows)`
    recent: VecDeque<(u64, u64, Rc<RowMap>)>,
}

impl<'a> Windows<'a> {
    pub fn new(plan: &'a Plan) -> Windows<'a> {
        Windows {
            order: plan.order.as_ref().map(|(order, first)| (order, *first)),
            epoch: None,
            recent: VecDeque::new(),
        }
    }

    fn epoch(&mut self, lap: u64) -> Option<&Epoch<'a>> {
        let (order, first) = self.order?;
        let known = self.epoch.as_ref().is_some_and(|(known, _)| *known == lap);
        if !known {
            self.epoch = Some((lap, order.epoch(first.wrapping_add(lap))));
        }
        self.epoch.as_ref().map(|(_, epoch)| epoch)
    }

    /// The rows of a share alone, where it needs no others.
    fn own_rows(&mut self, plan: &Plan, task: &Task, share: Share, lap: u64) -> Option<RowMap> {
        let rows = task.row_end - task.row_begin;
        let (order, _) = self.order?;
        if !order.goes_by_rows(rows, plan.tapes.len()) {
            return None;
        }
        let outer = plan.dataset(task).chunk_dims[0];
        let cut = |number: u64| order.cut(outer, number as u32, share.count as u32);
        let window = share.position..share.position + rows;
        let mut own = RowMap::default();
        let epoch = self.epoch(lap)?;
        epoch.part_rows(cut(share.number)..cut(share.number + 1), window, &mut own);
        Some(own)
    }

    /// The rows of a whole window.
    fn rows(&mut self, position: u64, n_rows: u64, lap: u64) -> Rc<RowMap> {
        // A corrupt plan may reuse a position with another length, so compare lengths too.
        let known = |(a, b, rows): &&(u64, u64, Rc<RowMap>)| {
            (*a, *b, rows.count() as u64) == (lap, position, n_rows)
        };
        if let Some((_, _, rows)) = self.recent.iter().find(known) {
            return rows.clone();
        }
        let mut rows = RowMap::default();
        while self.recent.len() >= REMEMBERED {
            if let Some((_, _, old)) = self.recent.pop_front() {
                rows = Rc::try_unwrap(old).unwrap_or_default();
            }
        }
        if let Some(epoch) = self.epoch(lap) {
            epoch.row_map(position, position + n_rows, &mut rows);
        }
        let rows = Rc::new(rows);
        self.recent.push_back((lap, position, rows.clone()));
        rows
    }

    /// What `task` does, which has this share, in lap `lap`.
    pub fn task(&mut self, plan: &Plan, task: &Task, share: Share, lap: u64) -> ShuffleTask {
        let dataset = plan.dataset(task);
        let outer = dataset.chunk_dims[0];
        let (rows, range) = match self.own_rows(plan, task, share, lap) {
            Some(own) => {
                let all = 0..own.count();
                (Rc::new(own), all)
            }
            None => {
                let n_rows = task.row_end - task.row_begin;
                let rows = self.rows(share.position, n_rows, lap);
                let cut = |number| cut(&rows, outer, number, share.count);
                let range = cut(share.number)..cut(share.number + 1);
                (rows, range)
            }
        };
        let small = dataset.filters.is_empty() && !plan.table.source(dataset).direct;
        let mut found = ShuffleTask {
            rows,
            range,
            outer,
            reads: Vec::new(),
            chunks: Vec::new(),
            run_bytes: if small { PIECE_BYTES } else { RUN_BYTES },
        };
        let spans: Vec<Span> = match dataset.by_library {
            true => Vec::new(), // it reads them itself
            false => found.spans().collect(),
        };
        for span in spans {
            found.add_chunk_row(plan, dataset, span.begin / outer, span.wanted);
        }
        found
    }
}

/// Where a share begins: at the first row of a chunk.
fn cut(rows: &RowMap, outer: u64, number: u64, count: u64) -> usize {
    let at = (rows.count() as u64 * number / count) as usize;
    let Some(before) = at.checked_sub(1) else {
        return 0;
    };
    rows.first_from(next_chunk(rows.row(before), outer))
}

/// The first row behind the chunk that has this one.
fn next_chunk(row: u64, outer: u64) -> u64 {
    (row / outer + 1).saturating_mul(outer)
}

/// A chunk whose stored bytes are rows.
struct StoredRows<'a> {
    chunk: &'a Chunk,
    number: u64,
    first_row: u64,
    row_bytes: u64,
}

impl ShuffleTask {
    /// What a library is to read of this share: for each chunk the rows from the first to the last
    /// that is wanted.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let mut at = self.range.start;
        std::iter::from_fn(move || {
            if at >= self.range.end {
                return None;
            }
            let begin = self.rows.row(at);
            let wanted = at..self.rows.first_from(next_chunk(begin, self.outer));
            at = wanted.end;
            Some(Span {
                begin,
                end: self.rows.row(at - 1) + 1,
                wanted,
            })
        })
    }

    /// Read the chunks of the grid that hold the same rows.
    fn add_chunk_row(&mut self, plan: &Plan, dataset: &Dataset, at: u64, wanted: Range<usize>) {
        let inner = dataset.inner_chunks();
        let first_row = at * dataset.chunk_dims[0];
        let grid = at * inner..(at + 1) * inner;
        let numbers = plan.table.stored(dataset, grid.clone());
        let number = numbers.start as u64;
        let records = &plan.table.chunks()[numbers];
        let size = dataset.decoded_size_at(first_row);
        if let ([chunk], 1) = (records, inner) {
            let row_bytes = dataset.decoded_size as u64 / dataset.chunk_dims[0];
            let plain = row_bytes > 0 && dataset.is_as_stored() && dataset.spans_rows();
            if plain && chunk.byte_offset != UNALLOCATED && chunk.stored_size == size as u64 {
                let stored = StoredRows {
                    chunk,
                    number,
                    first_row,
                    row_bytes,
                };
                return self.add_pieces(&stored, wanted);
            }
        }
        let mut stored = (number..).zip(records).peekable();
        for grid_index in grid {
            let found = stored.next_if(|(_, chunk)| chunk.grid_index == grid_index);
            let (number, chunk) = match found {
                Some((number, chunk)) => (number, *chunk),
                None => (NO_CHUNK, Chunk::never_stored(grid_index)),
            };
            self.reads.push(ChunkRead {
                number,
                grid_index,
                row: first_row,
                size,
                wanted: wanted.start as u64..wanted.end as u64,
            });
            self.chunks.push(chunk);
        }
    }

    /// Read parts of a chunk whose stored bytes are its rows: pieces that a cache holds, or runs of
    /// wanted rows where these are few.
    fn add_pieces(&mut self, stored: &StoredRows<'_>, wanted: Range<usize>) {
        let step = (PIECE_BYTES / stored.row_bytes).max(1);
        let first = stored.first_row;
        let end_row = first + stored.chunk.stored_size / stored.row_bytes;
        let all = self.rows.clone();
        let mut at = wanted.start;
        while at < wanted.end {
            let begin = first + (all.row(at) - first) / step * step;
            let end = (begin + step).min(end_row);
            let part = at..all.first_from(end).min(wanted.end);
            at = part.end;
            if part.len() as u64 * SPARSE >= end - begin {
                self.add_piece(stored, begin..end, part);
                continue;
            }
            let mut few: Option<(Range<u64>, Range<usize>)> = None;
            for stretch in all.runs(part) {
                let wanted = stretch.index..stretch.index + stretch.rows;
                match &mut few {
                    Some((rows, before)) if stretch.row <= rows.end => {
                        (rows.end, before.end) = (stretch.end_row(), wanted.end);
                    }
                    _ => {
                        let rows = stretch.row..stretch.end_row();
                        if let Some((rows, wanted)) = few.replace((rows, wanted)) {
                            self.add_piece(stored, rows, wanted);
                        }
                    }
                }
            }
            if let Some((rows, wanted)) = few {
                self.add_piece(stored, rows, wanted);
            }
        }
    }

    fn add_piece(&mut self, stored: &StoredRows<'_>, rows: Range<u64>, wanted: Range<usize>) {
        let size = (rows.end - rows.start) * stored.row_bytes;
        let before = (rows.start - stored.first_row) * stored.row_bytes;
        self.chunks.push(Chunk {
            // A corrupt address stays one, behind the end of the file.
            byte_offset: (stored.chunk.byte_offset)
                .saturating_add(before)
                .min(UNALLOCATED - 1),
            stored_size: size,
            ..*stored.chunk
        });
        self.reads.push(ChunkRead {
            number: stored.number,
            grid_index: stored.chunk.grid_index,
            row: rows.start,
            size: size as usize,
            wanted: wanted.start as u64..wanted.end as u64,
        });
    }
}
