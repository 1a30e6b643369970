//! Version 1 B-trees (III.A.1): of a group's symbol tables, and of a dataset's chunks.
//!
//! Law: every child is one level below its node, and the root is at most `MAX_LEVEL` above the leaves,
//! so the recursion is bounded; walk.rs bounds the rest. An undefined root is an empty tree. A search
//! reads only the nodes that may have what is wanted.

use super::blocks::Blocks;
use super::cursor::{Cursor, UNDEFINED};
use super::error::{Result, corrupt};
use super::walk::Walk;

/// A tree of this height has more leaves than any file has bytes, unless its nodes have one child.
const MAX_LEVEL: u8 = 64;

/// Children of a node of chunks, and an upper bound of what nodes of groups take, unless a file says
/// otherwise.
const CHILDREN: usize = 64;
const GROUP_BYTES: u64 = 2 << 10;

/// What the tree leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Symbol tables. The key is an offset of a name.
    Group,
    /// Chunks of a dataset of this rank. The key is size, filter mask and the first element.
    Chunks { rank: usize },
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Group => 0,
            Kind::Chunks { .. } => 1,
        }
    }

    fn key_bytes(self, length: usize) -> usize {
        match self {
            Kind::Group => length,
            Kind::Chunks { rank } => 4 + 4 + 8 * (rank + 1),
        }
    }

    /// About as long as a node is: a part that is missing would be a request of its own.
    fn node_bytes(self, blocks: &Blocks) -> u64 {
        let (key, address) = (self.key_bytes(blocks.sizes.length), blocks.sizes.address);
        match self {
            Kind::Group => GROUP_BYTES,
            Kind::Chunks { .. } => (8 + 2 * address + CHILDREN * (key + address) + key) as u64,
        }
    }
}

type OnLeaf<'f> = &'f mut dyn FnMut(Cursor<'_>, u64) -> Result<()>;
/// Whether a child with this key before it, and this one behind it, may have what is wanted.
type MayHave<'f> = &'f dyn Fn(Cursor<'_>, Cursor<'_>) -> Result<bool>;

/// Every child of the lowest level in order: the key before it, and its offset.
pub fn each_leaf(
    blocks: &Blocks,
    root: u64,
    kind: Kind,
    f: &mut dyn FnMut(Cursor<'_>, u64) -> Result<()>,
) -> Result<()> {
    find(blocks, root, kind, &|_, _| Ok(true), f)
}

/// The same, of those children that may have what is wanted.
pub fn find(
    blocks: &Blocks,
    root: u64,
    kind: Kind,
    may_have: &dyn Fn(Cursor<'_>, Cursor<'_>) -> Result<bool>,
    f: &mut dyn FnMut(Cursor<'_>, u64) -> Result<()>,
) -> Result<()> {
    if root == UNDEFINED {
        return Ok(());
    }
    let mut tree = Tree {
        blocks,
        walk: Walk::new(blocks),
        kind,
    };
    tree.node(root, None, may_have, f)
}

struct Tree<'a> {
    blocks: &'a Blocks,
    walk: Walk<'a>,
    kind: Kind,
}

impl Tree<'_> {
    /// The root may have any level: `expected_level` has no value there.
    fn node(
        &mut self,
        offset: u64,
        expected_level: Option<u8>,
        may_have: MayHave<'_>,
        f: OnLeaf<'_>,
    ) -> Result<()> {
        let sizes = self.blocks.sizes;
        let key_bytes = self.kind.key_bytes(sizes.length);
        let head = self.blocks.block(offset, 8)?;
        let mut cursor = self.blocks.cursor(&head);
        cursor.signature(b"TREE")?;
        let (address, kind, level) = (cursor.address(), cursor.u8()?, cursor.u8()?);
        if kind != self.kind.number() {
            let expected = format!("a B-tree node of kind {}", self.kind.number());
            return corrupt(address, expected, kind);
        }
        match expected_level {
            Some(expected) if level != expected => {
                return corrupt(address + 1, format_args!("level {expected}"), level);
            }
            None if level > MAX_LEVEL => {
                return corrupt(
                    address + 1,
                    format_args!("a level up to {MAX_LEVEL}"),
                    level,
                );
            }
            _ => {}
        }
        let n_children = cursor.u16()?;
        let siblings = 2 * sizes.address;
        let len = 8 + siblings + usize::from(n_children) * (key_bytes + sizes.address) + key_bytes;
        let node = self.walk.block(offset, len as u64)?;
        let mut cursor = self.walk.cursor(&node);
        cursor.skip(8 + siblings)?;
        if self.blocks.wants_prefetch() && (level > 0 || self.kind == Kind::Group) {
            self.prefetch(cursor.clone(), n_children, may_have)?;
        }
        for _ in 0..n_children {
            let (key, child) = (cursor.part(key_bytes)?, cursor.offset()?);
            if !may_have(key.clone(), cursor.clone().part(key_bytes)?)? {
                continue;
            }
            match level.checked_sub(1) {
                None => f(key, child)?,
                below => self.node(child, below, may_have, f)?,
            }
        }
        Ok(())
    }

    /// Prefetch the children of a node that will be read.
    fn prefetch(&self, mut cursor: Cursor<'_>, n: u16, may_have: MayHave<'_>) -> Result<()> {
        let key_bytes = self.kind.key_bytes(self.blocks.sizes.length);
        let mut wanted = Vec::new();
        for _ in 0..n {
            let (key, child) = (cursor.part(key_bytes)?, cursor.offset()?);
            if may_have(key, cursor.clone().part(key_bytes)?)? {
                wanted.push(child);
            }
        }
        self.blocks
            .prefetch(wanted, self.kind.node_bytes(self.blocks));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks};

    /// A node of a group's tree, with (key, child) pairs.
    fn node(level: u8, n_children: u16, children: &[[u64; 2]]) -> Written {
        let head = Written::new(b"TREE").bytes(&[0, level]).u16(n_children);
        let head = head.u64s(&[UNDEFINED, UNDEFINED]);
        head.u64s(children.as_flattened()).u64s(&[99])
    }

    fn leaves(bytes: Vec<u8>) -> Result<Vec<[u64; 2]>> {
        let mut got = Vec::new();
        each_leaf(&blocks(bytes), 0, Kind::Group, &mut |mut key, child| {
            got.push([key.length()?, child]);
            Ok(())
        })?;
        Ok(got)
    }

    fn message(bytes: Vec<u8>) -> String {
        leaves(bytes).unwrap_err().to_string()
    }

    #[test]
    fn leaves_in_order() {
        let file = node(1, 2, &[[0, 100], [5, 200]]).up_to(100);
        let file = file.bytes(&node(0, 2, &[[1, 11], [2, 12]]).0).up_to(200);
        let file = file.bytes(&node(0, 1, &[[6, 16]]).0);
        assert_eq!(leaves(file.0).unwrap(), [[1, 11], [2, 12], [6, 16]]);
    }

    #[test]
    fn an_undefined_root_is_empty() {
        let mut none = |_: Cursor<'_>, _| panic!("there is no leaf");
        each_leaf(&blocks(vec![]), UNDEFINED, Kind::Group, &mut none).unwrap();
    }

    #[test]
    fn a_loop_is_corrupt() {
        assert_eq!(
            message(node(1, 1, &[[0, 0]]).0),
            "expected level 0 at byte 5, got 1"
        );
        let twice = node(1, 2, &[[0, 100], [5, 100]])
            .up_to(100)
            .bytes(&node(0, 0, &[]).0);
        assert!(message(twice.0).contains("not met before at byte 100"));
    }

    #[test]
    fn a_tall_tree_is_corrupt() {
        assert!(message(node(65, 1, &[[0, 100]]).0).contains("a level up to 64 at byte 5, got 65"));
    }

    #[test]
    fn a_count_beyond_the_file_is_corrupt() {
        assert!(message(node(0, 9, &[[1, 11]]).0).contains("a structure of 176 bytes in the file"));
    }

    #[test]
    fn another_kind_is_corrupt() {
        let kind = Kind::Chunks { rank: 1 };
        let file = blocks(node(0, 0, &[]).0);
        let error = each_leaf(&file, 0, kind, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected a B-tree node of kind 1 at byte 4, got 0"
        );
    }
}
