//! Fixed arrays (VII.C): the index of chunks of a dataset that cannot grow beyond its bounds.
//!
//! Law: an array has no more elements than the file has bytes. If they do not fit one page, they lie in
//! pages, and only pages that were written are read.

use super::array_elements::{Elements, OnElement, is_written};
use super::blocks::Blocks;
use super::cursor::UNDEFINED;
use super::error::{Result, corrupt};
use super::walk::Walk;

const MAX_PAGE_BITS: u8 = 32;

/// Every element that was written, with its index.
pub fn each_element(
    blocks: &Blocks,
    offset: u64,
    is_filtered: bool,
    f: OnElement<'_>,
) -> Result<()> {
    let sizes = blocks.sizes;
    let block = blocks.block(offset, (12 + sizes.address + sizes.length) as u64)?;
    let mut cursor = blocks.cursor(&block).checked()?;
    cursor.signature(b"FAHD")?;
    cursor.version("fixed array", 0)?;
    let elements = Elements::read(&mut cursor, offset, is_filtered)?;
    let (bits_address, page_bits) = (cursor.address(), cursor.u8()?);
    if page_bits > MAX_PAGE_BITS {
        return corrupt(
            bits_address,
            format_args!("pages of at most {MAX_PAGE_BITS} bits"),
            page_bits,
        );
    }
    let (n_address, n) = (cursor.address(), cursor.length()?);
    let data = cursor.offset()?;
    if data == UNDEFINED {
        return Ok(());
    }
    if n > blocks.file_size() {
        let expected = format!("at most {} elements", blocks.file_size());
        return corrupt(n_address, expected, n);
    }
    let walk = &mut Walk::new(blocks);
    let page = 1 << page_bits;
    let head = (4 + 1 + 1 + sizes.address) as u64;
    if n <= page {
        let block = walk.block(
            data,
            (head + 4).saturating_add(n.saturating_mul(elements.bytes)),
        )?;
        let mut cursor = walk.cursor(&block).checked()?;
        elements.check_head(&mut cursor, b"FADB")?;
        return elements.each(&mut cursor, 0, n, f);
    }
    let n_pages = n.div_ceil(page);
    let first_page = head + n_pages.div_ceil(8) + 4;
    let block = walk.block(data, first_page)?;
    let mut cursor = walk.cursor(&block).checked()?;
    elements.check_head(&mut cursor, b"FADB")?;
    let written = cursor.take(cursor.left())?;
    for number in (0..n_pages).filter(|number| is_written(written, *number)) {
        // The last page has only the elements that are left.
        let len = page.min(n - number * page);
        let before = number.saturating_mul(elements.page_bytes(page));
        let offset = data.saturating_add(first_page).saturating_add(before);
        elements.each_of_page(walk, offset, len, number * page, len, f)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks, listed};

    /// A header of 28 bytes, with the data block at byte 40.
    fn header(page_bits: u8, n: u64) -> Written {
        Written::new(b"FAHD")
            .bytes(&[0, 0, 8, page_bits])
            .u64s(&[n, 40])
            .sum()
            .up_to(40)
    }

    fn data() -> Written {
        Written::new(b"FADB").bytes(&[0, 0]).u64s(&[0])
    }

    fn elements(file: Written) -> std::result::Result<Vec<[u64; 2]>, String> {
        listed(|f| each_element(&blocks(file.0), 0, false, f))
    }

    #[test]
    fn one_page() {
        let file = header(2, 3).bytes(&data().u64s(&[7, UNDEFINED, 9]).sum().0);
        assert_eq!(elements(file).unwrap(), [[0, 7], [1, UNDEFINED], [2, 9]]);
    }

    #[test]
    fn written_pages_alone() {
        // Pages of two: 0, 1 (not written), 2 (with the last element alone).
        let page = |addresses: &[u64]| Written::default().u64s(addresses).sum().0;
        let file = header(1, 5).bytes(&data().bytes(&[0b1010_0000]).sum().0);
        let file = file
            .bytes(&page(&[7, 8]))
            .bytes(&[0xee; 20])
            .bytes(&page(&[9]));
        assert_eq!(elements(file).unwrap(), [[0, 7], [1, 8], [4, 9]]);
    }

    #[test]
    fn lying_numbers_are_corrupt() {
        let error = elements(header(10, 1 << 40).bytes(&data().sum().0)).unwrap_err();
        assert_eq!(
            error,
            format!(
                "expected at most 58 elements at byte 8, got {}",
                1_u64 << 40
            )
        );
        let error = elements(header(10, 50).bytes(&data().sum().0)).unwrap_err();
        assert!(
            error.contains("a structure of 418 bytes in the file"),
            "{error}"
        );
        assert!(
            elements(header(33, 1))
                .unwrap_err()
                .contains("at most 32 bits")
        );
        assert!(
            elements(header(0, 41))
                .unwrap_err()
                .contains("at most 40 elements")
        );
    }

    #[test]
    fn another_kind_is_corrupt() {
        let error = each_element(&blocks(header(2, 3).0), 0, true, &mut |_, _| Ok(())).unwrap_err();
        assert_eq!(
            error.to_string(),
            "expected an array of kind 1 at byte 5, got 0"
        );
    }
}
