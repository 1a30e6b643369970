//! What a block is made of, as the lengths of its codes say: which loop decodes it.
//!
//! Law:
//! 1. A code of n bits stands for about every 2^n-th symbol: nothing is decoded to find out.
//!
//! It must never know streams.

use std::ops::RangeInclusive;

use super::entries::FIRST_LONG;

/// From those with few matches on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Mostly literals.
    Literals,
    /// Literals with a short match here and there.
    Sparse,
    /// Literals and short matches.
    Mixed,
    /// Decoded alone.
    Other,
}

/// The most percent of symbols that are not literals.
const IN_LITERALS: usize = 14;

/// The same in mixed blocks. In those with less there are runs of literals, of which a sequence takes
/// two; with more, all are matches, which a core foresees.
const IN_MIXED: RangeInclusive<usize> = 30..=90;

/// Percent of symbols that are matches too long for a sequence, at most, in sparse and mixed blocks.
const LONG_IN_MIXED: usize = 4;

impl Kind {
    /// Of the lengths of the codes of literals and what follows them.
    pub(crate) fn of(lengths: &[u8]) -> Kind {
        let percent = |first: usize| {
            let used = lengths.iter().skip(first).filter(|&&length| length > 0);
            let share: usize = used.map(|&length| 1 << (15 - length)).sum();
            100 * share / (1 << 15)
        };
        let others = percent(256);
        if others <= IN_LITERALS {
            Kind::Literals
        } else if others > *IN_MIXED.end() || percent(FIRST_LONG) > LONG_IN_MIXED {
            Kind::Other
        } else if others < *IN_MIXED.start() {
            Kind::Sparse
        } else {
            Kind::Mixed
        }
    }
}
