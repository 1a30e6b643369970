//! Fill values: what elements are that were never written (IV.A.2.e and f), of all versions.

use super::cursor::Cursor;
use super::error::{Result, corrupt};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FillValue {
    /// Elements may be anything; libraries show zeros.
    #[default]
    Undefined,
    /// Zeros.
    Default,
    /// One element as it is stored.
    Value(Vec<u8>),
}

/// Read a fill value message.
pub fn fill_value(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    let (address, version) = (cursor.address(), cursor.u8()?);
    let is_sized = match version {
        1 => {
            cursor.skip(3)?;
            true
        }
        2 => {
            cursor.skip(2)?;
            cursor.u8()? != 0
        }
        3 => {
            let flags = cursor.u8()?;
            if flags & 0x10 != 0 {
                return Ok(FillValue::Undefined);
            }
            if flags & 0x20 == 0 {
                return Ok(FillValue::Default);
            }
            true
        }
        _ => return corrupt(address, "version 1 to 3 of the fill value", version),
    };
    if !is_sized {
        return Ok(FillValue::Undefined);
    }
    sized(cursor)
}

/// Read the fill value message of HDF5 before 1.6, which is a size and the value.
pub fn old_fill_value(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    sized(cursor)
}

fn sized(cursor: &mut Cursor<'_>) -> Result<FillValue> {
    match cursor.u32()? {
        0 => Ok(FillValue::Default),
        // A negative size.
        size if size > i32::MAX as u32 => Ok(FillValue::Undefined),
        size => Ok(FillValue::Value(cursor.take(size as usize)?.to_vec())),
    }
}
