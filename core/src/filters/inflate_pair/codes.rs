//! The codes of deflate (RFC 1951, 3.2) as tables: the next bits of a stream -> what they mean.
//!
//! 1. An entry tells all that a step needs: the bits to drop, the value, and what sort it is.
//! 2. A code that is not complete makes no table, so every look-up has an entry.
//!
//! It must never know streams.

/// Bits that one look-up decides; longer codes go on in a subtable.
pub(super) const SYMBOL_BITS: usize = 11;
pub(super) const OFFSET_BITS: usize = 8;
pub(super) const LENGTH_BITS: usize = 7;

/// The most entries that complete codes of at most 15 bits need: 288 symbols from 11 bits on, and
/// 32 from 8 bits on (computed by zlib's `enough`).
pub(super) const SYMBOL_ENTRIES: usize = 2342;
pub(super) const OFFSET_ENTRIES: usize = 402;

// An entry holds, from bit 0 on: the bits to drop (8; the code and its extra bits), the number of
// extra bits or of the subtable's, or for a literal those of the next look-up (5), three flags, the
// value (15: a literal, the least length or offset, or where the subtable begins), and a flag.
// So the lower half of a literal's entry is what the instruction `bextr` takes.
pub(super) const INVALID: u32 = 1 << 13;
pub(super) const LINK: u32 = 1 << 14;
/// The end of the block, or one of the two above.
pub(super) const SPECIAL: u32 = 1 << 15;
/// Anything but a literal.
pub(super) const OTHER: u32 = 1 << 31;

pub(super) fn bits_to_drop(entry: u32) -> u32 {
    entry & 63
}

/// Of the subtable or extra.
fn more_bits(entry: u32) -> u32 {
    entry >> 8 & 31
}

pub(super) fn value(entry: u32) -> usize {
    (entry >> 16 & 0x7FFF) as usize
}

/// The value and what the extra bits, behind those of the code, add to it.
pub(super) fn value_with_extra(entry: u32, bits: u64) -> usize {
    let extra = more_bits(entry);
    let above_code = bits >> (bits_to_drop(entry).wrapping_sub(extra) & 63);
    value(entry) + (above_code & !(u64::MAX << extra)) as usize
}

/// Where a link's subtable has the entry of these bits.
pub(super) fn linked(entry: u32, bits: u64) -> usize {
    value(entry) + (bits & !(u64::MAX << more_bits(entry))) as usize
}

// What the symbols of the three codes mean: entries without the bits of the code.

pub(super) static SYMBOLS: [u32; 288] = {
    let mut meanings = [OTHER | SPECIAL | INVALID; 288];
    let mut i = 0;
    while i < 256 {
        meanings[i] = (i as u32) << 16 | (SYMBOL_BITS as u32) << 8;
        i += 1;
    }
    meanings[256] = OTHER | SPECIAL;
    let mut least = 3;
    let mut i = 0;
    while i < 28 {
        let extra = if i < 8 { 0 } else { i as u32 / 4 - 1 };
        meanings[257 + i] = OTHER | least << 16 | extra << 8 | extra;
        least += 1 << extra;
        i += 1;
    }
    meanings[285] = OTHER | 258 << 16;
    meanings
};

pub(super) static OFFSETS: [u32; 32] = {
    let mut meanings = [OTHER | SPECIAL | INVALID; 32];
    let mut least = 1;
    let mut i = 0;
    while i < 30 {
        let extra = if i < 4 { 0 } else { i as u32 / 2 - 1 };
        meanings[i] = least << 16 | extra << 8 | extra;
        least += 1 << extra;
        i += 1;
    }
    meanings
};

pub(super) static LENGTHS: [u32; 20] = {
    let mut meanings = [0; 20];
    let mut i = 0;
    while i < 20 {
        meanings[i] = (i as u32) << 16;
        i += 1;
    }
    meanings
};

/// The codes of a stream's current block.
pub(super) struct Codes {
    pub(super) symbols: [u32; SYMBOL_ENTRIES],
    pub(super) offsets: [u32; OFFSET_ENTRIES],
}

impl Codes {
    pub(super) const NONE: Codes = Codes {
        symbols: [0; SYMBOL_ENTRIES],
        offsets: [0; OFFSET_ENTRIES],
    };
}

/// Makes a code's table: the entries of `1 << bits` next bits, then the subtables.
///
/// The symbols, each with the length of its code (0: unused) and its meaning, are a multiple of
/// four and at most 288. None: the code is not complete.
pub(super) fn fill_table(
    table: &mut [u32],
    bits: usize,
    lengths: &[u8],
    meanings: &[u32],
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
            *entries.get_mut(usize::from(*place))? = meanings[i] + u32::from(length);
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
                let link = OTHER | SPECIAL | LINK | (begin as u32) << 16;
                table[prefix] = link | (subtable_bits as u32) << 8 | bits as u32;
            }
            let (entry, others) = entries.split_first()?;
            entries = others;
            let subtable = table.get_mut(begin..end)?;
            for place in subtable.iter_mut().skip(place / main).step_by(1 << more) {
                *place = entry - bits as u32;
            }
            code = code.wrapping_add(1 << (16 - length));
        }
    }
    Some(())
}
