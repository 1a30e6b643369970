//! Elements of variable length: descriptors in a dataset or an attribute, and what they name in the
//! global heap (III.E, and libhdf5's H5Tvlen).
//!
//! Law:
//! 1. A descriptor of no elements, or of the address 0, names nothing. Any other names an object that
//!    is long enough.
//! 2. A heap lends the same bytes to any number of descriptors. All that is read at once takes no more
//!    bytes than the file, and what the caller allows for each descriptor: fill values are shared.

use super::blocks::Blocks;
use super::cursor::Cursor;
use super::error::{Result, corrupt};
use super::global_heap::GlobalHeaps;

/// The elements of many descriptors, one after the other.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elements {
    pub bytes: Vec<u8>,
    /// For each descriptor, where its bytes end.
    pub ends: Vec<u64>,
}

/// Read what descriptors name, in elements of this many bytes; `each`: bytes that are allowed for a
/// descriptor beyond those of the file.
pub fn elements(
    blocks: &Blocks,
    heaps: &GlobalHeaps,
    descriptors: &[u8],
    element_bytes: u64,
    each: u64,
) -> Result<Elements> {
    let len = 4 + blocks.sizes.address + 4;
    let count = (descriptors.len() / len) as u64;
    let most = blocks
        .file_size()
        .saturating_add(count.saturating_mul(each));
    let mut found = Elements {
        bytes: Vec::new(),
        ends: Vec::with_capacity(descriptors.len() / len),
    };
    let mut last = None;
    for descriptor in descriptors.chunks_exact(len) {
        let mut cursor = Cursor::over(descriptor, 0, blocks.sizes);
        let (n_elements, heap, index) = (cursor.u32()?, cursor.offset()?, cursor.u32()?);
        if n_elements > 0 && heap != 0 {
            let collection = match last.take() {
                Some((offset, collection)) if offset == heap => collection,
                _ => heaps.collection(blocks, heap)?,
            };
            let object = collection.bytes(index)?;
            let wanted = u64::from(n_elements).saturating_mul(element_bytes);
            let bytes = usize::try_from(wanted).ok();
            let Some(bytes) = bytes.and_then(|wanted| object.get(..wanted)) else {
                let expected = format!("{wanted} bytes of object {index} in the global heap");
                return corrupt(blocks.address(heap), expected, object.len());
            };
            if wanted > most - found.bytes.len() as u64 {
                let expected = format!("elements of variable length within {most} bytes");
                return corrupt(blocks.address(heap), expected, "more");
            }
            found.bytes.extend_from_slice(bytes);
            last = Some((heap, collection));
        }
        found.ends.push(found.bytes.len() as u64);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written::{Written, blocks};

    fn file() -> Blocks {
        let head = Written::new(b"GCOL").bytes(&[1, 0, 0, 0]).u64s(&[128]);
        let object = head.u16(3).zeros(6).u64s(&[5]).bytes(b"abcde");
        blocks(Written::default().zeros(64).bytes(&object.up_to(128).0).0)
    }

    fn descriptors(of: &[(u32, u64, u32)]) -> Vec<u8> {
        let one = |(count, heap, index): &(u32, u64, u32)| {
            let parts = [count.to_le_bytes().to_vec(), heap.to_le_bytes().to_vec()];
            [parts.concat(), index.to_le_bytes().to_vec()].concat()
        };
        of.iter().flat_map(one).collect()
    }

    fn read(of: &[(u32, u64, u32)], element_bytes: u64, each: u64) -> Result<Elements> {
        let heaps = GlobalHeaps::default();
        elements(&file(), &heaps, &descriptors(of), element_bytes, each)
    }

    #[test]
    fn one_after_the_other() {
        let found = read(&[(2, 64, 3), (0, 64, 3), (9, 0, 0), (1, 64, 3)], 2, 0).unwrap();
        assert_eq!(found.bytes, b"abcdab");
        assert_eq!(found.ends, [4, 4, 4, 6]);
    }

    #[test]
    fn what_is_not_there_is_corrupt() {
        let error = |of, size| read(&[of], size, 0).unwrap_err().to_string();
        assert!(error((3, 64, 3), 2).contains("6 bytes of object 3"));
        assert!(error((u32::MAX, 64, 3), u64::MAX).contains("got 5"));
        assert!(error((1, 64, 4), 1).contains("object 4 in the global heap"));
        assert!(error((1, u64::MAX, 4), 1).contains("an undefined one"));
    }

    #[test]
    fn a_heap_lends_no_more_than_the_file_and_an_allowance() {
        let many = [(5, 64, 3); 100];
        assert!(
            read(&many, 1, 0)
                .unwrap_err()
                .to_string()
                .contains("within 192")
        );
        assert_eq!(read(&many, 1, 4).unwrap().bytes.len(), 500);
    }
}
