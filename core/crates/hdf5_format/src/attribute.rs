//! Attributes: small named values of objects (IV.A.2.m), of versions 1 to 3.
//!
//! Law: an attribute whose name can be read is listed. Where the rest of its message is damaged, or not known, its
//! value cannot be read, and the other attributes of its object can.

use super::blocks::Blocks;
use super::cursor::{Block, Cursor};
use super::dataspace::{Dataspace, dataspace};
use super::datatype::datatype;
use super::error::{FormatError, Result, corrupt};
use super::object_header::{SHARED, message};
use super::shared_messages::SharedMessages;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub name: Vec<u8>,
    /// The message with the type (`datatype`), also if it is shared; of a bad attribute it does not parse, or
    /// has no bytes.
    pub datatype: Block,
    pub dataspace: Dataspace,
    /// As stored: what is of variable length is in the global heap.
    pub elements: Vec<u8>,
}

/// Read an attribute message.
pub fn attribute(blocks: &Blocks, shared: &SharedMessages, body: &Block) -> Result<Attribute> {
    let mut cursor = blocks.cursor(body);
    let (version, flags) = (cursor.u8()?, cursor.u8()?);
    if !(1..=3).contains(&version) {
        return corrupt(body.address, "version 1 to 3 of the attribute", version);
    }
    let sizes = [cursor.u16()?, cursor.u16()?, cursor.u16()?].map(usize::from);
    if version == 3 {
        cursor.skip(1)?; // the name's character set
    }
    // Version 1 pads each part to eight bytes, and shares none.
    let padded = |len: usize| match version {
        1 => len.next_multiple_of(8),
        _ => len,
    };
    let flags = if version == 1 { 0 } else { flags };
    let name = cursor.take(padded(sizes[0]))?;
    let end = name.iter().position(|&byte| byte == 0);
    let name = name[..end.unwrap_or(name.len())].to_vec();
    let part = |cursor: &mut Cursor<'_>, len: usize, kind: u16, bit: u8| {
        let address = cursor.address();
        let bytes = cursor.take(padded(len))?[..len].to_vec();
        let flags = if flags & bit == 0 { 0 } else { SHARED };
        shared.body(blocks, kind, flags, &Block { bytes, address })
    };
    let mut value = || {
        let type_body = part(&mut cursor, sizes[1], message::DATATYPE, 1)?;
        let space_body = part(&mut cursor, sizes[2], message::DATASPACE, 2)?;
        // An error in the type is raised when its value is read.
        let Ok(element) = datatype(&mut blocks.cursor(&type_body)) else {
            return Ok(Attribute::bad(&name, type_body));
        };
        let dataspace = dataspace(&mut blocks.cursor(&space_body))?;
        let len = dataspace
            .n_elements()
            .and_then(|count| count.checked_mul(element.size.into()))
            .and_then(|len| usize::try_from(len).ok());
        let Some(len) = len else {
            let got = format!("{:?} elements of {} bytes", dataspace.dims, element.size);
            return corrupt(body.address, "an attribute within its message", got);
        };
        Ok(Attribute {
            name: name.clone(),
            datatype: type_body,
            dataspace,
            elements: cursor.take(len)?.to_vec(),
        })
    };
    match value() {
        Err(FormatError::Corrupt { address, .. } | FormatError::Unknown { address, .. }) => {
            let bytes = Vec::new();
            Ok(Attribute::bad(&name, Block { bytes, address }))
        }
        value => value,
    }
}

impl Attribute {
    fn bad(name: &[u8], datatype: Block) -> Attribute {
        Attribute {
            name: name.to_vec(),
            datatype,
            dataspace: Dataspace {
                is_null: true,
                ..Dataspace::default()
            },
            elements: Vec::new(),
        }
    }
}
