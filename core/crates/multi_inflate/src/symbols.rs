//! Which loop decodes a block's symbols: each is compiled for CPUs with `bextr`, and for any.
//!
//! Law:
//! 1. All loops make the same bytes of a stream.
//!
//! It must never know what blocks begin with.

use super::codes::Codes;
use super::sequences::MAX_LITERALS;
use super::steps::{Bextr, ShiftAndMask};
use super::{Stream, literals, sequences};
use std::borrow::Borrow;

macro_rules! loops {
    ($($(#[$doc:meta])* $name:ident$(<$n:ident>)? = $of:path:
       ($($arg:ident: $type:ty),*) -> $made:ty;)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name$(<const $n: usize>)?(bextr: Option<Bextr>, $($arg: $type),*) -> $made {
            /// # Safety
            /// The CPU must have these instructions.
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "bmi1,bmi2,lzcnt,popcnt,sse4.1")]
            unsafe fn with_bextr$(<const $n: usize>)?(bextr: Bextr, $($arg: $type),*) -> $made {
                $of(bextr, $($arg),*)
            }

            // Apart from its caller it is a tenth quicker.
            #[inline(never)]
            fn with_any_cpu$(<const $n: usize>)?($($arg: $type),*) -> $made {
                $of(ShiftAndMask, $($arg),*)
            }

            match bextr {
                // SAFETY: where there is a `Bextr`, the CPU has what this is compiled for.
                #[cfg(target_arch = "x86_64")]
                Some(bextr) => unsafe { with_bextr(bextr, $($arg),*) },
                _ => with_any_cpu($($arg),*),
            }
        }
    )*};
}

loops! {
    /// Decodes blocks of literals of several streams until one of them ends, or its stream's input
    /// or output all but does. Returns how many literals that were.
    literal_group<N> = literals::group:
        (streams: &mut [&mut Stream; N], codes: &[impl Borrow<Codes>; N]) -> Option<usize>;

    /// The same of blocks of any sort, of which some have many matches. Returns how many sequences
    /// that were.
    sequence_group<N> = sequences::group::<_, N, 1>:
        (streams: &mut [&mut Stream; N], codes: &[impl Borrow<Codes>; N]) -> Option<usize>;

    /// The same where none has.
    long_sequence_group<N> = sequences::group::<_, N, MAX_LITERALS>:
        (streams: &mut [&mut Stream; N], codes: &[impl Borrow<Codes>; N]) -> Option<usize>;

    /// Decodes one block to its end.
    alone = literals::alone: (stream: &mut Stream, codes: &Codes) -> Option<()>;
}
