//! A share of a window: which chunks one task fetches, and where their rows go.
//!
//! Law:
//! 1. The rows of a window, in the order of the dataset, are cut into shares of about equal length
//!    where a member's chunks begin: every chunk of a window is in one share of each member.
//! 2. All readers cut alike. A window is computed once by each reader that has a share of it, not
//!    once for each share.
//! 3. Of contiguous data in which few rows are wanted, a pick is a run of such rows.
//! 4. Pure but for that memory: no files, no tapes.

use crate::order::{Epoch, Order, Seat};
use crate::plan::{Chunk, Member, Plan, Task, UNALLOCATED};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;

/// Windows that are remembered: a reader has tasks of two at most, and of more when it reads ahead.
const REMEMBERED: usize = 4;
/// Of contiguous data, pieces of which less than this part is wanted are fetched row by row.
const SPARSE: u64 = 4;

/// A chunk, or a run of contiguous rows, with the seats of the rows that are wanted of it.
#[derive(Clone, Debug)]
pub struct Pick {
    /// Which chunk of the plan.
    pub number: u64,
    /// The dataset row with which the decoded bytes begin.
    pub row: u64,
    pub seats: Range<usize>,
}

/// What one task does.
pub struct Share {
    /// Of the whole window.
    pub seats: Rc<Vec<Seat>>,
    range: Range<usize>,
    outer: u64,
    pub picks: Vec<Pick>,
    /// The picks' records, for `runs`.
    pub chunks: Vec<Chunk>,
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
    recent: VecDeque<(u64, u64, Rc<Vec<Seat>>)>,
}

impl<'a> Windows<'a> {
    pub fn new(plan: &'a Plan) -> Windows<'a> {
        Windows {
            order: plan.order.as_ref().map(|(order, first)| (order, *first)),
            epoch: None,
            recent: VecDeque::new(),
        }
    }

    fn seats(&mut self, lap: u64, task: &Task) -> Rc<Vec<Seat>> {
        let (begin, rows) = (task.first_chunk, task.row_end - task.row_begin);
        // A window that lies has another length than one that begins with it.
        let known = |(a, b, seats): &&(u64, u64, Rc<Vec<Seat>>)| {
            (*a, *b, seats.len() as u64) == (lap, begin, rows)
        };
        if let Some((_, _, seats)) = self.recent.iter().find(known) {
            return seats.clone();
        }
        let Some((order, first)) = self.order else {
            return Rc::default();
        };
        let epoch = match &mut self.epoch {
            Some((known, epoch)) if *known == lap => epoch,
            place => &mut place.insert((lap, order.epoch(first.wrapping_add(lap)))).1,
        };
        let mut seats = Vec::new();
        while self.recent.len() >= REMEMBERED {
            if let Some((_, _, old)) = self.recent.pop_front() {
                seats = Rc::try_unwrap(old).unwrap_or_default();
            }
        }
        epoch.seats(begin, begin + rows, &mut seats);
        let seats = Rc::new(seats);
        self.recent.push_back((lap, begin, seats.clone()));
        seats
    }

    /// What `task` does in lap `lap`.
    pub fn share(&mut self, plan: &Plan, task: &Task, lap: u64) -> Share {
        let seats = self.seats(lap, task);
        let member = &plan.members[task.member as usize];
        let outer = member.chunk_dims[0];
        let (share, shares) = task.share();
        let begin = cut(&seats, outer, share, shares);
        let end = cut(&seats, outer, share + 1, shares);
        let mut found = Share {
            seats: seats.clone(),
            range: begin..end,
            outer,
            picks: Vec::new(),
            chunks: Vec::new(),
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
fn cut(seats: &[Seat], outer: u64, share: u32, shares: u32) -> usize {
    let at = (seats.len() as u64 * u64::from(share) / u64::from(shares)) as usize;
    let Some(before) = at.checked_sub(1) else {
        return 0;
    };
    let chunk = seats[before].row / outer;
    at + seats[at..].partition_point(|seat| seat.row / outer == chunk)
}

impl Share {
    /// What a library is to read of this share: for each chunk the rows from the first to the last
    /// that is wanted.
    pub fn spans(&self) -> impl Iterator<Item = Span> {
        let mut at = self.range.start;
        std::iter::from_fn(move || {
            let seats = &self.seats[at..self.range.end];
            let begin = seats.first()?.row;
            let len = seats.partition_point(|seat| seat.row / self.outer == begin / self.outer);
            let span = Span {
                begin,
                end: seats[len - 1].row + 1,
                seats: at..at + len,
            };
            at += len;
            Some(span)
        })
    }

    /// Pick the chunks of one group: those that hold the same rows.
    fn group(&mut self, plan: &Plan, member: &Member, group: u64, seats: Range<usize>) {
        let inner: u64 = (member.dims[1..].iter())
            .zip(&member.chunk_dims[1..])
            .map(|(dim, chunk)| dim.div_ceil(*chunk))
            .product();
        let row = group * member.chunk_dims[0];
        let first = member.grid_at + group * inner;
        let records = &plan.chunks()[first as usize..(first + inner) as usize];
        let sparse = seats.len() as u64 * SPARSE < member.chunk_dims[0];
        let piece = records.first().filter(|_| member.clipped && sparse);
        if let Some(piece) = piece.filter(|piece| piece.byte_offset != UNALLOCATED) {
            return self.rows(piece, member, first, row, seats);
        }
        for (number, chunk) in (first..).zip(records) {
            self.picks.push(Pick {
                number,
                row,
                seats: seats.clone(),
            });
            self.chunks.push(*chunk);
        }
    }

    /// Pick single rows of a contiguous piece.
    fn rows(
        &mut self,
        piece: &Chunk,
        member: &Member,
        number: u64,
        first: u64,
        seats: Range<usize>,
    ) {
        let row_bytes = (member.decoded_size as u64) / member.chunk_dims[0];
        let mut at = seats.start;
        while at < seats.end {
            let row = self.seats[at].row;
            let mut end = at + 1;
            while end < seats.end && self.seats[end].row <= self.seats[end - 1].row + 1 {
                end += 1;
            }
            let rows = self.seats[end - 1].row + 1 - row;
            self.chunks.push(Chunk {
                // An address that lies stays one, behind the end of the file.
                byte_offset: (piece.byte_offset)
                    .saturating_add((row - first) * row_bytes)
                    .min(UNALLOCATED - 1),
                stored_size: rows * row_bytes,
                ..*piece
            });
            self.picks.push(Pick {
                number,
                row,
                seats: at..end,
            });
            at = end;
        }
    }
}
