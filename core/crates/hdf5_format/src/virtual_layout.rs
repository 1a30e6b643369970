//! Virtual datasets: which parts of other datasets they show (VII.F, IV.A.2.i), and the form in which a
//! file keeps selections (VIII.B of the dataspace functions: `H5Sencode`).
//!
//! Law: every list is as long as the bytes that are there, and not as its count says. A name that many
//! mappings have is kept once.

use super::cursor::{Block, Cursor, Sizes};
use super::error::{Result, corrupt};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// "." is the file itself. "%b" in the names counts blocks along an unlimited axis.
    pub file: Arc<[u8]>,
    pub dataset: Arc<[u8]>,
    pub in_source: Selection,
    pub in_virtual: Selection,
}

/// Elements of a dataspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    None,
    All,
    /// Coordinates, `rank` for each point.
    Points {
        rank: usize,
        coordinates: Vec<u64>,
    },
    /// (start, stride, count, block) for each axis; all ones is without a bound.
    Regular(Vec<[u64; 4]>),
    /// First and last coordinates of each block, `rank` each.
    Blocks {
        rank: usize,
        bounds: Vec<u64>,
    },
}

/// Read the mappings of a virtual dataset, an object of the global heap.
pub fn mappings(body: &Block, sizes: Sizes) -> Result<Vec<Mapping>> {
    let mut cursor = Cursor::new(body, sizes).checked()?;
    let version = cursor.u8()?;
    if version > 1 {
        return corrupt(
            body.address,
            "version 0 or 1 of the virtual layout",
            version,
        );
    }
    let count = cursor.length()?;
    let mut mappings: Vec<Mapping> = Vec::new();
    for _ in 0..count {
        let flags = match version {
            0 => 0,
            _ => cursor.u8()?,
        };
        let file = match flags {
            _ if flags & 4 != 0 => (&b"."[..]).into(),
            _ if flags & 1 != 0 => earlier(&mut cursor, &mappings)?.file.clone(),
            _ => cursor.name()?.into(),
        };
        let dataset = match flags & 2 {
            0 => cursor.name()?.into(),
            _ => earlier(&mut cursor, &mappings)?.dataset.clone(),
        };
        mappings.push(Mapping {
            file,
            dataset,
            in_source: selection(&mut cursor)?,
            in_virtual: selection(&mut cursor)?,
        });
    }
    Ok(mappings)
}

/// Version 1 names a string once.
fn earlier<'m>(cursor: &mut Cursor<'_>, mappings: &'m [Mapping]) -> Result<&'m Mapping> {
    let (address, number) = (cursor.address(), cursor.length()?);
    let found = usize::try_from(number)
        .ok()
        .and_then(|number| mappings.get(number));
    match found {
        Some(mapping) => Ok(mapping),
        None => corrupt(
            address,
            format_args!("one of {} mappings", mappings.len()),
            number,
        ),
    }
}

/// Read a selection.
pub fn selection(cursor: &mut Cursor<'_>) -> Result<Selection> {
    let address = cursor.address();
    let (kind, version) = (cursor.u32()?, cursor.u32()?);
    match (kind, version) {
        (0 | 3, _) => {
            cursor.skip(8)?;
            Ok(if kind == 0 {
                Selection::None
            } else {
                Selection::All
            })
        }
        (1, 1) => {
            cursor.skip(8)?; // reserved; length
            points(cursor, 4)
        }
        (1, 2) => {
            let size = cursor.u8()?;
            points(cursor, size.into())
        }
        (2, 1) => {
            cursor.skip(8)?;
            let rank = rank(cursor)?;
            blocks(cursor, rank, 4)
        }
        (2, 2) => {
            cursor.skip(1 + 4)?; // flags: always regular; length
            let rank = rank(cursor)?;
            regular(cursor, rank, 8)
        }
        (2, 3) => {
            let (flags, size) = (cursor.u8()?, usize::from(cursor.u8()?));
            let rank = rank(cursor)?;
            match flags & 1 {
                0 => blocks(cursor, rank, size),
                _ => regular(cursor, rank, size),
            }
        }
        _ => {
            let got = format!("type {kind}, version {version}");
            corrupt(address, "a selection of type 0 to 3", got)
        }
    }
}

fn rank(cursor: &mut Cursor<'_>) -> Result<usize> {
    let (address, rank) = (cursor.address(), cursor.u32()?);
    match rank {
        1..=32 => Ok(rank as usize),
        _ => corrupt(address, "a selection in 1 to 32 dims", rank),
    }
}

fn numbers(cursor: &mut Cursor<'_>, count: u64, size: usize) -> Result<Vec<u64>> {
    if count > cursor.left() as u64 {
        let left = cursor.left();
        return corrupt(
            cursor.address(),
            format_args!("numbers in {left} bytes"),
            count,
        );
    }
    (0..count).map(|_| cursor.uint(size)).collect()
}

fn points(cursor: &mut Cursor<'_>, size: usize) -> Result<Selection> {
    let rank = rank(cursor)?;
    let count = cursor.uint(size)?;
    let coordinates = numbers(cursor, count.saturating_mul(rank as u64), size)?;
    Ok(Selection::Points { rank, coordinates })
}

fn blocks(cursor: &mut Cursor<'_>, rank: usize, size: usize) -> Result<Selection> {
    let count = cursor.uint(size)?;
    let bounds = numbers(cursor, count.saturating_mul(2 * rank as u64), size)?;
    Ok(Selection::Blocks { rank, bounds })
}

fn regular(cursor: &mut Cursor<'_>, rank: usize, size: usize) -> Result<Selection> {
    let unbounded = super::cursor::ones(size);
    let end = |number| {
        if number == unbounded {
            u64::MAX
        } else {
            number
        }
    };
    // A start may be the number of all ones in these bytes.
    let mut axis = |_| {
        let [start, stride, count, block] = [(); 4].map(|()| cursor.uint(size));
        Ok([start?, stride?, end(count?), end(block?)])
    };
    Ok(Selection::Regular(
        (0..rank).map(&mut axis).collect::<Result<_>>()?,
    ))
}
