//! HDF5 filter 307, bzip2: one bzip2 stream per chunk.
//!
//! Law:
//! 1. The checksums, which every bzip2 block and stream has, are verified.
//! 2. Bytes after the stream are ignored, as hdf5plugin and PyTables ignore them.
//! 3. Each chunk has a new context: the format's decoders keep none. What it takes, 4 MB at most,
//!    follows from the format and not from the chunk.
//!
//! It must never know what the data is.

use super::{Decoder, Fault, FilterSpec, OutputSize};
use bzip2::{Decompress, Status};

struct Bzip2;

pub(super) fn make(_spec: &FilterSpec) -> Option<Box<dyn Decoder>> {
    Some(Box::new(Bzip2))
}

impl Decoder for Bzip2 {
    fn output_size(&self, _stored: &[u8]) -> Result<OutputSize, Fault> {
        Ok(OutputSize::Unknown)
    }

    fn decode(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize, Fault> {
        let mut stream = Decompress::new(false);
        // Where the output is full, the end of the stream may still be to be read.
        let mut one_more = [0];
        loop {
            let before = (stream.total_in() as usize, stream.total_out() as usize);
            let (input, room) = (&stored[before.0..], &mut out[before.1..]);
            let room = match room.is_empty() {
                true => &mut one_more,
                false => room,
            };
            let status = stream.decompress(input, room);
            let status = status.map_err(|_| Fault::malformed(1))?;
            let after = (stream.total_in() as usize, stream.total_out() as usize);
            if after.1 > out.len() {
                return Err(Fault::wrong_size(out.len(), after.1));
            }
            if status == Status::StreamEnd {
                return Ok(after.1);
            }
            if after == before {
                return Err(match input.is_empty() {
                    true => Fault::truncated(stored.len() + 1, stored.len()),
                    false => Fault::malformed(2),
                });
            }
        }
    }
}
