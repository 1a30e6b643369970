//! What a block is made of, as the lengths of its codes say: which loop decodes it.
//!
//! 1. A code of n bits stands for about every 2^n-th symbol: nothing is decoded to find out.
//!
//! It must never know streams.

use std::ops::RangeInclusive;

use super::entries::FIRST_LONG;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Mostly literals.
    Literals,
    /// Literals and short matches.
    Mixed,
    /// Decoded alone.
    Other,
}

/// Percent of symbols that are no literals, at most. (With 5 or 20 here, chunks of noise of 512 KiB
/// took the same within 3 %.)
const IN_LITERALS: usize = 14;

/// The same in mixed blocks. In those with less there are runs of literals, of which a sequence takes
/// one; with more, all are matches, which a core foresees. (By sequences, these take 0.9 to 1.4 and
/// 0.9 to 1.2 of libdeflate's time, and 0.7 to 0.9 in between.)
const IN_MIXED: RangeInclusive<usize> = 30..=90;

/// Percent of symbols that are matches too long for a sequence, at most.
const LONG_IN_MIXED: usize = 4;

impl Kind {
    /// Of the lengths of the codes of literals and what follows them.
    pub(super) fn of(lengths: &[u8]) -> Kind {
        let percent = |first: usize| {
            let used = lengths.iter().skip(first).filter(|&&length| length > 0);
            let share: usize = used.map(|&length| 1 << (15 - length)).sum();
            100 * share / (1 << 15)
        };
        let others = percent(256);
        if others <= IN_LITERALS {
            Kind::Literals
        } else if IN_MIXED.contains(&others) && percent(FIRST_LONG) <= LONG_IN_MIXED {
            Kind::Mixed
        } else {
            Kind::Other
        }
    }
}
