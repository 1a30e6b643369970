//! Version 2 B-trees (III.A.2): of chunks, links, attributes, huge objects and shared messages.
//!
//! Law:
//! 1. A node is at the depth that its parent says, with at most the records that fit in it; the depth is
//!    at most `MAX_DEPTH`, so the recursion is bounded. walk.rs bounds the rest.
//! 2. Records are given in order, each with a cursor of its own. An undefined root is an empty tree.
//! 3. A search reads only the nodes that may have what is wanted.

use super::blocks::Blocks;
use super::cursor::{Cursor, UNDEFINED, bytes_for};
use super::error::{Result, corrupt};
use super::walk::Walk;
use std::cmp::Ordering;

/// A tree of this depth has more records than any file has bytes.
const MAX_DEPTH: u16 = 64;
/// Signature, version and kind; and the checksum.
const NODE_OVERHEAD: u64 = 4 + 1 + 1 + 4;

type OnRecord<'f> = &'f mut dyn FnMut(Cursor<'_>) -> Result<()>;
/// Where a record stands beside what is wanted.
type Side<'f> = &'f dyn Fn(Cursor<'_>) -> Result<Ordering>;

pub struct BTreeV2<'a> {
    blocks: &'a Blocks,
    /// Absolute in the file.
    pub address: u64,
    /// What the records are (III.A.2).
    pub kind: u8,
    pub record_bytes: u64,
    root: u64,
    n_root_records: u64,
    /// Records of the whole tree.
    pub n_records: u64,
    /// By the height above the leaves: they are at 0.
    levels: Vec<Level>,
}

/// Nodes of one height.
struct Level {
    max_records: u64,
    /// Bytes of an address, the child's records and all records below it. None at the leaves.
    pointer_bytes: u64,
    /// Bytes of the number of all records below a child.
    below_bytes: usize,
}

/// Every record of the tree with this header.
pub fn each_record(
    blocks: &Blocks,
    offset: u64,
    f: &mut dyn FnMut(Cursor<'_>) -> Result<()>,
) -> Result<()> {
    BTreeV2::open(blocks, offset)?.each_record(f)
}

impl<'a> BTreeV2<'a> {
    pub fn open(blocks: &'a Blocks, offset: u64) -> Result<BTreeV2<'a>> {
        let sizes = blocks.sizes;
        let len = 4 + 1 + 1 + 4 + 2 + 2 + 1 + 1 + sizes.address + 2 + sizes.length + 4;
        let block = blocks.block(offset, len as u64)?;
        let mut cursor = blocks.cursor(&block).checked()?;
        cursor.signature(b"BTHD")?;
        cursor.version("B-tree", 0)?;
        let kind = cursor.u8()?;
        let (node_bytes, record_bytes) = (u64::from(cursor.u32()?), u64::from(cursor.u16()?));
        let (depth_address, depth) = (cursor.address(), cursor.u16()?);
        cursor.skip(1 + 1)?; // percents of splitting and merging
        let root = cursor.offset()?;
        let n_root_records = u64::from(cursor.u16()?);
        let (total_address, n_records) = (cursor.address(), cursor.length()?);
        if record_bytes == 0 || depth > MAX_DEPTH {
            let got = format!("{record_bytes} bytes at depth {depth}");
            return corrupt(
                depth_address,
                format_args!("records at depth 0 to {MAX_DEPTH}"),
                got,
            );
        }
        if n_records > blocks.file_size() / record_bytes {
            let expected = format!("records of {record_bytes} bytes within the file's size");
            return corrupt(total_address, expected, n_records);
        }
        let Some(levels) = levels(node_bytes, record_bytes, depth, sizes.address) else {
            let expected = format!("a B-tree node for records of {record_bytes} bytes");
            return corrupt(
                block.address,
                expected,
                format_args!("one of {node_bytes} bytes"),
            );
        };
        Ok(BTreeV2 {
            blocks,
            address: block.address,
            kind,
            record_bytes,
            root,
            n_root_records,
            n_records,
            levels,
        })
    }

    pub fn each_record(&self, f: &mut dyn FnMut(Cursor<'_>) -> Result<()>) -> Result<()> {
        self.find(&|_| Ok(Ordering::Equal), f)
    }

    /// Every record whose side is `Equal`.
    pub fn find(
        &self,
        side: &dyn Fn(Cursor<'_>) -> Result<Ordering>,
        f: &mut dyn FnMut(Cursor<'_>) -> Result<()>,
    ) -> Result<()> {
        if self.root == UNDEFINED {
            return Ok(());
        }
        let height = self.levels.len() - 1;
        self.node(
            &mut Walk::new(self.blocks),
            self.root,
            self.n_root_records,
            height,
            side,
            f,
        )
    }

    fn node(
        &self,
        walk: &mut Walk<'_>,
        offset: u64,
        n_records: u64,
        height: usize,
        side: Side<'_>,
        f: OnRecord<'_>,
    ) -> Result<()> {
        let level = &self.levels[height];
        if n_records > level.max_records {
            let expected = format!("a B-tree node of at most {} records", level.max_records);
            return corrupt(self.blocks.address(offset), expected, n_records);
        }
        let pointers = (n_records + 1) * level.pointer_bytes;
        let len = NODE_OVERHEAD + n_records * self.record_bytes + pointers;
        let block = walk.block(offset, len)?;
        let mut cursor = walk.cursor(&block).checked()?;
        cursor.signature(if height == 0 { b"BTLF" } else { b"BTIN" })?;
        cursor.version("B-tree node", 0)?;
        let (address, kind) = (cursor.address(), cursor.u8()?);
        if kind != self.kind {
            return corrupt(
                address,
                format_args!("a B-tree node of kind {}", self.kind),
                kind,
            );
        }
        let mut records = cursor.part((n_records * self.record_bytes) as usize)?;
        let mut before = Ordering::Less;
        for child in 0..=n_records {
            let record = match child < n_records {
                true => Some(records.part(self.record_bytes as usize)?),
                false => None,
            };
            let after = match &record {
                Some(record) => side(record.clone())?,
                None => Ordering::Greater,
            };
            if let Some(below) = height.checked_sub(1) {
                let child_offset = cursor.offset()?;
                let n_child_records = cursor.uint(bytes_for(self.levels[0].max_records))?;
                cursor.skip(level.below_bytes)?;
                if before.is_le() && after.is_ge() {
                    self.node(walk, child_offset, n_child_records, below, side, f)?;
                }
            }
            if let (Some(record), Ordering::Equal) = (record, after) {
                f(record)?;
            }
            before = after;
        }
        Ok(())
    }
}

/// What fits in nodes of every height. None: not even one record does.
fn levels(node: u64, record: u64, depth: u16, address: usize) -> Option<Vec<Level>> {
    let room = node.checked_sub(NODE_OVERHEAD)?;
    let max_records = room / record;
    let mut levels = vec![Level {
        max_records,
        pointer_bytes: 0,
        below_bytes: 0,
    }];
    let mut all_below = max_records;
    for height in 1..=depth {
        let below_bytes = if height == 1 { 0 } else { bytes_for(all_below) };
        let pointer_bytes = (address + bytes_for(levels[0].max_records) + below_bytes) as u64;
        let max_records = room.checked_sub(pointer_bytes)? / (record + pointer_bytes);
        all_below = all_below
            .saturating_mul(max_records + 1)
            .saturating_add(max_records);
        levels.push(Level {
            max_records,
            pointer_bytes,
            below_bytes,
        });
    }
    levels
        .iter()
        .all(|level| level.max_records > 0)
        .then_some(levels)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks};

    /// A header of 38 bytes, of nodes of 64 bytes with records of 8.
    fn header(depth: u16, root: u64, n_root_records: u16) -> Written {
        let head = Written::new(b"BTHD")
            .bytes(&[0, 5])
            .u32(64)
            .u16(8)
            .u16(depth);
        head.bytes(&[100, 40])
            .u64s(&[root])
            .u16(n_root_records)
            .u64s(&[0])
            .sum()
    }

    fn leaf(records: &[u64]) -> Written {
        Written::new(b"BTLF").bytes(&[0, 5]).u64s(records).sum()
    }

    /// An inner node right above the leaves, with (child, its records).
    fn inner(records: &[u64], children: &[(u64, u8)]) -> Written {
        let head = Written::new(b"BTIN").bytes(&[0, 5]).u64s(records);
        let pointer = |node: Written, (child, n): &(u64, u8)| node.u64s(&[*child]).bytes(&[*n]);
        children.iter().fold(head, pointer).sum()
    }

    fn records(file: Written) -> Result<Vec<u64>> {
        let mut got = Vec::new();
        each_record(&blocks(file.0), 0, &mut |mut record| {
            got.push(record.u64()?);
            assert_eq!(record.left(), 0);
            Ok(())
        })?;
        Ok(got)
    }

    fn message(file: Written) -> String {
        records(file).unwrap_err().to_string()
    }

    #[test]
    fn records_in_order() {
        let file = header(1, 50, 1)
            .up_to(50)
            .bytes(&inner(&[3], &[(100, 2), (200, 1)]).0);
        let file = file
            .up_to(100)
            .bytes(&leaf(&[1, 2]).0)
            .up_to(200)
            .bytes(&leaf(&[4]).0);
        assert_eq!(records(file).unwrap(), [1, 2, 3, 4]);
    }

    #[test]
    fn an_undefined_root_is_empty() {
        assert!(records(header(0, UNDEFINED, 0)).unwrap().is_empty());
    }

    #[test]
    fn a_loop_is_corrupt() {
        let file = header(1, 50, 1)
            .up_to(50)
            .bytes(&inner(&[3], &[(100, 1), (100, 1)]).0);
        let file = file.up_to(100).bytes(&leaf(&[1]).0).up_to(200);
        assert!(message(file).contains("a block not met before at byte 100"));
    }

    #[test]
    fn a_count_beyond_the_node_is_corrupt() {
        let file = header(0, 50, 7).up_to(50).bytes(&leaf(&[0; 7]).0);
        assert!(message(file).contains("at most 6 records at byte 50, got 7"));
    }

    #[test]
    fn a_deep_tree_is_corrupt() {
        assert!(message(header(65, 50, 1)).contains("depth 0 to 64"));
    }

    #[test]
    fn a_wrong_sum_is_corrupt() {
        let mut file = header(0, 50, 1).up_to(50).bytes(&leaf(&[1]).0);
        file.0[57] ^= 1;
        assert!(message(file).contains("of the block at byte 50"));
    }

    #[test]
    fn a_node_without_room_is_corrupt() {
        let head = Written::new(b"BTHD").bytes(&[0, 5]).u32(12).u16(8).u16(0);
        let head = head.bytes(&[100, 40]).u64s(&[50]).u16(1).u64s(&[0]).sum();
        assert!(message(head).contains("got one of 12 bytes"));
    }
}
