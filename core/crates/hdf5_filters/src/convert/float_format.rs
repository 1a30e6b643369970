//! Floats of any format as floats that NumPy has, as HDF5 converts them.
//!
//! Law:
//! 1. Arithmetic with whole numbers: a value is a mantissa times a power of two. The parent chooses a target
//!    that holds every value, so nothing is rounded.
//! 2. A NaN keeps its sign and has all bits of the mantissa, as HDF5 writes it.

/// Bytes of the longest float.
const MAX_BYTES: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Order {
    Little,
    Big,
    /// Pairs of bytes, the highest pair first.
    Vax,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatFormat {
    order: Order,
    /// The highest bit of the mantissa is not stored, but for subnormal numbers.
    implied: bool,
    sign_at: u32,
    exponent_at: u32,
    exponent_bits: u32,
    mantissa_at: u32,
    mantissa_bits: u32,
    bias: i64,
    target: Target,
}

/// A float of NumPy: bits of its exponent and of its mantissa, less the highest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Target {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// The highest bit of the mantissa is stored (x87).
    explicit: bool,
}

/// A long double, which has the bytes of two doubles.
const LONG_DOUBLE: Target = match cfg!(any(target_arch = "x86", target_arch = "x86_64")) {
    true => Target {
        exponent_bits: 15,
        mantissa_bits: 63,
        explicit: true,
    },
    false => Target::ieee(15, 112),
};

impl Target {
    const fn ieee(exponent_bits: u32, mantissa_bits: u32) -> Target {
        Target {
            exponent_bits,
            mantissa_bits,
            explicit: false,
        }
    }

    fn of_size(size: u64) -> Option<Target> {
        match size {
            2 => Some(Target::ieee(5, 10)),
            4 => Some(Target::ieee(8, 23)),
            8 => Some(Target::ieee(11, 52)),
            16 => Some(LONG_DOUBLE),
            _ => None,
        }
    }

    /// The bits of a float with this biased exponent and mantissa.
    fn bits(self, is_negative: bool, exponent: u128, mantissa: u128) -> u128 {
        let exponent_at = self.mantissa_bits + u32::from(self.explicit);
        let sign = u128::from(is_negative) << (exponent_at + self.exponent_bits);
        sign | exponent << exponent_at | mantissa
    }

    /// The float that is `mantissa`, which is not 0, times a power of two.
    fn number(self, is_negative: bool, mantissa: u128, power: i64) -> u128 {
        let highest = i64::from(127 - mantissa.leading_zeros());
        let (bias, bits) = (ones(self.exponent_bits - 1), i64::from(self.mantissa_bits));
        let exponent = power + highest + bias as i64;
        if exponent >= ones(self.exponent_bits) as i64 {
            return self.infinity(is_negative);
        }
        if exponent < 1 {
            let lowest = 1 - bias as i64 - bits;
            return self.bits(is_negative, 0, shifted(mantissa, power - lowest));
        }
        let mut whole = shifted(mantissa, bits - highest);
        if !self.explicit {
            whole &= ones(self.mantissa_bits);
        }
        self.bits(is_negative, exponent as u128, whole)
    }

    fn infinity(self, is_negative: bool) -> u128 {
        let highest = u128::from(self.explicit) << self.mantissa_bits;
        self.bits(is_negative, ones(self.exponent_bits), highest)
    }

    fn nan(self, is_negative: bool) -> u128 {
        let mantissa = ones(self.mantissa_bits + u32::from(self.explicit));
        self.bits(is_negative, ones(self.exponent_bits), mantissa)
    }
}

fn ones(count: u32) -> u128 {
    1u128.checked_shl(count).map_or(u128::MAX, |one| one - 1)
}

/// A number with its bits moved up, or down.
fn shifted(number: u128, by: i64) -> u128 {
    let count = u32::try_from(by.unsigned_abs()).unwrap_or(u32::MAX);
    let moved = match by >= 0 {
        true => number.checked_shl(count),
        false => number.checked_shr(count),
    };
    moved.unwrap_or(0)
}

impl FloatFormat {
    /// As `Conversion` in `_multitables/index/types/element_type.py` lays it out. None: it does not fit its bytes.
    pub fn of_words(word: u64, bias: u64, size: u64, to_size: u64) -> Option<FloatFormat> {
        let byte = |number: u32| (word >> (8 * number) & 0xff) as u32;
        let format = FloatFormat {
            order: match byte(0) & 3 {
                0 => Order::Little,
                1 => Order::Big,
                2 if size % 2 == 0 => Order::Vax,
                _ => return None,
            },
            implied: byte(0) & 4 != 0,
            sign_at: byte(1),
            exponent_at: byte(2),
            exponent_bits: byte(3),
            mantissa_at: byte(4),
            mantissa_bits: byte(5),
            bias: i64::from(u32::try_from(bias).ok()?),
            target: Target::of_size(to_size)?,
        };
        let ends = [
            format.sign_at + 1,
            format.exponent_at + format.exponent_bits,
            format.mantissa_at + format.mantissa_bits,
        ];
        let is_inside = ends.iter().all(|&end| u64::from(end) <= 8 * size);
        // An exponent is a number that can be calculated with; a mantissa has room for one bit more.
        let is_small = format.exponent_bits <= 32 && format.mantissa_bits <= 126;
        (is_inside && is_small && size <= MAX_BYTES as u64).then_some(format)
    }

    #[inline]
    pub fn convert(&self, from: &[u8], to: &mut [u8]) {
        match self.normal(from).filter(|_| to.len() <= 8) {
            Some(bits) => to.copy_from_slice(&bits.to_le_bytes()[..to.len()]),
            None => {
                let bytes = self.converted(from).to_le_bytes();
                to.copy_from_slice(&bytes[..to.len().min(MAX_BYTES)]);
            }
        }
        if self.order != Order::Little {
            to.reverse();
        }
    }

    pub fn apply(&self, value: &mut [u8]) {
        let mut stored = [0; MAX_BYTES];
        let stored = &mut stored[..value.len().min(MAX_BYTES)];
        stored.copy_from_slice(value);
        self.convert(stored, value);
    }

    /// The common case, in words of the machine: a normal number of at most 8 bytes, which is normal
    /// as a double or a shorter float, too.
    #[inline]
    fn normal(&self, from: &[u8]) -> Option<u64> {
        let target = self.target;
        let is_plain = self.implied && !target.explicit && target.mantissa_bits <= 52;
        if !is_plain || self.exponent_bits == 0 || self.mantissa_bits == 0 {
            return None;
        }
        let mut bytes = [0; 8];
        bytes.get_mut(..from.len())?.copy_from_slice(from);
        let bits = match self.order {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes) >> (64 - 8 * from.len() as u32),
            Order::Vax => return None,
        };
        let part = |at: u32, count: u32| bits >> at & ((1 << count) - 1);
        let exponent = part(self.exponent_at, self.exponent_bits);
        let most = (1i64 << target.exponent_bits) - 1;
        let biased = exponent as i64 - self.bias + most / 2;
        let is_normal = exponent != 0 && exponent != (1 << self.exponent_bits) - 1;
        if !is_normal || biased < 1 || biased >= most {
            return None;
        }
        let more = target.mantissa_bits.checked_sub(self.mantissa_bits)?;
        let sign = part(self.sign_at, 1) << (target.mantissa_bits + target.exponent_bits);
        let mantissa = part(self.mantissa_at, self.mantissa_bits) << more;
        Some(sign | (biased as u64) << target.mantissa_bits | mantissa)
    }

    fn converted(&self, from: &[u8]) -> u128 {
        let bits = self.bits(from);
        let part = |at: u32, count: u32| bits.checked_shr(at).unwrap_or(0) & ones(count);
        let is_negative = part(self.sign_at, 1) == 1;
        let exponent = part(self.exponent_at, self.exponent_bits);
        let mantissa = part(self.mantissa_at, self.mantissa_bits);
        if exponent == ones(self.exponent_bits) && (mantissa | exponent) != 0 {
            // The highest bit of an infinity's mantissa is set where it is stored.
            let highest = 1u128.checked_shl(self.mantissa_bits.wrapping_sub(1));
            let is_infinite = mantissa == 0 || (!self.implied && Some(mantissa) == highest);
            return match is_infinite {
                true => self.target.infinity(is_negative),
                false => self.target.nan(is_negative),
            };
        }
        let (mut whole, mut power) = (mantissa, exponent as i64 - self.bias);
        match (self.implied, exponent) {
            (true, 0) => power += 1,
            (true, _) => whole |= 1 << self.mantissa_bits,
            (false, _) => power += 1,
        }
        if whole == 0 {
            return self.target.bits(is_negative, 0, 0);
        }
        power -= i64::from(self.mantissa_bits);
        self.target.number(is_negative, whole, power)
    }

    /// The bytes of a float, as a number.
    fn bits(&self, from: &[u8]) -> u128 {
        let mut bytes = [0; MAX_BYTES];
        for (place, &byte) in bytes.iter_mut().zip(from) {
            *place = byte;
        }
        let bytes_of_it = &mut bytes[..from.len().min(MAX_BYTES)];
        match self.order {
            Order::Little => {}
            Order::Big => bytes_of_it.reverse(),
            Order::Vax => {
                bytes_of_it.reverse();
                bytes_of_it
                    .chunks_exact_mut(2)
                    .for_each(|pair| pair.reverse());
            }
        }
        u128::from_le_bytes(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sign, exponent and mantissa behind each other, and their bits.
    fn ieee(exponent: u64, mantissa: u64) -> u64 {
        4 | (exponent + mantissa) << 8 | mantissa << 16 | exponent << 24 | mantissa << 40
    }

    #[test]
    fn all_halves_are_what_they_are_as_floats() {
        let format = FloatFormat::of_words(ieee(5, 10), 15, 2, 4).unwrap();
        // Exact everywhere, as `powi` need not be.
        let power = |exponent: i32| f32::from_bits(((exponent + 127) as u32) << 23);
        for bits in 0..=u16::MAX {
            let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
            let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
            let expected = match (exponent, mantissa) {
                (31, 0.0) => sign * f32::INFINITY,
                (31, _) => f32::NAN,
                (0, _) => sign * mantissa * power(-24),
                _ => sign * (mantissa + 1024.0) * power(exponent - 25),
            };
            let mut to = [0; 4];
            format.convert(&bits.to_le_bytes(), &mut to);
            let got = f32::from_le_bytes(to);
            assert!(
                got.to_bits() == expected.to_bits() || (got.is_nan() && expected.is_nan()),
                "{bits:x}: {got}, {expected}"
            );
        }
    }

    #[test]
    fn long_doubles_have_room_for_doubles() {
        let format = FloatFormat::of_words(ieee(11, 52), 1023, 8, 16).unwrap();
        let mut to = [0; 16];
        format.convert(&1.5f64.to_le_bytes(), &mut to);
        if LONG_DOUBLE.explicit {
            assert_eq!(u128::from_le_bytes(to), 16383 << 64 | 3 << 62);
        }
    }

    #[test]
    fn orders_and_odd_formats() {
        let vax = FloatFormat::of_words(ieee(8, 23) | 2, 127, 4, 4).unwrap();
        let mut value = [0x20, 0x40, 0x00, 0x00]; // the pair 0x4020 is the higher one
        vax.apply(&mut value);
        assert_eq!(f32::from_be_bytes(value), 2.5);
        // No bits of an exponent, or of a mantissa, at the very end.
        for word in [
            4 | 63 << 8 | 64 << 16 | 63 << 40,
            4 | 63 << 8 | 63 << 24 | 64 << 32,
        ] {
            if let Some(format) = FloatFormat::of_words(word, 1, 8, 8) {
                format.apply(&mut [255; 8]);
            }
        }
        assert_eq!(FloatFormat::of_words(ieee(8, 23) | 3, 127, 4, 4), None);
        assert_eq!(FloatFormat::of_words(ieee(8, 24), 127, 4, 4), None);
        assert_eq!(FloatFormat::of_words(ieee(8, 7), 127, 2, 3), None);
        assert_eq!(FloatFormat::of_words(ieee(8, 7) | 2, 127, 3, 4), None);
    }
}
