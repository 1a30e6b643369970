//! A walk over the blocks of one tree or array.
//!
//! Law:
//! 1. Meets a block once: a loop is corrupt.
//! 2. Blocks of a file do not overlap, so a walk reads no more bytes than the file has. This bounds its
//!    work and what is built from it, however many blocks claim to share the same bytes.

use super::blocks::Blocks;
use super::cursor::{Block, Cursor};
use super::error::{Result, corrupt};
use std::collections::HashSet;

pub struct Walk<'a> {
    blocks: &'a Blocks,
    met: HashSet<u64>,
    bytes_left: u64,
}

impl<'a> Walk<'a> {
    pub fn new(blocks: &'a Blocks) -> Walk<'a> {
        Walk {
            blocks,
            met: HashSet::new(),
            bytes_left: blocks.file_size(),
        }
    }

    pub fn block(&mut self, offset: u64, len: u64) -> Result<Block> {
        let block = self.blocks.block(offset, len)?;
        if !self.met.insert(offset) {
            return corrupt(block.address, "a block not met before", "one met before");
        }
        let Some(left) = self.bytes_left.checked_sub(len) else {
            let expected = format!(
                "blocks that take {} bytes together",
                self.blocks.file_size()
            );
            return corrupt(block.address, expected, "more");
        };
        self.bytes_left = left;
        Ok(block)
    }

    pub fn cursor<'b>(&self, block: &'b Block) -> Cursor<'b> {
        self.blocks.cursor(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::blocks;

    #[test]
    fn a_block_twice_is_corrupt() {
        let file = blocks(vec![0; 32]);
        let mut walk = Walk::new(&file);
        walk.block(0, 8).unwrap();
        let error = walk.block(0, 8).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a block not met before at byte 0, got one met before"
        );
    }

    #[test]
    fn overlapping_blocks_are_corrupt() {
        let file = blocks(vec![0; 32]);
        let mut walk = Walk::new(&file);
        walk.block(0, 20).unwrap();
        assert!(
            walk.block(1, 20)
                .unwrap_err()
                .to_string()
                .contains("32 bytes together")
        );
    }
}
