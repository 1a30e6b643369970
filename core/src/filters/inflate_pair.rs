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
//!    step takes a bit from the input or gives up. All that is unsafe is to ask for an instruction
//!    that not every CPU has, where it has it.
//! 3. It allocates nothing.
//! 4. Blocks are decoded side by side where their codes say that they are mostly literals, and
//!    else alone. How many literals were is returned, so that the caller can tell whether this paid.
//!
//! It must never know of filters, pipelines or chunks.

mod codes;
mod cursor;
mod steps;
mod symbols;

use codes::{
    Codes, LENGTH_BITS, LENGTHS, OFFSET_BITS, OFFSETS, SYMBOL_BITS, SYMBOLS, bits_to_drop,
    fill_table, value,
};
use cursor::Cursor;
use libdeflater::adler32;
use steps::Bextr;
use symbols::{GROUP, alone, both};

/// With fewer literals to anything else, two blocks are decoded alone. (With 4 or 20 here, chunks of
/// noise of 512 KiB took the same within 3 %.)
const LITERALS_TO_OTHERS: usize = 6;

/// The memory that the decoding of two streams needs, for reuse.
pub(super) struct Tables {
    codes: [Codes; 2],
    bextr: Option<Bextr>,
}

impl Tables {
    pub(super) fn new() -> Tables {
        Tables {
            codes: [const { Codes::NONE }; 2],
            bextr: Bextr::detect(),
        }
    }
}

/// Decodes two zlib streams, each of which makes exactly as many bytes as its `out` has.
/// Returns how many literals were decoded side by side. None: one of the streams may be bad; what
/// the outs hold then means nothing.
pub(super) fn inflate_pair(
    tables: &mut Tables,
    stored: [&[u8]; 2],
    outs: [&mut [u8]; 2],
) -> Option<usize> {
    let Tables { codes, bextr } = tables;
    let [out_a, out_b] = outs;
    let a = &mut Stream::new(stored[0], out_a)?;
    let b = &mut Stream::new(stored[1], out_b)?;
    let mut literals = 0;
    while a.at != At::End || b.at != At::End {
        if a.at == At::Header {
            a.header(&mut codes[0])?;
        } else if b.at == At::Header {
            b.header(&mut codes[1])?;
        } else if a.wants_company() && b.wants_company() {
            literals += both(*bextr, a, b, codes)?;
        } else if a.at == At::Block && (!a.wants_company() || b.at == At::End) {
            alone(*bextr, a, &codes[0])?;
        } else {
            alone(*bextr, b, &codes[1])?;
        }
    }
    Some(literals)
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
    /// The block is mostly literals, as its codes say.
    is_of_literals: bool,
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
            is_of_literals: false,
        })
    }

    /// Inside a block of literals, with room for a group in the input and in the output.
    fn wants_company(&self) -> bool {
        let Cursor { pos, made, .. } = self.cursor;
        let has_room = self.input.len() - pos >= 8 && self.out.len() - made >= GROUP;
        self.at == At::Block && self.is_of_literals && has_room
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
                self.is_of_literals = false;
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
        // A code of n bits stands for about every 2^n-th symbol.
        let shares = lengths[256..symbols].iter().filter(|&&length| length > 0);
        let others: usize = shares.map(|&length| 1 << (15 - length)).sum();
        self.is_of_literals = others * (LITERALS_TO_OTHERS + 1) <= 1 << 15;
        let mut offsets = [0; 32];
        offsets[..all - symbols].copy_from_slice(&lengths[symbols..all]);
        lengths[symbols..].fill(0);
        fill_table(&mut codes.symbols, SYMBOL_BITS, &lengths[..288], &SYMBOLS)?;
        fill_table(&mut codes.offsets, OFFSET_BITS, &offsets, &OFFSETS)
    }
}

#[cfg(test)]
mod tests;
