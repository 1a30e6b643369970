//! The codes of deflate (RFC 1951, 3.2) as tables: the next bits of a stream -> what they mean.
//!
//! 1. An entry tells all that a step needs: the bits to drop, the value, and what sort it is.
//! 2. A code that is not complete makes no table, so every look-up has an entry.
//! 3. No table of symbols has an entry with which a step leads out of it.
//!
//! It must never know streams.

/// Bits that one look-up decides; longer codes go on in a subtable. With 10, the tables of three
/// streams leave room for their data in a core's first cache.
pub(super) const SYMBOL_BITS: usize = 10;
pub(super) const OFFSET_BITS: usize = 8;
pub(super) const LENGTH_BITS: usize = 7;

/// The most entries that complete codes of at most 15 bits need: 288 symbols from 10 bits on, and
/// 32 from 8 bits on (computed by zlib's `enough`).
const SYMBOL_ENTRIES: usize = 1334;
const OFFSET_ENTRIES: usize = 402;
/// The symbols that are no literals, then a link for each subtable (each has two symbols or more).
const FIRST_LINK: usize = 32;
const OTHER_ENTRIES: usize = 256;

// An entry holds, from bit 0 on: the bits to drop (8; the code and its extra bits), the number of
// extra bits or of the subtable's (5), three flags, `PLAIN`, and the value (15; the least length or
// offset, or where the subtable begins).
//
// One of symbols is what the instruction `bextr` takes, in its lower half: the bits to drop, and
// those of the next look-up (8). The value is the literal (8 bits, from bit 24 on). What is no
// literal drops nothing, so that looking up goes on giving the same entry, and its value is the
// index of its meaning in `others`.
const INVALID: u32 = 1 << 13;
const LINK: u32 = 1 << 14;
const END: u32 = 1 << 15;
/// A literal, and in the other codes everything but a link.
pub(super) const PLAIN: u32 = 1 << 16;

pub(super) fn bits_to_drop(entry: u32) -> u32 {
    entry & 63
}

/// Of the subtable or extra.
fn more_bits(entry: u32) -> u32 {
    entry >> 8 & 31
}

pub(super) fn value(entry: u32) -> usize {
    (entry >> 17) as usize
}

/// The byte that a plain symbol stands for, or where the meaning of another is.
pub(super) fn literal(entry: u32) -> u32 {
    entry >> 24
}

/// The value and what the extra bits, behind those of the code, add to it.
pub(super) fn value_with_extra(entry: u32, bits: u64) -> usize {
    let extra = more_bits(entry);
    let above_code = bits >> (bits_to_drop(entry).wrapping_sub(extra) & 63);
    value(entry) + (above_code & !(u64::MAX << extra)) as usize
}

/// Where a link's subtable has the entry of these bits.
fn linked(link: u32, bits: u64) -> usize {
    let above = bits >> bits_to_drop(link);
    value(link) + (above & !(u64::MAX << more_bits(link))) as usize
}

// What the symbols of the codes mean: entries without the bits of the code.

static SYMBOLS: [u32; 288] = {
    let mut meanings = [0; 288];
    let mut i = 0;
    while i < 288 {
        let value = (i as u32 % 256) << 24;
        meanings[i] = value | (SYMBOL_BITS as u32) << 8 | if i < 256 { PLAIN } else { 0 };
        i += 1;
    }
    meanings
};

/// Of the symbols from 256 on.
static OTHERS: [u32; FIRST_LINK] = {
    let mut meanings = [INVALID; FIRST_LINK];
    meanings[0] = END;
    let mut least = 3;
    let mut i = 0;
    while i < 28 {
        let extra = if i < 8 { 0 } else { i as u32 / 4 - 1 };
        meanings[1 + i] = least << 17 | extra << 8 | extra;
        least += 1 << extra;
        i += 1;
    }
    meanings[29] = 258 << 17;
    meanings
};

static OFFSETS: [u32; 32] = {
    let mut meanings = [PLAIN | INVALID; 32];
    let mut least = 1;
    let mut i = 0;
    while i < 30 {
        let extra = if i < 4 { 0 } else { i as u32 / 2 - 1 };
        meanings[i] = least << 17 | PLAIN | extra << 8 | extra;
        least += 1 << extra;
        i += 1;
    }
    meanings
};

static LENGTHS: [u32; 20] = {
    let mut meanings = [0; 20];
    let mut i = 0;
    while i < 20 {
        meanings[i] = (i as u32) << 17 | PLAIN;
        i += 1;
    }
    meanings
};

/// What a symbol is that is not simply a literal.
pub(super) enum Other {
    /// A literal with a long code: its entry.
    Literal(u32),
    /// A match: the entry of its length.
    Match(u32),
    /// The end of the block: its entry.
    End(u32),
}

/// The codes of a stream's current block.
pub(super) struct Codes {
    symbols: [u32; SYMBOL_ENTRIES],
    others: [u32; OTHER_ENTRIES],
    offsets: [u32; OFFSET_ENTRIES],
}

impl Codes {
    pub(super) const NONE: Codes = Codes {
        symbols: [0; SYMBOL_ENTRIES],
        others: [0; OTHER_ENTRIES],
        offsets: [0; OFFSET_ENTRIES],
    };

    /// Takes over the lengths of the codes of 288 symbols and 32 offsets.
    pub(super) fn fill(&mut self, symbols: &[u8; 288], offsets: &[u8; 32]) -> Option<()> {
        let others = self.others.iter_mut().zip(OTHERS).zip(&symbols[256..]);
        for ((other, meaning), length) in others {
            *other = meaning + u32::from(*length);
        }
        let mut links = self.others[FIRST_LINK..].iter_mut().zip(FIRST_LINK..);
        let mut kept = |link| {
            let (place, index) = links.next()?;
            *place = link;
            Some((index as u32) << 24 | (SYMBOL_BITS as u32) << 8)
        };
        fill_table(&mut self.symbols, SYMBOL_BITS, symbols, &SYMBOLS, &mut kept)?;
        fill_table(&mut self.offsets, OFFSET_BITS, offsets, &OFFSETS, &mut Some)
    }

    /// The symbol that begins these bits.
    #[inline(always)]
    pub(super) fn symbol(&self, bits: u64) -> u32 {
        self.symbols[bits as usize & ((1 << SYMBOL_BITS) - 1)]
    }

    /// The symbol of the next `SYMBOL_BITS` bits, which `index` is. With a check of it, chunks of
    /// noise took 0.97 of the time of pairs, and without 0.87; after shuffle 0.92 and 0.85.
    ///
    /// # Safety
    /// A step gave the index for one of these symbols: it has as many bits as the symbol's entry
    /// says. Those that `SYMBOLS` and links make say `SYMBOL_BITS`, and those of no table say 0.
    #[inline(always)]
    pub(super) unsafe fn symbol_at(&self, index: usize) -> u32 {
        debug_assert!(index < 1 << SYMBOL_BITS);
        // SAFETY: the caller's promise; the table begins with an entry for each such index.
        unsafe { *self.symbols.get_unchecked(index) }
    }

    /// What a symbol is that is not plain. None: nothing that is known.
    #[inline(always)]
    pub(super) fn other(&self, symbol: u32, bits: u64) -> Option<Other> {
        let mut entry = *self.others.get(literal(symbol) as usize)?;
        if entry & LINK != 0 {
            let symbol = *self.symbols.get(linked(entry, bits))?;
            if symbol & PLAIN != 0 {
                return Some(Other::Literal(symbol));
            }
            entry = *self.others.get(literal(symbol) as usize)?;
        }
        match entry & (INVALID | END) {
            0 => Some(Other::Match(entry)),
            END => Some(Other::End(entry)),
            _ => None,
        }
    }

    /// The offset that begins these bits. None: one that is not known.
    #[inline(always)]
    pub(super) fn offset(&self, bits: u64) -> Option<u32> {
        let mut entry = self.offsets[bits as usize & ((1 << OFFSET_BITS) - 1)];
        if entry & LINK != 0 {
            entry = *self.offsets.get(linked(entry, bits))?;
        }
        (entry & INVALID == 0).then_some(entry)
    }
}

/// The code in which a block's header tells the lengths of its codes.
pub(super) struct LengthCode([u32; 1 << LENGTH_BITS]);

impl LengthCode {
    pub(super) fn new(lengths: &[u8; 20]) -> Option<LengthCode> {
        let mut table = [0; 1 << LENGTH_BITS];
        fill_table(&mut table, LENGTH_BITS, lengths, &LENGTHS, &mut Some)?;
        Some(LengthCode(table))
    }

    /// The entry of the length that begins these bits.
    #[inline(always)]
    pub(super) fn look(&self, bits: u64) -> u32 {
        self.0[bits as usize & ((1 << LENGTH_BITS) - 1)]
    }
}

/// Makes a code's table: the entries of `1 << bits` next bits, then the subtables.
///
/// The symbols, each with the length of its code (0: unused) and its meaning, are a multiple of
/// four and at most 288. What stands for the link to a subtable is asked of `kept`. None: the code
/// is not complete.
fn fill_table(
    table: &mut [u32],
    bits: usize,
    lengths: &[u8],
    meanings: &[u32],
    kept: &mut dyn FnMut(u32) -> Option<u32>,
) -> Option<()> {
    // Each quarter of the symbols is counted apart, since a count has to wait for the one before.
    let size = lengths.len() / 4;
    let quarter = |i| {
        let range = i * size..(i + 1) * size;
        Some((lengths.get(range.clone())?, meanings.get(range)?))
    };
    let quarters = [quarter(0)?, quarter(1)?, quarter(2)?, quarter(3)?];
    let mut places = [[0u16; 16]; 4];
    for i in 0..size {
        for (places, (lengths, _)) in places.iter_mut().zip(quarters) {
            places[usize::from(lengths[i] & 15)] += 1;
        }
    }
    let mut counts = [0; 16];
    let mut total = 0;
    let mut space = 0;
    for length in (1..16).chain([0]) {
        for places in &mut places {
            let count = places[length];
            places[length] = total;
            total += count;
            counts[length] += usize::from(count);
        }
        if length > 0 {
            space += counts[length] << (15 - length);
        }
    }
    if space != 1 << 15 {
        return None;
    }
    // In the order of their codes.
    let mut entries = [0; 288];
    for i in 0..size {
        for (places, (lengths, meanings)) in places.iter_mut().zip(quarters) {
            let length = lengths[i] & 15;
            let place = &mut places[usize::from(length)];
            let meaning = meanings[i];
            let told = u32::from(length) & (meaning & PLAIN).wrapping_neg() >> 16;
            *entries.get_mut(usize::from(*place))? = meaning + told;
            *place += 1;
        }
    }
    let mut entries = entries.as_slice();

    // The next code, from the highest bit on. In the stream, codes lie the other way round.
    let mut code = 0u16;
    let mut reversed = [0; 288];
    let mut end = 1;
    for (length, &count) in counts.iter().enumerate().skip(1).take(bits) {
        let (low, high) = table.get_mut(..2 * end)?.split_at_mut(end);
        high.copy_from_slice(low);
        end *= 2;
        let (these, others) = entries.split_at_checked(count)?;
        entries = others;
        let step = 1u16 << (16 - length);
        // Apart from the stores below, so that the compiler can make vectors of it.
        for (i, place) in reversed.iter_mut().take(these.len()).enumerate() {
            *place = code
                .wrapping_add(step.wrapping_mul(i as u16))
                .reverse_bits();
        }
        code = code.wrapping_add(step.wrapping_mul(these.len() as u16));
        let table = &mut table[..end];
        for (&place, &entry) in reversed.iter().zip(these) {
            *table.get_mut(usize::from(place))? = entry;
        }
    }

    let main = end;
    let mut prefix = usize::MAX;
    let mut begin = end;
    for length in bits + 1..16 {
        let more = length - bits;
        for left in (1..=counts[length]).rev() {
            let place = usize::from(code.reverse_bits());
            if place % main != prefix {
                prefix = place % main;
                // As long as the codes that begin like this: they fill it exactly.
                let mut subtable_bits = more;
                let mut space = left;
                while space < 1 << subtable_bits {
                    subtable_bits += 1;
                    space = 2 * space + counts.get(bits + subtable_bits)?;
                }
                begin = end;
                end += 1 << subtable_bits;
                let link = LINK | (begin as u32) << 17 | (subtable_bits as u32) << 8;
                table[prefix] = kept(link | bits as u32)?;
            }
            let (entry, others) = entries.split_first()?;
            entries = others;
            let subtable = table.get_mut(begin..end)?;
            for place in subtable.iter_mut().skip(place / main).step_by(1 << more) {
                *place = *entry;
            }
            code = code.wrapping_add(1 << (16 - length));
        }
    }
    Some(())
}
