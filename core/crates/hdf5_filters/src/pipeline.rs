//! Runs the stages of one dataset's filter pipeline over its chunks.
//!
//! Owns: the order of stages, the filter mask, the sizes between stages, scratch memory, and which
//! chunks are decoded as a group.
//!
//! Law:
//! 1. Stages run in the reverse of the order in which they were written. Bit `i` of the filter
//!    mask says that the `i`-th filter *as written* was skipped for this chunk.
//! 2. Every size between two stages is either derived or bounded: no stored byte can make the
//!    scratch grow beyond `scratch_limit`. A stage may make less: a writer need not store what lies
//!    behind a dataset's last element.
//! 3. The last stage that changes bytes writes straight into the caller's memory.
//! 4. Chunks decoded as a group are the same bytes as one after the other. Where anything is
//!    wrong with one of them, the group is refused: each is decoded alone, which tells.
//!
//! It must never know what a filter's bytes look like.

use super::converted::Converted;
use super::partial::Parts;
use super::{
    Decoder, FILTERS, Fault, FilterError, FilterErrorKind, FilterSpec, OutputSize, plugin,
};
use crate::autotune::{AutoTuner, Clock, Way};
use crate::convert::ElementConversion;
use multi_inflate::MAX_STREAMS;
use std::sync::Arc;

/// A group makes at most this, as what is in use at once, the chunks before and after each stage,
/// grows with it. Tasks are planned with the same number.
pub const MAX_GROUP_BYTES: usize = 2 << 20;

struct Stage {
    id: u32,
    /// The filter mask's bit that skips this stage; 0 for filters past the mask's 32 bits.
    mask_bit: u32,
    decoder: Box<dyn Decoder>,
}

/// One chunk of a group.
pub struct GroupItem<'a> {
    pub stored: &'a [u8],
    pub out: &'a mut [u8],
}

/// The decoder of chunks with the same filters, for one thread.
pub struct Pipeline {
    /// In the order of decoding; a conversion of elements is the last one.
    stages: Vec<Stage>,
    conversion: Option<Arc<ElementConversion>>,
    decoded_size: usize,
    /// Where stages between the first and the last write, in turns.
    scratch: [Vec<u8>; 2],
    /// What the first stage made of a group's chunks, when other stages follow.
    group: [Vec<u8>; MAX_STREAMS],
    /// Optimized: as a group. Baseline: one chunk after the other.
    tuner: AutoTuner,
}

impl Stage {
    fn is_active(&self, filter_mask: u32) -> bool {
        self.mask_bit & filter_mask == 0
    }
}

impl Pipeline {
    /// The pipeline of a dataset whose chunks decode to `decoded_size` bytes.
    /// `Err(id)`: filter `id` is not known here.
    pub fn new(specs: &[FilterSpec], decoded_size: usize, clock: Clock) -> Result<Pipeline, u32> {
        let mut stages = Vec::with_capacity(specs.len());
        for (i, spec) in specs.iter().enumerate().rev() {
            let filter = FILTERS.iter().find(|f| f.id == spec.id);
            let decoder = filter.map_or(plugin::make as _, |filter| filter.make)(spec);
            let decoder = decoder.ok_or(spec.id)?;
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
            conversion: None,
            decoded_size,
            scratch: [Vec::new(), Vec::new()],
            group: [const { Vec::new() }; MAX_STREAMS],
            tuner: AutoTuner::new(clock),
        })
    }

    /// Convert the elements that the filters give.
    pub fn with(mut self, conversion: Option<&Arc<ElementConversion>>) -> Pipeline {
        self.stages.extend(conversion.map(|conversion| Stage {
            id: 0,
            mask_bit: 0,
            decoder: Box::new(Converted {
                conversion: conversion.clone(),
                place: 0,
                fault: None,
            }),
        }));
        self.conversion = conversion.cloned();
        self
    }

    /// The conversion, if it asks where chunks stand in their rows, which `at` says.
    pub fn by_place(&self) -> Option<&ElementConversion> {
        self.conversion.as_deref().filter(|one| !one.is_even())
    }

    /// The chunks that come next stand at this place of their rows.
    pub fn at(&mut self, place: usize) {
        if let Some(last) = self.stages.last_mut() {
            last.decoder.place(place);
        }
    }

    /// Chunks that come next decode to about this many bytes.
    pub fn expect(&mut self, decoded_size: usize) {
        self.decoded_size = decoded_size;
    }

    /// True when, under this mask, no stage runs: the stored bytes are the decoded ones and may
    /// be read straight into place.
    pub fn is_identity(&self, filter_mask: u32) -> bool {
        !self.stages.iter().any(|s| s.is_active(filter_mask))
    }

    /// The conversion, if under this mask no filter runs before it.
    pub fn conversion_alone(&self, filter_mask: u32) -> Option<&Arc<ElementConversion>> {
        let n_active = self.stages.iter().filter(|s| s.is_active(filter_mask));
        self.conversion.as_ref().filter(|_| n_active.count() == 1)
    }

    /// Under this mask the pipeline is one filter whose blocks can be decoded alone.
    pub fn parts(&mut self, filter_mask: u32) -> Option<Parts<'_>> {
        let mut active = (self.stages.iter_mut()).filter(|s| s.is_active(filter_mask));
        match (active.next(), active.next()) {
            (Some(stage), None) => Some(Parts {
                id: stage.id,
                decoder: stage.decoder.by_block()?,
            }),
            _ => None,
        }
    }

    /// Decodes the `stored` bytes of one chunk into `out`, which is exactly the decoded size. If they
    /// are fewer, the rest of `out` is left as it is, and at least `needed` bytes must be there.
    pub fn decode(
        &mut self,
        filter_mask: u32,
        stored: &[u8],
        out: &mut [u8],
        needed: impl FnOnce() -> usize,
    ) -> Result<(), FilterError> {
        let limit = self.scratch_limit(self.decoded_size.max(out.len()));
        let [mut from, mut into] = std::mem::take(&mut self.scratch);
        let scratch = [&mut from, &mut into];
        let timer = self.tuner.start(Way::Baseline);
        let result = decode_stages(&mut self.stages, filter_mask, stored, out, scratch, limit);
        self.tuner.record(timer, out.len());
        self.scratch = [from, into];
        let made = result?;
        if made == out.len() || made >= needed() {
            return Ok(());
        }
        let last = self.stages.iter().rfind(|s| s.is_active(filter_mask));
        let fault = last.and_then(|stage| stage.decoder.fault());
        let fault = fault.unwrap_or(Fault::wrong_size(out.len(), made));
        Err(fault.of(last.map_or(0, |stage| stage.id)))
    }

    /// HDF5 drops the output of a filter that makes data much larger, so what
    /// stands between two stages is little larger than the chunk.
    fn scratch_limit(&self, decoded_size: usize) -> usize {
        let stored = |of: &Arc<ElementConversion>| of.stored_size(decoded_size);
        let most = decoded_size.max(self.conversion.as_ref().map_or(0, stored));
        most.saturating_mul(2).saturating_add(1 << 16)
    }

    /// The most chunks of a group, which should be at hand together.
    pub fn max_group(&self) -> usize {
        match self.stages.iter().any(|s| s.decoder.decodes_groups()) {
            true => (MAX_GROUP_BYTES / self.decoded_size.max(1)).clamp(1, MAX_STREAMS),
            false => 1,
        }
    }

    /// How many of this many chunks to decode as the next group: as many as possible, but so that no
    /// chunk is left over.
    fn even_group(&self, chunks: usize) -> usize {
        let groups = chunks.div_ceil(self.max_group());
        chunks.div_ceil(groups.max(1))
    }

    /// Whether `decode_group` is the way to go with the next chunks; asked before each call.
    fn wants_group(&mut self, filter_mask: u32) -> bool {
        let mut active = self.stages.iter().filter(|s| s.is_active(filter_mask));
        self.max_group() > 1
            && self.by_place().is_none()
            && active.any(|s| s.decoder.decodes_groups())
            && self.tuner.way() == Way::Optimized
    }

    /// How many of the chunks with these masks to decode next as a group; 1: the first one, alone.
    pub fn group_size(&mut self, chunks: usize, mut masks: impl Iterator<Item = u32>) -> usize {
        let n = self.even_group(chunks);
        let Some(first) = masks.next().filter(|_| n > 1) else {
            return 1;
        };
        let alike = masks.take(n - 1).all(|mask| mask == first);
        if alike && self.wants_group(first) {
            n
        } else {
            1
        }
    }

    /// Decodes `group_size` chunks with the same filter mask, each as `decode` would. False: it was not
    /// done, the outs may hold anything, and each chunk has to be decoded alone.
    pub fn decode_group(&mut self, filter_mask: u32, items: &mut [GroupItem<'_>]) -> bool {
        match items {
            [a, b] => self.decode_items(filter_mask, [a, b]),
            [a, b, c] => self.decode_items(filter_mask, [a, b, c]),
            [a, b, c, d] => self.decode_items(filter_mask, [a, b, c, d]),
            _ => false,
        }
    }

    fn decode_items<const N: usize>(
        &mut self,
        filter_mask: u32,
        items: [&mut GroupItem<'_>; N],
    ) -> bool {
        let stored = items.each_ref().map(|item| item.stored);
        let outs = items.map(|item| &mut *item.out);
        let bytes: usize = outs.iter().map(|out| out.len()).sum();
        let timer = self.tuner.start(Way::Optimized);
        let done = self.stages_of_group(filter_mask, stored, outs);
        self.tuner.record(timer, if done { bytes } else { 0 });
        done
    }

    fn stages_of_group<const N: usize>(
        &mut self,
        filter_mask: u32,
        mut stored: [&[u8]; N],
        mut outs: [&mut [u8]; N],
    ) -> bool {
        let active = |s: &Stage| s.is_active(filter_mask);
        let limit = self.scratch_limit(self.decoded_size);
        for i in 0..self.stages.len() {
            let (stage, rest) = self.stages[i..].split_first_mut().expect("i is a stage");
            if !active(stage) {
                continue;
            }
            let mut unwrapped = 0;
            for bytes in &mut stored {
                match stage.decoder.unwrap(bytes) {
                    Some(Ok(inner)) => (*bytes, unwrapped) = (inner, unwrapped + 1),
                    Some(Err(_)) => return false,
                    None => {}
                }
            }
            if unwrapped == N {
                continue;
            }
            if unwrapped > 0 {
                return false;
            }
            if !rest.iter().any(active) {
                return stage.decoder.decode_group(&stored, &mut outs);
            }
            let Some(made) = self.group.first_chunk_mut::<N>() else {
                return false;
            };
            for (made, out) in made.iter_mut().zip(&outs) {
                match stored_size(rest, filter_mask, out.len()) {
                    Some(size) if size <= limit => made.resize(size, 0),
                    _ => return false,
                }
            }
            let mut made = made.each_mut().map(Vec::as_mut_slice);
            if !stage.decoder.decode_group(&stored, &mut made) {
                return false;
            }
            let [from, into] = &mut self.scratch;
            return made.into_iter().zip(outs).all(|(made, out)| {
                let size = out.len();
                let done = decode_stages(rest, filter_mask, made, out, [from, into], limit);
                done.is_ok_and(|made| made == size)
            });
        }
        false
    }
}

/// The bytes that these stages need to make `decoded_size`. None: nothing tells.
fn stored_size(stages: &[Stage], filter_mask: u32, decoded_size: usize) -> Option<usize> {
    let mut active = stages.iter().rev().filter(|s| s.is_active(filter_mask));
    active.try_fold(decoded_size, |size, s| s.decoder.stored_size(size))
}

/// Decode into memory that becomes as long as is needed, up to the limit; how many bytes it were.
fn decode_to(
    decoder: &mut dyn Decoder,
    stored: &[u8],
    out: &mut Vec<u8>,
    known: Option<usize>,
    limit: usize,
) -> Result<usize, Fault> {
    let mut size = known.unwrap_or((stored.len() * 4).clamp(4096, limit));
    if size > limit {
        return Err(Fault::wrong_size(limit, size));
    }
    loop {
        if out.len() < size {
            out.resize(size, 0);
        }
        match decoder.decode(stored, &mut out[..size]) {
            // The size was a guess: try again with more room.
            Err(fault)
                if known.is_none() && fault.kind == FilterErrorKind::WrongSize && size < limit =>
            {
                size = (size * 2).min(limit);
            }
            made => return made,
        }
    }
}

/// Run the active stages, and return how many bytes they made. Long, as each step needs all of the loop's state: which bytes are current,
/// where they are, and which memory is free.
fn decode_stages(
    stages: &mut [Stage],
    filter_mask: u32,
    stored: &[u8],
    out: &mut [u8],
    scratch: [&mut Vec<u8>; 2],
    limit: usize,
) -> Result<usize, FilterError> {
    let [mut input, mut spare] = scratch;
    // The current bytes: `stored[..]` narrowed, or `input[span]` once a stage has run.
    let mut span = 0..stored.len();
    let mut in_scratch = false;
    let active = |s: &Stage| s.is_active(filter_mask);
    let mut last_id = 0;

    for i in 0..stages.len() {
        let (stage, rest) = stages[i..].split_first_mut().expect("i is a stage");
        if !active(stage) {
            continue;
        }
        last_id = stage.id;
        let fail = |fault: Fault| fault.of(stage.id);
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
        // The most bytes that the later stages take from this one; None: not known.
        let most = stored_size(rest, filter_mask, out.len());
        let is_last = !rest.iter().any(active);
        let told = stage.decoder.output_size(bytes).map_err(fail)?;
        let known = match (told, most) {
            (OutputSize::Exactly(got), Some(most)) if got > most => {
                return Err(fail(Fault::wrong_size(most, got)));
            }
            (OutputSize::Exactly(size), _) | (OutputSize::Unknown, Some(size)) => Some(size),
            (OutputSize::Unknown, None) => None,
        };
        if is_last {
            return stage.decoder.decode(bytes, out).map_err(fail);
        }
        let made = decode_to(&mut *stage.decoder, bytes, spare, known, limit).map_err(fail)?;
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
    let size = out.len();
    match out.get_mut(..bytes.len()) {
        Some(out) => out.copy_from_slice(bytes),
        None => return Err(Fault::wrong_size(size, bytes.len()).of(last_id)),
    }
    Ok(bytes.len())
}

#[cfg(test)]
mod tests;
