//! Object headers: the messages that make up an object (IV.A.1), of versions 1 and 2.
//!
//! Law:
//! 1. Each block of a header is read once; all of them together are no longer than the file.
//! 2. A message that no release of HDF5 knows is passed over, unless it forbids that.
//! 3. A message's body is parsed when it is needed. Its flags say whether it is shared.

use super::blocks::Blocks;
use super::cursor::{Block, Cursor};
use super::error::{Result, corrupt, forbidden};
use std::collections::{HashSet, VecDeque};

/// Read at once, as most headers are no longer.
const FIRST_BYTES: u64 = 512;
/// The body is not the message, but says where it is.
pub const SHARED: u8 = 2;
/// The object must not be opened without knowing the message, not even to read it.
const FAILS_IF_UNKNOWN: u8 = 128;

/// Types of messages.
pub mod message {
    pub const NIL: u16 = 0;
    pub const DATASPACE: u16 = 1;
    pub const LINK_INFO: u16 = 2;
    pub const DATATYPE: u16 = 3;
    pub const OLD_FILL_VALUE: u16 = 4;
    pub const FILL_VALUE: u16 = 5;
    pub const LINK: u16 = 6;
    pub const EXTERNAL_FILES: u16 = 7;
    pub const LAYOUT: u16 = 8;
    pub const FILTER_PIPELINE: u16 = 11;
    pub const ATTRIBUTE: u16 = 12;
    pub const SHARED_TABLE: u16 = 15;
    pub const CONTINUATION: u16 = 16;
    pub const SYMBOL_TABLE: u16 = 17;
    pub const DRIVER: u16 = 20;
    pub const ATTRIBUTE_INFO: u16 = 21;
    pub const FILE_SPACE: u16 = 23;
    pub const CACHE_IMAGE: u16 = 24;

    /// Type 9 was for tests of HDF5 alone.
    pub fn is_known(kind: u16) -> bool {
        kind <= CACHE_IMAGE && kind != 9
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub kind: u16,
    pub flags: u8,
    /// In the order of creation, where the header keeps it.
    pub creation_order: u16,
    pub body: Block,
}

/// An object of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectHeader {
    /// From the superblock.
    pub offset: u64,
    /// Whether attributes have numbers in the order of their creation.
    pub keeps_order: bool,
    pub messages: Vec<Message>,
}

impl ObjectHeader {
    pub fn read(blocks: &Blocks, offset: u64) -> Result<ObjectHeader> {
        let first = blocks.block_within(offset, FIRST_BYTES)?;
        let mut cursor = blocks.cursor(&first);
        let is_second = first.bytes.starts_with(b"OHDR");
        let (mut form, len) = match is_second {
            true => second(&mut cursor)?,
            false => first_version(&mut cursor)?,
        };
        let begin = cursor.position() as u64;
        let mut reading = Reading {
            header: ObjectHeader {
                offset,
                keeps_order: form.keeps_order,
                messages: Vec::new(),
            },
            continuations: VecDeque::new(),
        };
        let end = begin.saturating_add(len);
        let whole = match end <= first.bytes.len() as u64 {
            true => Block {
                bytes: first.bytes[..end as usize].to_vec(),
                ..first
            },
            false => blocks.block(offset, end)?,
        };
        let mut cursor = blocks.cursor(&whole);
        cursor.seek(begin)?;
        if form.is_second {
            cursor = cursor.checked()?;
        }
        reading.messages(cursor, form)?;
        reading.follow(blocks, &mut form)?;
        Ok(reading.header)
    }

    /// Bytes of all messages.
    pub fn bytes(&self) -> u64 {
        let bodies = self.messages.iter().map(|message| message.body.bytes.len());
        bodies.sum::<usize>() as u64
    }

    /// The first message of a kind.
    pub fn find(&self, kind: u16) -> Option<&Message> {
        self.messages.iter().find(|message| message.kind == kind)
    }

    pub fn all(&self, kind: u16) -> impl Iterator<Item = &Message> {
        self.messages
            .iter()
            .filter(move |message| message.kind == kind)
    }
}

#[derive(Clone, Copy)]
struct Form {
    is_second: bool,
    keeps_order: bool,
}

/// The head of version 2, and the bytes of its first messages and their checksum.
fn second(cursor: &mut Cursor<'_>) -> Result<(Form, u64)> {
    cursor.signature(b"OHDR")?;
    cursor.version("object header", 2)?;
    let flags = cursor.u8()?;
    if flags & 0x20 != 0 {
        cursor.skip(16)?; // times
    }
    if flags & 0x10 != 0 {
        cursor.skip(4)?; // when attributes move to a heap
    }
    let len = cursor.uint(1 << (flags & 3))?;
    let form = Form {
        is_second: true,
        keeps_order: flags & 4 != 0,
    };
    Ok((form, len.saturating_add(4)))
}

fn first_version(cursor: &mut Cursor<'_>) -> Result<(Form, u64)> {
    cursor.version("object header", 1)?;
    cursor.skip(1 + 2 + 4)?; // reserved; number of messages, which the blocks' ends tell; references
    let len = cursor.u32()?;
    cursor.skip(4)?;
    let form = Form {
        is_second: false,
        keeps_order: false,
    };
    Ok((form, len.into()))
}

struct Reading {
    header: ObjectHeader,
    /// Offset and length of blocks to come.
    continuations: VecDeque<(u64, u64)>,
}

impl Reading {
    fn messages(&mut self, mut cursor: Cursor<'_>, form: Form) -> Result<()> {
        let head = match form {
            Form {
                is_second: false, ..
            } => 8,
            Form { keeps_order, .. } => 4 + 2 * usize::from(keeps_order),
        };
        // What is left behind the last message is a gap.
        while cursor.left() >= head {
            let kind = match form.is_second {
                true => cursor.u8()?.into(),
                false => cursor.u16()?,
            };
            let (len, flags) = (cursor.u16()?, cursor.u8()?);
            let creation_order = match form.keeps_order {
                true => cursor.u16()?,
                false => 0,
            };
            if !form.is_second {
                cursor.skip(3)?;
            }
            let address = cursor.address();
            let mut body = cursor.part(len.into())?;
            match kind {
                message::NIL => {}
                _ if flags & FAILS_IF_UNKNOWN != 0 && !message::is_known(kind) => {
                    return forbidden(address, format_args!("a message of type {kind}"));
                }
                message::CONTINUATION => {
                    let place = (body.offset()?, body.length()?);
                    self.continuations.push_back(place);
                }
                _ => self.header.messages.push(Message {
                    kind,
                    flags,
                    creation_order,
                    body: Block {
                        bytes: body.take(len.into())?.to_vec(),
                        address,
                    },
                }),
            }
        }
        Ok(())
    }

    fn follow(&mut self, blocks: &Blocks, form: &mut Form) -> Result<()> {
        let (mut seen, mut total) = (HashSet::new(), 0_u64);
        while let Some((offset, len)) = self.continuations.pop_front() {
            total = total.saturating_add(len);
            if !seen.insert(offset) || total > blocks.file_size() {
                let expected = "a continuation of the object header that was not read before";
                return corrupt(blocks.address(offset), expected, "one that was");
            }
            let block = blocks.block(offset, len)?;
            let mut cursor = blocks.cursor(&block);
            if form.is_second {
                cursor.signature(b"OCHK")?;
                cursor = cursor.checked()?;
            }
            self.messages(cursor, *form)?;
        }
        Ok(())
    }
}
