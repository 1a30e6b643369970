//! How a fractal heap divides its bytes among blocks (III.G).
//!
//! Law: width and sizes are powers of two, and offsets have at most 64 bits; so no computation here
//! overflows for an entry within the rows that these bits allow.

use super::cursor::Cursor;
use super::error::{Result, corrupt};

/// How indirect blocks divide the heap: the first two rows have blocks of the same size, and every next
/// row has blocks of twice the size.
pub struct DoublingTable {
    pub width: u64,
    pub start_bytes: u64,
    /// Rows of direct blocks; indirect blocks follow.
    direct_rows: u64,
}

/// An entry of an indirect block.
pub struct Entry {
    pub row: u64,
    pub column: u64,
    /// Bytes of the heap that it stands for.
    pub bytes: u64,
}

impl DoublingTable {
    /// The table, the bits of an offset in the heap, and the bytes of the largest direct block.
    pub fn read(cursor: &mut Cursor<'_>) -> Result<(DoublingTable, u64, u64)> {
        let address = cursor.address();
        let width = u64::from(cursor.u16()?);
        let (start_bytes, max_direct) = (cursor.length()?, cursor.length()?);
        let heap_bits = u64::from(cursor.u16()?);
        let numbers = [width, start_bytes, max_direct];
        let fits = numbers.iter().all(|number| number.is_power_of_two())
            && start_bytes <= max_direct
            && heap_bits <= 64
            && u64::from(width.ilog2() + start_bytes.ilog2()) < heap_bits;
        if !fits {
            let expected = "width, first and largest block in powers of two, with at most 64 bits";
            return corrupt(
                address,
                expected,
                format_args!("{numbers:?} and {heap_bits} bits"),
            );
        }
        let table = DoublingTable {
            width,
            start_bytes,
            direct_rows: u64::from((max_direct / start_bytes).ilog2()) + 2,
        };
        Ok((table, heap_bits, max_direct))
    }

    pub fn row_bytes(&self) -> u64 {
        self.width * self.start_bytes
    }

    /// The entry that a byte of an indirect block is in, and which byte of the entry it is.
    pub fn entry(&self, at: u64) -> (Entry, u64) {
        let (row, begin, bytes) = match (at / self.row_bytes()).checked_ilog2() {
            None => (0, 0, self.start_bytes),
            Some(doubled) => (
                u64::from(doubled) + 1,
                self.row_bytes() << doubled,
                self.start_bytes << doubled,
            ),
        };
        let column = (at - begin) / bytes;
        let entry = Entry { row, column, bytes };
        (entry, (at - begin) % bytes)
    }

    /// Rows of the indirect block at an entry; no rows for a direct block.
    pub fn rows_of(&self, entry: &Entry) -> u64 {
        match entry.row < self.direct_rows {
            true => 0,
            // One that is smaller than a row is corrupt: it has more rows than its parent.
            false => match (entry.bytes / self.row_bytes()).checked_ilog2() {
                Some(doubled) => u64::from(doubled) + 1,
                None => u64::MAX,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_tile_the_block() {
        let table = DoublingTable {
            width: 2,
            start_bytes: 4,
            direct_rows: 3,
        };
        let (mut at, mut got) = (0, Vec::new());
        while at < 64 {
            let (entry, from) = table.entry(at);
            assert_eq!(from, 0);
            assert_eq!(table.entry(at + entry.bytes - 1).1, entry.bytes - 1);
            got.push((entry.row, entry.column, entry.bytes, table.rows_of(&entry)));
            at += entry.bytes;
        }
        let rows = [(0, 4, 0), (1, 4, 0), (2, 8, 0), (3, 16, 2)];
        let expected =
            rows.map(|(row, bytes, rows)| [(row, 0, bytes, rows), (row, 1, bytes, rows)]);
        assert_eq!(got, expected.as_flattened());
    }

    #[test]
    fn the_last_byte_has_an_entry() {
        let table = DoublingTable {
            width: 1,
            start_bytes: 1,
            direct_rows: 2,
        };
        let (entry, from) = table.entry(u64::MAX);
        assert_eq!((entry.row, entry.bytes, from), (64, 1 << 63, (1 << 63) - 1));
    }
}
