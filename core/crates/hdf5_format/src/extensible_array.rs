//! Extensible arrays (VII.D): the index of chunks of a dataset that grows without bounds along one axis.
//!
//! Law:
//! 1. Elements lie in the index block, then in data blocks that it names, then in data blocks that super
//!    blocks name: all of sizes that the header's parameters give, which are checked once.
//! 2. An array may be sparse: it names more elements than the file has bytes. The work is bounded by the
//!    blocks that are there (walk.rs) and the pages that are marked as written.

use super::array_elements::{Elements, OnElement, is_written};
use super::blocks::Blocks;
use super::cursor::{Cursor, UNDEFINED};
use super::error::{Result, corrupt};
use super::walk::Walk;

/// An array has less than two to this power of elements.
const MAX_BITS: u64 = 48;

struct Array<'a> {
    walk: Walk<'a>,
    elements: Elements,
    /// One past the greatest index that was set.
    n: u64,
    /// Of one page of a data block.
    page: u64,
    /// Bytes of a block's signature, version, kind and header, and of the offset in data and super blocks.
    head_bytes: u64,
    offset_bytes: usize,
}

/// Parameters of the header.
struct Shape {
    n_in_index: u64,
    data_min: u64,
    /// All super blocks, and those whose data blocks the index block names itself.
    n_super: u32,
    n_inlined: u32,
}

/// A super block's data blocks.
#[derive(Clone, Copy)]
struct DataBlocks {
    n: u64,
    n_elements: u64,
}

/// Every element of the blocks that were written, with its index.
pub fn each_element(
    blocks: &Blocks,
    offset: u64,
    is_filtered: bool,
    f: OnElement<'_>,
) -> Result<()> {
    let sizes = blocks.sizes;
    let block = blocks.block(offset, (16 + 6 * sizes.length + sizes.address) as u64)?;
    let mut cursor = blocks.cursor(&block).checked()?;
    cursor.signature(b"EAHD")?;
    cursor.version("extensible array", 0)?;
    let elements = Elements::read(&mut cursor, offset, is_filtered)?;
    let (bits, shape, page) = Shape::read(&mut cursor)?;
    cursor.skip(4 * sizes.length)?; // numbers and sizes of super blocks and data blocks
    let n = cursor.length()?;
    cursor.length()?; // elements of the blocks that are there
    let index_block = cursor.offset()?;
    if index_block == UNDEFINED {
        return Ok(());
    }
    let mut array = Array {
        walk: Walk::new(blocks),
        elements,
        n,
        page,
        head_bytes: (4 + 1 + 1 + sizes.address) as u64,
        offset_bytes: bits.div_ceil(8) as usize,
    };
    array.index_block(index_block, &shape, f)
}

impl Shape {
    /// Bits of an index, the shape, and the elements of a page.
    fn read(cursor: &mut Cursor<'_>) -> Result<(u64, Shape, u64)> {
        let address = cursor.address();
        let mut byte = || cursor.u8().map(u64::from);
        let (bits, n_in_index, data_min) = (byte()?, byte()?, byte()?);
        let (super_min, page_bits) = (byte()?, byte()?);
        let got = format!("{bits}, {n_in_index}, {data_min}, {super_min}, {page_bits}").to_string();
        let wrong = |expected| corrupt(address, expected, &got);
        if bits > MAX_BITS || page_bits > MAX_BITS {
            return wrong("an extensible array of at most 48 bits");
        }
        if !data_min.is_power_of_two() || !super_min.is_power_of_two() {
            return wrong("an extensible array with blocks of powers of two");
        }
        let Some(n_super) = (bits as u32 + 1).checked_sub(data_min.ilog2()) else {
            return wrong("an extensible array with room for a data block");
        };
        let shape = Shape {
            n_in_index,
            data_min,
            n_super,
            n_inlined: 2 * super_min.ilog2(),
        };
        // Thus data blocks that the index block names itself have no pages.
        let page = 1 << page_bits;
        if shape.n_inlined > n_super || page < shape.data_blocks(shape.n_inlined).n_elements {
            return wrong("an extensible array whose first data blocks fit a page");
        }
        Ok((bits, shape, page))
    }

    /// The data blocks of a super block: both their number and their size double every second time.
    fn data_blocks(&self, super_block: u32) -> DataBlocks {
        DataBlocks {
            n: 1 << (super_block / 2),
            n_elements: self.data_min << super_block.div_ceil(2),
        }
    }
}

impl Array<'_> {
    fn index_block(&mut self, offset: u64, shape: &Shape, f: OnElement<'_>) -> Result<()> {
        let inlined: u64 = (0..shape.n_inlined)
            .map(|level| shape.data_blocks(level).n)
            .sum();
        let pointers = inlined + u64::from(shape.n_super - shape.n_inlined);
        let address_bytes = self.head_bytes - 6;
        let elements_bytes = shape.n_in_index * self.elements.bytes;
        let len = self.head_bytes + elements_bytes + pointers * address_bytes + 4;
        let block = self.walk.block(offset, len)?;
        let mut cursor = self.walk.cursor(&block).checked()?;
        self.elements.check_head(&mut cursor, b"EAIB")?;
        let mut elements = cursor.part(elements_bytes as usize)?;
        self.elements
            .each(&mut elements, 0, shape.n_in_index.min(self.n), f)?;
        let mut first = shape.n_in_index;
        for level in 0..shape.n_super {
            let data = shape.data_blocks(level);
            if level < shape.n_inlined {
                for number in 0..data.n {
                    let offset = cursor.offset()?;
                    self.data_block(offset, first + number * data.n_elements, data, &[], 0, f)?;
                }
            } else {
                self.super_block(cursor.offset()?, first, data, f)?;
            }
            first += data.n * data.n_elements;
        }
        Ok(())
    }

    fn super_block(
        &mut self,
        offset: u64,
        first: u64,
        data: DataBlocks,
        f: OnElement<'_>,
    ) -> Result<()> {
        if offset == UNDEFINED || first >= self.n {
            return Ok(());
        }
        let n_pages = match data.n_elements > self.page {
            true => data.n_elements / self.page,
            false => 0,
        };
        let marks = data.n * n_pages.div_ceil(8);
        let address_bytes = self.head_bytes - 6;
        let head = self.head_bytes + self.offset_bytes as u64;
        let block = self
            .walk
            .block(offset, head + marks + data.n * address_bytes + 4)?;
        let mut cursor = self.walk.cursor(&block).checked()?;
        self.elements.check_head(&mut cursor, b"EASB")?;
        cursor.skip(self.offset_bytes)?;
        let written = cursor.take(marks as usize)?;
        for number in 0..data.n {
            let first = first + number * data.n_elements;
            self.data_block(cursor.offset()?, first, data, written, number * n_pages, f)?;
        }
        Ok(())
    }

    /// `first_mark` is the bit of `written` for the block's first page.
    fn data_block(
        &mut self,
        offset: u64,
        first: u64,
        data: DataBlocks,
        written: &[u8],
        first_mark: u64,
        f: OnElement<'_>,
    ) -> Result<()> {
        if offset == UNDEFINED || first >= self.n {
            return Ok(());
        }
        let is_paged = data.n_elements > self.page;
        let in_block = if is_paged { 0 } else { data.n_elements };
        let len = self.head_bytes + self.offset_bytes as u64 + in_block * self.elements.bytes + 4;
        let block = self.walk.block(offset, len)?;
        let mut cursor = self.walk.cursor(&block).checked()?;
        self.elements.check_head(&mut cursor, b"EADB")?;
        cursor.skip(self.offset_bytes)?;
        if !is_paged {
            let n = data.n_elements.min(self.n - first);
            return self.elements.each(&mut cursor, first, n, f);
        }
        let page_bytes = self.elements.page_bytes(self.page);
        for number in 0..data.n_elements / self.page {
            let first = first + number * self.page;
            if first >= self.n {
                break;
            }
            if !is_written(written, first_mark + number) {
                continue;
            }
            let before = len.saturating_add(number.saturating_mul(page_bytes));
            let (offset, n) = (offset.saturating_add(before), self.page.min(self.n - first));
            self.elements
                .each_of_page(&mut self.walk, offset, self.page, first, n, f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks, listed};

    /// A header of 72 bytes with the index block at byte 80. Parameters: bits, elements in the index
    /// block, elements of the least data block, pointers of the least super block, bits of a page.
    fn header(parameters: [u8; 5], n: u64) -> Written {
        let head = Written::new(b"EAHD").bytes(&[0, 0, 8]).bytes(&parameters);
        head.u64s(&[0, 0, 0, 0, n, 0, 80]).sum().up_to(80)
    }

    fn head(signature: &[u8; 4]) -> Written {
        Written::new(signature).bytes(&[0, 0]).u64s(&[0])
    }

    fn elements(file: Written) -> std::result::Result<Vec<[u64; 2]>, String> {
        listed(|f| each_element(&blocks(file.0), 0, false, f))
    }

    /// Super blocks have 1, 1, 2, 2, 4 data blocks of 1, 2, 2, 4, 4 elements; the index block names the
    /// first two data blocks itself, and a page has two elements.
    const SMALL: [u8; 5] = [4, 1, 1, 2, 1];
    const NONE: u64 = UNDEFINED;

    #[test]
    fn blocks_of_every_kind() {
        let index = head(b"EAIB").u64s(&[70, NONE, 200, NONE, 300, NONE]).sum();
        let file = header(SMALL, 14).bytes(&index.0).up_to(200);
        let file = file
            .bytes(&head(b"EADB").bytes(&[0]).u64s(&[72, 73]).sum().0)
            .up_to(300);
        // Elements 8 to 15 in two data blocks of two pages, which have a byte of marks each.
        let marks = [0b0110_0000, 0];
        let file = file.bytes(
            &head(b"EASB")
                .bytes(&[0])
                .bytes(&marks)
                .u64s(&[400, 500])
                .sum()
                .0,
        );
        let paged = head(b"EADB").bytes(&[0]).sum();
        let page = |addresses: &[u64]| Written::default().u64s(addresses).sum().0;
        let file = file
            .up_to(400)
            .bytes(&paged.0)
            .zeros(20)
            .bytes(&page(&[80, 81]))
            .up_to(500);
        let file = file.bytes(&paged.0).bytes(&page(&[82, 83])).up_to(600);
        let expected = [
            [0, 70],
            [2, 72],
            [3, 73],
            [10, 80],
            [11, 81],
            [12, 82],
            [13, 83],
        ];
        assert_eq!(elements(file).unwrap(), expected);
    }

    #[test]
    fn a_data_block_twice_is_corrupt() {
        let index = head(b"EAIB").u64s(&[70, 200, 200, NONE, NONE, NONE]).sum();
        let file = header(SMALL, 16).bytes(&index.0).up_to(200);
        let file = file
            .bytes(&head(b"EADB").bytes(&[0]).u64s(&[71]).sum().0)
            .up_to(300);
        let error = elements(file).unwrap_err();
        assert!(error.contains("at byte 200"), "{error}");
    }

    #[test]
    fn elements_beyond_the_greatest_index_are_left_out() {
        let index = head(b"EAIB")
            .u64s(&[70, NONE, NONE, NONE, NONE, NONE])
            .sum();
        assert_eq!(
            elements(header(SMALL, 0).bytes(&index.0)).unwrap(),
            [[0; 2]; 0]
        );
        let sparse = header(SMALL, 1 << 60).bytes(&index.0);
        assert_eq!(elements(sparse).unwrap(), [[0, 70]]);
    }

    #[test]
    fn impossible_parameters_are_corrupt() {
        let error = |parameters| elements(header(parameters, 1)).unwrap_err();
        assert!(error([49, 1, 1, 2, 1]).contains("at most 48 bits at byte 7, got 49, 1, 1, 2, 1"));
        assert!(error([4, 1, 0, 2, 1]).contains("powers of two"));
        assert!(error([4, 1, 1, 3, 1]).contains("powers of two"));
        assert!(error([4, 1, 64, 2, 1]).contains("room for a data block"));
        assert!(error([4, 1, 1, 128, 1]).contains("fit a page"));
        assert!(error([4, 1, 1, 2, 0]).contains("fit a page"));
        // 255 elements of the index block, which are not there.
        assert!(error([4, 255, 1, 2, 1]).contains("in the file at byte 80"));
    }
}
