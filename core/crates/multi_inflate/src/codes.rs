//! The codes of a block: the next bits of a stream -> what they mean.
//!
//! Law:
//! 1. No table of symbols has an entry with which a step leads out of it.
//!
//! It must never know streams.

use super::entries::{
    CODE, END, INVALID, LENGTH_BITS, LENGTHS, LINK, MIXED_BITS, NO_OFFSET, OF_MATCH, OFFSET_BITS,
    OFFSETS, OTHERS, OTHERS_COUNT, PLAIN, SHORT_WITH_EXTRA, SYMBOLS, bits_of_match, bits_to_drop,
    linked, literal, more_bits, value_with_extra,
};
use super::table::TableMaker;

/// The most entries that complete codes of at most 15 bits need: 288 symbols from 11 bits on (1334
/// from 10 bits on), and 32 from 8 bits on (computed by zlib's `enough`).
const SYMBOL_ENTRIES: usize = 2342;
const OFFSET_ENTRIES: usize = 402;
/// The symbols that are no literals, then a link for each subtable (each has two symbols or more).
const OTHER_ENTRIES: usize = 256;

/// What a symbol is, and the bits to drop of it.
pub(crate) enum Meaning {
    Literal(u8, u32),
    /// A match of this length, and its extra bits.
    Match(usize, u32),
    /// The end of the block.
    End(u32),
}

/// What a symbol means by itself.
#[inline(always)]
fn told(symbol: u32) -> Option<Meaning> {
    match bits_of_match(symbol) {
        0 if symbol & PLAIN == 0 => None,
        0 => Some(Meaning::Literal(
            literal(symbol) as u8,
            bits_to_drop(symbol),
        )),
        drop => Some(Meaning::Match(literal(symbol) as usize, drop)),
    }
}

/// The codes of a stream's current block.
pub(crate) struct Codes {
    /// How many bits one look-up of symbols decides.
    symbol_bits: usize,
    symbols: [u32; SYMBOL_ENTRIES],
    others: [u32; OTHER_ENTRIES],
    offsets: [u32; OFFSET_ENTRIES + 1],
}

impl Codes {
    pub(crate) const NONE: Codes = Codes {
        symbol_bits: 0,
        symbols: [0; SYMBOL_ENTRIES],
        others: [0; OTHER_ENTRIES],
        offsets: {
            let mut offsets = [0; OFFSET_ENTRIES + 1];
            offsets[OFFSET_ENTRIES] = NO_OFFSET;
            offsets
        },
    };

    /// Takes over the lengths of the codes of 288 symbols and 32 offsets. One look-up shall decide
    /// `symbol_bits` bits.
    pub(crate) fn fill(
        &mut self,
        maker: &mut TableMaker,
        symbol_bits: usize,
        symbols: &[u8; 288],
        offsets: &[u8; 32],
    ) -> Option<()> {
        debug_assert!(symbol_bits <= MIXED_BITS);
        self.symbol_bits = symbol_bits;
        let look_up = (symbol_bits as u32) << 8;
        let others = self.others.iter_mut().zip(OTHERS).zip(&symbols[256..]);
        for ((other, meaning), length) in others {
            *other = meaning + u32::from(*length) * CODE;
        }
        let mut links = self.others[OTHERS_COUNT..].iter_mut().zip(OTHERS_COUNT..);
        let mut kept = |link| {
            let (place, index) = links.next()?;
            *place = link;
            Some((index as u32) << 24)
        };
        maker.fill(
            &mut self.symbols,
            symbol_bits,
            look_up,
            symbols,
            &SYMBOLS,
            &mut kept,
        )?;
        self.tell_lengths_with_extra();
        let offset_table = &mut self.offsets[..OFFSET_ENTRIES];
        maker.fill(offset_table, OFFSET_BITS, 0, offsets, &OFFSETS, &mut Some)
    }

    /// Tells short matches that have extra bits, where these are among those of a look-up.
    fn tell_lengths_with_extra(&mut self) {
        let look_up = (self.symbol_bits as u32) << 8;
        let table = &mut self.symbols[..1 << self.symbol_bits];
        for index in SHORT_WITH_EXTRA {
            let meaning = self.others[index];
            let told = (index as u32) << 24 | look_up;
            if more_bits(meaning) == 0 || bits_to_drop(meaning) > self.symbol_bits as u32 {
                continue;
            }
            if let Some(first) = table.iter().position(|&entry| entry == told) {
                for at in (first..table.len()).step_by(1 << more_bits(meaning)) {
                    let length = value_with_extra(meaning, at as u64) as u32;
                    table[at] = length << 24 | bits_to_drop(meaning) << OF_MATCH | look_up;
                }
            }
        }
    }

    /// How many bits one look-up of symbols decides.
    #[inline(always)]
    pub(crate) fn symbol_bits(&self) -> usize {
        self.symbol_bits
    }

    /// The symbol that begins these bits.
    #[inline(always)]
    pub(crate) fn symbol(&self, bits: u64) -> u32 {
        self.symbols[bits as usize & ((1 << self.symbol_bits) - 1)]
    }

    /// The symbol of the next bits, which `index` is. Unchecked, as a check costs a tenth of the time.
    ///
    /// # Safety
    /// A step gave the index for one of these symbols: it has as many bits as the symbol's entry
    /// says, which is what `fill` was told, or 0 before.
    #[inline(always)]
    pub(crate) unsafe fn symbol_at(&self, index: usize) -> u32 {
        debug_assert!(index < 1 << MIXED_BITS);
        // SAFETY: the caller's promise; the table begins with an entry for each such index.
        unsafe { *self.symbols.get_unchecked(index) }
    }

    /// What a symbol means. None: nothing that is known.
    #[inline(always)]
    pub(crate) fn meaning(&self, symbol: u32, bits: u64) -> Option<Meaning> {
        if let Some(meaning) = told(symbol) {
            return Some(meaning);
        }
        let mut entry = *self.others.get(literal(symbol) as usize)?;
        if entry & LINK != 0 {
            let symbol = *self.symbols.get(linked(entry, bits))?;
            if let Some(meaning) = told(symbol) {
                return Some(meaning);
            }
            entry = *self.others.get(literal(symbol) as usize)?;
        }
        match entry & (INVALID | END) {
            0 => Some(Meaning::Match(
                value_with_extra(entry, bits),
                bits_to_drop(entry),
            )),
            END => Some(Meaning::End(bits_to_drop(entry))),
            _ => None,
        }
    }

    /// The offset that begins these bits. None: one that is not known.
    #[inline(always)]
    pub(crate) fn offset(&self, bits: u64) -> Option<u32> {
        let mut entry = self.offset_or_none(bits, true);
        if entry & LINK != 0 {
            entry = *self.offsets.get(linked(entry, bits))?;
        }
        (entry & INVALID == 0).then_some(entry)
    }

    /// The same before its subtable is looked at and whether it is known; where there is no match,
    /// `NO_OFFSET`.
    #[inline(always)]
    pub(crate) fn offset_or_none(&self, bits: u64, is_match: bool) -> u32 {
        let index = bits as usize & ((1 << OFFSET_BITS) - 1);
        self.offsets[if is_match { index } else { OFFSET_ENTRIES }]
    }
}

/// The code in which a block's header tells the lengths of its codes.
pub(crate) struct LengthCode([u32; 1 << LENGTH_BITS]);

impl LengthCode {
    pub(crate) fn new(maker: &mut TableMaker, lengths: &[u8; 20]) -> Option<LengthCode> {
        let mut table = [0; 1 << LENGTH_BITS];
        maker.fill(&mut table, LENGTH_BITS, 0, lengths, &LENGTHS, &mut Some)?;
        Some(LengthCode(table))
    }

    /// The entry of the length that begins these bits.
    #[inline(always)]
    pub(crate) fn look(&self, bits: u64) -> u32 {
        self.0[bits as usize & ((1 << LENGTH_BITS) - 1)]
    }
}
