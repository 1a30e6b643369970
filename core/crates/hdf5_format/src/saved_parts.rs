//! Parts of datasets in a saved index: chunk tables, and elements of compact datasets.
//!
//! Law:
//! 1. Where parts lie, and how many bytes they have together, is looked at before memory is taken.
//! 2. Neighbours are read together, in the order of the file.

use super::chunk::Chunk;
use super::saved_columns::{Column, Number, Result, Sums, Tables, compare, damaged};
use super::source::ByteSource;
use std::collections::HashMap;

/// Bytes that are read at once where parts are small.
const WINDOW_BYTES: u64 = 64 << 10;
/// Bytes of a chunk: three long words and a short one.
const CHUNK_BYTES: u64 = 28;

/// The parts of an index.
pub struct Parts<'a> {
    pub source: &'a dyn ByteSource,
    pub tables: &'a Tables,
    pub sums: Sums,
}

/// Where a part lies in the file, the number of its first entry among those of all, and its CRC-32.
struct Part {
    begin: u64,
    bytes: usize,
    first: usize,
    sum: u32,
}

impl Parts<'_> {
    /// The chunks of some datasets, one behind the other.
    pub fn chunks(&self, rows: &[usize]) -> Result<Vec<Chunk>> {
        let (parts, count) = self.places(rows, CHUNK_BYTES)?;
        let mut chunks = vec![Chunk::plain(0, 0, 0); count];
        self.each(parts, &mut |first, stored| {
            let (longs, masks) = stored.split_at(stored.len() / 7 * 6);
            let (grid, rest) = longs.split_at(longs.len() / 3);
            let (offsets, sizes) = rest.split_at(rest.len() / 2);
            let long = |word: &[u8]| word.try_into().map_or(0, u64::from_le_bytes);
            let places = grid.chunks_exact(8).zip(offsets.chunks_exact(8));
            let kinds = sizes.chunks_exact(8).zip(masks.chunks_exact(4));
            let stored = places
                .zip(kinds)
                .map(|((grid, offset), (size, mask))| Chunk {
                    filter_mask: mask.try_into().map_or(0, u32::from_le_bytes),
                    ..Chunk::plain(long(grid), long(offset), long(size))
                });
            chunks[first..]
                .iter_mut()
                .zip(stored)
                .for_each(|(to, of)| *to = of);
        })?;
        Ok(chunks)
    }

    /// The elements of some compact datasets, one behind the other.
    pub fn elements(&self, rows: &[usize]) -> Result<Vec<u8>> {
        let (parts, count) = self.places(rows, 1)?;
        let mut elements = vec![0; count];
        self.each(parts, &mut |first, stored| {
            elements[first..first + stored.len()].copy_from_slice(stored);
        })?;
        Ok(elements)
    }

    /// Where the parts of some objects lie, whose entries have `width` bytes; and the entries of all.
    fn places(&self, rows: &[usize], width: u64) -> Result<(Vec<Part>, usize)> {
        let tables = self.tables;
        let [begins, counts] = [Column::First, Column::Second].map(|of| tables.longs(of));
        let limit = tables.head.get(Number::PartsBytes);
        let (mut parts, mut total, mut entries) = (Vec::with_capacity(rows.len()), 0_u128, 0);
        for &row in rows {
            let (begin, count) = (begins[row], counts[row]);
            let end = count
                .checked_mul(width)
                .and_then(|size| begin.checked_add(size));
            let Some(end) = end.filter(|&end| end <= limit) else {
                return damaged("parts of datasets lie outside of all of them");
            };
            total += u128::from(end - begin);
            parts.push(Part {
                begin: tables.head.parts_begin() + begin,
                bytes: (end - begin) as usize,
                first: entries,
                sum: tables.words(Column::Checksum)[row],
            });
            entries += count as usize;
        }
        // An object may be listed twice.
        if total > u128::from(limit) && total > most_often(rows) * u128::from(limit) {
            return damaged("parts of datasets lie over one another");
        }
        Ok((parts, entries))
    }

    /// Read and check parts in the order of the file; each with the number of its first entry.
    fn each(&self, mut parts: Vec<Part>, to: &mut dyn FnMut(usize, &[u8])) -> Result<()> {
        parts.sort_by_key(|part| part.begin);
        let (mut window, mut window_begin) = (Vec::new(), 0);
        for part in parts {
            let is_there = part.begin - window_begin + part.bytes as u64 <= window.len() as u64;
            if !is_there {
                let left = self.source.size().saturating_sub(part.begin);
                let size = left.min(WINDOW_BYTES).max(part.bytes as u64);
                window_begin = part.begin;
                window.resize(size as usize, 0);
                self.source.read(window_begin, &mut window)?;
            }
            let stored = &window[(part.begin - window_begin) as usize..][..part.bytes];
            compare("parts", self.sums, stored, part.sum.into())?;
            to(part.first, stored);
        }
        Ok(())
    }
}

/// How often the same object is listed.
fn most_often(rows: &[usize]) -> u128 {
    let mut times = HashMap::new();
    rows.iter()
        .for_each(|row| *times.entry(row).or_insert(0) += 1);
    times.into_values().max().unwrap_or(0)
}
