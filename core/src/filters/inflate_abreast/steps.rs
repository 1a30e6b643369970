//! The step from a literal to what follows it, which sets the pace of all decoding.
//!
//! 1. A step drops the literal's bits and gives the index of the entry of those that follow.
//!
//! It must never know streams.

use super::entries::bits_to_drop;

pub(super) trait Step: Copy {
    /// The index has as many bits as a look-up decides, which the literal's entry says as well.
    fn drop(self, bits: &mut u64, literal: u32, bits_to_look_up: usize) -> usize;

    /// As many of the lowest bits as an entry says are to be dropped.
    fn low(self, bits: u64, entry: u32) -> u64;
}

#[derive(Clone, Copy)]
pub(super) struct ShiftAndMask;

impl Step for ShiftAndMask {
    #[inline(always)]
    fn drop(self, bits: &mut u64, literal: u32, bits_to_look_up: usize) -> usize {
        *bits >>= bits_to_drop(literal);
        *bits as usize & ((1 << bits_to_look_up) - 1)
    }

    #[inline(always)]
    fn low(self, bits: u64, entry: u32) -> u64 {
        bits & !(u64::MAX << bits_to_drop(entry))
    }
}

/// Shifts and masks with one instruction of x86-64, as a literal's entry says. A chunk of 8 KiB
/// of literals took 9.0 us with it and 10.2 without, three side by side. There is a `Bextr` only
/// where the CPU has BMI1 and BMI2.
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
    fn drop(self, bits: &mut u64, literal: u32, _: usize) -> usize {
        // SAFETY: the CPU has BMI1, or there were no `Bextr`.
        let index = unsafe { std::arch::x86_64::_bextr2_u64(*bits, u64::from(literal)) };
        *bits >>= bits_to_drop(literal);
        index as usize
    }

    #[inline(always)]
    fn low(self, bits: u64, entry: u32) -> u64 {
        // SAFETY: the CPU has BMI2.
        unsafe { std::arch::x86_64::_bzhi_u64(bits, entry) }
    }
}
