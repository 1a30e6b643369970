//! Some chunks decoded side by side, where their filter is quicker that way.
//!
//! Law:
//! 1. They are the chunk in hand and those of the task that are to be served next, up to one that
//!    differs. All go straight to the result, one behind the other, or all are kept.
//! 2. Where anything is wrong with one of them, each is decoded again, alone, and errors are as if
//!    that were all.

use crate::engine::chunk_cache::{ENTRY_BYTES, Key};
use crate::engine::open_dataset::add_ns;
use crate::engine::place_selected::{InHand, Task, count, deliver, grow};
use crate::filters::MAX_GROUP;
use crate::select::chunk_iter::Cursor;
use std::time::Instant;

/// A chunk behind the one in hand.
#[derive(Debug, Default)]
pub struct Follower {
    cursor: Cursor,
    /// Its place in the task.
    turn: usize,
    key: Key,
    stored: Vec<u8>,
    stored_size: usize,
    /// Where in the result it goes as a whole. None: it is kept.
    dst: Option<usize>,
}

impl Follower {
    /// What is known of the chunk in hand too.
    fn as_first(&self) -> (Key, &Cursor, &[u8], Option<usize>) {
        let stored = &self.stored[..self.stored_size];
        (self.key, &self.cursor, stored, self.dst)
    }
}

pub type Followers = [Follower; MAX_GROUP - 1];

impl Task<'_> {
    /// Decode the chunk in hand together with the next ones. False: none is done.
    pub fn serve_abreast(&mut self, here: &InHand<'_>, stored: &[u8]) -> bool {
        let mut followers = std::mem::take(&mut self.scratch.followers);
        let n = self.find_followers(here, &mut followers);
        let behind = &followers[..n];
        let done = match 1 + n {
            4 => self.decode_abreast::<4>(here, stored, behind),
            3 => self.decode_abreast::<3>(here, stored, behind),
            2 => self.decode_abreast::<2>(here, stored, behind),
            _ => false,
        };
        self.scratch.followers = followers;
        done
    }

    /// Read the next chunks that go with the one in hand; how many they are.
    fn find_followers(&mut self, here: &InHand<'_>, followers: &mut Followers) -> usize {
        let lookup = self.stored.lookup;
        let size = lookup.member.decoded_size;
        let most = self.pipeline.max_group();
        let (mut cursor, mut turn, mut dst) =
            (here.cursor, self.stored.turn, self.place(here.cursor));
        let mut n = 0;
        for next in followers.iter_mut().take(most - 1) {
            next.cursor.clone_from(cursor);
            loop {
                turn += 1;
                if !self.cover.next(&mut next.cursor) {
                    return n;
                }
                if !self.scratch.served.has(turn) {
                    break;
                }
            }
            let Some((number, chunk)) = lookup.chunk(next.cursor.grid_index) else {
                return n;
            };
            next.turn = turn;
            next.key = Key {
                byte_offset: chunk.byte_offset,
                ..here.key
            };
            next.dst = self.place(&next.cursor);
            // Memory that is kept has room for all of them.
            let goes_along = match (dst, next.dst) {
                (Some(before), Some(dst)) => before + size <= dst,
                (None, None) => self.cache.fits((n + 2) * size.saturating_add(ENTRY_BYTES)),
                _ => false,
            };
            let is_alike = chunk.filter_mask == here.chunk.filter_mask
                && lookup.check(number, &chunk).is_ok()
                && !self.cache.holds(next.key);
            if !goes_along || !is_alike {
                return n;
            }
            next.stored_size = chunk.stored_size as usize;
            let read = grow(&mut next.stored, next.stored_size, number).and_then(|()| {
                let stored = &mut next.stored[..next.stored_size];
                (self.stored).read(&next.cursor, number, chunk.byte_offset, stored)
            });
            if read.is_err() {
                return n;
            }
            (cursor, dst) = (&next.cursor, next.dst);
            n += 1;
        }
        n
    }

    /// Where in the result the chunk goes, if it is wanted whole and in its own order.
    fn place(&self, cursor: &Cursor) -> Option<usize> {
        let row = self.unit.only_row(&cursor.segments, self.cover.pairs());
        let row = self.whole(row, self.stored.lookup.member.decoded_size);
        row.map(|row| row.dst)
    }

    fn decode_abreast<const N: usize>(
        &mut self,
        here: &InHand<'_>,
        stored: &[u8],
        followers: &[Follower],
    ) -> bool {
        let start = Instant::now();
        let size = self.stored.lookup.member.decoded_size;
        let mask = here.chunk.filter_mask;
        let first_dst = self.place(here.cursor);
        let first = (here.key, here.cursor, stored, first_dst);
        let group: [_; N] = std::array::from_fn(|i| match i {
            0 => first,
            _ => followers[i - 1].as_first(),
        });
        let stored = group.map(|(.., stored, _)| stored);
        if first_dst.is_some() {
            let (mut rest, mut at) = (&mut *self.out, 0);
            let mut outs = group.map(|(.., dst)| {
                let dst = dst.unwrap_or(at);
                let (_, behind) = std::mem::take(&mut rest).split_at_mut(dst - at);
                let (out, behind) = behind.split_at_mut(size);
                (rest, at) = (behind, dst + size);
                out
            });
            let slices = outs.each_mut().map(|out| &mut **out);
            if !self.pipeline.decode_group(mask, stored, slices) {
                return false;
            }
            outs.into_iter().for_each(|out| self.unit.end_strings(out));
        } else {
            let Some(mut rooms) = self.cache.rooms::<N>(size) else {
                return false;
            };
            let slices = rooms.each_mut().map(Vec::as_mut_slice);
            if !self.pipeline.decode_group(mask, stored, slices) {
                return false;
            }
            let pairs = self.cover.pairs();
            for ((key, cursor, ..), bytes) in group.into_iter().zip(rooms) {
                if key != here.key {
                    self.cache.is_worth_it(key, size);
                }
                let bytes = self.cache.keep(key, bytes);
                deliver(&self.unit, &cursor.segments, pairs, bytes, 0, self.out);
            }
        }
        for next in followers {
            self.scratch.served.add(next.turn);
        }
        let record = self.stored.record;
        count(&record.cache_misses, N - 1);
        count(&record.chunks, N - 1);
        count(&record.decoded_bytes, N * size);
        add_ns(&record.decode_ns, start);
        true
    }
}
