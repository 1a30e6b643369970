//! Two chunks decoded at once, where their filter is quicker that way.
//!
//! Law:
//! 1. A pair is the chunk in hand and the next of the task that is to be served. Both go straight
//!    to the result, or both are kept.
//! 2. Where anything is wrong with one of them, each is decoded again, alone, and errors are as if
//!    that were all.

use super::chunk_cache::{ENTRY_BYTES, Key};
use super::cover::Walk;
use super::task::{InHand, Task, count, deliver, grow};
use crate::source::add_ns;
use std::time::Instant;

impl Task<'_> {
    /// Decode the chunk in hand together with the next that is to be served, to which `behind` goes
    /// on. False: neither is done.
    pub fn pair(&mut self, here: &InHand<'_>, stored: &[u8], behind: &mut Walk) -> bool {
        let lookup = self.stored.lookup;
        let mut turn = self.stored.turn;
        loop {
            turn += 1;
            if !self.cover.next(behind) {
                return false;
            }
            if !self.scratch.served.has(turn) {
                break;
            }
        }
        let behind = &*behind;
        let Some((number, chunk)) = lookup.chunk(behind.grid_index) else {
            return false;
        };
        let (size, mask) = (lookup.member.decoded_size, here.chunk.filter_mask);
        let key = Key {
            byte_offset: chunk.byte_offset,
            ..here.key
        };
        let is_alike = chunk.filter_mask == mask && lookup.check(number, &chunk).is_ok();
        if !is_alike || self.cache.holds(key) {
            return false;
        }
        let pairs = self.cover.pairs();
        let rows = [here.walk, behind].map(|walk| {
            let row = self.unit.only_row(&walk.segments, pairs);
            self.whole(row, size)
        });
        let to_out = rows.map(|row| row.is_some());
        let has_room = to_out[0] || self.cache.fits(2 * size.saturating_add(ENTRY_BYTES));
        if to_out[0] != to_out[1] || !has_room {
            return false;
        }
        let len = chunk.stored_size as usize;
        let second = &mut self.scratch.second;
        let read = grow(second, len, number).and_then(|()| {
            let at = chunk.byte_offset;
            self.stored.read(behind, number, at, &mut second[..len])
        });
        if read.is_err() {
            return false;
        }
        let start = Instant::now();
        let stored = [stored, &second[..len]];
        match rows {
            [Some(a), Some(b)] if a.dst + size <= b.dst => {
                let (front, back) = self.out.split_at_mut(b.dst);
                let outs = [&mut front[a.dst..a.dst + size], &mut back[..size]];
                if !self.pipeline.decode_abreast(mask, stored, outs) {
                    return false;
                }
                for row in [a, b] {
                    self.unit
                        .end_strings(&mut self.out[row.dst..row.dst + size]);
                }
            }
            [None, None] => {
                let Some([mut a, mut b]) = self.cache.rooms(size) else {
                    return false;
                };
                if !self.pipeline.decode_abreast(mask, stored, [&mut a, &mut b]) {
                    return false;
                }
                for (of, bytes, walk) in [(here.key, a, here.walk), (key, b, behind)] {
                    if of == key {
                        self.cache.is_worth_it(key, size);
                    }
                    let bytes = self.cache.keep(of, bytes);
                    deliver(&self.unit, &walk.segments, pairs, bytes, 0, self.out);
                }
            }
            _ => return false,
        }
        self.scratch.served.add(turn);
        let record = self.stored.record;
        count(&record.cache_misses, 1);
        count(&record.chunks, 1);
        count(&record.decoded_bytes, 2 * size);
        add_ns(&record.decode_ns, start);
        true
    }
}
