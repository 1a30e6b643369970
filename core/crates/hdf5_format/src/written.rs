//! Structures of a file written by hand, for tests.
//!
//! Law: lays bytes out as the specification says, with addresses and lengths of eight bytes, and shares
//! no code with the readers but the checksum.

use super::array_elements::OnElement;
use super::blocks::Blocks;
use super::checksum::lookup3;
use super::cursor::Sizes;
use super::error::Result;

/// A file of these bytes.
pub fn blocks(bytes: Vec<u8>) -> Blocks {
    let sizes = Sizes {
        address: 8,
        length: 8,
        checks_sums: true,
    };
    Blocks::new(Box::new(bytes), 0, sizes)
}

/// The index and the offset of each element that an array tells.
pub fn listed(
    each_element: impl FnOnce(OnElement<'_>) -> Result<()>,
) -> std::result::Result<Vec<[u64; 2]>, String> {
    let mut got = Vec::new();
    let read = each_element(&mut |index, mut element| {
        got.push([index, element.offset()?]);
        Ok(())
    });
    read.map(|()| got).map_err(|error| error.to_string())
}

/// Bytes of a structure, in order.
#[derive(Clone, Default)]
pub struct Written(pub Vec<u8>);

impl Written {
    pub fn new(signature: &[u8; 4]) -> Written {
        Written(signature.to_vec())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Written {
        self.0.extend(bytes);
        self
    }

    pub fn u16(self, number: u16) -> Written {
        self.bytes(&number.to_le_bytes())
    }

    pub fn u32(self, number: u32) -> Written {
        self.bytes(&number.to_le_bytes())
    }

    pub fn u64s(self, numbers: &[u64]) -> Written {
        let bytes = |written: Written, number: &u64| written.bytes(&number.to_le_bytes());
        numbers.iter().fold(self, bytes)
    }

    pub fn zeros(self, len: usize) -> Written {
        self.bytes(&vec![0; len])
    }

    /// Zeros up to a length.
    pub fn up_to(self, len: usize) -> Written {
        assert!(
            self.0.len() <= len,
            "{} bytes are written already",
            self.0.len()
        );
        let zeros = len - self.0.len();
        self.zeros(zeros)
    }

    /// The checksum of all so far.
    pub fn sum(self) -> Written {
        let sum = lookup3(&self.0);
        self.u32(sum)
    }
}
