//! The loops for blocks that are literals and short matches, of several streams at once.
//!
//! Law:
//! 1. They make the same bytes of a stream as the loops for literals do.
//! 2. A loop ends with a block, or before the input or the output has no room for a sequence.
//! 3. A sequence checks what a match says, and nothing else: how many there is room for is counted
//!    before them.
//!
//! It must never know what blocks begin with.
//!
//! A sequence is one or two literals, if there are any, and then a match, if there is one. Which of
//! them there are is what no CPU foresees, and each wrong guess would stop all streams: so a sequence
//! has no branch for it. What is missing is made with all the rest, and takes no bits and makes no
//! bytes. That is a chain of three or four look-ups, so that two streams together take little
//! longer than one.

use super::codes::Codes;
use super::cursor::{Cursor, PEEKED};
use super::entries::{
    MIXED_BITS, PLAIN, SHORT, bits_of_match, bits_to_drop, is_known, is_told, literal,
    offset_with_extra,
};
use super::steps::Step;
use super::{At, Stream};
use std::borrow::Borrow;

/// The most literals of a sequence.
pub(crate) const MAX_LITERALS: usize = 2;

/// The most bytes that a sequence makes.
const MAX_BYTES: usize = MAX_LITERALS + SHORT;

/// More bytes of input than a sequence uses up, or a match: 54 bits, or 48.
const INPUT: usize = 7;

/// How many sequences there is room for. Each looks at 8 bytes of input, writes `SHORT` bytes behind
/// the literals, and may read as many `SHORT` bytes further on.
pub(crate) fn room(input: &[u8], out: &[u8], cursor: Cursor) -> usize {
    let input = (input.len() - cursor.bit / 8).saturating_sub(8);
    let left = (out.len() - cursor.made).saturating_sub(3 * SHORT);
    // What is made is counted with 32 bits and a sign.
    let is_countable = i32::try_from(out.len()).is_ok();
    (input / INPUT).min(left / MAX_BYTES) * usize::from(is_countable)
}

/// Sequences have `LITERALS` literals at most.
#[inline(always)]
pub(crate) fn group<S: Step, const N: usize, const LITERALS: usize>(
    step: S,
    streams: &mut [&mut Stream; N],
    codes: &[impl Borrow<Codes>; N],
) -> Option<usize> {
    const { assert!(N <= 4 && LITERALS <= MAX_LITERALS) };
    let mut cursors: [Cursor; N] = std::array::from_fn(|i| streams[i].cursor);
    let mut next: [u32; N] =
        std::array::from_fn(|i| cursors[i].look(codes[i].borrow(), streams[i].input));
    let inputs: [_; N] = std::array::from_fn(|i| streams[i].input.as_ptr());
    let outs: [_; N] = std::array::from_fn(|i| streams[i].out.as_mut_ptr());
    let mut count = 0;
    'all: loop {
        let rooms = streams.iter().zip(&cursors);
        let rooms = rooms.map(|(stream, cursor)| room(stream.input, stream.out, *cursor));
        let mut left = rooms.min().unwrap_or(0);
        if left == 0 {
            break;
        }
        while left > 0 {
            left -= 1;
            count += N;
            // Not a loop, which the compiler would leave as one, and the cursors in memory.
            macro_rules! sequence_of {
                ($i:literal) => {
                    if N > $i {
                        let i = $i % N;
                        let (input, out) = (inputs[i], outs[i]);
                        let (cursor, next) = (&mut cursors[i], &mut next[i]);
                        // SAFETY: no stream has less room than was counted.
                        let is_made = unsafe {
                            sequence::<S, LITERALS>(
                                step,
                                codes[i].borrow(),
                                input,
                                out,
                                cursor,
                                next,
                            )
                        };
                        if !is_made {
                            let before = cursor.made;
                            let (after, symbol) =
                                one(streams[i], codes[i].borrow(), *cursor, *next)?;
                            *cursor = after;
                            let Some(symbol) = symbol else { break 'all };
                            *next = symbol;
                            // At least one sequence: it may have used up as much of the input.
                            left = left.saturating_sub((after.made - before).div_ceil(MAX_BYTES));
                        }
                    }
                };
            }
            sequence_of!(0);
            sequence_of!(1);
            sequence_of!(2);
            sequence_of!(3);
        }
    }
    for (stream, cursor) in streams.iter_mut().zip(cursors) {
        stream.cursor = cursor;
    }
    Some(count)
}

/// Decodes a sequence. Returns false before a symbol that is neither a literal nor a short match,
/// before a match that copies what it makes itself, before one behind which the bits at hand do not
/// reach, and before one that cannot be: the literals of the sequence are then made, and `next` is
/// the symbol behind them.
///
/// # Safety
/// There is `room` for it, and `next` is the symbol at the cursor.
#[inline(always)]
unsafe fn sequence<S: Step, const LITERALS: usize>(
    step: S,
    codes: &Codes,
    input: *const u8,
    out: *mut u8,
    cursor: &mut Cursor,
    next: &mut u32,
) -> bool {
    // SAFETY: there is room.
    let eight = unsafe { input.add(cursor.bit / 8).cast::<[u8; 8]>().read() };
    let mut bits = u64::from_le_bytes(eight) >> (cursor.bit % 8);

    let begin = cursor.bit;
    let mut symbol = *next;
    for _ in 0..LITERALS {
        // A byte that is no literal is overwritten by what comes instead.
        // SAFETY: there is room.
        unsafe { *out.add(cursor.made) = literal(symbol) as u8 };
        cursor.made += usize::from(symbol & PLAIN != 0);
        cursor.bit += bits_to_drop(symbol) as usize;
        let index = step.drop(&mut bits, symbol, codes.symbol_bits());
        // SAFETY: of a step from one of this stream's symbols.
        symbol = unsafe { codes.symbol_at(index) };
    }
    *next = symbol;

    let dropped = bits_of_match(symbol);
    let is_match = dropped != 0;
    let length = if is_match { literal(symbol) } else { 0 };
    bits >>= dropped;
    let entry = codes.offset_or_none(bits, is_match);
    let offset = offset_with_extra(entry, step.low(bits, entry));
    let from = (cursor.made as u32).wrapping_sub(offset);
    let is_before = from as i32 >= 0;
    let behind = cursor.bit + (dropped + bits_to_drop(entry)) as usize;
    // With one literal they always reach: 43 bits at most.
    let is_at_hand = LITERALS < 2 || behind - begin <= PEEKED as usize - MIXED_BITS;
    if !is_at_hand || !is_told(symbol) || !is_known(entry) || length > offset || !is_before {
        return false;
    }
    // SAFETY: there is room, and `from` is not before the output. What is read there is made
    // before, but for what `NO_OFFSET` is for, of which nothing is kept.
    unsafe {
        let bytes = out.add(from as usize).cast::<[u8; SHORT]>().read();
        out.add(cursor.made).cast::<[u8; SHORT]>().write(bytes);
    }
    cursor.made += length as usize;
    cursor.bit = behind;
    *next = codes.symbol(bits >> bits_to_drop(entry));
    true
}

/// Decodes whatever is next. Returns the symbol behind it, or None inside where that was the
/// block's end.
#[cold]
#[inline(never)]
fn one(
    stream: &mut Stream,
    codes: &Codes,
    mut cursor: Cursor,
    next: u32,
) -> Option<(Cursor, Option<u32>)> {
    let Stream { input, out, at, .. } = stream;
    let next = cursor.one(next, codes, input, out)?;
    if next.is_none() {
        *at = At::Header;
    }
    Some((cursor, next))
}
