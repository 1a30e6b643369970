//! The image of a writer's metadata cache (IV.A.2.y): structures as they were when it closed the file.
//!
//! Law:
//! 1. An image is read once, with the file's first structures. Its bytes are part of the file.

use super::blocks::Blocks;
use super::cursor::{Block, UNDEFINED};
use super::error::Result;
use super::overlay::Overlay;

/// Read the image at the place that a message gives.
pub fn read(blocks: &Blocks, message: &Block) -> Result<Overlay> {
    let mut cursor = blocks.cursor(message);
    cursor.version("cache image message", 0)?;
    let (offset, len) = (cursor.offset()?, cursor.length()?);
    if offset == UNDEFINED {
        return Ok(Overlay::default());
    }
    let image = blocks.block(offset, len)?;
    let mut cursor = blocks.cursor(&image);
    cursor.signature(b"MDCI")?;
    cursor.version("cache image", 0)?;
    let mut cursor = cursor.checked()?;
    cursor.skip(1)?; // flags
    cursor.length()?;
    let mut entries = Vec::new();
    for _ in 0..cursor.u32()? {
        cursor.skip(1 + 1 + 1 + 1 + 2 + 2)?; // how the cache kept it
        let n_parents = usize::from(cursor.u16()?);
        cursor.skip(4)?;
        let (offset, len) = (cursor.offset()?, cursor.length()?);
        cursor.skip(n_parents * blocks.sizes.address)?;
        entries.push(Block {
            address: blocks.address(offset),
            bytes: cursor.take(len as usize)?.to_vec(),
        });
    }
    Ok(Overlay::new(entries))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks};

    #[test]
    fn structures_lie_over_the_file() {
        let entry = |written: Written, at: u64, bytes: &[u8]| {
            let head = written.zeros(8).u16(1).zeros(4);
            head.u64s(&[at, bytes.len() as u64, 99]).bytes(bytes)
        };
        let image = Written::new(b"MDCI").bytes(&[0, 0]).u64s(&[0]).u32(2);
        let image = entry(entry(image, 20, b"later"), 10, b"first").sum();
        let place = Written::default()
            .bytes(&[0])
            .u64s(&[40, image.0.len() as u64]);
        let file = Written::default().bytes(&[b'.'; 40]).bytes(&image.0);
        let message = Block {
            bytes: place.0,
            address: 0,
        };
        let image = read(&blocks(file.0), &message).unwrap();
        let over = |address: u64, len: usize| {
            let mut bytes = vec![b'.'; len];
            image.put_over(address, &mut bytes);
            String::from_utf8(bytes).unwrap()
        };
        assert_eq!(over(8, 20), "..first.....later...");
        assert_eq!(over(12, 2), "rs");
        assert_eq!(over(12, 10), "rst.....la");
        assert_eq!(over(15, 5), ".....");
        assert_eq!(over(0, 11), "..........f");
    }
}
