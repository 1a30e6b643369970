//! The runs that a chunk has of each index of the outer axis, listed once for all of these.
//!
//! Law:
//! 1. Only where the inner axes are ranges: then every outer index has the same runs, as far from where
//!    it begins. Lists inside, strings to be ended and fields in several runs are left to `elements`.
//! 2. Pure copying between two slices that the caller gives; every access is checked.

use crate::scatter::elements::Unit;
use crate::select::chunk_iter::{Pair, Segment};
use std::ops::Range;

/// More runs than this are not listed.
const MAX_RUNS: usize = 1024;

/// What a chunk has to give.
pub struct Lattice<'a> {
    outer: &'a Segment,
    /// Of the outer axis, if it is a list.
    pairs: &'a [Pair],
    /// Where each run begins, in the chunk and in the result.
    runs: Vec<(usize, usize)>,
    run_bytes: usize,
}

impl<'a> Lattice<'a> {
    /// None: this is not for it, or brings nothing.
    pub fn new(unit: &Unit<'_>, segments: &'a [Segment], pairs: &'a [Pair]) -> Option<Lattice<'a>> {
        let (outer, inner) = segments.split_first()?;
        if !unit.is_plain() || inner.is_empty() {
            return None;
        }
        let (mut runs, mut run_bytes) = (vec![(unit.at, 0)], unit.bytes);
        for axis in inner.iter().rev() {
            if axis.pairs_at.is_some() || runs.len().saturating_mul(axis.n) > MAX_RUNS {
                return None;
            }
            for (src, dst) in &mut runs {
                (*src, *dst) = (*src + axis.src, *dst + axis.dst);
            }
            let follows = axis.src_step == run_bytes as isize && axis.dst_step == run_bytes;
            if runs.len() == 1 && follows {
                run_bytes *= axis.n;
                continue;
            }
            let known = runs.len();
            for i in 1..axis.n {
                let step = axis.src_step.wrapping_mul(i as isize);
                for run in 0..known {
                    let (src, dst) = runs[run];
                    runs.push((src.wrapping_add_signed(step), dst + i * axis.dst_step));
                }
            }
        }
        let pairs = outer
            .pairs_at
            .map_or(&[][..], |at| &pairs[at..at + outer.n]);
        Some(Lattice {
            outer,
            pairs,
            runs,
            run_bytes,
        })
    }

    /// Where each outer index begins, in the chunk and in the result.
    fn each(&self, mut f: impl FnMut(usize, usize)) {
        let outer = self.outer;
        if outer.pairs_at.is_some() {
            return self.pairs.iter().for_each(|pair| f(pair.src, pair.dst));
        }
        let (mut src, mut dst) = (outer.src, outer.dst);
        for _ in 0..outer.n {
            f(src, dst);
            src = src.wrapping_add_signed(outer.src_step);
            dst += outer.dst_step;
        }
    }

    /// The bytes of the chunk from the first that is wanted to the last.
    pub fn span(&self) -> Range<usize> {
        let (mut first, mut last) = (usize::MAX, 0);
        self.each(|src, _| (first, last) = (first.min(src), last.max(src)));
        let begins = || self.runs.iter().map(|run| run.0);
        let low = begins().min().unwrap_or(0);
        let high = begins().max().unwrap_or(0) + self.run_bytes;
        first + low..last + high
    }

    /// How many bytes are wanted.
    pub fn bytes(&self) -> usize {
        self.outer.n * self.runs.len() * self.run_bytes
    }

    /// Copy all runs; `chunk` begins at byte `base` of the decoded chunk.
    pub fn copy(&self, chunk: &[u8], base: usize, out: &mut [u8]) {
        match self.run_bytes {
            1 => self.copy_sized::<1>(chunk, base, out),
            2 => self.copy_sized::<2>(chunk, base, out),
            4 => self.copy_sized::<4>(chunk, base, out),
            8 => self.copy_sized::<8>(chunk, base, out),
            16 => self.copy_sized::<16>(chunk, base, out),
            32 => self.copy_sized::<32>(chunk, base, out),
            64 => self.copy_sized::<64>(chunk, base, out),
            _ => self.copy_sized::<0>(chunk, base, out),
        }
    }

    /// Runs of `N` bytes, or with 0 of any.
    fn copy_sized<const N: usize>(&self, chunk: &[u8], base: usize, out: &mut [u8]) {
        let len = if N == 0 { self.run_bytes } else { N };
        self.each(|src, dst| {
            let out = &mut out[dst..];
            for (from, to) in &self.runs {
                out[*to..*to + len].copy_from_slice(&chunk[src + from - base..][..len]);
            }
        });
    }
}
