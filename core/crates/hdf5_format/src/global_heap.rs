//! Global heaps (III.E): elements of variable length, references to regions, and virtual layouts.
//!
//! Law:
//! 1. An object lies inside its collection, and its index is there once. Free space, of index 0, is the
//!    last of a collection.
//! 2. Thousands of elements lie in one collection: it is read and parsed once, and a bounded number of
//!    bytes is kept.

use super::blocks::Blocks;
use super::cursor::Block;
use super::error::{Result, corrupt};
use super::kept::Kept;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Everything in a collection begins at a multiple of this many bytes.
const ALIGNED: usize = 8;
/// What an object costs to keep, beside its bytes.
const ENTRY_BYTES: u64 = 48;

pub struct Collection {
    block: Block,
    /// Bytes of the block by the object's index.
    objects: HashMap<u32, Range<usize>>,
}

/// Collections that were read.
#[derive(Default)]
pub struct GlobalHeaps {
    kept: Kept<Collection>,
}

impl GlobalHeaps {
    /// One object of the collection at an offset.
    pub fn object(&self, blocks: &Blocks, offset: u64, index: u32) -> Result<Block> {
        self.collection(blocks, offset)?.object(index)
    }

    /// All objects at an offset.
    pub fn collection(&self, blocks: &Blocks, offset: u64) -> Result<Arc<Collection>> {
        let read = || {
            let collection = Collection::read(blocks, offset)?;
            let entries = ENTRY_BYTES * collection.objects.len() as u64;
            let bytes = collection.block.bytes.len() as u64 + entries;
            Ok((collection, bytes))
        };
        self.kept.get(offset, read)
    }
}

impl Collection {
    fn read(blocks: &Blocks, offset: u64) -> Result<Collection> {
        let length = blocks.sizes.length;
        let head = blocks.block(offset, 8 + length as u64)?;
        let mut cursor = blocks.cursor(&head);
        cursor.signature(b"GCOL")?;
        cursor.version("global heap", 1)?;
        cursor.skip(3)?;
        let block = blocks.block(offset, cursor.length()?)?;
        let mut cursor = blocks.cursor(&block);
        let head_bytes = (8 + length).next_multiple_of(ALIGNED);
        cursor.skip(head_bytes)?;
        let mut objects = HashMap::new();
        // Less than an object's head is free space without one.
        while cursor.left() >= head_bytes {
            let (address, end_of_head) = (cursor.address(), cursor.position() + head_bytes);
            let index = u32::from(cursor.u16()?);
            if index == 0 {
                break;
            }
            cursor.skip(2 + 4)?; // references to it; reserved
            let len = cursor.length()?;
            cursor.seek(end_of_head as u64)?;
            let object = cursor.take(usize::try_from(len).unwrap_or(usize::MAX))?;
            let range = end_of_head..end_of_head + object.len();
            cursor
                .skip((object.len().next_multiple_of(ALIGNED) - object.len()).min(cursor.left()))?;
            if objects.insert(index, range).is_some() {
                return corrupt(
                    address,
                    "an object's index once",
                    format_args!("{index} twice"),
                );
            }
        }
        Ok(Collection { block, objects })
    }

    fn object(&self, index: u32) -> Result<Block> {
        let range = self.range(index)?;
        Ok(Block {
            bytes: self.block.bytes[range.clone()].to_vec(),
            address: self.block.address + range.start as u64,
        })
    }

    /// The bytes of an object.
    pub fn bytes(&self, index: u32) -> Result<&[u8]> {
        Ok(&self.block.bytes[self.range(index)?])
    }

    fn range(&self, index: u32) -> Result<Range<usize>> {
        let Some(range) = self.objects.get(&index) else {
            let expected = format!("object {index} in the global heap");
            return corrupt(self.block.address, expected, "none");
        };
        Ok(range.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks};

    fn collection(size: u64, objects: &[(u16, u64, &[u8])]) -> Blocks {
        let head = Written::new(b"GCOL").bytes(&[1, 0, 0, 0]).u64s(&[size]);
        let add = |written: Written, (index, len, bytes): &(u16, u64, &[u8])| {
            let written = written.u16(*index).zeros(6).u64s(&[*len]).bytes(bytes);
            let padded = written.0.len().next_multiple_of(8);
            written.up_to(padded)
        };
        blocks(objects.iter().fold(head, add).up_to(128).0)
    }

    #[test]
    fn objects_by_index() {
        let file = collection(128, &[(2, 3, b"abc"), (1, 8, b"01234567"), (0, 64, b"")]);
        let heaps = GlobalHeaps::default();
        for _ in 0..2 {
            let abc = heaps.object(&file, 0, 2).unwrap();
            assert_eq!((&abc.bytes[..], abc.address), (&b"abc"[..], 32));
        }
        assert_eq!(heaps.object(&file, 0, 1).unwrap().bytes, b"01234567");
        let error = heaps.object(&file, 0, 3).unwrap_err().to_string();
        assert_eq!(
            error,
            "expected object 3 in the global heap at byte 0, got none"
        );
    }

    #[test]
    fn lying_sizes_are_corrupt() {
        let heaps = GlobalHeaps::default;
        let error = |file| heaps().object(&file, 0, 1).unwrap_err().to_string();
        assert!(error(collection(1 << 50, &[])).contains("in the file at byte 0"));
        assert!(error(collection(128, &[(1, 97, b"")])).contains("97 more bytes"));
        assert!(error(collection(128, &[(1, u64::MAX, b"")])).contains("at byte 32, got 96"));
        assert!(error(collection(4, &[])).contains("16 more bytes"));
    }

    #[test]
    fn an_index_twice_is_corrupt() {
        let file = collection(128, &[(1, 0, b""), (1, 0, b"")]);
        let error = GlobalHeaps::default().object(&file, 0, 1);
        let error = error.unwrap_err().to_string();
        assert_eq!(
            error,
            "expected an object's index once at byte 32, got 1 twice"
        );
    }
}
