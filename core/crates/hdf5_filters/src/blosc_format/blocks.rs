//! The blocks of a blosc buffer: streams are unpacked, and their shuffle is undone.
//!
//! Law:
//! 1. A block lands in memory of its size, of which the wanted bytes are right.
//! 2. Streams that were stored raw are never copied before they are unshuffled.

use super::super::Fault;
use super::super::codecs;
use super::super::partial::Fetched;
use super::super::shuffle::{interleave, unshuffle_part};
use super::streams::{Codecs, Stream};
use super::{BAD_HEADER, BAD_OFFSET, BloscChunk, Content, Shuffling};
use std::ops::Range;

impl<'a> BloscChunk<'a> {
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

    /// Decode the streams of a block; what `decode_part` says holds.
    fn decode_stored_block(
        &self,
        codecs: &mut Codecs,
        rest: &'a [u8],
        fetched: Fetched,
        wanted: Range<usize>,
        out: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        let n_streams = self.n_streams(out.len());
        let stream_size = out.len() / n_streams;
        if stream_size == 0 || stream_size * n_streams != out.len() {
            return Err(Fault::malformed(BAD_HEADER));
        }
        match self.shuffling {
            Shuffling::No => {
                self.decode_in_place(codecs, (rest, fetched), wanted, stream_size, out)
            }
            _ => self.decode_shuffled(codecs, (rest, fetched), wanted, stream_size, out),
        }
    }

    fn decode_in_place(
        &self,
        codecs: &mut Codecs,
        (mut rest, fetched): (&'a [u8], Fetched),
        wanted: Range<usize>,
        stream_size: usize,
        out: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        let (zstd, zlib) = (&mut codecs.zstd, &mut codecs.zlib);
        let (is_split, mut work) = (stream_size < out.len(), 0);
        for (j, place) in out.chunks_exact_mut(stream_size).enumerate() {
            let needed = self.needed(j, stream_size, is_split, &wanted);
            match self.next_stream(&mut rest, stream_size)? {
                _ if needed.is_empty() => continue,
                Stream::Raw(data) => {
                    place[needed.clone()].copy_from_slice(&data[needed.clone()]);
                }
                Stream::Run(byte) => place[needed.clone()].fill(byte),
                Stream::Packed(data) => {
                    let Some(made) = self.unpack(zstd, zlib, (data, fetched), needed.end, place)?
                    else {
                        return Ok(None);
                    };
                    work += made;
                    continue;
                }
            }
            work += needed.len();
        }
        Ok(Some(work))
    }

    fn decode_shuffled(
        &self,
        codecs: &mut Codecs,
        (mut rest, fetched): (&'a [u8], Fetched),
        wanted: Range<usize>,
        stream_size: usize,
        out: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        let n_streams = out.len() / stream_size;
        let Codecs {
            zstd,
            zlib,
            streams,
        } = codecs;
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
        let mut work = 0;
        for (j, place) in streams.chunks_exact_mut(stream_size).enumerate() {
            match self.next_stream(&mut rest, stream_size)? {
                Stream::Raw(data) => {
                    raw[j] = Some(data);
                    work += needed - start;
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
            _ => self.unshuffle_bits(&raw[..n_streams], streams, out)?,
        }
        Ok(Some(work))
    }

    /// Bit planes have to be contiguous; raw ones among packed are rare.
    fn unshuffle_bits(
        &self,
        raw: &[Option<&[u8]>],
        streams: &[u8],
        out: &mut [u8],
    ) -> Result<(), Fault> {
        let mut gathered = Vec::new();
        let source = match raw {
            [Some(data)] => data,
            _ if raw.iter().all(Option::is_none) => streams,
            _ => {
                gathered.reserve(out.len());
                for (data, packed) in raw.iter().zip(streams.chunks_exact(out.len() / raw.len())) {
                    gathered.extend_from_slice(data.unwrap_or(packed));
                }
                &gathered
            }
        };
        match codecs::blosc_bitunshuffle(self.typesize, self.version.max(2), source, out) {
            true => Ok(()),
            false => Err(Fault::malformed(BAD_HEADER)),
        }
    }
}

/// Fills `out` with `value` after `value`, beginning at byte `phase` of it.
fn repeat(value: &[u8], phase: usize, out: &mut [u8]) {
    for (byte, &with) in out.iter_mut().zip(value.iter().cycle().skip(phase)) {
        *byte = with;
    }
}
