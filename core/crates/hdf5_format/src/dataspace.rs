//! Dataspaces: how many elements there are, and may be (IV.A.2.b), of versions 1 and 2.

use super::cursor::{Cursor, ones};
use super::error::{Result, corrupt};

pub const MAX_RANK: usize = 32;
/// A dim without a bound.
pub const UNLIMITED: u64 = u64::MAX;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dataspace {
    /// No elements and no dims: h5py's Empty.
    pub is_null: bool,
    pub dims: Vec<u64>,
    pub max_dims: Vec<u64>,
}

impl Dataspace {
    /// How many elements there are. None: more than can be counted.
    pub fn n_elements(&self) -> Option<u64> {
        match self.is_null {
            true => Some(0),
            false => self.dims.iter().copied().try_fold(1, u64::checked_mul),
        }
    }
}

/// Read a dataspace message.
pub fn dataspace(cursor: &mut Cursor<'_>) -> Result<Dataspace> {
    let address = cursor.address();
    let (version, rank, flags) = (cursor.u8()?, usize::from(cursor.u8()?), cursor.u8()?);
    let is_null = match version {
        1 => {
            cursor.skip(5)?;
            false
        }
        2 => cursor.u8()? == 2,
        _ => return corrupt(address, "version 1 or 2 of the dataspace", version),
    };
    if rank > MAX_RANK || is_null && rank > 0 {
        let most = if is_null { 0 } else { MAX_RANK };
        return corrupt(address, format_args!("at most {most} dims"), rank);
    }
    let unlimited = ones(cursor.sizes().length);
    let dims = |cursor: &mut Cursor<'_>| {
        let dim = |_| cursor.length();
        (0..rank).map(dim).collect::<Result<Vec<u64>>>()
    };
    let now = dims(cursor)?;
    let mut most = match flags & 1 {
        0 => now.clone(),
        _ => dims(cursor)?,
    };
    for (now, most) in now.iter().zip(&mut most) {
        if *most == unlimited {
            *most = UNLIMITED;
        }
        if now > most {
            return corrupt(address, format_args!("a dim of at most {most}"), now);
        }
    }
    Ok(Dataspace {
        is_null,
        dims: now,
        max_dims: most,
    })
}
