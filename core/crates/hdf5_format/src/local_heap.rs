//! Local heaps (III.D): the names of a group's links, and of external files.
//!
//! Law: a name begins inside the heap's data and ends in it, with a NUL.

use super::blocks::Blocks;
use super::cursor::{Block, Cursor, Sizes};
use super::error::Result;

pub struct LocalHeap {
    data: Block,
    sizes: Sizes,
}

impl LocalHeap {
    pub fn open(blocks: &Blocks, offset: u64) -> Result<LocalHeap> {
        let sizes = blocks.sizes;
        let head = blocks.block(offset, (8 + 2 * sizes.length + sizes.address) as u64)?;
        let mut cursor = blocks.cursor(&head);
        cursor.signature(b"HEAP")?;
        cursor.version("local heap", 0)?;
        cursor.skip(3)?;
        let len = cursor.length()?;
        cursor.length()?; // first free byte
        let data = blocks.block(cursor.offset()?, len)?;
        Ok(LocalHeap { data, sizes })
    }

    /// The name that begins at an offset of the heap's data.
    pub fn name(&self, at: u64) -> Result<Vec<u8>> {
        let mut cursor = Cursor::new(&self.data, self.sizes);
        cursor.seek(at)?;
        Ok(cursor.name()?.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks};

    /// A heap whose data follow at byte 32.
    fn heap(len: u64, data: &[u8]) -> Result<LocalHeap> {
        let head = Written::new(b"HEAP").zeros(4).u64s(&[len, 1, 32]);
        LocalHeap::open(&blocks(head.bytes(data).0), 0)
    }

    #[test]
    fn names() {
        let heap = heap(8, b"\0abc\0d\0x").unwrap();
        assert_eq!(heap.name(1).unwrap(), b"abc");
        assert_eq!(heap.name(5).unwrap(), b"d");
        assert!(
            heap.name(7)
                .unwrap_err()
                .to_string()
                .contains("a NUL at the end")
        );
        assert!(
            heap.name(8)
                .unwrap_err()
                .to_string()
                .contains("a NUL at the end")
        );
        assert!(
            heap.name(9)
                .unwrap_err()
                .to_string()
                .contains("an offset within 8 bytes")
        );
    }

    #[test]
    fn data_beyond_the_file_are_corrupt() {
        let error = heap(1 << 40, b"").err().unwrap().to_string();
        assert!(error.contains("at byte 32, got 32 bytes"), "{error}");
    }
}
