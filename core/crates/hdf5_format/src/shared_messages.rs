//! Messages that several objects share: in a committed datatype, or in a heap of the file (IV.A.2.p,
//! IV.B, III.G).
//!
//! Law: a shared message is not itself shared again, so nothing is followed twice.

use super::blocks::Blocks;
use super::cursor::{Block, Cursor};
use super::error::{Result, corrupt};
use super::fractal_heap::FractalHeap;
use super::kept::Kept;
use super::object_header::{ObjectHeader, SHARED, message};

/// Heaps of shared messages, and objects whose messages are shared.
#[derive(Default)]
pub struct SharedMessages {
    objects: Kept<ObjectHeader>,
    /// The types of messages of each heap, a bit each.
    heaps: Vec<(u16, FractalHeap)>,
}

impl SharedMessages {
    /// Read the table that the superblock extension names, if there is one.
    pub fn open(blocks: &Blocks, extension: &ObjectHeader) -> Result<SharedMessages> {
        let mut shared = SharedMessages::default();
        let Some(message) = extension.find(message::SHARED_TABLE) else {
            return Ok(shared);
        };
        let mut cursor = blocks.cursor(&message.body);
        cursor.version("shared message table", 0)?;
        let (offset, count) = (cursor.offset()?, u64::from(cursor.u8()?));
        // An index: version, kind, types, least size, two limits, how many; index and heap.
        let index_bytes = 1 + 1 + 2 + 4 + 3 * 2 + 2 * blocks.sizes.address as u64;
        let table = blocks.block(offset, 4 + count * index_bytes + 4)?;
        let mut cursor = blocks.cursor(&table);
        cursor.signature(b"SMTB")?;
        let mut cursor = cursor.checked()?;
        for _ in 0..count {
            cursor.skip(2)?;
            let types = cursor.u16()?;
            cursor.skip(4 + 3 * 2)?;
            cursor.offset()?;
            let heap = cursor.offset()?;
            if heap != super::cursor::UNDEFINED {
                shared.heaps.push((types, FractalHeap::open(blocks, heap)?));
            }
        }
        Ok(shared)
    }

    /// The body of a message with these flags, wherever it is.
    pub fn body(&self, blocks: &Blocks, kind: u16, flags: u8, body: &Block) -> Result<Block> {
        if flags & SHARED == 0 {
            return Ok(body.clone());
        }
        let mut cursor = blocks.cursor(body);
        let (version, place) = (cursor.u8()?, cursor.u8()?);
        match version {
            3 if place == 1 => return self.in_heap(blocks, kind, &mut cursor),
            1 => {
                cursor.skip(6)?;
                cursor.length()?; // an offset in a heap, which no release used
            }
            2 | 3 => {}
            _ => {
                return corrupt(
                    body.address,
                    "version 1 to 3 of the shared message",
                    version,
                );
            }
        }
        let offset = cursor.offset()?;
        let header = self.objects.get(offset, || {
            let header = ObjectHeader::read(blocks, offset)?;
            let bytes = header.bytes();
            Ok((header, bytes))
        })?;
        match header.find(kind) {
            Some(message) if message.flags & SHARED == 0 => Ok(message.body.clone()),
            Some(_) => corrupt(
                blocks.address(offset),
                "the shared message",
                "one shared again",
            ),
            None => {
                let expected = format!("an object with a message of type {kind}");
                corrupt(blocks.address(offset), expected, "none")
            }
        }
    }

    fn in_heap(&self, blocks: &Blocks, kind: u16, cursor: &mut Cursor<'_>) -> Result<Block> {
        let address = cursor.address();
        let of_kind = |(types, _): &&(u16, FractalHeap)| {
            types
                .checked_shr(kind.into())
                .is_some_and(|bits| bits & 1 == 1)
        };
        match self.heaps.iter().find(of_kind) {
            Some((_, heap)) => heap.object(blocks, cursor.take(8)?),
            None => {
                let expected = format!("a heap of shared messages of type {kind}");
                corrupt(address, expected, "none")
            }
        }
    }
}
