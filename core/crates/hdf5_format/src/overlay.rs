//! Structures that are read in place of the file's bytes at their addresses.
//!
//! Law: the first of them that has a byte gives it; what none has stays the file's.

use super::cursor::Block;

/// Structures, sorted by their addresses.
#[derive(Default)]
pub struct Overlay(Vec<Block>);

impl Overlay {
    pub fn new(mut entries: Vec<Block>) -> Overlay {
        entries.sort_by_key(|entry| entry.address);
        Overlay(entries)
    }

    /// Put structures over the bytes of the file that begin at an address.
    pub fn put_over(&self, address: u64, bytes: &mut [u8]) {
        let end = address + bytes.len() as u64;
        let before = self.0.partition_point(|entry| entry.address < end);
        for entry in self.0[..before].iter().rev() {
            let behind = entry.address.saturating_add(entry.bytes.len() as u64);
            let Some(behind) = behind.checked_sub(address) else {
                break;
            };
            let (from, to) = match entry.address.checked_sub(address) {
                Some(to) => (0, to as usize),
                None => ((address - entry.address) as usize, 0),
            };
            let end = bytes.len().min(behind as usize);
            if to < end {
                bytes[to..end].copy_from_slice(&entry.bytes[from..from + end - to]);
            }
        }
    }
}
