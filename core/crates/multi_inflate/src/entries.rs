//! What an entry of a table tells, and what the symbols of deflate mean (RFC 1951, 3.2.5 and 3.2.7).
//!
//! Law:
//! 1. An entry tells all that a step needs: the bits to drop, the value, and what sort it is.
//!
//! It must never know tables, or codes.

/// The bits of one look-up in the tables of blocks that are mostly literals; longer codes go on in a
/// subtable. With 10, the tables of four streams leave room for their data in a core's first cache.
pub(crate) const LITERAL_BITS: usize = 10;
/// The same of other blocks, in which long codes cost more.
pub(crate) const MIXED_BITS: usize = 11;
pub(crate) const OFFSET_BITS: usize = 8;
pub(crate) const LENGTH_BITS: usize = 7;

/// How many symbols there are from 256 on: the end of the block, and lengths.
pub(crate) const OTHERS_COUNT: usize = 32;

/// The longest match that an entry of symbols tells by itself.
pub(crate) const SHORT: usize = 16;
/// The lengths that have extra bits and are no longer than `SHORT`, as indices of `OTHERS`.
pub(crate) const SHORT_WITH_EXTRA: std::ops::RangeInclusive<usize> = 9..=11;
/// The first symbol of longer ones.
pub(crate) const FIRST_LONG: usize = 256 + 12;

// An entry of symbols holds, from bit 0 on: the bits to drop of a literal (8, else 0), the bits of
// the next look-up (8), whether it is a literal (1, and 2 to count them), the bits to drop of a short
// match (5, else 0), and the value (8): the literal, the match's length, or the index of its meaning
// among the others.
//
// The lower half is what the instruction `bextr` takes. What is no literal drops nothing there, so
// that looking up goes on giving the same entry.
/// A literal.
pub(crate) const PLAIN: u32 = 1 << 16;
/// Where the bits to drop of a short match are.
pub(crate) const OF_MATCH: u32 = 19;
/// None of these is set in what is neither a literal nor a short match.
const TOLD: u32 = 0xFF << 16;

// Other entries hold, from bit 0 on: the bits to drop (8; the code and its extra bits), the bits of
// the code alone or of the subtable (5), three flags, and the value (16; the least length or
// offset, or where the subtable begins).
pub(crate) const INVALID: u32 = 1 << 13;
pub(crate) const LINK: u32 = 1 << 14;
pub(crate) const END: u32 = 1 << 15;
/// What stands for the offset of a symbol that is no match: no bits to drop, and a place behind
/// what is made that no sequence before has written to, so that no load waits for a store (as it
/// would just before what is made: literals then take twice as long).
pub(crate) const NO_OFFSET: u32 = (-(SHORT as i32) << 16) as u32;
/// Adds a code's length to all that tells it.
pub(crate) const CODE: u32 = 1 << 8 | 1;

pub(crate) fn bits_to_drop(entry: u32) -> u32 {
    entry & 63
}

/// The byte that a plain symbol stands for, the length of a short match, or where the meaning of
/// another symbol is.
pub(crate) fn literal(entry: u32) -> u32 {
    entry >> 24
}

/// The bits that a symbol drops if it is a short match, else 0.
pub(crate) fn bits_of_match(entry: u32) -> u32 {
    entry >> OF_MATCH & 15
}

/// Whether a symbol is a literal or a short match.
pub(crate) fn is_told(entry: u32) -> bool {
    entry & TOLD != 0
}

pub(crate) fn value(entry: u32) -> usize {
    (entry >> 16) as usize
}

/// Of the code alone, or of the subtable.
pub(crate) fn more_bits(entry: u32) -> u32 {
    entry >> 8 & 31
}

/// The value and what the extra bits, behind those of the code, add to it.
pub(crate) fn value_with_extra(entry: u32, bits: u64) -> usize {
    value(entry) + (low(bits, bits_to_drop(entry)) >> more_bits(entry)) as usize
}

/// Whether an offset's entry is neither a link nor invalid.
pub(crate) fn is_known(entry: u32) -> bool {
    entry & (LINK | INVALID) == 0
}

/// The offset that a known entry tells, of which `low` are the bits to drop.
pub(crate) fn offset_with_extra(entry: u32, low: u64) -> u32 {
    // With 63 for 31, as flags that are not set need no mask.
    let extra = (low >> (entry >> 8 & 63)) as u32;
    ((entry as i32 >> 16) as u32).wrapping_add(extra)
}

fn low(bits: u64, count: u32) -> u64 {
    bits & !(u64::MAX << count)
}

/// Where a link's subtable has the entry of these bits.
pub(crate) fn linked(link: u32, bits: u64) -> usize {
    value(link) + low(bits >> bits_to_drop(link), more_bits(link)) as usize
}

/// What the symbols of a code mean: entries without the bits of the code, and what each bit of the
/// code adds to them.
pub(crate) type Meanings<const N: usize> = [(u32, u32); N];

pub(crate) static SYMBOLS: Meanings<288> = {
    let mut meanings = [(0, 0); 288];
    let mut i = 0;
    while i < 288 {
        let least = OTHERS[i % OTHERS_COUNT] >> 16;
        meanings[i] = match i {
            0..=255 => ((i as u32) << 24 | PLAIN, 1),
            257..=264 => (least << 24, 1 << OF_MATCH),
            _ => ((i as u32 % 256) << 24, 0),
        };
        i += 1;
    }
    meanings
};

/// Of the symbols from 256 on.
pub(crate) static OTHERS: [u32; OTHERS_COUNT] = {
    let mut meanings = [INVALID; OTHERS_COUNT];
    meanings[0] = END;
    let mut least = 3;
    let mut i = 0;
    while i < 28 {
        let extra = if i < 8 { 0 } else { i as u32 / 4 - 1 };
        meanings[1 + i] = least << 16 | extra;
        least += 1 << extra;
        i += 1;
    }
    meanings[29] = 258 << 16;
    meanings
};

pub(crate) static OFFSETS: Meanings<32> = {
    let mut meanings = [(INVALID, CODE); 32];
    let mut least = 1;
    let mut i = 0;
    while i < 30 {
        let extra = if i < 4 { 0 } else { i as u32 / 2 - 1 };
        meanings[i].0 = least << 16 | extra;
        least += 1 << extra;
        i += 1;
    }
    meanings
};

pub(crate) static LENGTHS: Meanings<20> = {
    let mut meanings = [(0, CODE); 20];
    let mut i = 0;
    while i < 20 {
        meanings[i].0 = (i as u32) << 16;
        i += 1;
    }
    meanings
};
