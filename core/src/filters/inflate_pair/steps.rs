//! The step from a literal to what follows it, which sets the pace of all decoding.
//!
//! 1. A step is: the index of the next entry, from the bits held and the literal's entry.
//!
//! It must never know streams.

use super::codes::{SYMBOL_BITS, bits_to_drop};

pub(super) trait Step: Copy {
    /// What lies behind the literal, as an index into a table of symbols.
    fn next_index(self, bits: u64, literal: u32) -> usize;
}

#[derive(Clone, Copy)]
pub(super) struct ShiftAndMask;

impl Step for ShiftAndMask {
    #[inline(always)]
    fn next_index(self, bits: u64, literal: u32) -> usize {
        (bits >> bits_to_drop(literal)) as usize & ((1 << SYMBOL_BITS) - 1)
    }
}

/// Shifts and masks with one instruction of x86-64, as a literal's entry says. A chunk of 8 KiB
/// of noise took 10.6 us of a pair's time with it and 12.3 without. There is a `Bextr` only where
/// the CPU has BMI1 and BMI2.
#[derive(Clone, Copy)]
pub(super) struct Bextr(());

impl Bextr {
    pub(super) fn detect() -> Option<Bextr> {
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("bmi1") && std::is_x86_feature_detected!("bmi2") {
            return Some(Bextr(()));
        }
        None
    }
}

#[cfg(target_arch = "x86_64")]
impl Step for Bextr {
    #[inline(always)]
    fn next_index(self, bits: u64, literal: u32) -> usize {
        // SAFETY: the CPU has BMI1, or there were no `Bextr`.
        unsafe { std::arch::x86_64::_bextr2_u64(bits, u64::from(literal)) as usize }
    }
}
