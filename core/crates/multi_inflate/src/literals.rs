//! The loops for blocks that are mostly literals: of several streams at once, and of one.
//!
//! Law:
//! 1. Both make the same bytes of a stream.
//! 2. A loop ends with its block, or before the input or the output has no room for a group.
//! 3. The fast loop checks nothing: how many groups there is room for is counted before it.
//!
//! It must never know what blocks begin with.
//!
//! What the fast loop is made for: the chain from a literal to the next is six cycles, so that it
//! takes three or four streams to fill a core, and then every instruction counts. Whatever is not a
//! literal drops no bits, and is found when the group is done: one branch for sixteen literals.
//! The symbol behind a group is looked up before the group's bits are, which takes longer.

use super::bits::Bits;
use super::codes::Codes;
use super::cursor::Cursor;
use super::entries::{PLAIN, literal};
use super::steps::{GROUP, Step};
use super::{At, Stream};
use std::borrow::Borrow;

/// More bytes of input than a group uses up, or a match: four codes of 15 bits, or 48 bits. As many
/// are looked at.
const LOOK: usize = 8;

/// Bytes of output that whole groups can make, and look at eight bytes of input each, before one
/// of the two ends.
#[inline(always)]
pub(crate) fn room(input: &[u8], out: &[u8], cursor: Cursor) -> usize {
    let input = (input.len() - cursor.bit / 8).saturating_sub(2 * LOOK);
    let groups = (input / LOOK).min((out.len() - cursor.made) / GROUP);
    groups * GROUP
}

#[inline(always)]
pub(crate) fn group<S: Step, const N: usize>(
    step: S,
    streams: &mut [&mut Stream; N],
    codes: &[impl Borrow<Codes>; N],
) -> Option<usize> {
    let mut starts = [0; N];
    for (start, stream) in starts.iter_mut().zip(streams.iter()) {
        *start = (stream.input.as_ptr().addr() as u64).checked_mul(8)?;
    }
    let mut cursors: [Cursor; N] = std::array::from_fn(|i| streams[i].cursor);
    let mut next = std::array::from_fn(|i| cursors[i].look(codes[i].borrow(), streams[i].input));
    let mut made_by_others = 0;
    let mut room_left = 0;
    let mut has_ended = false;
    while !has_ended {
        if room_left == 0 {
            let rooms = streams.iter().zip(&cursors);
            let rooms = rooms.map(|(stream, cursor)| room(stream.input, stream.out, *cursor));
            room_left = rooms.min().unwrap_or(0);
            if room_left == 0 {
                break;
            }
        }
        // SAFETY: no stream has less room.
        let (made, last) = unsafe {
            groups(
                step,
                streams,
                &starts,
                codes,
                &mut cursors,
                &mut next,
                room_left,
            )
        };
        room_left -= made;
        let mut others = 0u32;
        for (i, symbol) in next.iter().enumerate() {
            others |= u32::from(symbol & PLAIN == 0) << i;
        }
        while others != 0 {
            let i = others.trailing_zeros() as usize;
            others &= others - 1;
            let Stream { input, out, at, .. } = &mut *streams[i];
            // Not all of its last group were literals.
            cursors[i].made -= GROUP - step.plain(last[i]);
            let before = cursors[i].made;
            match cursors[i].one(next[i], codes[i].borrow(), input, out)? {
                Some(symbol) => next[i] = symbol,
                None => {
                    *at = At::Header;
                    has_ended = true;
                }
            }
            let made = cursors[i].made - before;
            made_by_others += made;
            // A group at least: it may have used up as much of the input.
            room_left = room_left.saturating_sub(made.max(1).next_multiple_of(GROUP));
        }
    }
    let mut made = 0;
    for (stream, cursor) in streams.iter_mut().zip(cursors) {
        made += cursor.made - stream.cursor.made;
        stream.cursor = cursor;
    }
    Some(made - made_by_others)
}

/// Decodes whole groups of literals of each stream: until there is anything else among them, or
/// `room` bytes are made. Returns how many, and the last groups, in which there may be less.
///
/// The cursors are moved as if all were literals.
///
/// # Safety
/// Each stream has room for `room` bytes, which is not 0, `next` are its next symbols, and `starts`
/// where its inputs begin, counted in bits.
#[inline(always)]
unsafe fn groups<S: Step, const N: usize>(
    step: S,
    streams: &mut [&mut Stream; N],
    starts: &[u64; N],
    codes: &[impl Borrow<Codes>; N],
    cursors: &mut [Cursor; N],
    next: &mut [u32; N],
    room: usize,
) -> (usize, [S::Group; N]) {
    let inputs: [_; N] = std::array::from_fn(|i| streams[i].input.as_ptr());
    let outs: [_; N] = std::array::from_fn(|i| streams[i].out[cursors[i].made..].as_mut_ptr());
    // Copies of its own, which stay in registers.
    // SAFETY: there is room.
    let mut bits: [Bits; N] = std::array::from_fn(|i| unsafe {
        Bits::new::<N>(inputs[i], starts[i] + cursors[i].bit as u64)
    });
    let mut symbols = *next;
    let mut made = 0;
    let last = loop {
        for bits in &mut bits {
            // SAFETY: there is room: `LOOK` for each group that was, and twice as much.
            unsafe { bits.begin_group::<N>() };
        }
        let mut group = [step.empty(); N];
        for part in 0..GROUP {
            for i in 0..N {
                group[i] = step.with(group[i], symbols[i], part);
                let index = bits[i].drop::<S, N>(step, symbols[i]);
                // SAFETY: of a step from one of this stream's symbols.
                symbols[i] = unsafe { codes[i].borrow().symbol_at(index) };
            }
        }
        let mut all = PLAIN;
        for i in 0..N {
            // Bytes that are no literals are overwritten by what comes instead.
            // SAFETY: there is room for `room` bytes, a multiple of a group.
            unsafe {
                outs[i]
                    .add(made)
                    .cast::<[u8; GROUP]>()
                    .write(step.literals(group[i]))
            };
            // SAFETY: there is room: `LOOK` for each group that was, and twice as much.
            unsafe { bits[i].end_group::<N>() };
            all &= symbols[i];
        }
        made += GROUP;
        if all == 0 || made >= room {
            break group;
        }
    };
    for i in 0..N {
        cursors[i].bit = (bits[i].at() - starts[i]) as usize;
        cursors[i].made += made;
    }
    *next = symbols;
    (made, last)
}

#[inline(always)]
pub(crate) fn alone<S: Step>(step: S, stream: &mut Stream, codes: &Codes) -> Option<()> {
    let Stream { input, out, .. } = stream;
    let mut cursor = stream.cursor;
    let mut next = cursor.look(codes, input);
    loop {
        let has_room = cursor.bit / 8 + 8 <= input.len() && cursor.made + GROUP <= out.len();
        if has_room {
            let mut bits = cursor.peek(input);
            for byte in &mut out[cursor.made..][..GROUP] {
                if next & PLAIN == 0 {
                    break;
                }
                *byte = literal(next) as u8;
                cursor.made += 1;
                cursor.bit += (next & 63) as usize;
                let index = step.drop(&mut bits, next, codes.symbol_bits());
                // SAFETY: of a step from one of this stream's symbols.
                next = unsafe { codes.symbol_at(index) };
            }
        }
        if next & PLAIN == 0 || !has_room {
            match cursor.one(next, codes, input, out)? {
                Some(symbol) => next = symbol,
                None => break,
            }
        }
    }
    stream.at = At::Header;
    stream.cursor = cursor;
    Some(())
}
