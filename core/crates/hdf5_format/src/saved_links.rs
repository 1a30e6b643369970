//! Objects of a saved index by their offsets, and the links of its groups.
//!
//! Law: ranges were checked when the columns were read; searches halve what is left.

use super::saved_columns::{Column, GROUP, Tables};
use std::ops::Range;

/// The number of the object at an offset, among some of one file.
pub fn row(tables: &Tables, among: &Range<usize>, offset: u64) -> Option<usize> {
    let headers = &tables.longs(Column::HeaderOffset)[among.clone()];
    let at = headers.binary_search(&offset).ok()?;
    Some(among.start + at)
}

/// The links of a group; None: the object is no group.
pub fn links(tables: &Tables, row: usize) -> Option<Range<usize>> {
    if *tables.bytes(Column::Kind).get(row)? != GROUP {
        return None;
    }
    let first = tables.longs(Column::First)[row] as usize;
    Some(first..first + tables.longs(Column::Second)[row] as usize)
}

/// The names of links that follow one another, each with its NUL.
pub fn stored_names(tables: &Tables, links: Range<usize>) -> &[u8] {
    let begin = |link: usize| match link {
        0 => 0,
        _ => tables.longs(Column::LinkEnd)[link - 1] as usize,
    };
    &tables.bytes(Column::Names)[begin(links.start)..begin(links.end)]
}

pub fn name(tables: &Tables, link: usize) -> &[u8] {
    let stored = stored_names(tables, link..link + 1);
    &stored[..stored.len() - 1]
}

/// The link of this name, among those of a group.
pub fn search(tables: &Tables, links: &Range<usize>, wanted: &[u8]) -> Option<usize> {
    let mut left = links.clone();
    while !left.is_empty() {
        let middle = left.start + left.len() / 2;
        match name(tables, middle).cmp(wanted) {
            std::cmp::Ordering::Less => left.start = middle + 1,
            std::cmp::Ordering::Equal => return Some(middle),
            std::cmp::Ordering::Greater => left.end = middle,
        }
    }
    None
}
