//! A share of a window: which chunks one task fetches, and where their rows go.
//!
//! Law:
//! 1. The rows of a window, in the order of the dataset, are cut into shares of about equal length
//!    where a member's chunks begin: every chunk of a window is in one share of each member.
//! 2. All readers cut alike. A window is computed once by each reader that has a share of it, not
//!    once for each share; a large one of a full shuffle by the rows, of which each share has its own.
//! 3. Of rows that are stored as they are, a pick is a piece, or where few are wanted a run of them.
//! 4. Pure but for that memory: no files, no tapes.

use crate::fetch::coalesce::RUN_BYTES;
use crate::shuffle::order::{Epoch, Order};
use crate::shuffle::row_map::RowMap;
use crate::tables::plan::{Chunk, Member, Plan, Task, UNALLOCATED};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// Windows that are remembered. Tasks are claimed in order, and those in hand have theirs already;
/// only a task that is run again may want one before the last.
const REMEMBERED: usize = 2;
/// Rows that are stored as they are, are fetched in pieces that lie in a core's cache until they
/// are copied, ...
const PIECE_BYTES: u64 = 128 << 10;
/// ... and row by row where less than this part of a piece is wanted.
const SPARSE: u64 = 4;

pub const NO_CHUNK: u64 = u64::MAX;

/// A chunk, or a part of one that is stored as it is, with the seats of the rows that are wanted of it.
#[derive(Clone, Debug)]
pub struct ChunkRead {
    /// Which chunk of the plan; `NO_CHUNK` where it was never stored.
    pub number: u64,
    /// The dataset row with which the decoded bytes begin.
    pub row: u64,
    /// Bytes that it decodes to.
    pub size: usize,
    pub seats: Range<usize>,
}

/// What one task does.
pub struct ShuffleTask {
    /// Of the whole window, or of this share's rows alone.
    pub seats: Rc<RowMap>,
    range: Range<usize>,
    outer: u64,
    pub reads: Vec<ChunkRead>,
    /// The picks' records, for `runs_within`, and how much one fetch may bring.
    pub chunks: Vec<Chunk>,
    pub run_bytes: u64,
}

/// Rows of the dataset that a library reads at once.
pub struct Span {
    pub begin: u64,
    pub end: u64,
    pub seats: Range<usize>,
}

/// The windows that a reader has in hand.
pub struct Windows<'a> {
    order: Option<(&'a Order, u64)>,
    epoch: Option<(u64, Epoch<'a>)>,
    /// `(lap, position, seats)`
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

    /// The seats of a share and which of them are its own, where it needs no others.
    fn own_seats(
        &mut self,
        plan: &Plan,
        task: &Task,
        lap: u64,
    ) -> Option<(Rc<RowMap>, Range<usize>)> {
        let (begin, rows) = (task.first_chunk, task.row_end - task.row_begin);
        let (order, _) = self.order?;
        if !order.goes_by_rows(rows, plan.members.len()) {
            return None;
        }
        let outer = plan.members[task.member as usize].chunk_dims[0];
        let (share, shares) = task.share();
        let cut = |share| order.cut(outer, share, shares);
        let mut seats = RowMap::default();
        let epoch = self.epoch(lap)?;
        epoch.part_rows(cut(share)..cut(share + 1), begin..begin + rows, &mut seats);
        let own = 0..seats.count();
        Some((Rc::new(seats), own))
    }

    fn seats(&mut self, lap: u64, task: &Task) -> Rc<RowMap> {
        let (begin, rows) = (task.first_chunk, task.row_end - task.row_begin);
        // A window that lies has another length than one that begins with it.
        let known = |(a, b, seats): &&(u64, u64, Rc<RowMap>)| {
            (*a, *b, seats.count() as u64) == (lap, begin, rows)
        };
        if let Some((_, _, seats)) = self.recent.iter().find(known) {
            return seats.clone();
        }
        let mut seats = RowMap::default();
        while self.recent.len() >= REMEMBERED {
            if let Some((_, _, old)) = self.recent.pop_front() {
                seats = Rc::try_unwrap(old).unwrap_or_default();
            }
        }
        if let Some(epoch) = self.epoch(lap) {
            epoch.row_map(begin, begin + rows, &mut seats);
        }
        let seats = Rc::new(seats);
        self.recent.push_back((lap, begin, seats.clone()));
        seats
    }

    /// What `task` does in lap `lap`.
    pub fn share(&mut self, plan: &Plan, task: &Task, lap: u64) -> ShuffleTask {
        let member = &plan.members[task.member as usize];
        let outer = member.chunk_dims[0];
        let (seats, range) = self.own_seats(plan, task, lap).unwrap_or_else(|| {
            let seats = self.seats(lap, task);
            let (share, shares) = task.share();
            let cut = |share| cut(&seats, outer, share, shares);
            let range = cut(share)..cut(share + 1);
            (seats, range)
        });
        let mut found = ShuffleTask {
            seats,
            range,
            outer,
            reads: Vec::new(),
            chunks: Vec::new(),
            run_bytes: match member.filters.is_empty() && !member.direct {
                true => PIECE_BYTES,
                false => RUN_BYTES,
            },
        };
        let spans: Vec<Span> = match member.by_library {
            true => Vec::new(), // it reads them itself
            false => found.spans().collect(),
        };
        for span in spans {
            found.group(plan, member, span.begin / outer, span.seats);
        }
        found
    }
}

/// Where a share begins: at the first seat of a chunk.
fn cut(seats: &RowMap, outer: u64, share: u32, shares: u32) -> usize {
    let at = (seats.count() as u64 * u64::from(share) / u64::from(shares)) as usize;
    let Some(before) = at.checked_sub(1) else {
        return 0;
    };
    seats.first_from(next_chunk(seats.row(before), outer))
}

/// The first row behind the chunk that has this one.
fn next_chunk(row: u64, outer: u64) -> u64 {
    (row / outer + 1).saturating_mul(outer)
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
            let begin = self.seats.row(at);
            let seats = at..self.seats.first_from(next_chunk(begin, self.outer));
            at = seats.end;
            Some(Span {
                begin,
                end: self.seats.row(at - 1) + 1,
                seats,
            })
        })
    }

    /// Pick the chunks of one group: those that hold the same rows.
    fn group(&mut self, plan: &Plan, member: &Member, group: u64, seats: Range<usize>) {
        let inner = member.inner_cells();
        let row = group * member.chunk_dims[0];
        let cells = group * inner..(group + 1) * inner;
        let numbers = plan.stored(member, cells.clone());
        let first = numbers.start as u64;
        let records = &plan.chunks()[numbers];
        let size = decoded_size(member, row);
        if let ([chunk], 1) = (records, inner) {
            let row_bytes = member.decoded_size as u64 / member.chunk_dims[0];
            let plain = row_bytes > 0
                && member.filters.is_empty()
                && member.chunk_dims[1..] == member.dims[1..];
            if plain && chunk.byte_offset != UNALLOCATED && chunk.stored_size == size as u64 {
                return self.pieces(chunk, row_bytes, first, row, seats);
            }
        }
        let mut stored = (first..).zip(records).peekable();
        for grid_index in cells {
            let never = Chunk {
                grid_index,
                byte_offset: UNALLOCATED,
                stored_size: 0,
                filter_mask: 0,
                reserved: 0,
            };
            let found = stored.next_if(|(_, chunk)| chunk.grid_index == grid_index);
            let (number, chunk) =
                found.map_or((NO_CHUNK, never), |(number, chunk)| (number, *chunk));
            self.reads.push(ChunkRead {
                number,
                row,
                size,
                seats: seats.clone(),
            });
            self.chunks.push(chunk);
        }
    }

    /// Pick parts of a chunk whose stored bytes are its rows: pieces that a cache holds, or runs of
    /// wanted rows where these are few.
    fn pieces(
        &mut self,
        chunk: &Chunk,
        row_bytes: u64,
        number: u64,
        first: u64,
        seats: Range<usize>,
    ) {
        let step = (PIECE_BYTES / row_bytes).max(1);
        let all = self.seats.clone();
        let mut at = seats.start;
        while at < seats.end {
            let begin = first + (all.row(at) - first) / step * step;
            let end = (begin + step).min(first + chunk.stored_size / row_bytes);
            let part = at..all.first_from(end).min(seats.end);
            at = part.end;
            if part.len() as u64 * SPARSE >= end - begin {
                self.part(chunk, row_bytes, number, first, begin..end, part);
                continue;
            }
            let mut wanted: Option<(Range<u64>, Range<usize>)> = None;
            for run in all.runs(part) {
                let seats = run.index..run.index + run.rows;
                match &mut wanted {
                    Some((rows, before)) if run.row <= rows.end => {
                        (rows.end, before.end) = (run.end_row(), seats.end);
                    }
                    _ => {
                        let rows = run.row..run.end_row();
                        if let Some((rows, seats)) = wanted.replace((rows, seats)) {
                            self.part(chunk, row_bytes, number, first, rows, seats);
                        }
                    }
                }
            }
            if let Some((rows, seats)) = wanted {
                self.part(chunk, row_bytes, number, first, rows, seats);
            }
        }
    }

    fn part(
        &mut self,
        chunk: &Chunk,
        row_bytes: u64,
        number: u64,
        first: u64,
        rows: Range<u64>,
        seats: Range<usize>,
    ) {
        let size = (rows.end - rows.start) * row_bytes;
        self.chunks.push(Chunk {
            // An address that lies stays one, behind the end of the file.
            byte_offset: (chunk.byte_offset)
                .saturating_add((rows.start - first) * row_bytes)
                .min(UNALLOCATED - 1),
            stored_size: size,
            ..*chunk
        });
        self.reads.push(ChunkRead {
            number,
            row: rows.start,
            size: size as usize,
            seats,
        });
    }
}

/// Bytes of a chunk's rows from row `row` on; in contiguous layout the last piece is shorter.
fn decoded_size(member: &Member, row: u64) -> usize {
    if !member.clipped {
        return member.decoded_size;
    }
    let rows = member.chunk_dims[0].min(member.dims[0].saturating_sub(row));
    member.decoded_size / member.chunk_dims[0] as usize * rows as usize
}
