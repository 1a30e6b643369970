//! Filter pipelines: what was done to chunks on their way to the file (IV.A.2.l), of versions 1 and 2.

use super::cursor::Cursor;
use super::error::{Result, corrupt};

/// As many as a filter mask has bits.
const MAX_FILTERS: u8 = 32;
/// Filters of lower numbers are HDF5's own; version 2 does not name them.
const FIRST_NAMED: u16 = 256;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filter {
    pub id: u16,
    pub flags: u16,
    /// Up to its first NUL; empty if the file does not say.
    pub name: Vec<u8>,
    pub values: Vec<u32>,
}

/// Read a filter pipeline message: filters in the order of writing.
pub fn filter_pipeline(cursor: &mut Cursor<'_>) -> Result<Vec<Filter>> {
    let address = cursor.address();
    let (version, count) = (cursor.u8()?, cursor.u8()?);
    match version {
        1 => cursor.skip(6)?,
        2 => {}
        _ => return corrupt(address, "version 1 or 2 of the filter pipeline", version),
    }
    if count > MAX_FILTERS {
        return corrupt(
            address,
            format_args!("at most {MAX_FILTERS} filters"),
            count,
        );
    }
    (0..count).map(|_| filter(cursor, version)).collect()
}

fn filter(cursor: &mut Cursor<'_>, version: u8) -> Result<Filter> {
    let id = cursor.u16()?;
    let name_bytes = match version == 2 && id < FIRST_NAMED {
        true => 0,
        false => usize::from(cursor.u16()?),
    };
    let (flags, count) = (cursor.u16()?, cursor.u16()?);
    let name = cursor.take(match version {
        1 => name_bytes.next_multiple_of(8),
        _ => name_bytes,
    })?;
    let values = (0..count).map(|_| cursor.u32()).collect::<Result<_>>()?;
    if version == 1 && count % 2 == 1 {
        cursor.skip(4)?;
    }
    let end = name.iter().position(|&byte| byte == 0);
    Ok(Filter {
        id,
        flags,
        name: name[..end.unwrap_or(name.len())].to_vec(),
        values,
    })
}
