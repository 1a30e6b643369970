//! Many parts of a file, each of a few columns: read, checked, and put one behind the other by column.
//!
//! Law:
//! 1. The caller has checked where parts may lie, and how many bytes they have together.
//! 2. Neighbours are read together, in the order of the file.

use libdeflater::Crc;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Bytes that are read at once where parts are small.
const WINDOW_BYTES: u64 = 64 << 10;

/// Where a part lies, the entries of each of its columns, and its CRC-32.
pub struct Part {
    pub begin: u64,
    pub count: u64,
    pub sum: u32,
}

/// The columns of all parts, whose entries have `widths` bytes. None: the sum of a part differs.
pub fn read(fd: OwnedFd, parts: &[Part], widths: &[u64]) -> io::Result<Option<Vec<Vec<u8>>>> {
    let file = &File::from(fd);
    let mut entries = 0;
    let mut order = Vec::with_capacity(parts.len());
    for part in parts {
        order.push((part, entries));
        entries += part.count;
    }
    order.sort_by_key(|(part, _)| part.begin);
    let columns = widths
        .iter()
        .map(|width| vec![0; (entries * width) as usize]);
    let mut columns: Vec<Vec<u8>> = columns.collect();
    let (mut window, mut window_begin) = (Vec::new(), 0);
    for (part, first) in order {
        let size = part.count * widths.iter().sum::<u64>();
        let is_small = size < WINDOW_BYTES;
        if is_small && part.begin - window_begin + size > window.len() as u64 {
            window_begin = part.begin;
            fill(file, window_begin, &mut window)?;
        }
        let (mut at, mut crc) = (part.begin, Crc::new());
        for (column, width) in columns.iter_mut().zip(widths) {
            let bytes = part.count * width;
            let into = &mut column[(first * width) as usize..][..bytes as usize];
            if is_small {
                let stored = window.get((at - window_begin) as usize..);
                let stored = stored.and_then(|stored| stored.get(..into.len()));
                into.copy_from_slice(stored.ok_or(ErrorKind::UnexpectedEof)?);
            } else {
                file.read_exact_at(into, at)?;
            }
            crc.update(into);
            at += bytes;
        }
        if crc.sum() != part.sum {
            return Ok(None);
        }
    }
    Ok(Some(columns))
}

/// Read what the file has from `begin` on, up to the bytes of a window.
fn fill(file: &File, begin: u64, window: &mut Vec<u8>) -> io::Result<()> {
    window.resize(WINDOW_BYTES as usize, 0);
    let mut filled = 0;
    while filled < window.len() {
        match file.read_at(&mut window[filled..], begin + filled as u64) {
            Ok(0) => break,
            Ok(got) => filled += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    window.truncate(filled);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use libdeflater::crc32;

    const N: usize = 300_000;

    fn asked(
        parts: &[(u64, u64)],
        widths: &[u64],
        damage: u32,
    ) -> io::Result<Option<Vec<Vec<u8>>>> {
        let bytes: Vec<u8> = (0..N).map(|at| (at * at % 251) as u8).collect();
        let name = format!("parts_{}_{damage}_{}", std::process::id(), widths.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, &bytes)?;
        let file = File::open(&path)?;
        std::fs::remove_file(&path)?;
        let width = widths.iter().sum::<u64>() as usize;
        let stored = |begin: u64, count: u64| {
            let end = (begin as usize + count as usize * width).min(N);
            bytes.get(begin as usize..end).unwrap_or_default()
        };
        let sum = |begin, count| crc32(stored(begin, count)) ^ damage;
        let told = parts.iter().map(|&(begin, count)| Part {
            begin,
            count,
            sum: sum(begin, count),
        });
        let found = read(file.into(), &told.collect::<Vec<_>>(), widths)?;
        for (number, column) in found.iter().flatten().enumerate() {
            let before: u64 = widths[..number].iter().sum();
            let expected: Vec<u8> = parts
                .iter()
                .flat_map(|&(begin, count)| {
                    let (at, own) = (count * before, count * widths[number]);
                    &stored(begin, count)[at as usize..][..own as usize]
                })
                .copied()
                .collect();
            assert_eq!(*column, expected);
        }
        Ok(found)
    }

    #[test]
    fn parts_in_any_order() {
        let parts = [
            (N as u64 - 15, 3),
            (7, 0),
            (10, 20_000),
            (65_530, 4),
            (8, 5),
            (8, 5),
        ];
        for widths in [&[5][..], &[2, 2, 1]] {
            assert!(asked(&parts, widths, 0).unwrap().is_some());
            assert!(asked(&[], widths, 0).unwrap().is_some());
        }
    }

    #[test]
    fn what_differs_or_is_missing() {
        assert_eq!(asked(&[(8, 5)], &[8, 4], 1).unwrap(), None);
        for (begin, count) in [(N as u64 - 3, 4), (N as u64 + 1, 1), (9, N as u64)] {
            let error = asked(&[(begin, count)], &[1], 2).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
        }
    }
}
