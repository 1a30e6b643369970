//! The blosc buffer: format of c-blosc (versions 1, 2) and c-blosc2 (3 to 5).
//!
//! Owns: header and block starts of one buffer; `blocks` and `streams` decode it. Written from the
//! published chunk format and not bound to C's entry points, because those trust parts of the
//! header (lazy chunks, plug-in codecs) and copy each stream once more than needed.
//!
//! Law:
//! 1. Every offset and length is checked against the buffer before it is used.
//! 2. Blocks are independent: any block may be decoded alone into memory of its size, and then
//!    nothing of the buffer is looked at but its head and that block, or what `blosc_partial` asks for
//!    of it.
//! 3. Streams that were stored raw are never copied before they are unshuffled.
//! 4. Rare features (delta, dictionaries, plug-in codecs and filters) are `Unsupported`.
//!
//! It must never know of frames, n-dimensional blocks or HDF5.

mod blocks;
pub(super) mod prefix;
mod streams;

use std::ops::Range;

use super::Fault;
pub(super) use streams::Codecs;

const HEADER: usize = 16;
const EXTENDED_HEADER: usize = 32;
const MAX_BLOCK: usize = 536_866_816;
/// c-blosc 1 split blocks only up to this element size ...
const MAX_SPLITS: usize = 16;
/// ... and only into streams of at least this many bytes.
const MIN_SPLIT: usize = 128;

/// Codes of `Fault::malformed`.
const BAD_HEADER: i64 = 1;
const BAD_OFFSET: i64 = 2;
const BAD_STREAM: i64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shuffling {
    No,
    Bytes,
    Bits,
}

/// What stands in for the blocks of a buffer that holds none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content<'a> {
    Blocks,
    /// The data itself.
    Raw(&'a [u8]),
    Zeros,
    Nans,
    Repeat(&'a [u8]),
}

/// One blosc buffer whose header has been checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct BloscChunk<'a> {
    /// Exactly the buffer.
    bytes: &'a [u8],
    pub nbytes: usize,
    pub block_size: usize,
    version: u8,
    pub(super) typesize: usize,
    header_size: usize,
    pub(super) codec: u8,
    may_split: bool,
    pub(super) shuffling: Shuffling,
    pub(super) content: Content<'a>,
}

impl<'a> BloscChunk<'a> {
    /// Reads and checks the header; bytes behind the buffer are ignored.
    pub fn parse(stored: &'a [u8]) -> Result<BloscChunk<'a>, Fault> {
        let short = |wanted| Fault::truncated(wanted, stored.len());
        let bad = Fault::malformed(BAD_HEADER);
        if stored.len() < HEADER {
            return Err(short(HEADER));
        }
        let size_at = |i: usize| -> Result<usize, Fault> {
            let word: [u8; 4] = stored[i..i + 4].try_into().expect("four bytes");
            usize::try_from(i32::from_le_bytes(word)).map_err(|_| bad)
        };
        let (version, flags, typesize) = (stored[0], stored[2], usize::from(stored[3]));
        let (nbytes, block_size, cbytes) = (size_at(4)?, size_at(8)?, size_at(12)?);
        if !(1..=5).contains(&version) {
            return Err(Fault::unsupported(version.into()));
        }
        let extended = version >= 3 && flags & 5 == 5;
        let header_size = if extended { EXTENDED_HEADER } else { HEADER };
        if cbytes > stored.len() {
            return Err(short(cbytes));
        }
        let oversized = nbytes > 0 && block_size > nbytes;
        if cbytes < header_size
            || typesize == 0
            || block_size == 0
            || oversized
            || block_size > MAX_BLOCK
        {
            return Err(bad);
        }
        let bytes = &stored[..cbytes];

        let mut special = 0;
        let shuffling = if extended {
            let blosc2_flags = bytes[31];
            special = (blosc2_flags >> 4) & 7;
            // Dictionary, big-endian data, lazy chunk, instrumented codec.
            if blosc2_flags & 0x8b != 0 {
                return Err(Fault::unsupported(blosc2_flags.into()));
            }
            // Filters after "alpha" have six slots; in alpha the sixth is garbage.
            let slots = if version == 3 { 5 } else { 6 };
            extended_shuffling(&bytes[16..16 + slots])?
        } else if version >= 3 && flags & 8 != 0 {
            return Err(Fault::unsupported(flags.into()));
        } else if flags & 1 != 0 && typesize > 1 {
            Shuffling::Bytes
        } else if flags & 4 != 0 && (version >= 3 || block_size >= typesize) {
            Shuffling::Bits
        } else {
            Shuffling::No
        };

        let body = &bytes[header_size..];
        let content = match special {
            0 if flags & 2 == 0 && nbytes > 0 => Content::Blocks,
            _ => content(special, body, nbytes, typesize)?,
        };
        let codec = flags >> 5;
        if content == Content::Blocks && !(0..=4).contains(&codec) {
            return Err(Fault::unsupported(codec.into()));
        }
        Ok(BloscChunk {
            bytes,
            nbytes,
            block_size,
            version,
            typesize,
            header_size,
            codec,
            may_split: flags & 0x10 == 0,
            shuffling,
            content,
        })
    }

    /// The bytes of block `n` in the decoded data.
    pub fn block_range(&self, n: usize) -> Range<usize> {
        let start = n * self.block_size;
        start..(start + self.block_size).min(self.nbytes)
    }

    pub fn n_blocks(&self) -> usize {
        self.nbytes.div_ceil(self.block_size)
    }

    /// Header and block starts, or what else has to be known before any block.
    pub fn head_bytes(&self) -> usize {
        let more = match self.content {
            Content::Blocks => 4 * self.n_blocks(),
            Content::Repeat(value) => value.len(),
            _ => 0,
        };
        (self.header_size + more).min(self.bytes.len())
    }

    /// The bytes of the buffer that hold block `n`, behind the head.
    pub fn block_span(&self, n: usize) -> Result<Range<usize>, Fault> {
        let range = self.block_range(n);
        match self.content {
            Content::Raw(_) => Ok(self.header_size + range.start..self.header_size + range.end),
            Content::Blocks => {
                let start = self.block_start(n)?;
                // Several threads may have written the blocks: they lie in any order.
                let mut end = self.bytes.len();
                for other in 0..self.n_blocks() {
                    let other = self.block_start(other)?;
                    if other > start {
                        end = end.min(other);
                    }
                }
                Ok(start..end)
            }
            _ => Ok(0..0),
        }
    }

    fn stored_from(&self, n: usize) -> Result<&'a [u8], Fault> {
        Ok(&self.bytes[self.block_start(n)?..])
    }

    fn block_start(&self, n: usize) -> Result<usize, Fault> {
        let offset = self.word(self.header_size + 4 * n)?;
        usize::try_from(offset)
            .ok()
            .filter(|&start| start > 0 && start <= self.bytes.len())
            .ok_or(Fault::malformed(BAD_OFFSET))
    }

    /// Into how many streams a block of this size was split.
    pub(super) fn n_streams(&self, block_len: usize) -> usize {
        let is_leftover = block_len != self.block_size;
        // Before the split flag came (c-blosc 1.14), this condition alone decided.
        let fits_v1 = self.typesize <= MAX_SPLITS && block_len / self.typesize >= MIN_SPLIT;
        match self.may_split && !is_leftover && (self.version >= 3 || fits_v1) {
            true => self.typesize,
            false => 1,
        }
    }

    pub(super) fn word(&self, at: usize) -> Result<i32, Fault> {
        let word = self.bytes.get(at..at + 4);
        let word = word.ok_or(Fault::truncated(at + 4, self.bytes.len()))?;
        Ok(i32::from_le_bytes(word.try_into().expect("four bytes")))
    }
}

/// The shuffling that c-blosc2's filter slots ask for.
fn extended_shuffling(slots: &[u8]) -> Result<Shuffling, Fault> {
    let mut shuffling = Shuffling::No;
    for &slot in slots {
        let found = match slot {
            // Nothing, and a truncation of precision, which has nothing to undo.
            0 | 4 => continue,
            1 => Shuffling::Bytes,
            2 => Shuffling::Bits,
            _ => return Err(Fault::unsupported(slot.into())),
        };
        if shuffling != Shuffling::No {
            return Err(Fault::unsupported(slot.into()));
        }
        shuffling = found;
    }
    Ok(shuffling)
}

/// What stands in for blocks: the data itself, or a value that it all has.
fn content(special: u8, body: &[u8], nbytes: usize, typesize: usize) -> Result<Content<'_>, Fault> {
    let first = |n: usize| body.get(..n).ok_or(Fault::truncated(n, body.len()));
    match special {
        0 => first(nbytes).map(Content::Raw),
        // 4: never initialised, so any bytes are right.
        1 | 4 => Ok(Content::Zeros),
        2 if typesize == 4 || typesize == 8 => Ok(Content::Nans),
        3 => first(typesize).map(Content::Repeat),
        _ => Err(Fault::unsupported(special.into())),
    }
}
