//! The next bits of a stream's input, as the loop for literals takes them: a group at a time.
//!
//! Law:
//! 1. Both ways to fill them up give the same bits.
//! 2. Nothing is checked here: the loop counts its room before it runs.
//!
//! It must never know what the bits mean.
//!
//! With few streams the length of the chain is what counts: bits are then read ahead of time, before
//! it is known how many a group drops, so that a shift is all that comes after its last literal. It
//! takes more instructions, which is what counts with many streams: there, a group's bits are read
//! when it begins.

use super::entries::LITERAL_BITS;
use super::steps::Step;

/// A bit above those that are read: the zeros above it are as many as were dropped.
const HIGHEST: u64 = 1 << 63;

#[derive(Clone, Copy)]
pub(crate) struct Bits {
    /// The next bits, from the lowest on.
    next: u64,
    /// Where they are in the input: eight times an address, and a bit of the byte there.
    at: u64,
    /// How many the group has dropped, in the lowest byte, where they are read ahead.
    dropped: u32,
    input: *const u8,
}

impl Bits {
    /// Whether bits are read ahead, with this many streams.
    const fn is_ahead(streams: usize) -> bool {
        streams == 2
    }

    /// The bits at `at`: as `input`'s address, counted in bits.
    ///
    /// # Safety
    /// The input has eight bytes there.
    #[inline(always)]
    pub(crate) unsafe fn new<const N: usize>(input: *const u8, at: u64) -> Bits {
        let mut bits = Bits {
            next: 0,
            at,
            dropped: 0,
            input,
        };
        if Bits::is_ahead(N) {
            // SAFETY: the caller's promise.
            bits.next = unsafe { bits.eight(at) } >> (at % 8);
        }
        bits
    }

    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Before a group: at least 56 bits are there.
    ///
    /// # Safety
    /// The input has eight bytes there.
    #[inline(always)]
    pub(crate) unsafe fn begin_group<const N: usize>(&mut self) {
        if Bits::is_ahead(N) {
            self.dropped = 0;
        } else {
            // SAFETY: the caller's promise.
            self.next = unsafe { self.eight(self.at) } >> (self.at % 8) | HIGHEST;
        }
    }

    /// Drops those of a literal. Returns the index of the entry of the ones behind them.
    #[inline(always)]
    pub(crate) fn drop<S: Step, const N: usize>(&mut self, step: S, literal: u32) -> usize {
        if Bits::is_ahead(N) {
            self.dropped = self.dropped.wrapping_add(literal);
        }
        step.drop(&mut self.next, literal, LITERAL_BITS)
    }

    /// Behind a group, which dropped 56 bits at most.
    ///
    /// # Safety
    /// The input has eight bytes eight bytes behind where the group began.
    #[inline(always)]
    pub(crate) unsafe fn end_group<const N: usize>(&mut self) {
        if Bits::is_ahead(N) {
            let byte = self.at & !7;
            self.at += u64::from(self.dropped as u8);
            // SAFETY: the caller's promise.
            let behind = unsafe { self.eight(byte + 64) };
            // Where the group began at its byte and dropped nothing, this is no good, and the loop
            // ends.
            self.next |= behind << (byte.wrapping_sub(self.at) % 64);
        } else {
            self.at += u64::from(self.next.leading_zeros());
        }
    }

    /// # Safety
    /// The input has eight bytes there.
    #[inline(always)]
    unsafe fn eight(&self, at: u64) -> u64 {
        let from = self.input.with_addr((at / 8) as usize);
        // SAFETY: the caller's promise.
        u64::from_le_bytes(unsafe { from.cast::<[u8; 8]>().read() })
    }
}
