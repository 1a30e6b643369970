//! The loops over a block's symbols: of two streams at once, and of one.
//!
//! 1. Both make the same bytes of a stream.
//! 2. A loop ends with its block, or before the input or the output has no room for a group.
//!
//! It must never know what blocks begin with.
//!
//! Two things are worth about a seventh of the speed each: the next entry is looked up before the
//! bits are refilled, and of two streams four literals are stored at once (a store for each of
//! them delays the look-ups behind it; of one stream it is the other way round).

use super::codes::{Codes, OTHER, bits_to_drop, value};
use super::steps::{Bextr, ShiftAndMask, Step};
use super::{At, Stream};

/// How many literals of each stream are decoded between two refills: 4 codes of 11 bits are
/// taken of the 56 that are held then, and another 11 are looked at.
pub(super) const GROUP: usize = 4;

/// Decodes two blocks until one of them ends, or its stream's input or output all but does.
/// Returns how many literals that were.
pub(super) fn both(
    bextr: Option<Bextr>,
    a: &mut Stream,
    b: &mut Stream,
    codes: &[Codes; 2],
) -> Option<usize> {
    match bextr {
        // SAFETY: where there is a `Bextr`, the CPU has what this is compiled for.
        #[cfg(target_arch = "x86_64")]
        Some(bextr) => unsafe { both_with_bextr(bextr, a, b, codes) },
        _ => both_with_any_cpu(a, b, codes),
    }
}

/// Decodes one block to its end.
pub(super) fn alone(bextr: Option<Bextr>, stream: &mut Stream, codes: &Codes) -> Option<()> {
    match bextr {
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Some(bextr) => unsafe { alone_with_bextr(bextr, stream, codes) },
        _ => alone_with_any_cpu(stream, codes),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2")]
fn both_with_bextr(
    bextr: Bextr,
    a: &mut Stream,
    b: &mut Stream,
    codes: &[Codes; 2],
) -> Option<usize> {
    both_with(bextr, a, b, codes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "bmi1,bmi2")]
fn alone_with_bextr(bextr: Bextr, stream: &mut Stream, codes: &Codes) -> Option<()> {
    alone_with(bextr, stream, codes)
}

// Apart from their callers, these two are a tenth quicker.
#[inline(never)]
fn both_with_any_cpu(a: &mut Stream, b: &mut Stream, codes: &[Codes; 2]) -> Option<usize> {
    both_with(ShiftAndMask, a, b, codes)
}

#[inline(never)]
fn alone_with_any_cpu(stream: &mut Stream, codes: &Codes) -> Option<()> {
    alone_with(ShiftAndMask, stream, codes)
}

#[inline(always)]
fn both_with<S: Step>(
    step: S,
    a: &mut Stream,
    b: &mut Stream,
    codes: &[Codes; 2],
) -> Option<usize> {
    enum Met {
        Nothing,
        OtherInA,
        OtherInB,
    }
    let mut literals = 0;
    let (mut p, mut q) = (a.cursor, b.cursor);
    p.refill(a.input);
    q.refill(b.input);
    let (mut next_a, mut next_b) = (p.look(&codes[0]), q.look(&codes[1]));
    loop {
        let mut met = Met::Nothing;
        let mut whole = 0;
        let mut part = 0;
        let groups_a = a.out[p.made..].chunks_exact_mut(GROUP);
        let groups_b = b.out[q.made..].chunks_exact_mut(GROUP);
        for (group_a, group_b) in groups_a.zip(groups_b) {
            let (Some(bytes_a), Some(bytes_b)) = (p.eight(a.input), q.eight(b.input)) else {
                break;
            };
            let (mut made_a, mut made_b) = (0, 0);
            part = 0;
            met = loop {
                if part == GROUP {
                    break Met::Nothing;
                }
                if next_a & OTHER != 0 {
                    break Met::OtherInA;
                }
                made_a |= (value(next_a) as u32) << (8 * part);
                next_a = p.step(step, next_a, &codes[0]);
                if next_b & OTHER != 0 {
                    break Met::OtherInB;
                }
                made_b |= (value(next_b) as u32) << (8 * part);
                next_b = q.step(step, next_b, &codes[1]);
                part += 1;
            };
            // A group that is not whole ends in zeros, which the next bytes overwrite.
            group_a.copy_from_slice(&u32::to_le_bytes(made_a));
            group_b.copy_from_slice(&u32::to_le_bytes(made_b));
            p.held &= 63;
            q.held &= 63;
            if !matches!(met, Met::Nothing) {
                break;
            }
            p.fill(bytes_a);
            q.fill(bytes_b);
            whole += GROUP;
            part = 0;
        }
        p.made += whole + part;
        q.made += whole + part;
        literals += 2 * (whole + part);
        match met {
            Met::Nothing => break,
            Met::OtherInA => {
                q.refill(b.input);
                p.refill_for_other(a.input);
                if !p.other(next_a, &codes[0], a.out)? {
                    a.at = At::Header;
                    break;
                }
                p.refill(a.input);
                next_a = p.look(&codes[0]);
            }
            Met::OtherInB => {
                // Of this group, the first stream has a literal more.
                p.made += 1;
                p.refill(a.input);
                q.refill_for_other(b.input);
                if !q.other(next_b, &codes[1], b.out)? {
                    b.at = At::Header;
                    break;
                }
                q.refill(b.input);
                next_b = q.look(&codes[1]);
            }
        }
    }
    (a.cursor, b.cursor) = (p, q);
    Some(literals)
}

/// Where the next literals go.
#[inline(always)]
fn group(out: &mut [u8], made: usize) -> Option<&mut [u8; GROUP]> {
    out.get_mut(made..)?.first_chunk_mut()
}

#[inline(always)]
fn alone_with<S: Step>(step: S, stream: &mut Stream, codes: &Codes) -> Option<()> {
    let Stream { input, out, .. } = stream;
    let mut p = stream.cursor;
    p.refill(input);
    let mut next = p.look(codes);
    while let (Some(bytes), Some(group)) = (p.eight(input), group(out, p.made)) {
        for byte in group {
            if next & OTHER != 0 {
                break;
            }
            *byte = value(next) as u8;
            p.made += 1;
            next = p.step(step, next, codes);
        }
        p.held &= 63;
        if next & OTHER == 0 {
            p.fill(bytes);
            continue;
        }
        p.refill_for_other(input);
        if !p.other(next, codes, out)? {
            stream.at = At::Header;
            break;
        }
        p.refill(input);
        next = p.look(codes);
    }
    // There may be no room for a group any more.
    while stream.at == At::Block {
        p.refill(input);
        next = p.look(codes);
        if next & OTHER == 0 {
            p.take(bits_to_drop(next))?;
            *out.get_mut(p.made)? = value(next) as u8;
            p.made += 1;
        } else if !p.other(next, codes, out)? {
            stream.at = At::Header;
        }
    }
    stream.cursor = p;
    Some(())
}
