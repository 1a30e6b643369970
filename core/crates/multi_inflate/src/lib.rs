//! Inflates two to four zlib streams (RFC 1950 and 1951) at once in one thread: multi-buffer decoding.
//!
//! Law:
//! 1. What counts as decoded is what libdeflate makes of the same bytes. Whatever is odd (an
//!    incomplete code, a wrong checksum, a size other than asked for) is refused, and the caller
//!    asks libdeflate, whose verdict counts.
//! 2. No stored byte can make it panic, read or write outside the slices, or run for long: every
//!    step takes a bit from the input or gives up. `unsafe` asks for an instruction only where the
//!    CPU has it, and marks two loops that count their room before they run, not at every byte.
//! 3. It allocates nothing but `Tables`, which the caller keeps.
//! 4. Blocks are decoded together where their codes say that this pays, and else alone.
//!
//! It must never know of filters, pipelines or chunks.
//!
//! A stream of literals is decoded at the pace of one chain: shift, mask, look up, and again. A
//! core has room for more such chains beside the first, so four streams of literals take little
//! more time than two. Copies (matches) among them are branches that no core foresees, and each
//! holds up all streams. Where there are many, streams are decoded by sequences of one or two
//! literals and a match, which have no such branches, and are chains again.

mod bits;
mod codes;
mod cursor;
mod entries;
mod kind;
mod literals;
mod sequences;
mod steps;
mod symbols;
mod table;

use codes::{Codes, LengthCode};
use cursor::Cursor;
use entries::{LITERAL_BITS, MIXED_BITS, bits_to_drop, value};
use kind::Kind;
use libdeflater::adler32;
use std::borrow::Borrow;
use steps::Bextr;
use symbols::{alone, literal_group, long_sequence_group, sequence_group};
use table::TableMaker;

/// The most streams in a group: a core has no registers for more.
pub const MAX_STREAMS: usize = 4;

/// The memory that the decoding of streams needs, for reuse.
pub struct Tables {
    codes: [Codes; MAX_STREAMS],
    maker: TableMaker,
    bextr: Option<Bextr>,
}

impl Tables {
    pub fn new() -> Tables {
        Tables {
            codes: [const { Codes::NONE }; MAX_STREAMS],
            maker: TableMaker::NEW,
            bextr: Bextr::detect(),
        }
    }
}

impl Default for Tables {
    fn default() -> Tables {
        Tables::new()
    }
}

/// Decodes two to `MAX_STREAMS` zlib streams, each of which makes exactly as many bytes as its out
/// has. Returns how many literals or sequences were decoded together.
///
/// None: one of the streams may be bad, or their number is another. What the outs hold then means
/// nothing; decode each stream alone, with a decoder that tells.
pub fn decode_group(
    tables: &mut Tables,
    stored: &[&[u8]],
    outs: &mut [&mut [u8]],
) -> Option<usize> {
    match stored.len() {
        2 => decode::<2>(tables, stored, outs),
        3 => decode::<3>(tables, stored, outs),
        4 => decode::<4>(tables, stored, outs),
        _ => None,
    }
}

fn decode<const N: usize>(
    tables: &mut Tables,
    stored: &[&[u8]],
    outs: &mut [&mut [u8]],
) -> Option<usize> {
    let stored: [&[u8]; N] = stored.try_into().ok()?;
    let outs: &mut [&mut [u8]; N] = outs.try_into().ok()?;
    let outs = outs.each_mut().map(|out| &mut **out);
    let Tables {
        codes,
        maker,
        bextr,
    } = tables;
    let codes: &mut [Codes; N] = codes.first_chunk_mut()?;
    let mut streams = outs.map(Stream::new);
    for (stream, stored) in streams.iter_mut().zip(stored) {
        stream.begin(stored)?;
    }
    let mut decoded = 0;
    loop {
        let place = |is: fn(&Stream) -> bool| streams.iter().position(is);
        if let Some(i) = place(|stream| stream.at == At::Header) {
            streams[i].header(&mut codes[i], maker)?;
            continue;
        }
        if let Some(i) = place(|stream| stream.is_in_block() && !stream.wants_company()) {
            alone(*bextr, &mut streams[i], &codes[i])?;
            continue;
        }
        let left = streams.iter().filter(|stream| stream.is_in_block()).count();
        let next = streams.iter_mut().zip(&*codes);
        let mut next = next.filter(|(stream, _)| stream.is_in_block());
        decoded += match left {
            0 => return Some(decoded),
            1 => {
                let (stream, codes) = next.next()?;
                alone(*bextr, stream, codes)?;
                0
            }
            2 if N > 2 => some::<2>(*bextr, next)?,
            3 if N > 3 => some::<3>(*bextr, next)?,
            _ => together(*bextr, streams.each_mut(), codes)?,
        };
    }
}

/// Decodes blocks together until one of them ends. Returns how many literals or sequences that was.
fn together<const N: usize>(
    bextr: Option<Bextr>,
    mut streams: [&mut Stream; N],
    codes: &[impl Borrow<Codes>; N],
) -> Option<usize> {
    match streams.iter().map(|stream| stream.kind).max() {
        Some(Kind::Literals) => literal_group(bextr, &mut streams, codes),
        Some(Kind::Sparse) => long_sequence_group(bextr, &mut streams, codes),
        _ => sequence_group(bextr, &mut streams, codes),
    }
}

/// The same of the next streams. Groups of all streams are quicker without this detour.
fn some<'a, 's: 'a, const N: usize>(
    bextr: Option<Bextr>,
    mut next: impl Iterator<Item = (&'a mut Stream<'s>, &'a Codes)>,
) -> Option<usize> {
    let group: [_; N] = std::array::from_fn(|_| next.next().expect("as many as were counted"));
    let codes = group.each_ref().map(|(_, codes)| *codes);
    together(bextr, group.map(|(stream, _)| stream), &codes)
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
    /// What the block is, as its codes say.
    kind: Kind,
}

impl<'a> Stream<'a> {
    fn new(out: &'a mut [u8]) -> Stream<'a> {
        Stream {
            input: &[],
            out,
            cursor: Cursor { bit: 0, made: 0 },
            at: At::End,
            is_last: false,
            kind: Kind::Other,
        }
    }

    /// Reads the stream's header.
    fn begin(&mut self, input: &'a [u8]) -> Option<()> {
        let &[method, flags, ..] = input else {
            return None;
        };
        let window_bits = 8 + (method >> 4);
        let has_dictionary = flags & 32 != 0;
        let is_odd = u16::from_be_bytes([method, flags]) % 31 != 0;
        if method & 15 != 8 || window_bits > 15 || has_dictionary || is_odd {
            return None;
        }
        self.input = input;
        self.cursor.bit = 16;
        self.at = At::Header;
        Some(())
    }

    fn is_in_block(&self) -> bool {
        self.at == At::Block
    }

    /// Inside a block that is decoded with others, with room for it in the input and in the output.
    fn wants_company(&self) -> bool {
        let has_room = || {
            literals::room(self.input, self.out, self.cursor) > 0
                && sequences::room(self.input, self.out, self.cursor) > 0
        };
        self.is_in_block() && self.kind != Kind::Other && has_room()
    }

    /// Reads a block's header, or all of a stored block, or the checksum.
    #[inline(never)]
    fn header(&mut self, codes: &mut Codes, maker: &mut TableMaker) -> Option<()> {
        if self.is_last {
            return self.checksum();
        }
        self.is_last = self.cursor.take(1, self.input)? == 1;
        match self.cursor.take(2, self.input)? {
            0 => return self.stored_block(),
            1 => {
                let mut lengths = [8; 288];
                lengths[144..256].fill(9);
                lengths[256..280].fill(7);
                codes.fill(maker, LITERAL_BITS, &lengths, &[5; 32])?;
                self.kind = Kind::Other;
            }
            2 => self.read_codes(codes, maker)?,
            _ => return None,
        }
        self.at = At::Block;
        Some(())
    }

    /// The first byte that no bit has been taken of.
    fn whole_pos(&self) -> usize {
        self.cursor.bit.div_ceil(8)
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
            bit: 8 * (pos + 4 + size),
            made: made + size,
        };
        Some(())
    }

    fn read_codes(&mut self, codes: &mut Codes, maker: &mut TableMaker) -> Option<()> {
        const ORDER: [usize; 19] = [
            16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
        ];
        let (mut cursor, input) = (self.cursor, self.input);
        let symbols = cursor.take(5, input)? + 257;
        let all = symbols + cursor.take(5, input)? + 1;
        let count = cursor.take(4, input)? + 4;
        let mut lengths = [0; 20];
        for &at in &ORDER[..count] {
            lengths[at] = cursor.take(3, input)? as u8;
        }
        let code = LengthCode::new(maker, &lengths)?;

        let mut lengths = [0; 320];
        let mut done = 0;
        while done < all {
            let mut bits = cursor.peek(input);
            // 14 bits at most each.
            for _ in 0..4 {
                let entry = code.look(bits);
                let mut dropped = bits_to_drop(entry);
                let length = value(entry);
                if length < 16 {
                    *lengths.get_mut(done)? = length as u8;
                    done += 1;
                } else {
                    let (length, least, more) = match length {
                        16 => (*lengths.get(done.checked_sub(1)?)?, 3, 2),
                        17 => (0, 3, 3),
                        _ => (0, 11, 7),
                    };
                    let run = least + (bits >> dropped & !(u64::MAX << more)) as usize;
                    dropped += more;
                    lengths.get_mut(done..done + run)?.fill(length);
                    done += run;
                }
                bits >>= dropped;
                cursor.bit += dropped as usize;
                if done >= all {
                    break;
                }
            }
            cursor.skip(0, input)?;
        }
        if done != all {
            return None;
        }
        self.cursor = cursor;
        self.kind = Kind::of(&lengths[..symbols]);
        let mut offsets = [0; 32];
        offsets[..all - symbols].copy_from_slice(&lengths[symbols..all]);
        lengths[symbols..].fill(0);
        let symbol_bits = match self.kind {
            Kind::Literals => LITERAL_BITS,
            _ => MIXED_BITS,
        };
        codes.fill(maker, symbol_bits, lengths.first_chunk()?, &offsets)
    }
}

#[cfg(test)]
mod tests;
