//! Where a stream's decoding stands: the bits that are held of its input, and what it made.
//!
//! 1. No bits are taken that are not held, and no byte is made outside the output.
//!
//! It must never know blocks, or that there are two streams.

use super::codes::{
    Codes, INVALID, LINK, OFFSET_BITS, OTHER, SPECIAL, SYMBOL_BITS, bits_to_drop, linked, value,
    value_with_extra,
};
use super::steps::Step;

/// Where a stream's decoding stands.
#[derive(Clone, Copy)]
pub(super) struct Cursor {
    /// The next bits, from the lowest on. Above those held there are zeros, or bits that follow.
    pub(super) bits: u64,
    pub(super) held: u32,
    /// The first byte of the input that is not held.
    pub(super) pos: usize,
    /// How many bytes of the output are made.
    pub(super) made: usize,
}

// Methods that change a cursor are inlined, or take and give it by value: a reference would keep
// it in memory.
impl Cursor {
    #[inline(always)]
    pub(super) fn eight(&self, input: &[u8]) -> Option<[u8; 8]> {
        input.get(self.pos..)?.first_chunk().copied()
    }

    /// At least 56 bits are held then.
    #[inline(always)]
    pub(super) fn fill(&mut self, bytes: [u8; 8]) {
        self.bits |= u64::from_le_bytes(bytes) << self.held;
        self.pos += (!self.held >> 3 & 7) as usize;
        self.held |= 56;
    }

    /// At least 56 bits are held then, or all that are left.
    #[inline(always)]
    pub(super) fn refill(&mut self, input: &[u8]) {
        match self.eight(input) {
            Some(bytes) => self.fill(bytes),
            None => *self = self.refilled_at_the_end(input),
        }
    }

    /// At least 48 bits are held then, or all that are left. Each refill waits for the one before,
    /// so one that is not needed costs as well.
    #[inline(always)]
    pub(super) fn refill_for_other(&mut self, input: &[u8]) {
        if self.held < 48 {
            self.refill(input);
        }
    }

    #[cold]
    #[inline(never)]
    fn refilled_at_the_end(mut self, input: &[u8]) -> Cursor {
        while self.held < 56 {
            let Some(&byte) = input.get(self.pos) else {
                break;
            };
            self.bits |= u64::from(byte) << self.held;
            self.held += 8;
            self.pos += 1;
        }
        self
    }

    /// The next bits, as a number.
    #[inline(always)]
    pub(super) fn take(&mut self, bits: u32) -> Option<usize> {
        let taken = self.bits & !(u64::MAX << bits);
        self.held = self.held.checked_sub(bits)?;
        self.bits >>= bits;
        Some(taken as usize)
    }

    #[inline(always)]
    pub(super) fn look(&self, codes: &Codes) -> u32 {
        codes.symbols[self.bits as usize & ((1 << SYMBOL_BITS) - 1)]
    }

    /// Drops a literal's bits and looks up what follows. Only the lowest six bits of `held` count
    /// then.
    #[inline(always)]
    pub(super) fn step<S: Step>(&mut self, step: S, literal: u32, codes: &Codes) -> u32 {
        let index = step.drop(&mut self.bits, literal);
        self.held = self.held.wrapping_sub(literal);
        codes.symbols[index]
    }

    /// Decodes anything, which begins with `entry`, after a refill. False: that was the block's
    /// end.
    #[inline(always)]
    pub(super) fn other(&mut self, mut entry: u32, codes: &Codes, out: &mut [u8]) -> Option<bool> {
        // 48 bits at most are used, so that one look at what is held is enough, at the end.
        let mut bits = self.bits;
        let mut held = self.held;
        let mut used = |bits: &mut u64, count: u32| {
            *bits >>= count;
            held = held.wrapping_sub(count);
            held
        };
        if entry & SPECIAL != 0 {
            if entry & LINK != 0 {
                let link = entry;
                used(&mut bits, bits_to_drop(link));
                entry = *codes.symbols.get(linked(link, bits))?;
            }
            if entry & INVALID != 0 {
                return None;
            }
            if entry & OTHER == 0 || entry & SPECIAL != 0 {
                self.held = used(&mut bits, bits_to_drop(entry));
                self.bits = bits;
                if self.held > 63 {
                    return None;
                }
                if entry & SPECIAL != 0 {
                    return Some(false);
                }
                *out.get_mut(self.made)? = value(entry) as u8;
                self.made += 1;
                return Some(true);
            }
        }
        let length = value_with_extra(entry, bits);
        used(&mut bits, bits_to_drop(entry));
        let mut entry = codes.offsets[bits as usize & ((1 << OFFSET_BITS) - 1)];
        if entry & SPECIAL != 0 {
            if entry & LINK != 0 {
                let link = entry;
                used(&mut bits, bits_to_drop(link));
                entry = *codes.offsets.get(linked(link, bits))?;
            }
            if entry & SPECIAL != 0 {
                return None;
            }
        }
        let offset = value_with_extra(entry, bits);
        self.held = used(&mut bits, bits_to_drop(entry));
        self.bits = bits;
        if self.held > 63 {
            return None;
        }
        let to = self.made;
        let from = to.checked_sub(offset)?;
        self.made += length;
        copy(out, from, to, length)?;
        Some(true)
    }
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
    if offset >= 8 && offset + length + 8 <= out.len() {
        for at in (0..length).step_by(8) {
            out.copy_within(at..at + 8, offset + at);
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
