//! The links of a group: in its header, in a heap, or in a symbol table.
//!
//! Law:
//! 1. What has one name reads only the nodes that may have it.
//! 2. A count is what the file says of it, or the sum of what its nodes say; no name is read for it.

use super::btree_v1::{self, Kind};
use super::btree_v2::BTreeV2;
use super::checksum::lookup3;
use super::cursor::{Cursor, UNDEFINED};
use super::error::Result;
use super::file::{File, Total};
use super::fractal_heap::FractalHeap;
use super::link::{Link, Target, link};
use super::local_heap::LocalHeap;
use super::object_header::{Message, ObjectHeader, message};
use std::cmp::Ordering;

/// What a symbol table says of an entry that is a soft link.
const CACHED_SOFT_LINK: u32 = 2;

impl File {
    /// All links of a group, in the order of the file.
    pub fn links(&self, group: &ObjectHeader) -> Result<Vec<Link>> {
        let mut links = Vec::new();
        self.each_link(group, None, &mut |link| {
            links.push(link);
            Ok(())
        })?;
        Ok(links)
    }

    /// The names of a group: in the order of creation where all links have it, else sorted.
    pub fn names(&self, group: &ObjectHeader) -> Result<Vec<Vec<u8>>> {
        let mut links = self.links(group)?;
        if links.iter().all(|link| link.creation_order.is_some()) {
            links.sort_by_key(|link| link.creation_order);
        } else {
            links.sort_by(|one, other| one.name.cmp(&other.name));
        }
        Ok(links.into_iter().map(|link| link.name).collect())
    }

    /// How many links a group has, which are not read for it.
    pub fn n_links(&self, group: &ObjectHeader) -> Result<u64> {
        let mut count = 0;
        for message in &group.messages {
            match message.kind {
                message::LINK => count += 1,
                message::LINK_INFO => {
                    if let Some((_, by_name)) = self.dense(message)? {
                        count += BTreeV2::open(&self.blocks, by_name)?.n_records;
                    }
                }
                message::SYMBOL_TABLE => {
                    let tree = self.blocks.cursor(&message.body).offset()?;
                    let every = |_: Cursor<'_>, _: Cursor<'_>| Ok(true);
                    btree_v1::find(&self.blocks, tree, Kind::Group, &every, &mut |_, node| {
                        count += self.symbol_node(node)?;
                        Ok(())
                    })?;
                }
                _ => {}
            }
        }
        Ok(count)
    }

    /// How many entries a node of a symbol table has.
    fn symbol_node(&self, node: u64) -> Result<u64> {
        let head = self.blocks.block(node, 8)?;
        let mut cursor = self.blocks.cursor(&head);
        cursor.signature(b"SNOD")?;
        cursor.version("symbol table node", 1)?;
        cursor.skip(1)?;
        Ok(cursor.u16()?.into())
    }

    /// Every link, or at least those of the wanted name.
    pub(super) fn each_link(
        &self,
        group: &ObjectHeader,
        wanted: Option<&[u8]>,
        f: &mut dyn FnMut(Link) -> Result<()>,
    ) -> Result<()> {
        for message in &group.messages {
            match message.kind {
                message::LINK => f(link(&mut self.blocks.cursor(&self.body(message)?))?)?,
                message::LINK_INFO => self.dense_links(message, wanted, f)?,
                message::SYMBOL_TABLE => self.symbols(message, wanted, f)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The heap of the links and the tree of their names, if they lie there.
    fn dense(&self, info: &Message) -> Result<Option<(u64, u64)>> {
        let mut cursor = self.blocks.cursor(&info.body);
        cursor.version("link info", 0)?;
        if cursor.u8()? & 1 != 0 {
            cursor.skip(8)?; // the largest creation order
        }
        let (heap, by_name) = (cursor.offset()?, cursor.offset()?);
        Ok((heap != UNDEFINED).then_some((heap, by_name)))
    }

    /// Links in a heap, of which a tree knows the names' hashes.
    fn dense_links(
        &self,
        info: &Message,
        wanted: Option<&[u8]>,
        f: &mut dyn FnMut(Link) -> Result<()>,
    ) -> Result<()> {
        let Some((heap, by_name)) = self.dense(info)? else {
            return Ok(());
        };
        let heap = FractalHeap::open(&self.blocks, heap)?;
        let mut total = Total::new(&self.blocks);
        let wanted = wanted.map(lookup3);
        let side = |mut record: Cursor<'_>| match wanted {
            Some(hash) => Ok(record.u32()?.cmp(&hash)),
            None => Ok(Ordering::Equal),
        };
        BTreeV2::open(&self.blocks, by_name)?.find(&side, &mut |mut record| {
            record.skip(4)?; // the hash
            let body = heap.object(&self.blocks, record.take(7)?)?;
            total.add(&body)?;
            f(link(&mut self.blocks.cursor(&body))?)
        })
    }

    /// Links of a group as files had them before HDF5 1.8.
    fn symbols(
        &self,
        table: &Message,
        wanted: Option<&[u8]>,
        f: &mut dyn FnMut(Link) -> Result<()>,
    ) -> Result<()> {
        let mut cursor = self.blocks.cursor(&table.body);
        let (tree, heap) = (cursor.offset()?, cursor.offset()?);
        let names = LocalHeap::open(&self.blocks, heap)?;
        // The names of a child are behind that of the key before it, up to that of the key behind it.
        let may_have =
            |mut before: Cursor<'_>, mut after: Cursor<'_>| match wanted {
                Some(name) => Ok(*names.name(before.length()?)? < *name
                    && *name <= *names.name(after.length()?)?),
                None => Ok(true),
            };
        btree_v1::find(
            &self.blocks,
            tree,
            Kind::Group,
            &may_have,
            &mut |_, node| {
                let count = self.symbol_node(node)?;
                // libhdf5 has the names' offsets as long as lengths, not as specified.
                let sizes = self.blocks.sizes;
                let entry = (sizes.length + sizes.address + 4 + 4 + 16) as u64;
                let entries = self.blocks.block(node.saturating_add(8), count * entry)?;
                let mut cursor = self.blocks.cursor(&entries);
                for _ in 0..count {
                    let name = names.name(cursor.length()?)?;
                    let (header, cached) = (cursor.offset()?, cursor.u32()?);
                    cursor.skip(4)?;
                    let mut scratch = cursor.part(16)?;
                    let target = match cached {
                        CACHED_SOFT_LINK => Target::Soft(names.name(scratch.u32()?.into())?),
                        _ => Target::Hard(header),
                    };
                    f(Link {
                        name,
                        target,
                        creation_order: None,
                    })?;
                }
                Ok(())
            },
        )
    }
}
