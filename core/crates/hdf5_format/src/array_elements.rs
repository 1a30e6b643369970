//! What fixed and extensible arrays have in common: elements that say where a dataset's chunks are.
//!
//! Law: an element is an address, and in a dataset with filters a size and a filter mask behind it.
//! Every block names its array, and every page its sum.

use super::cursor::Cursor;
use super::error::{Result, corrupt};
use super::walk::Walk;

/// Bytes of a filter mask.
const MASK_BYTES: u64 = 4;

/// Takes an element's index in the array, and the element.
pub type OnElement<'f> = &'f mut dyn FnMut(u64, Cursor<'_>) -> Result<()>;

pub struct Elements {
    /// Offset of the array's header.
    header: u64,
    /// 0, or 1 for chunks with filters.
    client: u8,
    /// Of one element.
    pub bytes: u64,
}

impl Elements {
    /// From the array's header, behind its version.
    pub fn read(cursor: &mut Cursor<'_>, header: u64, is_filtered: bool) -> Result<Elements> {
        let (address, client) = (cursor.address(), cursor.u8()?);
        if client != u8::from(is_filtered) {
            let expected = format!("an array of kind {}", u8::from(is_filtered));
            return corrupt(address, expected, client);
        }
        let (address, bytes) = (cursor.address(), u64::from(cursor.u8()?));
        let plain = cursor.sizes().address as u64;
        let (least, most) = match is_filtered {
            true => (plain + 1 + MASK_BYTES, plain + 8 + MASK_BYTES),
            false => (plain, plain),
        };
        if !(least..=most).contains(&bytes) {
            let expected = format!("elements of {least} to {most} bytes");
            return corrupt(address, expected, bytes);
        }
        Ok(Elements {
            header,
            client,
            bytes,
        })
    }

    /// The begin of a block of the array.
    pub fn check_head(&self, cursor: &mut Cursor<'_>, signature: &[u8; 4]) -> Result<()> {
        cursor.signature(signature)?;
        cursor.version("array's block", 0)?;
        let address = cursor.address();
        let got = (cursor.u8()?, cursor.offset()?);
        if got == (self.client, self.header) {
            return Ok(());
        }
        let expected = format!("kind {} and header {}", self.client, self.header);
        corrupt(address, expected, format_args!("{} and {}", got.0, got.1))
    }

    /// The next `n` elements.
    pub fn each(
        &self,
        cursor: &mut Cursor<'_>,
        first: u64,
        n: u64,
        f: OnElement<'_>,
    ) -> Result<()> {
        for index in first..first + n {
            f(index, cursor.part(self.bytes as usize)?)?;
        }
        Ok(())
    }

    /// The first `n` elements of a page of `page`.
    pub fn each_of_page(
        &self,
        walk: &mut Walk<'_>,
        offset: u64,
        page: u64,
        first: u64,
        n: u64,
        f: OnElement<'_>,
    ) -> Result<()> {
        let block = walk.block(offset, self.page_bytes(page))?;
        self.each(&mut walk.cursor(&block).checked()?, first, n, f)
    }

    /// Bytes of a page, with its sum.
    pub fn page_bytes(&self, page: u64) -> u64 {
        page.saturating_mul(self.bytes).saturating_add(4)
    }
}

/// Is a page written? Bits count from the highest of every byte.
pub fn is_written(pages: &[u8], page: u64) -> bool {
    let byte = pages.get((page / 8) as usize).copied().unwrap_or(0);
    byte & (0x80 >> (page % 8)) != 0
}
