//! Where the objects of one path are in all files of a manifest, as rows of its columns.
//!
//! Law:
//! 1. Files are taken to have the structure of the first one, and checked; where one has another, it is
//!    searched.
//! 2. Only hard links are followed here: where others lead, each file says.

use super::saved_columns::{Column, HARD, Tables};
use super::saved_links::{links, name, row, search, stored_names};
use std::ops::Range;

/// The object of a path in each file. None: each has to be searched.
pub fn alike(tables: &Tables, path: &[u8]) -> Option<Vec<usize>> {
    let mut rows = at(tables, tables.longs(Column::FileRoot))?;
    for wanted in path.split(|&byte| byte == b'/') {
        if !wanted.is_empty() && wanted != b"." {
            rows = at(tables, &targets(tables, &rows, wanted)?)?;
        }
    }
    Some(rows)
}

/// Whether a group has the same names in each file, all of hard links.
pub fn is_alike(tables: &Tables, path: &[u8]) -> bool {
    let Some(rows) = alike(tables, path) else {
        return false;
    };
    let kinds = tables.bytes(Column::LinkKind);
    let names = |&row: &usize| {
        let links = links(tables, row).filter(|links| !links.is_empty())?;
        let is_hard = kinds[links.clone()].iter().all(|&kind| kind == HARD);
        is_hard.then(|| stored_names(tables, links))
    };
    let mut each = rows.iter().map(names);
    let first = each.next().flatten();
    first.is_some() && each.all(|names| names == first)
}

/// The objects at these offsets, one in each file.
fn at(tables: &Tables, offsets: &[u64]) -> Option<Vec<usize>> {
    let headers = tables.longs(Column::HeaderOffset);
    let (mut begin, mut within) = (0, 0);
    let ends = tables.longs(Column::FileObjectsEnd);
    let found = ends.iter().zip(offsets).map(|(&end, &offset)| {
        let of_file: Range<usize> = begin..end as usize;
        begin = of_file.end;
        let near = of_file.start + within;
        if near < of_file.end && headers[near] == offset {
            return Some(near);
        }
        let found = row(tables, &of_file, offset)?;
        within = found - of_file.start;
        Some(found)
    });
    found.collect()
}

/// Where the links of this name lead, one in each group.
fn targets(tables: &Tables, rows: &[usize], wanted: &[u8]) -> Option<Vec<u64>> {
    let (kinds, targets) = (
        tables.bytes(Column::LinkKind),
        tables.longs(Column::LinkTarget),
    );
    let mut within = 0;
    let found = rows.iter().map(|&row| {
        let links = links(tables, row)?;
        let near = links.start + within;
        let link = match near < links.end && name(tables, near) == wanted {
            true => near,
            false => search(tables, &links, wanted)?,
        };
        within = link - links.start;
        (kinds[link] == HARD).then(|| targets[link])
    });
    found.collect()
}
