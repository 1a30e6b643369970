//! Runs the stages of one dataset's filter pipeline over its chunks.
//!
//! Owns: the order of stages, the filter mask, the sizes between stages, scratch memory.
//!
//! 1. Stages run in the reverse of the order in which they were written. Bit `i` of the filter
//!    mask says that the `i`-th filter *as written* was skipped for this chunk.
//! 2. Every size between two stages is either derived or bounded: no stored byte can make the
//!    scratch grow beyond `scratch_limit`.
//! 3. The last stage that changes bytes writes straight into the caller's memory.
//!
//! It must never know what a filter's bytes look like.

use super::{Decoder, FILTERS, Fault, FilterError, FilterErrorKind, FilterSpec, OutputSize};

struct Stage {
    id: u32,
    /// The filter mask's bit that skips this stage; 0 for filters past the mask's 32 bits.
    mask_bit: u32,
    decoder: Box<dyn Decoder>,
}

/// The decoder of one dataset's chunks, for one thread.
pub struct Pipeline {
    /// In the order of decoding.
    stages: Vec<Stage>,
    decoded_size: usize,
    /// Where stages between the first and the last write, in turns.
    scratch: [Vec<u8>; 2],
}

impl Pipeline {
    /// The pipeline of a dataset whose chunks decode to `decoded_size` bytes.
    /// `Err(id)`: filter `id` is not known here.
    pub fn new(specs: &[FilterSpec], decoded_size: usize) -> Result<Pipeline, u32> {
        let mut stages = Vec::with_capacity(specs.len());
        for (i, spec) in specs.iter().enumerate().rev() {
            let filter = FILTERS.iter().find(|f| f.id == spec.id).ok_or(spec.id)?;
            let decoder = (filter.make)(spec).ok_or(spec.id)?;
            if !decoder.is_noop() {
                stages.push(Stage {
                    id: spec.id,
                    mask_bit: if i < 32 { 1 << i } else { 0 },
                    decoder,
                });
            }
        }
        Ok(Pipeline {
            stages,
            decoded_size,
            scratch: [Vec::new(), Vec::new()],
        })
    }

    /// True when, under this mask, no stage runs: the stored bytes are the decoded ones and may
    /// be read straight into place.
    pub fn is_identity(&self, filter_mask: u32) -> bool {
        self.stages.iter().all(|s| s.mask_bit & filter_mask != 0)
    }

    /// Decodes the `stored` bytes of one chunk into `out`, which is exactly the decoded size.
    pub fn decode(
        &mut self,
        filter_mask: u32,
        stored: &[u8],
        out: &mut [u8],
    ) -> Result<(), FilterError> {
        let limit = scratch_limit(self.decoded_size.max(out.len()));
        let [mut from, mut into] = std::mem::take(&mut self.scratch);
        let result = decode_stages(
            &mut self.stages,
            filter_mask,
            stored,
            out,
            [&mut from, &mut into],
            limit,
        );
        self.scratch = [from, into];
        result
    }
}

/// A filter that makes data much larger is of no use, and HDF5 drops its output then, so what
/// stands between two stages is little larger than the chunk.
fn scratch_limit(decoded_size: usize) -> usize {
    decoded_size.saturating_mul(2).saturating_add(1 << 16)
}

fn decode_stages(
    stages: &mut [Stage],
    filter_mask: u32,
    stored: &[u8],
    out: &mut [u8],
    scratch: [&mut Vec<u8>; 2],
    limit: usize,
) -> Result<(), FilterError> {
    let [mut input, mut spare] = scratch;
    // The current bytes: `stored[..]` narrowed, or `input[span]` once a stage has run.
    let mut span = 0..stored.len();
    let mut in_scratch = false;
    let active = |s: &Stage| s.mask_bit & filter_mask == 0;
    let mut last_id = 0;

    for i in 0..stages.len() {
        let (stage, rest) = stages[i..].split_first_mut().expect("i is a stage");
        if !active(stage) {
            continue;
        }
        last_id = stage.id;
        let fail = |fault: Fault| FilterError {
            filter: stage.id,
            kind: fault.kind,
            expected: fault.expected,
            got: fault.got,
        };
        let bytes = if in_scratch {
            &input[span.clone()]
        } else {
            &stored[span.clone()]
        };
        if let Some(part) = stage.decoder.unwrap(bytes) {
            let part = part.map_err(fail)?;
            let start = part.as_ptr() as usize - bytes.as_ptr() as usize;
            span = span.start + start..span.start + start + part.len();
            continue;
        }
        // What the later stages need from this one: None when nothing tells.
        let needed = rest
            .iter()
            .rev()
            .filter(|s| active(s))
            .try_fold(out.len(), |size, s| s.decoder.stored_size(size));
        let is_last = !rest.iter().any(active);
        let told = stage.decoder.output_size(bytes).map_err(fail)?;
        match (told, needed) {
            (OutputSize::Exactly(got), Some(expected)) if got != expected => {
                return Err(fail(Fault::wrong_size(expected, got)));
            }
            _ => {}
        }
        if is_last {
            let made = stage.decoder.decode(bytes, out).map_err(fail)?;
            return match made == out.len() {
                true => Ok(()),
                false => Err(fail(Fault::wrong_size(out.len(), made))),
            };
        }
        let known = match (needed, told) {
            (Some(size), _) | (None, OutputSize::Exactly(size)) => Some(size),
            (None, OutputSize::Unknown) => None,
        };
        let mut size = known.unwrap_or((bytes.len() * 4).clamp(4096, limit));
        if size > limit {
            return Err(fail(Fault::wrong_size(limit, size)));
        }
        let made = loop {
            if spare.len() < size {
                spare.resize(size, 0);
            }
            match stage.decoder.decode(bytes, &mut spare[..size]) {
                // The size was a guess: try again with more room, up to the limit.
                Err(fault)
                    if known.is_none()
                        && fault.kind == FilterErrorKind::WrongSize
                        && size < limit =>
                {
                    size = (size * 2).min(limit);
                }
                made => break made.map_err(fail)?,
            }
        };
        if known.is_some_and(|expected| made != expected) {
            return Err(fail(Fault::wrong_size(size, made)));
        }
        std::mem::swap(&mut input, &mut spare);
        span = 0..made;
        in_scratch = true;
    }

    // No stage wrote into `out`: the bytes are there already, perhaps with a checksum behind.
    let bytes = if in_scratch {
        &input[span]
    } else {
        &stored[span]
    };
    if bytes.len() != out.len() {
        let fault = Fault::wrong_size(out.len(), bytes.len());
        return Err(FilterError {
            filter: last_id,
            kind: fault.kind,
            expected: fault.expected,
            got: fault.got,
        });
    }
    out.copy_from_slice(bytes);
    Ok(())
}
