//! What CPUs do differently: the step from a literal to what follows it, which sets the pace of all
//! decoding, and how literals are put together.
//!
//! Law:
//! 1. A step drops the literal's bits and gives the index of the entry of those that follow.
//! 2. All kinds of steps give the same.
//!
//! It must never know streams.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use super::entries::{PLAIN, bits_to_drop, literal};

/// How many literals of each stream are decoded between two looks at its input. Each drops 10 bits
/// at most, so that 40 of the 57 that a look gives are dropped, and another 10 looked at.
pub(crate) const GROUP: usize = 4;

pub(crate) trait Step: Copy {
    /// Literals that are being put together.
    type Group: Copy;

    /// The index has as many bits as a look-up decides, which the literal's entry says as well.
    fn drop(self, bits: &mut u64, literal: u32, bits_to_look_up: usize) -> usize;

    /// As many of the lowest bits as an entry says are to be dropped.
    fn low(self, bits: u64, entry: u32) -> u64;

    fn empty(self) -> Self::Group;

    /// The group with one literal more, which is its `place`-th, from 0 on.
    fn with(self, group: Self::Group, symbol: u32, place: usize) -> Self::Group;

    fn literals(self, group: Self::Group) -> [u8; GROUP];

    /// How many symbols of a group are literals: the first ones.
    fn plain(self, group: Self::Group) -> usize;
}

#[derive(Clone, Copy)]
pub(crate) struct ShiftAndMask;

impl Step for ShiftAndMask {
    type Group = [u32; GROUP];

    #[inline(always)]
    fn drop(self, bits: &mut u64, literal: u32, bits_to_look_up: usize) -> usize {
        *bits >>= bits_to_drop(literal);
        *bits as usize & ((1 << bits_to_look_up) - 1)
    }

    #[inline(always)]
    fn low(self, bits: u64, entry: u32) -> u64 {
        bits & !(u64::MAX << bits_to_drop(entry))
    }

    #[inline(always)]
    fn empty(self) -> [u32; GROUP] {
        [0; GROUP]
    }

    #[inline(always)]
    fn with(self, mut group: [u32; GROUP], symbol: u32, place: usize) -> [u32; GROUP] {
        group[place] = symbol;
        group
    }

    #[inline(always)]
    fn literals(self, group: [u32; GROUP]) -> [u8; GROUP] {
        group.map(|symbol| literal(symbol) as u8)
    }

    #[inline(always)]
    fn plain(self, group: [u32; GROUP]) -> usize {
        group.iter().filter(|&&symbol| symbol & PLAIN != 0).count()
    }
}

/// Shifts and masks with one instruction of x86-64, as a literal's entry says, and puts literals
/// together in a vector, which takes one instruction each, and no register that streams need. There
/// is a `Bextr` only where the CPU has what both ask for.
#[derive(Clone, Copy)]
pub(crate) struct Bextr(());

impl Bextr {
    pub(crate) fn detect() -> Option<Bextr> {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("bmi1")
            && std::is_x86_feature_detected!("bmi2")
            && std::is_x86_feature_detected!("lzcnt")
            && std::is_x86_feature_detected!("popcnt")
            && std::is_x86_feature_detected!("sse4.1")
        {
            return Some(Bextr(()));
        }
        None
    }
}

// SAFETY of all: the CPU has BMI1, BMI2 and SSE4.1, or there were no `Bextr`.
#[cfg(target_arch = "x86_64")]
impl Step for Bextr {
    type Group = __m128i;

    #[inline(always)]
    fn drop(self, bits: &mut u64, literal: u32, _: usize) -> usize {
        // SAFETY: as above.
        let index = unsafe { _bextr2_u64(*bits, u64::from(literal)) };
        *bits >>= bits_to_drop(literal);
        index as usize
    }

    #[inline(always)]
    fn low(self, bits: u64, entry: u32) -> u64 {
        // SAFETY: as above.
        unsafe { _bzhi_u64(bits, entry) }
    }

    #[inline(always)]
    fn empty(self) -> __m128i {
        // SAFETY: as above.
        unsafe { _mm_setzero_si128() }
    }

    #[inline(always)]
    fn with(self, group: __m128i, symbol: u32, place: usize) -> __m128i {
        let symbol = symbol as i32;
        // SAFETY: as above.
        unsafe {
            match place {
                0 => _mm_cvtsi32_si128(symbol),
                1 => _mm_insert_epi32::<1>(group, symbol),
                2 => _mm_insert_epi32::<2>(group, symbol),
                _ => _mm_insert_epi32::<3>(group, symbol),
            }
        }
    }

    #[inline(always)]
    fn literals(self, group: __m128i) -> [u8; GROUP] {
        // SAFETY: as above.
        let bytes = unsafe {
            // The highest byte of each symbol.
            let places = _mm_cvtsi32_si128(i32::from_le_bytes([3, 7, 11, 15]));
            _mm_cvtsi128_si32(_mm_shuffle_epi8(group, places))
        };
        bytes.to_le_bytes()
    }

    #[inline(always)]
    fn plain(self, group: __m128i) -> usize {
        const { assert!(PLAIN == 1 << 16) };
        // SAFETY: as above.
        let signs = unsafe { _mm_movemask_ps(_mm_castsi128_ps(_mm_slli_epi32::<15>(group))) };
        signs.count_ones() as usize
    }
}
