//! Numbers of one type as numbers of another one, as NumPy's `astype` makes them.
//!
//! Law:
//! 1. Floats are rounded to the nearest, to even where two are as near, and become infinite where they
//!    are too large. Whole numbers lose their high bits.
//! 2. Floats lose their fraction where they become whole numbers. What lies outside their range becomes
//!    the end of it, and NaN 0: `astype` leaves both to the machine.
//! 3. Each pair of types has a loop of its own, which the compiler vectorises.

/// Numbers of these bytes, one behind the other, as others.
pub type Loop = fn(&[u8], &mut [u8]);

/// Types of numbers, as a plan numbers them (`NUMBERS` in `_multitables/index/types/cast.py`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Number {
    Truth,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
    /// The upper half of an F32.
    Bfloat16,
}

const NUMBERS: [Number; 13] = [
    Number::Truth,
    Number::U8,
    Number::U16,
    Number::U32,
    Number::U64,
    Number::I8,
    Number::I16,
    Number::I32,
    Number::I64,
    Number::F16,
    Number::F32,
    Number::F64,
    Number::Bfloat16,
];

impl Number {
    pub fn of_word(word: u64) -> Option<Number> {
        NUMBERS.get(usize::try_from(word).ok()?).copied()
    }

    pub fn bytes(self) -> usize {
        match self {
            Number::Truth | Number::U8 | Number::I8 => 1,
            Number::U16 | Number::I16 | Number::F16 | Number::Bfloat16 => 2,
            Number::U32 | Number::I32 | Number::F32 => 4,
            Number::U64 | Number::I64 | Number::F64 => 8,
        }
    }
}

/// A value that lies in bytes.
trait Value: Copy {
    const BYTES: usize;
    fn load(bytes: &[u8]) -> Self;
    fn store(self, bytes: &mut [u8]);
}

/// A value as one of another type.
trait To<T> {
    fn to(self) -> T;
}

#[derive(Clone, Copy)]
struct Truth(u8);
#[derive(Clone, Copy)]
struct Half(u16);
#[derive(Clone, Copy)]
struct Brain(u16);

macro_rules! values {
    ($($type:ty)*) => {$(
        impl Value for $type {
            const BYTES: usize = size_of::<$type>();
            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                <$type>::from_ne_bytes(bytes.try_into().expect("the bytes of one value"))
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_ne_bytes());
            }
        }
        casts!($type: u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);
        impl To<Brain> for $type {
            #[inline(always)]
            fn to(self) -> Brain {
                Brain::of(self as f32)
            }
        }
    )*};
}

macro_rules! casts {
    ($from:ty: $($to:ty)*) => {$(
        impl To<$to> for $from {
            #[inline(always)]
            #[allow(clippy::unnecessary_cast, reason = "one of the types is the same")]
            fn to(self) -> $to {
                self as $to
            }
        }
    )*};
}

/// What an F32 holds exactly becomes a half in one rounding; of whole numbers, all that are finite
/// as halves.
macro_rules! halves {
    ($($type:ty)*) => {$(
        impl To<Half> for $type {
            #[inline(always)]
            fn to(self) -> Half {
                Half::of(self as f32)
            }
        }
    )*};
}

macro_rules! bits {
    ($($type:ty)*) => {$(
        impl Value for $type {
            const BYTES: usize = size_of::<$type>();
            #[inline(always)]
            fn load(bytes: &[u8]) -> Self {
                Self(Value::load(bytes))
            }
            #[inline(always)]
            fn store(self, bytes: &mut [u8]) {
                self.0.store(bytes);
            }
        }
    )*};
}

values!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);
halves!(u8 u16 u32 u64 i8 i16 i32 i64 f32);
bits!(Truth Half Brain);

impl To<Half> for f64 {
    #[inline(always)]
    fn to(self) -> Half {
        Half::of(odd(self))
    }
}

impl<T> To<T> for Truth
where
    u8: To<T>,
{
    #[inline(always)]
    fn to(self) -> T {
        u8::from(self.0 != 0).to()
    }
}

impl<T> To<T> for Half
where
    f32: To<T>,
{
    #[inline(always)]
    fn to(self) -> T {
        self.float().to()
    }
}

/// The nearest F32 towards zero, with its last bit set where it is not the number itself: what is
/// rounded to fewer bits then is rounded as the number.
#[inline(always)]
fn odd(number: f64) -> f32 {
    let near = number as f32;
    let back = f64::from(near);
    let bits = near.to_bits() - u32::from(back.abs() > number.abs());
    f32::from_bits(bits | u32::from(back != number))
}

impl Half {
    /// The exponent of an F32 is larger by this.
    const BIAS: u32 = (127 - 15) << 23;
    /// From here on a number is infinite as a half.
    const TOO_LARGE: u32 = (127 + 16) << 23;
    /// The smallest that is not subnormal as a half.
    const NORMAL: u32 = (127 - 14) << 23;

    #[inline(always)]
    fn of(number: f32) -> Half {
        let bits = number.to_bits();
        let (sign, bits) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
        let round = |bits: u32| bits.wrapping_add(0xfff + (bits >> 13 & 1)) >> 13;
        let normal = round(bits.wrapping_sub(Half::BIAS));
        // The sum has the last bit of a subnormal half as its own last one.
        let subnormal = (f32::from_bits(bits) + 0.5).to_bits() - 0.5f32.to_bits();
        let special = 0x7c00 | u32::from(bits > 0x7f80_0000) << 9;
        let half = if bits >= Half::TOO_LARGE {
            special
        } else if bits < Half::NORMAL {
            subnormal
        } else {
            normal
        };
        Half((sign | half) as u16)
    }

    #[inline(always)]
    fn float(self) -> f32 {
        let (sign, bits) = (u32::from(self.0 & 0x8000) << 16, u32::from(self.0 & 0x7fff));
        // Of a subnormal half: its bits count from 2 to the power of -24.
        let small = (bits as i32 as f32 * f32::from_bits((127 - 24) << 23)).to_bits();
        let special = u32::from(bits >= 0x7c00) * Half::BIAS;
        let large = (bits << 13) + Half::BIAS + special;
        let float = if bits < 0x400 { small } else { large };
        f32::from_bits(sign | float)
    }
}

impl Brain {
    #[inline(always)]
    fn of(number: f32) -> Brain {
        let bits = number.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let quiet = bits >> 16 | 0x40;
        Brain(if number.is_nan() { quiet } else { rounded } as u16)
    }
}

fn each<F: Value + To<T>, T: Value>(from: &[u8], to: &mut [u8]) {
    let from = from.chunks_exact(F::BYTES);
    for (from, to) in from.zip(to.chunks_exact_mut(T::BYTES)) {
        F::load(from).to().store(to);
    }
}

macro_rules! loops {
    ($to:expr; $($from:pat => $type:ty),*; $of:expr) => {
        match $of {
            $($from => match $to {
                Number::U8 => each::<$type, u8> as Loop,
                Number::U16 => each::<$type, u16>,
                Number::U32 => each::<$type, u32>,
                Number::U64 => each::<$type, u64>,
                Number::I8 => each::<$type, i8>,
                Number::I16 => each::<$type, i16>,
                Number::I32 => each::<$type, i32>,
                Number::I64 => each::<$type, i64>,
                Number::F16 => each::<$type, Half>,
                Number::F32 => each::<$type, f32>,
                Number::F64 => each::<$type, f64>,
                Number::Bfloat16 => each::<$type, Brain>,
                Number::Truth => return None,
            },)*
            Number::Bfloat16 => return None,
        }
    };
}

/// The loop of two types; None: there is no conversion between them.
pub fn converter(from: Number, to: Number) -> Option<Loop> {
    Some(loops!(to;
        Number::Truth => Truth, Number::U8 => u8, Number::U16 => u16, Number::U32 => u32,
        Number::U64 => u64, Number::I8 => i8, Number::I16 => i16, Number::I32 => i32,
        Number::I64 => i64, Number::F16 => Half, Number::F32 => f32, Number::F64 => f64;
        from))
}

/// Numbers of the same size in the other byte order.
pub fn swap(bytes: usize, from: &[u8], to: &mut [u8]) {
    fn each<const N: usize>(from: &[u8], to: &mut [u8]) {
        for (from, to) in from.chunks_exact(N).zip(to.chunks_exact_mut(N)) {
            let mut value: [u8; N] = from.try_into().expect("chunks have N bytes");
            value.reverse();
            to.copy_from_slice(&value);
        }
    }
    match bytes {
        2 => each::<2>(from, to),
        4 => each::<4>(from, to),
        8 => each::<8>(from, to),
        _ => to.copy_from_slice(from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_are_floats_and_back() {
        for bits in 0..=u16::MAX {
            let float = Half(bits).float();
            let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
            let expected = match exponent {
                31 if bits & 1023 == 0 => f64::INFINITY,
                31 => f64::NAN,
                0 => mantissa * 2f64.powi(-24),
                _ => (mantissa + 1024.0) * 2f64.powi(exponent - 25),
            };
            let expected = if bits >> 15 == 1 { -expected } else { expected };
            assert!(
                f64::from(float) == expected || float.is_nan() && expected.is_nan(),
                "{bits:x}: {float}, {expected}"
            );
            let back: Half = float.to();
            assert!(back.0 == bits || float.is_nan() && back.float().is_nan());
            // Half way to the next one: to the even one. Little more: to the next one.
            if exponent < 30 && bits >> 15 == 0 {
                let next = Half(bits + 1).float();
                let middle = (f64::from(float) + f64::from(next)) / 2.0;
                let of = |number: f64| To::<Half>::to(number).0;
                assert_eq!(of(middle), bits + (bits & 1), "{bits:x}");
                assert_eq!(of(middle * (1.0 + f64::EPSILON)), bits + 1, "{bits:x}");
                assert_eq!(of(middle * (1.0 - f64::EPSILON)), bits, "{bits:x}");
                assert_eq!(To::<Half>::to(middle as f32).0, bits + (bits & 1));
            }
        }
        let of = |number: f32| To::<Half>::to(number).0;
        assert_eq!(
            [65519.0, 65520.0, 1e30, -1e-30].map(of),
            [0x7bff, 0x7c00, 0x7c00, 0x8000]
        );
        assert_eq!(To::<Half>::to(1e300f64).0, 0x7c00);
    }

    #[test]
    fn the_upper_half_of_a_float_is_rounded() {
        for (bits, expected) in [
            (0x3f80_8000, 0x3f80),
            (0x3f81_8000, 0x3f82),
            (0x3f80_8001, 0x3f81),
            (0x7f7f_ffff, 0x7f80),
            (0xff80_0000, 0xff80),
            (0x7f80_0001, 0x7fc0),
        ] {
            assert_eq!(Brain::of(f32::from_bits(bits)).0, expected, "{bits:x}");
        }
    }

    #[test]
    fn pairs_of_types() {
        let run = |from, to, bytes: &[u8], room: usize| {
            let mut made = vec![0; room];
            converter(from, to).unwrap()(bytes, &mut made);
            made
        };
        let made = run(Number::I16, Number::U8, &[255, 255, 5, 1], 2);
        assert_eq!(made, [255, 5]);
        let floats = [-1.5f32, 300.0, f32::NAN].map(f32::to_ne_bytes).concat();
        assert_eq!(run(Number::F32, Number::U8, &floats, 3), [0, 255, 0]);
        assert_eq!(run(Number::Truth, Number::U8, &[0, 1, 2], 3), [0, 1, 1]);
        assert!(converter(Number::U8, Number::Truth).is_none());
        assert!(converter(Number::Bfloat16, Number::U8).is_none());
        let mut swapped = [0; 4];
        swap(2, &[1, 2, 3, 4], &mut swapped);
        assert_eq!(swapped, [2, 1, 4, 3]);
    }
}
