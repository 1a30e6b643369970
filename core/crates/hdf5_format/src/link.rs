//! Links: the names in a group, and what they lead to (IV.A.2.g).

use super::cursor::Cursor;
use super::error::Result;

const SOFT: u8 = 1;
const EXTERNAL: u8 = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// An object's offset from the superblock.
    Hard(u64),
    /// A path.
    Soft(Vec<u8>),
    /// A path in another file.
    External { file: Vec<u8>, path: Vec<u8> },
    /// A type of link that a program defined.
    UserDefined(u8),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub name: Vec<u8>,
    pub target: Target,
    /// In the order of creation, where the group keeps it.
    pub creation_order: Option<u64>,
}

/// Read a link message.
pub fn link(cursor: &mut Cursor<'_>) -> Result<Link> {
    cursor.version("link", 1)?;
    let flags = cursor.u8()?;
    let kind = match flags & 8 {
        0 => 0,
        _ => cursor.u8()?,
    };
    let creation_order = match flags & 4 {
        0 => None,
        _ => Some(cursor.u64()?),
    };
    if flags & 16 != 0 {
        cursor.skip(1)?; // the name's character set
    }
    let name_bytes = cursor.uint(1 << (flags & 3))?;
    let name = cursor.take(name_bytes as usize)?.to_vec();
    let target = match kind {
        0 => Target::Hard(cursor.offset()?),
        SOFT => {
            let len = cursor.u16()?;
            Target::Soft(cursor.take(len.into())?.to_vec())
        }
        EXTERNAL => {
            let len = cursor.u16()?;
            let mut value = cursor.part(len.into())?;
            value.skip(1)?; // version and flags, both 0
            Target::External {
                file: value.name()?.to_vec(),
                path: value.name()?.to_vec(),
            }
        }
        other => Target::UserDefined(other),
    };
    Ok(Link {
        name,
        target,
        creation_order,
    })
}
