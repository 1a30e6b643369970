//! The loops for blocks that are mostly literals: of several streams at once, and of one.
//!
//! 1. Both make the same bytes of a stream.
//! 2. A loop ends with its block, or before the input or the output has no room for a group.
//! 3. The fast loop checks nothing: how many groups there is room for is counted before it.
//!
//! It must never know what blocks begin with.
//!
//! What the fast loop is made for: the chain from a literal to the next is six cycles, so that it
//! takes three streams to fill a core, and then every instruction counts. Whatever is not a literal
//! drops no bits, and is found when the group is done: one branch for twelve literals, not twelve.
//! The symbol behind a group is looked up before the group's bits are, which takes longer.

use super::codes::Codes;
use super::cursor::Cursor;
use super::entries::{LITERAL_BITS, PLAIN, literal};
use super::steps::{GROUP, Step};
use super::{At, Stream};

/// More bytes of input than a group uses up, or a match: four codes of 15 bits, or 48 bits. As many
/// are looked at.
const LOOK: usize = 8;

/// Bytes of output that whole groups can make, and look at eight bytes of input each, before one
/// of the two ends.
#[inline(always)]
pub(super) fn room(input: &[u8], out: &[u8], cursor: Cursor) -> usize {
    let input = (input.len() - cursor.bit / 8).saturating_sub(2 * LOOK);
    let groups = (input / LOOK).min((out.len() - cursor.made) / GROUP);
    groups * GROUP
}

#[inline(always)]
pub(super) fn abreast<S: Step, const N: usize>(
    step: S,
    streams: &mut [Stream; N],
    codes: &[Codes; N],
) -> Option<usize> {
    let mut cursors: [Cursor; N] = std::array::from_fn(|i| streams[i].cursor);
    let mut next = std::array::from_fn(|i| cursors[i].look(&codes[i], streams[i].input));
    let mut literals = 0;
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
        let (made, sums) =
            unsafe { groups(step, streams, codes, &mut cursors, &mut next, room_left) };
        room_left -= made;
        let mut others = 0u32;
        for i in 0..N {
            let made = made - GROUP + plain(sums[i]);
            cursors[i].made += made;
            literals += made;
            others |= u32::from(next[i] & PLAIN == 0) << i;
        }
        while others != 0 {
            let i = others.trailing_zeros() as usize;
            others &= others - 1;
            let Stream { input, out, at, .. } = &mut streams[i];
            let before = cursors[i].made;
            match cursors[i].one(next[i], &codes[i], input, out)? {
                Some(symbol) => next[i] = symbol,
                None => {
                    *at = At::Header;
                    has_ended = true;
                }
            }
            // A group at least: it may have used up as much of the input.
            let made = (cursors[i].made - before).max(1).next_multiple_of(GROUP);
            room_left = room_left.saturating_sub(made);
        }
    }
    for (stream, cursor) in streams.iter_mut().zip(cursors) {
        stream.cursor = cursor;
    }
    Some(literals)
}

/// How many plain symbols the sum of a group's is of.
fn plain(sum: u32) -> usize {
    (sum >> 16 & 7) as usize
}

/// Decodes whole groups of literals of each stream: until there is anything else among them, or
/// `room` bytes are made. Returns how many, and the sums of the last group's symbols, some of which
/// may not have been literals.
///
/// The cursors' bits are moved, but not what they made.
///
/// # Safety
/// Each stream has room for `room` bytes, which is not 0, and `next` are its next symbols.
#[inline(always)]
unsafe fn groups<S: Step, const N: usize>(
    step: S,
    streams: &mut [Stream; N],
    codes: &[Codes; N],
    cursors: &mut [Cursor; N],
    next: &mut [u32; N],
    room: usize,
) -> (usize, [u32; N]) {
    let inputs: [_; N] = std::array::from_fn(|i| streams[i].input.as_ptr());
    let outs: [_; N] = std::array::from_fn(|i| streams[i].out[cursors[i].made..].as_mut_ptr());
    // Copies of its own, which stay in registers.
    let mut bit: [usize; N] = std::array::from_fn(|i| cursors[i].bit);
    let mut symbols = *next;
    let mut made = 0;
    let sums = loop {
        let mut bits: [u64; N] = std::array::from_fn(|i| {
            // SAFETY: there is room: `LOOK` for each group that was, and twice as much.
            let eight = unsafe { inputs[i].add(bit[i] / 8).cast::<[u8; 8]>().read() };
            u64::from_le_bytes(eight) >> (bit[i] % 8)
        });
        let mut group = [step.empty(); N];
        let mut sums = [0u32; N];
        for part in 0..GROUP {
            for i in 0..N {
                sums[i] = sums[i].wrapping_add(symbols[i]);
                group[i] = step.with(group[i], symbols[i], part);
                let index = step.drop(&mut bits[i], symbols[i], LITERAL_BITS);
                // SAFETY: of a step from one of this stream's symbols.
                symbols[i] = unsafe { codes[i].symbol_at(index) };
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
            bit[i] += usize::from(sums[i] as u8);
            all &= symbols[i];
        }
        made += GROUP;
        if all == 0 || made >= room {
            break sums;
        }
    };
    for (cursor, bit) in cursors.iter_mut().zip(bit) {
        cursor.bit = bit;
    }
    *next = symbols;
    (made, sums)
}

#[inline(always)]
pub(super) fn alone<S: Step>(step: S, stream: &mut Stream, codes: &Codes) -> Option<()> {
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
