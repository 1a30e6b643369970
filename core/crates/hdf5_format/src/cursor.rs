//! A position in a block of a file, from which numbers, names and addresses are read.
//!
//! Law:
//! 1. Nothing is read beyond the block. Every error says where.
//! 2. Numbers are little-endian; addresses and lengths have the sizes that the superblock names. An
//!    address of all ones is undefined, whatever its size.

use super::checksum::lookup3;
use super::error::{Result, corrupt};

/// An address that leads nowhere.
pub const UNDEFINED: u64 = u64::MAX;

/// Bytes of an address and of a length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    pub address: usize,
    pub length: usize,
    /// Checksums are compared. (Tests of damaged files want to get past them.)
    pub checks_sums: bool,
}

/// Bytes of a file, and where they begin in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    pub bytes: Vec<u8>,
    /// Absolute in the file.
    pub address: u64,
}

#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    address: u64,
    sizes: Sizes,
}

impl<'a> Cursor<'a> {
    pub fn new(block: &'a Block, sizes: Sizes) -> Cursor<'a> {
        Cursor::over(&block.bytes, block.address, sizes)
    }

    pub fn over(bytes: &'a [u8], address: u64, sizes: Sizes) -> Cursor<'a> {
        Cursor {
            bytes,
            at: 0,
            address,
            sizes,
        }
    }

    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// The address of the next byte.
    pub fn address(&self) -> u64 {
        self.address.saturating_add(self.at as u64)
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Bytes to come.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some(bytes) = self.bytes[self.at..].get(..len) else {
            let left = self.left();
            return corrupt(
                self.address(),
                format_args!("{len} more bytes of the structure"),
                left,
            );
        };
        self.at += len;
        Ok(bytes)
    }

    pub fn skip(&mut self, len: usize) -> Result<()> {
        self.take(len).map(drop)
    }

    /// The next `len` bytes, with a cursor of their own.
    pub fn part(&mut self, len: usize) -> Result<Cursor<'a>> {
        let address = self.address();
        Ok(Cursor::over(self.take(len)?, address, self.sizes))
    }

    /// Go to a position in the block.
    pub fn seek(&mut self, position: u64) -> Result<()> {
        if position > self.bytes.len() as u64 {
            return corrupt(
                self.address,
                format_args!("an offset within {} bytes", self.bytes.len()),
                position,
            );
        }
        self.at = position as usize;
        Ok(())
    }

    /// An unsigned number of up to eight bytes.
    pub fn uint(&mut self, len: usize) -> Result<u64> {
        if len > 8 {
            return corrupt(self.address(), "a number of at most 8 bytes", len);
        }
        let mut number = [0; 8];
        number[..len].copy_from_slice(self.take(len)?);
        Ok(u64::from_le_bytes(number))
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub fn u16(&mut self) -> Result<u16> {
        Ok(self.uint(2)? as u16)
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(self.uint(4)? as u32)
    }

    pub fn u64(&mut self) -> Result<u64> {
        self.uint(8)
    }

    /// An address, which counts from the superblock.
    pub fn offset(&mut self) -> Result<u64> {
        let size = self.sizes.address;
        let number = self.uint(size)?;
        Ok(if number == ones(size) {
            UNDEFINED
        } else {
            number
        })
    }

    pub fn length(&mut self) -> Result<u64> {
        self.uint(self.sizes.length)
    }

    /// Bytes of what names a sequence or a string in the global heap: a count, a heap and a number
    /// there. None: the size of addresses is not known.
    pub fn descriptor_bytes(&self) -> Option<u32> {
        let address = self.sizes.address as u32;
        (address > 0).then_some(4 + address + 4)
    }

    /// Expect the four letters that a structure begins with.
    pub fn signature(&mut self, letters: &[u8; 4]) -> Result<()> {
        let address = self.address();
        let got = self.take(4)?;
        if got == letters {
            return Ok(());
        }
        corrupt(
            address,
            format_args!("the signature {}", letters.escape_ascii()),
            got.escape_ascii(),
        )
    }

    /// Expect a structure's only version.
    pub fn version(&mut self, structure: &str, only: u8) -> Result<()> {
        let address = self.address();
        let version = self.u8()?;
        if version == only {
            return Ok(());
        }
        corrupt(
            address,
            format_args!("version {only} of the {structure}"),
            version,
        )
    }

    /// Bytes up to the next NUL, which is skipped.
    pub fn name(&mut self) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(len) = rest.iter().position(|&byte| byte == 0) else {
            return corrupt(self.address(), "a NUL at the end of the name", "none");
        };
        self.at += len + 1;
        Ok(&rest[..len])
    }

    /// Check that the next four bytes are the checksum of all before them.
    pub fn checksum(&mut self) -> Result<()> {
        let (summed, address) = (&self.bytes[..self.at], self.address());
        let (stored, got) = (self.u32()?, lookup3(summed));
        if stored == got || !self.sizes.checks_sums {
            return Ok(());
        }
        corrupt(
            address,
            format_args!(
                "the checksum {got:#010x} of the block at byte {}",
                self.address
            ),
            format_args!("{stored:#010x}"),
        )
    }

    /// Check the checksum that ends the block, and leave it out. The position stays.
    pub fn checked(mut self) -> Result<Cursor<'a>> {
        let position = self.at;
        let Some(end) = self
            .bytes
            .len()
            .checked_sub(4)
            .filter(|end| *end >= position)
        else {
            return corrupt(self.address(), "a checksum at the end of the block", "none");
        };
        self.at = end;
        self.checksum()?;
        (self.bytes, self.at) = (&self.bytes[..end], position);
        Ok(self)
    }
}

/// The number of all ones in this many bytes.
pub fn ones(len: usize) -> u64 {
    u64::MAX >> (64 - 8 * len.clamp(1, 8))
}

/// How many bytes it takes to store numbers up to this one, as B-trees and heaps count them.
pub fn bytes_for(most: u64) -> usize {
    (64 - most.leading_zeros() as usize).div_ceil(8).max(1)
}
