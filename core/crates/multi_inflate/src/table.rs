//! Makes the table of a code (RFC 1951, 3.2.2): the next bits of a stream -> an entry.
//!
//! Law:
//! 1. A code that is not complete makes no table, so every look-up has an entry.
//!
//! It must never know what the entries are for.

use super::entries::LINK;

/// Makes tables; it keeps memory for reuse.
pub(crate) struct TableMaker {
    /// In the order of their codes. As many that no place is out of range.
    entries: [u32; 512],
    /// The codes of one length, as they lie in a stream.
    reversed: [u16; 288],
}

/// Four numbers of 16 bits, in one.
type Four = u64;
/// Times a number: four of it. Times four numbers: the sum of the first, of two, of three, of all.
const EACH: Four = 0x0001_0001_0001_0001;

impl TableMaker {
    pub(crate) const NEW: TableMaker = TableMaker {
        entries: [0; 512],
        reversed: [0; 288],
    };

    /// Sort what symbols mean by the lengths of their codes; how many codes there are of each length.
    /// None: they are not complete. Inlined, as its small arrays then stay in registers.
    #[inline(always)]
    fn sort(&mut self, all: u32, lengths: &[u8], meanings: &[(u32, u32)]) -> Option<[usize; 16]> {
        // Each quarter of the symbols is counted apart, since a count has to wait for the one before.
        let size = lengths.len() / 4;
        let quarter = |i| {
            let range = i * size..(i + 1) * size;
            Some((lengths.get(range.clone())?, meanings.get(range)?))
        };
        let quarters = [quarter(0)?, quarter(1)?, quarter(2)?, quarter(3)?];
        let mut places = [[0u16; 4]; 16];
        for i in 0..size {
            for (quarter, (lengths, _)) in quarters.iter().enumerate() {
                places[usize::from(lengths[i] & 15)][quarter] += 1;
            }
        }
        let mut counts = [0; 16];
        let mut total = 0;
        let mut space = 0;
        for length in (1..16).chain([0]) {
            let place = &mut places[length];
            let [a, b, c, d] = place.map(Four::from);
            let sums = (a | b << 16 | c << 32 | d << 48).wrapping_mul(EACH);
            let begins = (sums << 16).wrapping_add(EACH.wrapping_mul(total));
            *place = [0, 16, 32, 48].map(|shift| (begins >> shift) as u16);
            total += sums >> 48;
            counts[length] = (sums >> 48) as usize;
            if length > 0 {
                space += counts[length] << (15 - length);
            }
        }
        if space != 1 << 15 {
            return None;
        }
        for i in 0..size {
            for (quarter, (lengths, meanings)) in quarters.iter().enumerate() {
                let length = lengths[i] & 15;
                let place = &mut places[usize::from(length)][quarter];
                let (meaning, of_bit) = meanings[i];
                self.entries[usize::from(*place) % 512] =
                    (meaning | all) + u32::from(length) * of_bit;
                *place += 1;
            }
        }
        Some(counts)
    }

    /// Fills a table with the entries of `1 << bits` next bits, and then the subtables. Every entry of
    /// the first part has the flags `all`.
    ///
    /// The symbols, each with the length of its code (0: unused) and its meaning, are a multiple of
    /// four and at most 288. `kept` gives the link to a subtable. None: the code
    /// is not complete.
    pub(crate) fn fill(
        &mut self,
        table: &mut [u32],
        bits: usize,
        all: u32,
        lengths: &[u8],
        meanings: &[(u32, u32)],
        kept: &mut dyn FnMut(u32) -> Option<u32>,
    ) -> Option<()> {
        let counts = self.sort(all, lengths, meanings)?;
        let mut entries = self.entries.as_slice();

        // The next code, from the highest bit on. In the stream, codes lie the other way round.
        let mut code = 0u16;
        let shortest = counts.iter().skip(1).position(|&count| count > 0)?;
        let mut end = 1 << shortest;
        for (length, &count) in counts
            .iter()
            .enumerate()
            .skip(1 + shortest)
            .take(bits - shortest)
        {
            // What no code has filled yet is filled by longer ones.
            let (low, high) = table.get_mut(..2 * end)?.split_at_mut(end);
            high.copy_from_slice(low);
            end *= 2;
            let (these, others) = entries.split_at_checked(count)?;
            entries = others;
            let step = 1u16 << (16 - length);
            // Apart from the stores below, so that the compiler can make vectors of it.
            for (i, place) in self.reversed.iter_mut().take(these.len()).enumerate() {
                *place = code
                    .wrapping_add(step.wrapping_mul(i as u16))
                    .reverse_bits();
            }
            code = code.wrapping_add(step.wrapping_mul(these.len() as u16));
            let table = &mut table[..end];
            for (&place, &entry) in self.reversed.iter().zip(these) {
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
                    let link = LINK | (begin as u32) << 16 | (subtable_bits as u32) << 8;
                    table[prefix] = kept(link | bits as u32)? | all;
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
}
