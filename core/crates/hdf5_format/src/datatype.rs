//! Element types: the datatype message (IV.A.2.d), of versions 1 to 5.
//!
//! Law:
//! 1. What the message says is kept, whether a program can use it or not.
//! 2. Types nest to a bounded depth, and none has more parts than its bytes hold.

use super::cursor::Cursor;
use super::error::{Result, corrupt};

const MAX_DEPTH: usize = 32;
/// Of a reference in the format of HDF5 1.12, with addresses of eight bytes.
const REFERENCE_BYTES: u32 = 18;
/// Dims of an array type, as of a dataspace.
const MAX_RANK: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datatype {
    /// Bytes of one element.
    pub size: u32,
    pub kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    Little,
    Big,
    Vax,
}

/// The bits of an element that have a meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    pub offset: u16,
    pub precision: u16,
}

/// Where the parts of a floating-point number are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FloatFields {
    pub sign_at: u8,
    pub exponent_at: u8,
    pub exponent_bits: u8,
    pub mantissa_at: u8,
    pub mantissa_bits: u8,
    pub exponent_bias: u32,
    /// 0: all bits are stored, 1: the highest one is stored and set, 2: it is implied.
    pub normalization: u8,
    /// Low, high and inner padding bits, and the sign bit, are as in a type that HDF5 defines.
    pub padding: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// 0: NUL-terminated, 1: padded with NULs, 2: padded with spaces.
    pub padding: u8,
    /// 0: ASCII, 1: UTF-8.
    pub charset: u8,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: Vec<u8>,
    pub offset: u32,
    pub datatype: Datatype,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer {
        order: ByteOrder,
        bits: Bits,
        signed: bool,
        padding: u8,
    },
    Float {
        order: ByteOrder,
        bits: Bits,
        fields: FloatFields,
    },
    Time {
        order: ByteOrder,
        precision: u16,
    },
    String(Text),
    Bitfield {
        order: ByteOrder,
        bits: Bits,
        padding: u8,
    },
    Opaque {
        tag: Vec<u8>,
    },
    Compound(Vec<Field>),
    /// 0: an object, 1: a region, 2 to 4: the references of HDF5 1.12.
    Reference(u8),
    Enum {
        base: Box<Datatype>,
        /// Names, and values as they are stored.
        values: Vec<(Vec<u8>, Vec<u8>)>,
    },
    Sequence(Box<Datatype>),
    VariableString(Text),
    Array {
        dims: Vec<u32>,
        base: Box<Datatype>,
    },
    Complex(Box<Datatype>),
}

/// Read a datatype message.
pub fn datatype(cursor: &mut Cursor<'_>) -> Result<Datatype> {
    nested(cursor, 0)
}

fn nested(cursor: &mut Cursor<'_>, depth: usize) -> Result<Datatype> {
    let address = cursor.address();
    if depth > MAX_DEPTH {
        return corrupt(
            address,
            format_args!("types in at most {MAX_DEPTH} types"),
            "more",
        );
    }
    let class_and_version = cursor.u8()?;
    let (class, version) = (class_and_version & 15, class_and_version >> 4);
    if !(1..=5).contains(&version) {
        return corrupt(address, "version 1 to 5 of the datatype", version);
    }
    let flags = cursor.uint(3)? as u32;
    let size = cursor.u32()?;
    let inner = |cursor: &mut Cursor<'_>| nested(cursor, depth + 1);
    let boxed = |cursor: &mut Cursor<'_>| inner(cursor).map(Box::new);
    let order = match flags & 1 {
        0 => ByteOrder::Little,
        _ => ByteOrder::Big,
    };
    let kind = match class {
        0 => Kind::Integer {
            order,
            signed: flags & 8 != 0,
            padding: (flags >> 1 & 3) as u8,
            bits: bits(cursor, size)?,
        },
        1 => float(cursor, version, flags, size)?,
        2 => Kind::Time {
            order,
            precision: cursor.u16()?,
        },
        3 => Kind::String(text(flags)),
        4 => Kind::Bitfield {
            order,
            padding: (flags >> 1 & 3) as u8,
            bits: bits(cursor, size)?,
        },
        5 => {
            let tag = cursor.take((flags & 255) as usize)?;
            let len = tag.iter().position(|&byte| byte == 0);
            Kind::Opaque {
                tag: tag[..len.unwrap_or(tag.len())].to_vec(),
            }
        }
        6 => compound(cursor, version, flags, size, depth)?,
        7 => Kind::Reference((flags & 15) as u8),
        8 => {
            let base = boxed(cursor)?;
            let names = (0..flags & 0xffff).map(|_| padded_name(cursor, version));
            let names = names.collect::<Result<Vec<_>>>()?;
            let mut value = |name| Ok((name, cursor.take(base.size as usize)?.to_vec()));
            let values = names.into_iter().map(&mut value).collect::<Result<_>>()?;
            Kind::Enum { base, values }
        }
        9 => {
            let mut base = boxed(cursor)?;
            if base.kind == Kind::Reference(2) {
                // libhdf5 says the size in memory, and stores kind, flags and a place in the heap.
                base.size = REFERENCE_BYTES;
            }
            match flags & 15 {
                0 => Kind::Sequence(base),
                1 => Kind::VariableString(text(flags >> 4)),
                other => return corrupt(address, "a sequence (0) or a string (1)", other),
            }
        }
        10 => {
            let dims = array_dims(cursor, version)?;
            let base = boxed(cursor)?;
            Kind::Array { dims, base }
        }
        11 => Kind::Complex(boxed(cursor)?),
        other => return corrupt(address, "a datatype of class 0 to 11", other),
    };
    check_size(address, size, &kind, cursor.descriptor_bytes())?;
    Ok(Datatype { size, kind })
}

fn bits(cursor: &mut Cursor<'_>, size: u32) -> Result<Bits> {
    let address = cursor.address();
    let (offset, precision) = (cursor.u16()?, cursor.u16()?);
    if u64::from(offset) + u64::from(precision) > 8 * u64::from(size) || precision == 0 {
        let got = format!("{precision} bits from bit {offset} on");
        return corrupt(address, format_args!("bits within {size} bytes"), got);
    }
    Ok(Bits { offset, precision })
}

fn text(flags: u32) -> Text {
    Text {
        padding: (flags & 15) as u8,
        charset: (flags >> 4 & 15) as u8,
    }
}

fn float(cursor: &mut Cursor<'_>, version: u8, flags: u32, size: u32) -> Result<Kind> {
    // HDF5 writes VAX's order in any version, and reads it from version 3 on.
    let is_vax = if version < 3 { 0 } else { flags >> 6 & 1 };
    let order = match (flags & 1, is_vax) {
        (0, 0) => ByteOrder::Little,
        (1, 0) => ByteOrder::Big,
        (1, _) => ByteOrder::Vax,
        _ => return corrupt(cursor.address(), "byte order 0, 1 or 3", 2),
    };
    let (address, bits) = (cursor.address(), bits(cursor, size)?);
    let [exponent_at, exponent_bits, mantissa_at, mantissa_bits] =
        [cursor.u8()?, cursor.u8()?, cursor.u8()?, cursor.u8()?];
    let fields = FloatFields {
        sign_at: (flags >> 8) as u8,
        exponent_at,
        exponent_bits,
        mantissa_at,
        mantissa_bits,
        exponent_bias: cursor.u32()?,
        normalization: (flags >> 4 & 3) as u8,
        padding: (flags >> 1 & 7) as u8,
    };
    let parts = [
        (fields.sign_at, 1),
        (exponent_at, exponent_bits),
        (mantissa_at, mantissa_bits),
    ];
    let end = parts.map(|(at, bits)| u16::from(at) + u16::from(bits));
    // They are counted from the element's first bit, and HDF5 does not ask the precision.
    if end.iter().any(|&end| u64::from(end) > 8 * u64::from(size)) {
        let within = format!("sign, exponent and mantissa within {size} bytes");
        return corrupt(address, within, format_args!("ends at bits {end:?}"));
    }
    Ok(Kind::Float {
        order,
        bits,
        fields,
    })
}

/// A name, which versions 1 and 2 pad to eight bytes.
fn padded_name(cursor: &mut Cursor<'_>, version: u8) -> Result<Vec<u8>> {
    let begin = cursor.position();
    let name = cursor.name()?;
    if version < 3 {
        cursor
            .skip((cursor.position() - begin).next_multiple_of(8) - (cursor.position() - begin))?;
    }
    Ok(name.to_vec())
}

fn compound(
    cursor: &mut Cursor<'_>,
    version: u8,
    flags: u32,
    size: u32,
    depth: usize,
) -> Result<Kind> {
    let mut fields = Vec::new();
    if flags & 0xffff == 0 {
        return corrupt(cursor.address(), "a compound of one field at least", "none");
    }
    for _ in 0..flags & 0xffff {
        let address = cursor.address();
        let name = padded_name(cursor, version)?;
        // Offsets have as many bytes as the compound's size takes.
        let offset = match version {
            1 | 2 => cursor.u32()?,
            _ => cursor.uint(super::cursor::bytes_for(size.into()))? as u32,
        };
        let dims = match version {
            1 => first_dims(cursor)?,
            _ => Vec::new(),
        };
        let mut datatype = nested(cursor, depth + 1)?;
        if !dims.is_empty() {
            datatype = array_of(address, dims, datatype)?;
        }
        if u64::from(offset) + u64::from(datatype.size) > size.into() {
            let got = format!("{} bytes from byte {offset} on", datatype.size);
            return corrupt(address, format_args!("a field within {size} bytes"), got);
        }
        fields.push(Field {
            name,
            offset,
            datatype,
        });
    }
    Ok(Kind::Compound(fields))
}

/// Version 1 says of each field whether it is an array, of at most four dims.
fn first_dims(cursor: &mut Cursor<'_>) -> Result<Vec<u32>> {
    let (address, rank) = (cursor.address(), cursor.u8()?);
    if rank > 4 {
        return corrupt(address, "a field of at most 4 dims", rank);
    }
    cursor.skip(11)?;
    let dims = [cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?];
    Ok(dims[..rank.into()].to_vec())
}

fn array_of(address: u64, dims: Vec<u32>, base: Datatype) -> Result<Datatype> {
    let size = array_size(&dims, base.size);
    let Some(size) = size.and_then(|size| u32::try_from(size).ok()) else {
        return corrupt(
            address,
            "an array of less than 4 GiB",
            format_args!("{dims:?}"),
        );
    };
    let base = Box::new(base);
    let kind = Kind::Array { dims, base };
    Ok(Datatype { size, kind })
}

fn array_size(dims: &[u32], each: u32) -> Option<u64> {
    let mut dims = dims.iter().map(|&dim| u64::from(dim));
    dims.try_fold(u64::from(each), u64::checked_mul)
}

fn array_dims(cursor: &mut Cursor<'_>, version: u8) -> Result<Vec<u32>> {
    let address = cursor.address();
    let rank: usize = cursor.u8()?.into();
    if rank > MAX_RANK {
        return corrupt(
            address,
            format_args!("an array of at most {MAX_RANK} dims"),
            rank,
        );
    }
    if version < 3 {
        cursor.skip(3)?;
    }
    let dims = (0..rank).map(|_| cursor.u32()).collect::<Result<_>>()?;
    if version < 3 {
        cursor.skip(4 * rank)?; // permutations, which no release ever used
    }
    Ok(dims)
}

/// Whether the parts of a type make up its size.
/// `descriptor`: bytes of the descriptor of what has any length, if the file is known.
fn check_size(address: u64, size: u32, kind: &Kind, descriptor: Option<u32>) -> Result<()> {
    let expected = match kind {
        Kind::Array { dims, base } => array_size(dims, base.size),
        Kind::Enum { base, .. } => Some(base.size.into()),
        Kind::Complex(base) => Some(2 * u64::from(base.size)),
        Kind::Sequence(_) | Kind::VariableString(_) => Some(descriptor.unwrap_or(size).into()),
        _ => Some(size.into()),
    };
    match expected {
        Some(expected) if expected == u64::from(size) && size > 0 => Ok(()),
        Some(expected) => corrupt(
            address,
            format_args!("a type of {} bytes", expected.max(1)),
            size,
        ),
        None => corrupt(address, "an array of less than 4 GiB", "a larger one"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Sizes;

    /// A float's message: class 1, version 1, its bytes, and where sign, exponent and mantissa are.
    fn a_float(size: u32) -> Vec<u8> {
        let size = size.to_le_bytes();
        let fields = [0, 0, 32, 0, 23, 8, 0, 23, 127, 0, 0, 0];
        [&[0x11, 0x20, 31, 0], &size[..], &fields[..]].concat()
    }

    #[test]
    fn floats_of_any_size_are_looked_at() {
        let sizes = Sizes {
            address: 8,
            length: 8,
            checks_sums: true,
        };
        let read = |size| datatype(&mut Cursor::over(&a_float(size), 0, sizes));
        assert!(read(3).is_err(), "32 bits are more than 3 bytes");
        for size in [4, 1 << 29, u32::MAX] {
            assert_eq!(read(size).unwrap().size, size);
        }
    }
}
