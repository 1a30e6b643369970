//! The blosc buffer: format of c-blosc (versions 1, 2) and c-blosc2 (3 to 5).
//!
//! Owns: header, block starts and byte/bit shuffle of one buffer. Written from the
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

mod streams;

use std::ops::Range;

use super::Fault;
use super::codecs;
use super::partial::Fetched;
use super::shuffle::{interleave, unshuffle_part};
pub(super) use streams::Codecs;
use streams::Stream;

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
    /// Reads and checks the header; bytes behind the buffer are ignored. Long, as it follows the format
    /// field by field.
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
            0 if flags & 2 != 0 || nbytes == 0 => Content::Raw(
                body.get(..nbytes)
                    .ok_or(Fault::truncated(nbytes, body.len()))?,
            ),
            0 => Content::Blocks,
            // 4: never initialised, so any bytes are right.
            1 | 4 => Content::Zeros,
            2 if typesize == 4 || typesize == 8 => Content::Nans,
            3 => Content::Repeat(
                body.get(..typesize)
                    .ok_or(Fault::truncated(typesize, body.len()))?,
            ),
            _ => return Err(Fault::unsupported(special.into())),
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

    /// Decodes all blocks; returns how many bytes were made.
    pub fn decode(&self, codecs: &mut Codecs, out: &mut [u8]) -> Result<usize, Fault> {
        let size = out.len();
        let out = out
            .get_mut(..self.nbytes)
            .ok_or(Fault::wrong_size(size, self.nbytes))?;
        if self.content == Content::Blocks {
            for (n, block) in out.chunks_mut(self.block_size).enumerate() {
                let (stored, all) = (self.stored_from(n)?, 0..block.len());
                self.decode_stored_block(codecs, stored, Fetched::All, all, block)?;
            }
        } else {
            self.fill(0, out);
        }
        Ok(self.nbytes)
    }

    /// Decodes block `n` into `out`, which is exactly as long as `block_range(n)`.
    pub fn decode_block(&self, codecs: &mut Codecs, n: usize, out: &mut [u8]) -> Result<(), Fault> {
        let range = self.block_range(n);
        assert_eq!(out.len(), range.len());
        match self.content {
            Content::Blocks => {
                let (stored, all) = (self.stored_from(n)?, 0..range.len());
                self.decode_stored_block(codecs, stored, Fetched::All, all, out)?;
            }
            _ => self.fill(range.start, out),
        }
        Ok(())
    }

    /// Decodes of block `n`, which lies in `span`, at least the bytes `wanted`, into their places in
    /// `out`, which is exactly as long as `block_range(n)`. Other bytes of `out` may become anything.
    /// How many bytes were decoded for it; None: more of the span is needed than was asked for.
    pub fn decode_part(
        &self,
        codecs: &mut Codecs,
        (n, span, fetched): (usize, Range<usize>, Fetched),
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        let range = self.block_range(n);
        assert!(out.len() == range.len() && wanted.end <= out.len());
        match self.content {
            Content::Blocks => {
                let stored = self.bytes.get(span).ok_or(Fault::malformed(BAD_OFFSET))?;
                self.decode_stored_block(codecs, stored, fetched, wanted, out)
            }
            _ => {
                let (start, len) = (range.start + wanted.start, wanted.len());
                self.fill(start, &mut out[wanted]);
                Ok(Some(len))
            }
        }
    }

    /// Decodes from byte `start` of the data on, where no block is stored.
    fn fill(&self, start: usize, out: &mut [u8]) {
        let phase = start % self.typesize;
        match self.content {
            Content::Raw(data) => out.copy_from_slice(&data[start..start + out.len()]),
            Content::Zeros | Content::Blocks => out.fill(0),
            Content::Nans if self.typesize == 4 => repeat(&f32::NAN.to_le_bytes(), phase, out),
            Content::Nans => repeat(&f64::NAN.to_le_bytes(), phase, out),
            Content::Repeat(value) => repeat(value, phase, out),
        }
    }

    /// Decode the streams of a block. Long, as streams, filters and what is wanted of them share one
    /// loop: apart, each would be handed all of the others' state.
    fn decode_stored_block(
        &self,
        codecs: &mut Codecs,
        mut rest: &'a [u8],
        fetched: Fetched,
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        let n_streams = self.n_streams(out.len());
        let stream_size = out.len() / n_streams;
        if stream_size == 0 || stream_size * n_streams != out.len() {
            return Err(Fault::malformed(BAD_HEADER));
        }
        let Codecs {
            zstd,
            zlib,
            streams,
        } = codecs;
        let (is_split, mut work) = (n_streams > 1, 0);
        if self.shuffling == Shuffling::No {
            for (j, place) in out.chunks_exact_mut(stream_size).enumerate() {
                let needed = self.needed(j, stream_size, is_split, &wanted);
                match self.next_stream(&mut rest, stream_size)? {
                    _ if needed.is_empty() => continue,
                    Stream::Raw(data) => {
                        place[needed.clone()].copy_from_slice(&data[needed.clone()]);
                    }
                    Stream::Run(byte) => place[needed.clone()].fill(byte),
                    Stream::Packed(data) => {
                        let Some(made) =
                            self.unpack(zstd, zlib, (data, fetched), needed.end, place)?
                        else {
                            return Ok(None);
                        };
                        work += made;
                        continue;
                    }
                }
                work += needed.len();
            }
            return Ok(Some(work));
        }
        if streams.len() < out.len() {
            streams.resize(out.len(), 0);
        }
        let streams = &mut streams[..out.len()];
        // With a stream for each byte of the elements, only as far as the last wanted element.
        let apart = self.shuffling == Shuffling::Bytes && n_streams == self.typesize;
        let first = wanted.start / self.typesize;
        let last = wanted.end.div_ceil(self.typesize);
        let Range { start, end: needed } = self.needed(0, stream_size, apart, &wanted);
        // Where stream j lies: in the buffer itself if raw, else decoded in `streams`.
        let mut raw: [Option<&[u8]>; 256] = [None; 256];
        let mut all_raw = true;
        for (j, place) in streams.chunks_exact_mut(stream_size).enumerate() {
            match self.next_stream(&mut rest, stream_size)? {
                Stream::Raw(data) => {
                    raw[j] = Some(data);
                    work += needed - start;
                    continue;
                }
                Stream::Run(byte) => {
                    place[start..needed].fill(byte);
                    work += needed - start;
                }
                Stream::Packed(data) => {
                    let Some(made) = self.unpack(zstd, zlib, (data, fetched), needed, place)?
                    else {
                        return Ok(None);
                    };
                    work += made;
                }
            }
            all_raw = false;
        }
        let streams = &*streams;
        match self.shuffling {
            Shuffling::Bytes if apart => {
                let plane = |j: usize| raw[j].unwrap_or(&streams[j * stream_size..][..stream_size]);
                let some = |j: usize| &plane(j)[first..needed];
                let body = &mut out[first * self.typesize..needed * self.typesize];
                interleave(self.typesize, some, body);
            }
            Shuffling::Bytes if n_streams == 1 => {
                let source = raw[0].unwrap_or(streams);
                unshuffle_part(self.typesize, source, first..last, out);
            }
            _ => {
                let one = n_streams == 1 && all_raw;
                let mut gathered = Vec::new();
                let source = match raw[0] {
                    Some(data) if one => data,
                    _ if raw[..n_streams].iter().all(Option::is_none) => streams,
                    _ => {
                        // Bit planes have to be contiguous; raw ones among packed are rare.
                        gathered.reserve(out.len());
                        for (j, data) in raw[..n_streams].iter().enumerate() {
                            let packed = &streams[j * stream_size..][..stream_size];
                            gathered.extend_from_slice(data.unwrap_or(packed));
                        }
                        &gathered
                    }
                };
                if !codecs::blosc_bitunshuffle(self.typesize, self.version.max(2), source, out) {
                    return Err(Fault::malformed(BAD_HEADER));
                }
            }
        }
        Ok(Some(work))
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

/// Fills `out` with `value` after `value`, beginning at byte `phase` of it.
fn repeat(value: &[u8], phase: usize, out: &mut [u8]) {
    for (byte, &with) in out.iter_mut().zip(value.iter().cycle().skip(phase)) {
        *byte = with;
    }
}
