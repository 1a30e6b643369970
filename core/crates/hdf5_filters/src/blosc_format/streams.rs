//! The streams of a blosc buffer's block: what comes next, and what it unpacks to.
//!
//! Law:
//! 1. A stream lies inside the buffer, or is an error; a raw one is told as it lies there.
//! 2. What unpacks to another size than it should is malformed.
//!
//! It must never know of blocks and shuffling.

use libdeflater::Decompressor;

use super::super::Fault;
use super::super::codecs::{self, Zstd};
use super::super::deflate::zlib_decode;
use super::super::partial::Fetched;
use super::prefix::{likely_bytes, prefix_pays};
use super::{BAD_STREAM, BloscChunk};

/// What the decoders of one thread reuse.
pub struct Codecs {
    pub(super) zstd: Option<Zstd>,
    pub(super) zlib: Option<Decompressor>,
    pub(super) streams: Vec<u8>,
}

impl Codecs {
    pub fn new() -> Codecs {
        Codecs {
            zstd: None,
            zlib: None,
            streams: Vec::new(),
        }
    }
}

pub(super) enum Stream<'a> {
    Raw(&'a [u8]),
    Run(u8),
    Packed(&'a [u8]),
}

impl<'a> BloscChunk<'a> {
    pub(super) fn next_stream(
        &self,
        rest: &mut &'a [u8],
        stream_size: usize,
    ) -> Result<Stream<'a>, Fault> {
        let bytes = *rest;
        let short = |wanted: usize| Fault::truncated(wanted, bytes.len());
        let (word, body) = bytes.split_first_chunk::<4>().ok_or(short(4))?;
        let size = i32::from_le_bytes(*word);
        if size <= 0 && self.version < 3 {
            return Err(Fault::malformed(BAD_STREAM));
        }
        if size == 0 {
            *rest = body;
            return Ok(Stream::Run(0));
        }
        if size < 0 {
            // A run of one byte value, in c-blosc2 only.
            let (token, body) = body.split_first().ok_or(short(5))?;
            *rest = body;
            return match (token & 1, u8::try_from(-i64::from(size))) {
                (1, Ok(byte)) => Ok(Stream::Run(byte)),
                _ => Err(Fault::malformed(BAD_STREAM)),
            };
        }
        let size = size as usize;
        let (data, behind) = body.split_at_checked(size).ok_or(short(4 + size))?;
        *rest = behind;
        match size == stream_size {
            true => Ok(Stream::Raw(data)),
            false => Ok(Stream::Packed(data)),
        }
    }

    /// Unpacks at least `needed` bytes of a stream into `out`, which is as long as the stream. How
    /// many it was; None: of what was asked for, it was too little.
    pub(super) fn unpack(
        &self,
        zstd: &mut Option<Zstd>,
        zlib: &mut Option<Decompressor>,
        (data, fetched): (&[u8], Fetched),
        needed: usize,
        out: &mut [u8],
    ) -> Result<Option<usize>, Fault> {
        let (stored, mut expected) = (data.len(), out.len());
        let made = match self.codec {
            0 => codecs::blosclz(data, out),
            1 if prefix_pays(stored, needed, expected) => {
                let there = match fetched {
                    Fetched::All => stored,
                    Fetched::Asked => likely_bytes(stored, needed, expected),
                };
                expected = needed;
                match codecs::lz4_prefix(&data[..there], &mut out[..needed]) {
                    made if made != Some(needed) && there < stored => return Ok(None),
                    made => made,
                }
            }
            1 => codecs::lz4(data, out),
            2 => snap::raw::Decoder::new().decompress(data, out).ok(),
            3 => zlib_decode(zlib.get_or_insert_with(Decompressor::new), data, out).ok(),
            _ => zstd.get_or_insert_with(Zstd::new).decode(data, out).ok(),
        };
        match made {
            Some(n) if n == expected => Ok(Some(n)),
            _ => Err(Fault::malformed(BAD_STREAM)),
        }
    }
}
