//! What each filter is to the pipeline: a decoder, made for the parameters that a file gives.
//!
//! Law: a decoder keeps contexts from chunk to chunk, and never bytes.

use super::fault::Fault;
use super::partial::BlockDecoder;

/// One filter of a dataset's pipeline, as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FilterSpec {
    pub id: u32,
    pub flags: u32,
    pub values: Vec<u32>,
}

/// How many bytes a stage makes of some stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputSize {
    /// Known before decoding: from the stored size or from a header.
    Exactly(usize),
    /// Known after decoding only.
    Unknown,
}

/// One filter's decoder, with the contexts it reuses from chunk to chunk.
pub(crate) trait Decoder: Send {
    /// True when these parameters make the filter do nothing.
    fn is_noop(&self) -> bool {
        false
    }

    /// The size of the stored bytes, where it follows from the decoded size alone.
    fn stored_size(&self, _decoded_size: usize) -> Option<usize> {
        None
    }

    /// The size of the decoded bytes, where the header or the stored size gives it.
    fn output_size(&self, stored: &[u8]) -> Result<OutputSize, Fault>;

    /// The part of `stored` that is the decoded data, for filters that change no byte.
    /// None: `decode` has to be called.
    fn unwrap<'a>(&self, _stored: &'a [u8]) -> Option<Result<&'a [u8], Fault>> {
        None
    }

    /// Decodes into `out` and returns how many bytes were made. More bytes than `out` holds
    /// are a `WrongSize` fault.
    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault>;

    /// The chunks that come next have this place in their rows (`ElementConversion::place`).
    fn place(&mut self, _place: usize) {}

    /// Why the last `decode` made fewer bytes than its output has.
    fn fault(&self) -> Option<Fault> {
        None
    }

    /// For filters whose chunks are made of blocks that can be decoded alone.
    fn by_block(&mut self) -> Option<&mut dyn BlockDecoder> {
        None
    }

    /// Whether there is a `decode_group`, which may be quicker than `decode` of each chunk.
    fn decodes_groups(&self) -> bool {
        false
    }

    /// Decodes two to four chunks, each to exactly the size of its out. False: at least one may be
    /// bad, or this is not done here, and `decode` has to be called for each.
    fn decode_group(&mut self, _stored: &[&[u8]], _outs: &mut [&mut [u8]]) -> bool {
        false
    }
}
