//! All attributes of an object: in its header, or in a heap of their own.
//!
//! Law: each is read once, and all of them take no more bytes than the file.

use super::attribute::{Attribute, attribute};
use super::btree_v2;
use super::cursor::{Block, UNDEFINED};
use super::error::Result;
use super::file::{File, Total};
use super::fractal_heap::FractalHeap;
use super::object_header::{Message, ObjectHeader, SHARED, message};

impl File {
    /// All attributes of an object: those of its header in their order, or those of its heap by hash,
    /// each with its number in the order of creation where the object keeps it.
    pub fn attributes(&self, header: &ObjectHeader) -> Result<Vec<(Option<u32>, Attribute)>> {
        let (mut found, mut total) = (Vec::new(), Total::new(&self.blocks));
        for message in header.all(message::ATTRIBUTE) {
            let body = self.body(message)?;
            total.add(&body)?;
            let order = message.creation_order.into();
            found.push((order, attribute(&self.blocks, &self.shared, &body)?));
        }
        if let Some(info) = header.find(message::ATTRIBUTE_INFO) {
            self.dense_attributes(info, &mut total, &mut found)?;
        }
        let kept = |order| header.keeps_order.then_some(order);
        let found = found.into_iter();
        Ok(found.map(|(order, one)| (kept(order), one)).collect())
    }

    fn dense_attributes(
        &self,
        info: &Message,
        total: &mut Total,
        found: &mut Vec<(u32, Attribute)>,
    ) -> Result<()> {
        let mut cursor = self.blocks.cursor(&info.body);
        cursor.version("attribute info", 0)?;
        if cursor.u8()? & 1 != 0 {
            cursor.skip(2)?; // the largest creation order
        }
        let (heap, by_name) = (cursor.offset()?, cursor.offset()?);
        if heap == UNDEFINED {
            return Ok(());
        }
        let heap = FractalHeap::open(&self.blocks, heap)?;
        btree_v2::each_record(&self.blocks, by_name, &mut |mut record| {
            let (address, id) = (record.address(), record.take(8)?);
            let (flags, order) = (record.u8()?, record.u32()?);
            let body = match flags & SHARED {
                0 => heap.object(&self.blocks, id)?,
                _ => {
                    let mut bytes = vec![3, 1];
                    bytes.extend(id);
                    let body = Block { bytes, address };
                    let kind = message::ATTRIBUTE;
                    self.shared.body(&self.blocks, kind, flags, &body)?
                }
            };
            total.add(&body)?;
            found.push((order, attribute(&self.blocks, &self.shared, &body)?));
            Ok(())
        })
    }
}
