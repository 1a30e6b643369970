//! Inflates two zlib streams (RFC 1950 and 1951) side by side in one thread.
//!
//! A stream of literals is decoded at the pace of one chain: shift, mask, look up, and again. A
//! core has room for a second such chain beside the first, so two streams of literals take little
//! longer than one. Copies (matches) are not like that: each is a branch that no core foresees,
//! and it holds up both streams.
//!
//! 1. What is given back as decoded is what libdeflate makes of the same bytes. Whatever is odd
//!    (an incomplete code, a wrong checksum, a size other than asked for) is refused, and the
//!    caller asks libdeflate, whose verdict counts.
//! 2. No stored byte can make it panic, read or write outside the slices, or run for long: every
//!    step takes a bit from the input or gives up. There is no unsafe code.
//! 3. It allocates nothing.
//! 4. `Counts` tells what the streams were made of, so that the caller can tell whether this paid.
//!
//! It must never know of filters, pipelines or chunks.
//!
//! Two things in the loop over literals are worth about a seventh of its speed each: the next entry
//! is looked up before the bits are refilled, and four literals are stored at once (a store for
//! each of them delays the look-ups behind it).

mod codes;

use codes::{
    Codes, INVALID, LENGTH_BITS, LENGTHS, LINK, OFFSET_BITS, OFFSETS, OTHER, SPECIAL, SYMBOL_BITS,
    SYMBOLS, bits_to_drop, fill_table, linked, value, value_with_extra,
};
use libdeflater::adler32;

/// The memory that the decoding of two streams needs, for reuse.
pub(super) struct Tables([Codes; 2]);

impl Tables {
    pub(super) fn new() -> Tables {
        Tables([const { Codes::NONE }; 2])
    }
}

/// What two streams were made of, where they were decoded side by side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub literals: usize,
    /// Copies, and what else stops the loop over literals.
    pub others: usize,
}

/// Decodes two zlib streams, each of which makes exactly as many bytes as its `out` has.
/// None: one of them may be bad; what the outs hold then means nothing.
pub(super) fn inflate_pair(
    tables: &mut Tables,
    stored: [&[u8]; 2],
    outs: [&mut [u8]; 2],
) -> Option<Counts> {
    let codes = &mut tables.0;
    let [out_a, out_b] = outs;
    let a = &mut Stream::new(stored[0], out_a)?;
    let b = &mut Stream::new(stored[1], out_b)?;
    let mut counts = Counts::default();
    while a.at != At::End || b.at != At::End {
        if a.at == At::Header {
            a.header(&mut codes[0])?;
        } else if b.at == At::Header {
            b.header(&mut codes[1])?;
        } else if a.is_in_long_block() && b.is_in_long_block() {
            both(a, b, codes, &mut counts)?;
        } else if a.at == At::Block && (!a.is_in_long_block() || b.at == At::End) {
            a.finish_block(&codes[0])?;
        } else {
            b.finish_block(&codes[1])?;
        }
    }
    Some(counts)
}

/// How many literals of each stream are decoded between two refills: 4 codes of 11 bits are
/// taken of the 56 that are held then, and another 11 are looked at.
const GROUP: usize = 4;

/// Decodes two blocks until one of them ends, or its stream's input or output all but does.
#[inline(never)]
fn both(a: &mut Stream, b: &mut Stream, codes: &[Codes; 2], counts: &mut Counts) -> Option<()> {
    enum Met {
        Nothing,
        OtherInA,
        OtherInB,
    }
    let (mut p, mut q) = (a.cursor, b.cursor);
    p.refill(a.input);
    q.refill(b.input);
    let (mut next_a, mut next_b) = (p.look(&codes[0]), q.look(&codes[1]));
    loop {
        let mut met = Met::Nothing;
        let mut whole = 0;
        let mut part = 0;
        let groups_a = a.out[p.made..].chunks_exact_mut(GROUP);
        let groups_b = b.out[q.made..].chunks_exact_mut(GROUP);
        for (group_a, group_b) in groups_a.zip(groups_b) {
            let (Some(bytes_a), Some(bytes_b)) = (p.eight(a.input), q.eight(b.input)) else {
                break;
            };
            p.fill(bytes_a);
            q.fill(bytes_b);
            let (mut made_a, mut made_b) = (0, 0);
            part = 0;
            met = loop {
                if part == GROUP {
                    break Met::Nothing;
                }
                if next_a & OTHER != 0 {
                    break Met::OtherInA;
                }
                made_a |= (value(next_a) as u32) << (8 * part);
                p.drop_unmasked(next_a);
                next_a = p.look(&codes[0]);
                if next_b & OTHER != 0 {
                    break Met::OtherInB;
                }
                made_b |= (value(next_b) as u32) << (8 * part);
                q.drop_unmasked(next_b);
                next_b = q.look(&codes[1]);
                part += 1;
            };
            // A group that is not whole ends in zeros, which the next bytes overwrite.
            group_a.copy_from_slice(&u32::to_le_bytes(made_a));
            group_b.copy_from_slice(&u32::to_le_bytes(made_b));
            p.held &= 63;
            q.held &= 63;
            if !matches!(met, Met::Nothing) {
                break;
            }
            whole += GROUP;
            part = 0;
        }
        p.made += whole + part;
        q.made += whole + part;
        counts.literals += 2 * (whole + part);
        match met {
            Met::Nothing => break,
            Met::OtherInA => {
                counts.others += 1;
                p.refill(a.input);
                if !p.other(next_a, &codes[0], a.out)? {
                    a.at = At::Header;
                    break;
                }
                p.refill(a.input);
                next_a = p.look(&codes[0]);
            }
            Met::OtherInB => {
                counts.others += 1;
                // Of this group, the first stream has a literal more.
                p.made += 1;
                q.refill(b.input);
                if !q.other(next_b, &codes[1], b.out)? {
                    b.at = At::Header;
                    break;
                }
                q.refill(b.input);
                next_b = q.look(&codes[1]);
            }
        }
    }
    (a.cursor, b.cursor) = (p, q);
    Some(())
}

/// Where a stream's decoding stands.
#[derive(Clone, Copy)]
struct Cursor {
    /// The next bits, from the lowest on. Above those held there are zeros, or bits that follow.
    bits: u64,
    held: u32,
    /// The first byte of the input that is not held.
    pos: usize,
    /// How many bytes of the output are made.
    made: usize,
}

// Methods that change a cursor are inlined, or take and give it by value: a reference would keep
// it in memory.
impl Cursor {
    #[inline(always)]
    fn eight(&self, input: &[u8]) -> Option<[u8; 8]> {
        input.get(self.pos..)?.first_chunk().copied()
    }

    /// At least 56 bits are held then.
    #[inline(always)]
    fn fill(&mut self, bytes: [u8; 8]) {
        self.bits |= u64::from_le_bytes(bytes) << self.held;
        self.pos += (!self.held >> 3 & 7) as usize;
        self.held |= 56;
    }

    /// At least 56 bits are held then, or all that are left.
    #[inline(always)]
    fn refill(&mut self, input: &[u8]) {
        match self.eight(input) {
            Some(bytes) => self.fill(bytes),
            None => *self = self.refilled_at_the_end(input),
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
    fn take(&mut self, bits: u32) -> Option<usize> {
        let taken = self.bits & !(u64::MAX << bits);
        self.held = self.held.checked_sub(bits)?;
        self.bits >>= bits;
        Some(taken as usize)
    }

    #[inline(always)]
    fn look(&self, codes: &Codes) -> u32 {
        codes.symbols[self.bits as usize & ((1 << SYMBOL_BITS) - 1)]
    }

    /// Drops a literal's bits. Only the lowest six bits of `held` count then.
    #[inline(always)]
    fn drop_unmasked(&mut self, entry: u32) {
        self.bits >>= bits_to_drop(entry);
        self.held = self.held.wrapping_sub(entry);
    }

    /// Decodes anything, which begins with `entry`, after a refill. False: that was the block's
    /// end.
    #[inline(always)]
    fn other(&mut self, mut entry: u32, codes: &Codes, out: &mut [u8]) -> Option<bool> {
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
    let offset = to - from;
    if offset >= 8 && to + length + 8 <= out.len() {
        for at in (0..length).step_by(8) {
            out.copy_within(from + at..from + at + 8, to + at);
        }
        return Some(());
    }
    let out = out.get_mut(from..to + length)?;
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before a block, or before the checksum.
    Header,
    Block,
    End,
}

struct Stream<'a> {
    input: &'a [u8],
    out: &'a mut [u8],
    cursor: Cursor,
    at: At,
    /// No block comes after this one.
    is_last: bool,
}

impl<'a> Stream<'a> {
    fn new(input: &'a [u8], out: &'a mut [u8]) -> Option<Stream<'a>> {
        let &[method, flags, ..] = input else {
            return None;
        };
        let window_bits = 8 + (method >> 4);
        let has_dictionary = flags & 32 != 0;
        let is_odd = u16::from_be_bytes([method, flags]) % 31 != 0;
        if method & 15 != 8 || window_bits > 15 || has_dictionary || is_odd {
            return None;
        }
        let cursor = Cursor {
            bits: 0,
            held: 0,
            pos: 2,
            made: 0,
        };
        Some(Stream {
            input,
            out,
            cursor,
            at: At::Header,
            is_last: false,
        })
    }

    /// Inside a block, with room for a group of literals in the input and in the output.
    fn is_in_long_block(&self) -> bool {
        let Cursor { pos, made, .. } = self.cursor;
        self.at == At::Block && self.input.len() - pos >= 8 && self.out.len() - made >= GROUP
    }

    /// Decodes to the block's end, alone.
    #[inline(never)]
    fn finish_block(&mut self, codes: &Codes) -> Option<()> {
        let mut cursor = self.cursor;
        loop {
            cursor.refill(self.input);
            let entry = cursor.look(codes);
            if entry & OTHER == 0 {
                cursor.take(bits_to_drop(entry))?;
                *self.out.get_mut(cursor.made)? = value(entry) as u8;
                cursor.made += 1;
            } else if !cursor.other(entry, codes, self.out)? {
                break;
            }
        }
        self.cursor = cursor;
        self.at = At::Header;
        Some(())
    }

    /// Reads a block's header, or all of a stored block, or the checksum.
    #[inline(never)]
    fn header(&mut self, codes: &mut Codes) -> Option<()> {
        if self.is_last {
            return self.checksum();
        }
        self.cursor.refill(self.input);
        self.is_last = self.cursor.take(1)? == 1;
        match self.cursor.take(2)? {
            0 => return self.stored_block(),
            1 => {
                let mut lengths = [8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                fill_table(&mut codes.symbols, SYMBOL_BITS, &lengths, &SYMBOLS)?;
                fill_table(&mut codes.offsets, OFFSET_BITS, &[5; 32], &OFFSETS)?;
            }
            2 => self.read_codes(codes)?,
            _ => return None,
        }
        self.at = At::Block;
        Some(())
    }

    /// The first byte that no bit has been taken of.
    fn whole_pos(&self) -> usize {
        self.cursor.pos - (self.cursor.held / 8) as usize
    }

    fn checksum(&mut self) -> Option<()> {
        let checksum = self.input.get(self.whole_pos()..)?.first_chunk()?;
        if self.cursor.made != self.out.len() || adler32(self.out) != u32::from_be_bytes(*checksum)
        {
            return None;
        }
        self.at = At::End;
        Some(())
    }

    fn stored_block(&mut self) -> Option<()> {
        let pos = self.whole_pos();
        let (&[a, b, c, d], rest) = self.input.get(pos..)?.split_first_chunk()?;
        let size = u16::from_le_bytes([a, b]);
        if size != !u16::from_le_bytes([c, d]) {
            return None;
        }
        let size = usize::from(size);
        let made = self.cursor.made;
        let out = self.out.get_mut(made..made + size)?;
        out.copy_from_slice(rest.get(..size)?);
        self.cursor = Cursor {
            bits: 0,
            held: 0,
            pos: pos + 4 + size,
            made: made + size,
        };
        Some(())
    }

    fn read_codes(&mut self, codes: &mut Codes) -> Option<()> {
        const ORDER: [usize; 19] = [
            16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
        ];
        let mut cursor = self.cursor;
        let symbols = cursor.take(5)? + 257;
        let all = symbols + cursor.take(5)? + 1;
        let count = cursor.take(4)? + 4;
        let mut lengths = [0; 20];
        for &at in &ORDER[..count] {
            cursor.refill(self.input);
            lengths[at] = cursor.take(3)? as u8;
        }
        let mut table = [0; 1 << LENGTH_BITS];
        fill_table(&mut table, LENGTH_BITS, &lengths, &LENGTHS)?;

        let mut lengths = [0; 320];
        let mut done = 0;
        while done < all {
            cursor.refill(self.input);
            // 14 bits at most each.
            for _ in 0..4 {
                let entry = table[cursor.bits as usize & ((1 << LENGTH_BITS) - 1)];
                cursor.take(bits_to_drop(entry))?;
                let length = value(entry);
                if length < 16 {
                    *lengths.get_mut(done)? = length as u8;
                    done += 1;
                } else {
                    let (length, run) = match length {
                        16 => (*lengths.get(done.checked_sub(1)?)?, 3 + cursor.take(2)?),
                        17 => (0, 3 + cursor.take(3)?),
                        _ => (0, 11 + cursor.take(7)?),
                    };
                    lengths.get_mut(done..done + run)?.fill(length);
                    done += run;
                }
                if done >= all {
                    break;
                }
            }
        }
        if done != all {
            return None;
        }
        self.cursor = cursor;
        let mut offsets = [0; 32];
        offsets[..all - symbols].copy_from_slice(&lengths[symbols..all]);
        lengths[symbols..].fill(0);
        fill_table(&mut codes.symbols, SYMBOL_BITS, &lengths[..288], &SYMBOLS)?;
        fill_table(&mut codes.offsets, OFFSET_BITS, &offsets, &OFFSETS)
    }
}

#[cfg(test)]
mod tests;
