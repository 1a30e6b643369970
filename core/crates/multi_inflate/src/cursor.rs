//! Where a stream's decoding stands: its next bit, and what it made.
//!
//! Law:
//! 1. No bits are taken that the input does not have, and no byte is made outside the output.
//!
//! It must never know blocks, or that there are other streams.

use super::codes::{Codes, Meaning};
use super::entries::{MIXED_BITS, bits_to_drop, value_with_extra};

/// The least number of bits that `peek` gives where the input has as many.
pub(crate) const PEEKED: u32 = 57;

#[derive(Clone, Copy)]
pub(crate) struct Cursor {
    /// The next bit of the input.
    pub(crate) bit: usize,
    /// How many bytes of the output are made.
    pub(crate) made: usize,
}

impl Cursor {
    /// The next bits, from the lowest on: at least 57 of them, or all that are left and zeros.
    #[inline(always)]
    pub(crate) fn peek(self, input: &[u8]) -> u64 {
        let pos = self.bit / 8;
        let eight = match input.get(pos..).and_then(<[u8]>::first_chunk) {
            Some(eight) => *eight,
            None => last_bytes(input, pos),
        };
        u64::from_le_bytes(eight) >> (self.bit % 8)
    }

    #[inline(always)]
    pub(crate) fn skip(&mut self, bits: u32, input: &[u8]) -> Option<()> {
        self.bit += bits as usize;
        (self.bit <= 8 * input.len()).then_some(())
    }

    /// The next bits, as a number.
    pub(crate) fn take(&mut self, bits: u32, input: &[u8]) -> Option<usize> {
        let taken = self.peek(input) & !(u64::MAX << bits);
        self.skip(bits, input)?;
        Some(taken as usize)
    }

    #[inline(always)]
    pub(crate) fn look(self, codes: &Codes, input: &[u8]) -> u32 {
        codes.symbol(self.peek(input))
    }

    /// Decodes what is next. Returns the symbol behind it, or None inside where that was the
    /// block's end.
    #[inline(always)]
    pub(crate) fn one(
        &mut self,
        symbol: u32,
        codes: &Codes,
        input: &[u8],
        out: &mut [u8],
    ) -> Option<Option<u32>> {
        let bits = self.peek(input);
        let (length, drop) = match codes.meaning(symbol, bits)? {
            Meaning::Match(length, drop) => (length, drop),
            Meaning::Literal(byte, drop) => {
                self.skip(drop, input)?;
                *out.get_mut(self.made)? = byte;
                self.made += 1;
                return Some(Some(self.look(codes, input)));
            }
            Meaning::End(drop) => {
                self.skip(drop, input)?;
                return Some(None);
            }
        };
        let bits = bits >> drop;
        let offset_entry = codes.offset(bits)?;
        let offset = value_with_extra(offset_entry, bits);
        // 48 at most, so that what was peeked is enough up to here,
        let dropped = drop + bits_to_drop(offset_entry);
        self.skip(dropped, input)?;
        // and mostly for the next look-up as well.
        let next = if dropped + MIXED_BITS as u32 <= PEEKED {
            codes.symbol(bits >> bits_to_drop(offset_entry))
        } else {
            self.look(codes, input)
        };
        let to = self.made;
        let from = to.checked_sub(offset)?;
        self.made += length;
        copy(out, from, to, length)?;
        Some(Some(next))
    }
}

/// The bytes from `pos` on, less than eight, and zeros.
#[cold]
#[inline(never)]
fn last_bytes(input: &[u8], pos: usize) -> [u8; 8] {
    let mut eight = [0; 8];
    if let Some(rest) = input.get(pos..) {
        eight[..rest.len()].copy_from_slice(rest);
    }
    eight
}

/// Copies `length` bytes that lie before `to`, some of which may be made by this very copy.
/// Bytes behind them may change too.
#[inline(always)]
fn copy(out: &mut [u8], from: usize, to: usize, length: usize) -> Option<()> {
    // Most are so short and of so far.
    if length <= 8 && to - from >= 8 {
        if let Some(out) = out.get_mut(from..to + 8) {
            let bytes: [u8; 8] = *out.first_chunk()?;
            *out.last_chunk_mut()? = bytes;
            return Some(());
        }
    }
    copy_any(out.get_mut(from..)?, to - from, length)
}

/// Copies `length` bytes from the beginning of `out` to `offset`, the first ones first.
#[inline(never)]
fn copy_any(out: &mut [u8], offset: usize, length: usize) -> Option<()> {
    if offset > 1 && offset + length + 8 <= out.len() {
        // Each eight bytes begin with `offset` that are right, or are so all.
        let mut at = 0;
        while at < length {
            out.copy_within(at..at + 8, offset + at);
            at += offset.min(8);
        }
        return Some(());
    }
    let out = out.get_mut(..offset + length)?;
    if offset == 1 {
        let (&mut byte, run) = out.split_first_mut()?;
        run.fill(byte);
    } else {
        for i in 0..length {
            out[offset + i] = out[i];
        }
    }
    Some(())
}
