//! Fractal heaps (III.G): links, attributes and shared messages of newer files.
//!
//! Law:
//! 1. A managed object lies inside one direct block, behind its head. Rows of indirect blocks fall on
//!    the way down, so the way is bounded.
//! 2. Blocks are read once and a bounded number of bytes is kept; each is checked when it is read.
//! 3. Filtered heaps are unknown.

use super::blocks::Blocks;
use super::btree_v2::BTreeV2;
use super::cursor::{Block, Cursor, UNDEFINED, bytes_for};
use super::doubling_table::DoublingTable;
use super::error::{Result, corrupt, unknown};
use super::kept::Kept;
use std::collections::HashMap;
use std::sync::Arc;

/// Kind of the B-tree of huge objects that are neither filtered nor found by their ids alone.
const HUGE_OBJECTS: u8 = 1;
/// Longer ids tell the length of a tiny object with one byte more.
const MAX_SHORT_ID: u64 = 18;

pub struct FractalHeap {
    /// From the superblock.
    offset: u64,
    /// Absolute in the file.
    address: u64,
    id_bytes: u64,
    /// Bytes of an offset in the heap, and of a managed object's length.
    offset_bytes: usize,
    length_bytes: usize,
    are_direct_summed: bool,
    huge_tree: u64,
    table: DoublingTable,
    root: u64,
    /// Of the root if it is an indirect block. None: it is a direct one.
    root_rows: u64,
    read: Kept<Block>,
    /// Offset and length by the huge object's number.
    huge: Kept<HashMap<u64, (u64, u64)>>,
}

impl FractalHeap {
    pub fn open(blocks: &Blocks, offset: u64) -> Result<FractalHeap> {
        let sizes = blocks.sizes;
        let len = 26 + 12 * sizes.length + 3 * sizes.address;
        let block = blocks.block(offset, len as u64)?;
        let mut cursor = blocks.cursor(&block);
        cursor.signature(b"FRHP")?;
        cursor.version("fractal heap", 0)?;
        let id_bytes = u64::from(cursor.u16()?);
        if cursor.u16()? > 0 {
            return unknown(block.address, "a fractal heap with filters");
        }
        let mut cursor = cursor.checked()?;
        let flags = cursor.u8()?;
        let max_managed = u64::from(cursor.u32()?);
        cursor.length()?; // next number of a huge object
        let huge_tree = cursor.offset()?;
        cursor.length()?; // free bytes
        cursor.offset()?; // their manager
        cursor.skip(8 * sizes.length)?; // sizes and numbers of objects
        let (table, heap_bits, max_direct) = DoublingTable::read(&mut cursor)?;
        cursor.u16()?; // rows that a root begins with
        let root = cursor.offset()?;
        let (rows_address, root_rows) = (cursor.address(), u64::from(cursor.u16()?));
        let max_rows = heap_bits - u64::from(table.row_bytes().ilog2()) + 1;
        if root_rows > max_rows {
            return corrupt(
                rows_address,
                format_args!("at most {max_rows} rows"),
                root_rows,
            );
        }
        Ok(FractalHeap {
            offset,
            address: block.address,
            id_bytes,
            offset_bytes: heap_bits.div_ceil(8) as usize,
            length_bytes: bytes_for(max_direct - 1).min(bytes_for(max_managed)),
            are_direct_summed: flags & 2 != 0,
            huge_tree,
            table,
            root,
            root_rows,
            read: Kept::default(),
            huge: Kept::default(),
        })
    }

    /// The object with an id.
    pub fn object(&self, blocks: &Blocks, id: &[u8]) -> Result<Block> {
        if id.len() as u64 != self.id_bytes {
            let expected = format!("a heap id of {} bytes", self.id_bytes);
            return corrupt(self.address, expected, id.len());
        }
        let mut cursor = Cursor::over(id, self.address, blocks.sizes);
        let first = cursor.u8()?;
        match (first >> 6, first >> 4 & 3) {
            (0, 0) => {
                let at = cursor.uint(self.offset_bytes)?;
                let len = cursor.uint(self.length_bytes)?;
                self.managed(blocks, at, len)
            }
            (0, 1) => self.huge(blocks, cursor),
            (0, 2) => self.tiny(first, cursor),
            _ => {
                let expected = "a heap id of version 0 and type 0 to 2";
                corrupt(self.address, expected, format_args!("{first:#04x}"))
            }
        }
    }

    fn managed(&self, blocks: &Blocks, at: u64, len: u64) -> Result<Block> {
        let (block, begin) = self.direct_block_of(blocks, at)?;
        let (from, size) = (at - begin, block.bytes.len() as u64);
        let head = self.head_bytes(blocks) + if self.are_direct_summed { 4 } else { 0 };
        if from < head || len > size.saturating_sub(from) {
            let expected = format!("an object within bytes {head} to {size} of the heap's block");
            return corrupt(
                block.address,
                expected,
                format_args!("{len} bytes at {from}"),
            );
        }
        Ok(Block {
            bytes: block.bytes[from as usize..(from + len) as usize].to_vec(),
            address: block.address + from,
        })
    }

    fn huge(&self, blocks: &Blocks, mut id: Cursor<'_>) -> Result<Block> {
        let sizes = blocks.sizes;
        if id.left() >= sizes.address + sizes.length {
            return blocks.block(id.offset()?, id.length()?);
        }
        let number = id.uint(id.left().min(8))?;
        let objects = self.huge.get(self.huge_tree, || {
            let tree = BTreeV2::open(blocks, self.huge_tree)?;
            let record_bytes = (sizes.address + 2 * sizes.length) as u64;
            if (tree.kind, tree.record_bytes) != (HUGE_OBJECTS, record_bytes) {
                let expected = "a B-tree of huge objects";
                return corrupt(
                    tree.address,
                    expected,
                    format_args!("one of kind {}", tree.kind),
                );
            }
            let mut objects = HashMap::new();
            tree.each_record(&mut |mut record| {
                let place = (record.offset()?, record.length()?);
                objects.insert(record.length()?, place);
                Ok(())
            })?;
            Ok((objects, 0))
        })?;
        match objects.get(&number) {
            Some(&(offset, len)) => blocks.block(offset, len),
            None => {
                let address = blocks.address(self.huge_tree);
                corrupt(address, format_args!("the huge object {number}"), "none")
            }
        }
    }

    /// An object that its id contains.
    fn tiny(&self, first: u8, mut id: Cursor<'_>) -> Result<Block> {
        let mut len = usize::from(first & 15);
        if self.id_bytes > MAX_SHORT_ID {
            len = len << 8 | usize::from(id.u8()?);
        }
        Ok(Block {
            bytes: id.take(len + 1)?.to_vec(),
            address: self.address,
        })
    }

    /// The direct block that a byte of the heap is in, and where this block begins in the heap.
    fn direct_block_of(&self, blocks: &Blocks, at: u64) -> Result<(Arc<Block>, u64)> {
        let (mut offset, mut rows, mut begin) = (self.root, self.root_rows, 0);
        let mut bytes = self.table.start_bytes;
        while rows > 0 {
            let block = self.indirect_block(blocks, offset, rows, begin)?;
            let (entry, from) = self.table.entry(at - begin);
            if entry.row >= rows {
                let expected = format!("an offset of the heap within {rows} rows");
                return corrupt(block.address, expected, at);
            }
            let index = entry.row * self.table.width + entry.column;
            let mut cursor = blocks.cursor(&block);
            cursor.seek(self.head_bytes(blocks) + index * blocks.sizes.address as u64)?;
            let entry_address = cursor.address();
            offset = cursor.offset()?;
            if offset == UNDEFINED {
                return corrupt(entry_address, "a block of the heap", "an undefined address");
            }
            (bytes, begin) = (entry.bytes, at - from);
            let rows_below = self.table.rows_of(&entry);
            if rows_below >= rows {
                return corrupt(
                    entry_address,
                    format_args!("less than {rows} rows"),
                    rows_below,
                );
            }
            rows = rows_below;
        }
        let past = at - begin;
        if past >= bytes {
            let expected = format!("an offset within {bytes} bytes of the heap");
            return corrupt(blocks.address(offset), expected, past);
        }
        Ok((self.direct_block(blocks, offset, bytes, begin)?, begin))
    }

    /// Bytes of a block's signature, version, header and offset.
    fn head_bytes(&self, blocks: &Blocks) -> u64 {
        (4 + 1 + blocks.sizes.address + self.offset_bytes) as u64
    }

    fn check_head(&self, cursor: &mut Cursor<'_>, letters: &[u8; 4], begin: u64) -> Result<()> {
        cursor.signature(letters)?;
        cursor.version("heap's block", 0)?;
        let address = cursor.address();
        let got = (cursor.offset()?, cursor.uint(self.offset_bytes)?);
        if got == (self.offset, begin) {
            return Ok(());
        }
        let expected = format!("byte {begin} of the heap of offset {}", self.offset);
        corrupt(
            address,
            expected,
            format_args!("byte {} of that of {}", got.1, got.0),
        )
    }

    fn indirect_block(
        &self,
        blocks: &Blocks,
        offset: u64,
        rows: u64,
        begin: u64,
    ) -> Result<Arc<Block>> {
        let entries = rows * self.table.width;
        let len = self.head_bytes(blocks) + entries * blocks.sizes.address as u64 + 4;
        self.block(offset, len, || {
            let block = blocks.block(offset, len)?;
            let mut cursor = blocks.cursor(&block).checked()?;
            self.check_head(&mut cursor, b"FHIB", begin)?;
            Ok(block)
        })
    }

    fn direct_block(
        &self,
        blocks: &Blocks,
        offset: u64,
        len: u64,
        begin: u64,
    ) -> Result<Arc<Block>> {
        self.block(offset, len, || {
            let block = blocks.block(offset, len)?;
            let mut cursor = blocks.cursor(&block);
            self.check_head(&mut cursor, b"FHDB", begin)?;
            if self.are_direct_summed {
                // The sum stands in front of what it sums, and is zero in there.
                let at = cursor.position();
                let sum = cursor.take(4)?;
                let mut summed = block.bytes.clone();
                summed[at..at + 4].fill(0);
                summed.extend(sum);
                Cursor::over(&summed, block.address, blocks.sizes).checked()?;
            }
            Ok(block)
        })
    }

    /// A block that is kept, or read. One of another size at the same offset is another block.
    fn block(
        &self,
        offset: u64,
        len: u64,
        read: impl FnOnce() -> Result<Block>,
    ) -> Result<Arc<Block>> {
        let block = self.read.get(offset, || read().map(|block| (block, len)))?;
        if block.bytes.len() as u64 != len {
            let got = format!("{} bytes elsewhere", block.bytes.len());
            return corrupt(block.address, format_args!("a block of {len} bytes"), got);
        }
        Ok(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks};

    const HEADER_BYTES: usize = 146;

    /// A heap of ids of 8 bytes, blocks from 64 bytes to 128, two to a row, and offsets of 4 bytes.
    fn header(rows: u16, root: u64) -> Written {
        let head = Written::new(b"FRHP")
            .bytes(&[0])
            .u16(8)
            .u16(0)
            .bytes(&[0])
            .u32(100);
        let head = head.u64s(&[0, UNDEFINED, 0, UNDEFINED]).zeros(64).u16(2);
        let head = head
            .u64s(&[64, 128])
            .u16(32)
            .u16(1)
            .u64s(&[root])
            .u16(rows)
            .sum();
        assert_eq!(head.0.len(), HEADER_BYTES);
        head
    }

    fn head(signature: &[u8; 4], begin: u32) -> Written {
        Written::new(signature).bytes(&[0]).u64s(&[0]).u32(begin)
    }

    fn object(file: &Written, at: u32, len: u8) -> std::result::Result<Vec<u8>, String> {
        let id = Written::default().bytes(&[0]).u32(at).bytes(&[len, 0, 0]);
        let file = blocks(file.0.clone());
        let heap = FractalHeap::open(&file, 0).unwrap();
        heap.object(&file, &id.0)
            .map(|block| block.bytes)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn objects_of_a_direct_root() {
        let file = header(0, 150)
            .up_to(150)
            .bytes(&head(b"FHDB", 0).bytes(b"abc").0)
            .up_to(214);
        assert_eq!(object(&file, 17, 3).unwrap(), b"abc");
        assert_eq!(object(&file, 17, 47).unwrap().len(), 47);
        assert!(
            object(&file, 17, 48)
                .unwrap_err()
                .contains("within bytes 17 to 64")
        );
        assert!(
            object(&file, 16, 1)
                .unwrap_err()
                .contains("got 1 bytes at 16")
        );
        assert!(
            object(&file, 64, 1)
                .unwrap_err()
                .contains("within 64 bytes of the heap")
        );
    }

    #[test]
    fn objects_below_indirect_blocks() {
        // Rows 0 and 1 have blocks of 64 bytes, row 2 of 128, row 3 indirect ones of 256 and two rows.
        let (mut entries, mut below) = ([UNDEFINED; 8], [UNDEFINED; 4]);
        (entries[6], entries[7], below[3]) = (400, 150, 500);
        let file = header(4, 150)
            .up_to(150)
            .bytes(&head(b"FHIB", 0).u64s(&entries).sum().0);
        let file = file
            .up_to(400)
            .bytes(&head(b"FHIB", 512).u64s(&below).sum().0);
        let file = file
            .up_to(500)
            .bytes(&head(b"FHDB", 704).bytes(b"xyz").0)
            .up_to(564);
        assert_eq!(object(&file, 704 + 17, 3).unwrap(), b"xyz");
        assert!(
            object(&file, 512, 1)
                .unwrap_err()
                .contains("an undefined address")
        );
        assert!(
            object(&file, 1024, 1)
                .unwrap_err()
                .contains("within 4 rows")
        );
        // The entry of bytes 768 on leads back to the root.
        assert!(
            object(&file, 800, 1)
                .unwrap_err()
                .contains("bytes elsewhere")
        );
    }

    #[test]
    fn a_block_of_another_place_is_corrupt() {
        let file = header(0, 150)
            .up_to(150)
            .bytes(&head(b"FHDB", 64).0)
            .up_to(214);
        assert!(
            object(&file, 17, 1)
                .unwrap_err()
                .contains("got byte 64 of that of 0")
        );
    }

    #[test]
    fn too_many_rows_are_corrupt() {
        let error = FractalHeap::open(&blocks(header(27, 150).0), 0)
            .err()
            .unwrap();
        assert_eq!(
            error.to_string(),
            "expected at most 26 rows at byte 140, got 27"
        );
    }

    #[test]
    fn tiny_objects_and_unknown_ids() {
        let file = blocks(header(0, 150).0);
        let heap = FractalHeap::open(&file, 0).unwrap();
        let object = |id: &[u8]| heap.object(&file, id).map(|block| block.bytes);
        assert_eq!(object(b"\x22abcdefg").unwrap(), b"abc");
        assert!(
            object(b"\x27abcdefg")
                .unwrap_err()
                .to_string()
                .contains("8 more bytes")
        );
        assert!(
            object(b"\x30abcdefg")
                .unwrap_err()
                .to_string()
                .contains("got 0x30")
        );
        assert!(
            object(b"\x20a")
                .unwrap_err()
                .to_string()
                .contains("a heap id of 8 bytes")
        );
        assert!(
            object(b"\x10abcdefg")
                .unwrap_err()
                .to_string()
                .contains("an undefined one")
        );
    }

    #[test]
    fn a_filtered_heap_is_unknown() {
        let mut bytes = header(0, 150).0;
        bytes[7] = 1;
        let error = FractalHeap::open(&blocks(bytes), 0).err().unwrap();
        assert_eq!(error.to_string(), "a fractal heap with filters at byte 0");
    }
}
