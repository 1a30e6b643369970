//! Fill values: what elements are that were never written (IV.A.2.e and f), of all versions.

use super::cursor::Cursor;
use super::error::{Result, corrupt};

/// When it is written.
const TIME_NEVER: u8 = 1;

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum FillValue {
    /// Elements may be anything; libraries show zeros.
    #[default]
    Undefined,
    /// Zeros.
    Default,
    /// One element as it is stored.
    Value(Vec<u8>),
}

/// A fill value, and whether anyone sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fill {
    pub value: FillValue,
    /// Libraries are to write it nowhere: what they read of unallocated chunks stays as it was.
    pub is_never_written: bool,
}

/// Read a fill value message.
pub fn fill_value(cursor: &mut Cursor<'_>) -> Result<Fill> {
    let (address, version) = (cursor.address(), cursor.u8()?);
    let (time, value) = match version {
        1 | 2 => {
            cursor.skip(1)?; // when chunks are allocated
            let (time, is_defined) = (cursor.u8()?, cursor.u8()? != 0);
            match version == 1 || is_defined {
                true => (time, sized(cursor)?),
                false => (time, FillValue::Undefined),
            }
        }
        3 => {
            let flags = cursor.u8()?;
            let value = match (flags & 0x10, flags & 0x20) {
                (0, 0) => FillValue::Default,
                (0, _) => sized(cursor)?,
                _ => FillValue::Undefined,
            };
            (flags >> 2 & 3, value)
        }
        _ => return corrupt(address, "version 1 to 3 of the fill value", version),
    };
    Ok(Fill {
        value,
        is_never_written: time == TIME_NEVER,
    })
}

/// Read the fill value message of HDF5 before 1.6, which is a size and the value.
pub fn old_fill_value(cursor: &mut Cursor<'_>) -> Result<Fill> {
    Ok(Fill {
        value: sized(cursor)?,
        is_never_written: false,
    })
}

fn sized(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    match cursor.u32()? {
        0 => Ok(FillValue::Default),
        // A negative size.
        size if size > i32::MAX as u32 => Ok(FillValue::Undefined),
        size => Ok(FillValue::Value(cursor.take(size as usize)?.to_vec())),
    }
}
