//! Elements of variable length: what descriptors name in the global heaps of files.
//!
//! Law:
//! 1. The words of a request are written by `_multitables/wire/request_bytes.py`; `parse` checks them.
//! 2. Elements come one after the other, in the order of their descriptors. Several readers of one
//!    request share the descriptors: each has some that follow each other, and reads those of one file
//!    after those of another.
//! 3. What was read of a file that changed meanwhile is an error.
//! 4. If the dataset's conversion decodes pictures, the elements of each descriptor are one, and its pixels
//!    are delivered, where the request's arrangement has them.
//! 5. The chunk of an error is the number of its descriptor in the request, or of the first one in the same
//!    file.

use crate::chunk_read::{NO_CHUNK, room as room_for};
use crate::counters::{Record, add_ns, count};
use crate::fetch::data_file::{DataFile, OpenFiles};
use crate::fetch::error::FetchError;
use crate::fetch::local_file::LocalFile;
use crate::fetch::remote::metadata::{RemoteMetadata, StoreError};
use crate::fetch::remote::object::Object;
use crate::scatter::arrange::arrange;
use crate::scatter::out::Out;
use crate::select::arrangement::Arrangement;
use crate::task_error::TaskError;
use hdf5_filters::convert::ElementConversion;
use hdf5_format::error::FormatError;
use hdf5_format::file::File;
use hdf5_format::source::ByteSource;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tables::dataset::{Dataset, Source};

/// `words[0]` of such a request.
pub const KIND_HEAP: u64 = 2;
/// Words before the descriptors.
pub const HEAP_HEAD_WORDS: usize = 7;
/// Behind each descriptor: the number of its file among the sources of the dataset's table.
const SOURCE_BYTES: usize = 4;
/// The file of a row that is left out: nothing is read for it, and it is delivered as zeros.
pub const LEFT_OUT: u32 = u32::MAX;

type Refused = &'static str;

/// A checked request.
#[derive(Clone, Copy, Debug)]
pub struct Descriptors<'a> {
    bytes: &'a [u8],
    n: usize,
    descriptor_bytes: usize,
    element_bytes: u64,
    /// Bytes that each descriptor becomes; None: those of its elements.
    row_bytes: Option<usize>,
    /// Where pictures are placed; None: as they are.
    arrangement: Option<Arrangement<'a>>,
    pub out_bytes: usize,
}

/// The row of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    number: usize,
    /// Where it is in the result, and its bytes.
    at: usize,
    len: usize,
}

impl<'a> Descriptors<'a> {
    /// `row_bytes`: the bytes of a picture, if rows are pictures.
    pub fn parse(words: &'a [u64], row_bytes: Option<usize>) -> Result<Descriptors<'a>, Refused> {
        const SHORT: Refused = "the request is shorter than it says";
        let head = words.get(..HEAP_HEAD_WORDS).ok_or(SHORT)?;
        let [KIND_HEAP, _, _, _, element_bytes, n, each] = *head else {
            return Err("the request is not one for a heap");
        };
        if !(9..=24).contains(&each.saturating_sub(SOURCE_BYTES as u64)) {
            return Err("descriptors have another size");
        }
        // SAFETY: words are bytes of the same extent; every value is one.
        let bytes = unsafe {
            let words = &words[HEAP_HEAD_WORDS..];
            std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words))
        };
        let len = n
            .checked_mul(each)
            .and_then(|len| usize::try_from(len).ok());
        let mut found = Descriptors {
            bytes: len.and_then(|len| bytes.get(..len)).ok_or(SHORT)?,
            n: n as usize,
            descriptor_bytes: each as usize - SOURCE_BYTES,
            element_bytes,
            row_bytes,
            arrangement: None,
            out_bytes: 0,
        };
        let out_bytes = found
            .bytes_of(0..found.n)
            .ok_or("the request's result is too large")?;
        let len = found.bytes.len().div_ceil(size_of::<u64>());
        let behind = words[HEAP_HEAD_WORDS..].get(len..).ok_or(SHORT)?;
        found.arrangement = Arrangement::parse(behind, out_bytes)?;
        // Each reader decodes whole pictures.
        let is_row = |arranged: Arrangement<'_>| Some(arranged.read_bytes) == row_bytes;
        if !found.arrangement.is_none_or(is_row) {
            return Err("the request's arrangement is not one of pictures");
        }
        found.out_bytes = (found.arrangement).map_or(out_bytes, |to| to.out_bytes());
        Ok(found)
    }

    /// The descriptors of one part.
    pub fn part(&self, part: u64, n_parts: u64) -> Range<usize> {
        let edge =
            |part: u64| (self.n as u128 * u128::from(part) / u128::from(n_parts.max(1))) as usize;
        edge(part)..edge(part + 1)
    }

    /// The readers that have a part of it.
    pub fn owners(&self, n_readers: usize) -> Vec<usize> {
        let has_some = |&part: &usize| !self.part(part as u64, n_readers as u64).is_empty();
        (0..n_readers).filter(has_some).collect()
    }

    /// The rows of a part by the numbers of their files, each file's in their order.
    pub fn by_source(&self, part: Range<usize>) -> BTreeMap<u32, Vec<Row>> {
        let mut found: BTreeMap<u32, Vec<Row>> = BTreeMap::new();
        // `parse` has summed up all of them.
        let mut at = self.bytes_of(0..part.start).unwrap_or(self.out_bytes);
        let mut number = part.start;
        while number < part.end {
            let source = self.source(number);
            let rows = found.entry(source).or_default();
            while number < part.end && self.source(number) == source {
                let len = self.row_len(number).unwrap_or(0);
                rows.push(Row { number, at, len });
                (number, at) = (number + 1, at + len);
            }
        }
        found
    }

    fn record(&self, number: usize) -> (&'a [u8], &'a [u8]) {
        let each = self.descriptor_bytes + SOURCE_BYTES;
        self.bytes[number * each..][..each].split_at(self.descriptor_bytes)
    }

    fn source(&self, number: usize) -> u32 {
        let (_, source) = self.record(number);
        u32::from_le_bytes([source[0], source[1], source[2], source[3]])
    }

    /// Stored bytes of a row.
    fn stored_len(&self, number: usize) -> Option<usize> {
        let bytes = length(self.record(number).0).checked_mul(self.element_bytes)?;
        usize::try_from(bytes).ok()
    }

    /// Delivered bytes of a row.
    fn row_len(&self, number: usize) -> Option<usize> {
        self.row_bytes.or_else(|| self.stored_len(number))
    }

    /// Bytes of the result of these.
    fn bytes_of(&self, range: Range<usize>) -> Option<usize> {
        let bytes = match self.row_bytes {
            Some(row_bytes) => range.len().checked_mul(row_bytes),
            None => {
                let each = self.descriptor_bytes + SOURCE_BYTES;
                let records = self.bytes[range.start * each..range.end * each].chunks_exact(each);
                let mut lengths = records.map(|record| length(&record[..each - SOURCE_BYTES]));
                let n = lengths.try_fold(0u64, |sum, length| sum.checked_add(length));
                let bytes = n.and_then(|n| n.checked_mul(self.element_bytes));
                bytes.and_then(|bytes| usize::try_from(bytes).ok())
            }
        };
        bytes.filter(|bytes| isize::try_from(*bytes).is_ok())
    }
}

/// How many elements a descriptor names. One without an address names nothing.
fn length(descriptor: &[u8]) -> u64 {
    let (length, rest) = descriptor.split_at(4);
    let (address, _) = rest.split_at(rest.len() - 4);
    match address.iter().any(|&byte| byte != 0) {
        true => u64::from(u32::from_le_bytes([
            length[0], length[1], length[2], length[3],
        ])),
        false => 0,
    }
}

/// Bytes of a picture, if a dataset's rows are pictures of any length.
pub fn picture_bytes(dataset: &Dataset) -> Option<usize> {
    let conversion = dataset.conversion.as_deref()?;
    conversion.picture().map(|_| dataset.element_bytes)
}

/// Deliver rows that are left out.
pub fn leave_out(
    wanted: &Descriptors<'_>,
    rows: &[Row],
    mut out: Out<'_>,
) -> Result<(), TaskError> {
    for row in rows {
        match &wanted.arrangement {
            None => room(row, &mut out)?.fill(0),
            Some(arrangement) => arrange(arrangement, row.at, &vec![0; row.len], out.lend()),
        }
    }
    Ok(())
}

/// Rows as one, if they follow each other in the result and have `len` bytes.
fn in_line(rows: &[Row], len: usize) -> Option<Row> {
    let (first, last) = rows.first().zip(rows.last())?;
    (last.at + last.len - first.at == len).then_some(Row { len, ..*first })
}

/// The place of a row.
fn room<'o>(row: &Row, out: &'o mut Out<'_>) -> Result<&'o mut [u8], TaskError> {
    let end = row.at.checked_add(row.len).filter(|end| *end <= out.len());
    let end = end.ok_or_else(|| TaskError::Internal("a row outside its result".into()))?;
    Ok(out.part(row.at..end))
}

/// A file whose global heap is read, which keeps collections that were read.
pub struct HeapFile {
    metadata: File,
    /// None for an object of a store: the client compares its version with each request.
    file: Option<DataFile>,
}

impl HeapFile {
    /// `number`: of a descriptor that is read here.
    pub fn open(source: &Source, files: &OpenFiles, number: u64) -> Result<HeapFile, TaskError> {
        let fetch = |error| TaskError::Fetch(number, error);
        let file = DataFile::of_library(source, files).map_err(fetch)?;
        let bytes: Box<dyn ByteSource> = match (&file, Object::of(source, &files.caches)) {
            (_, Some(object)) => Box::new(Arc::new(RemoteMetadata::new(Arc::new(object)))),
            (Some(file), None) => {
                let local = LocalFile::of(file.descriptor());
                Box::new(Arc::new(
                    local.map_err(|error| fetch(FetchError::Open(error)))?,
                ))
            }
            (None, None) => return Err(TaskError::Internal("a source without a file".into())),
        };
        let metadata = File::open(bytes, true).map_err(|error| stopped(number, error))?;
        Ok(HeapFile { metadata, file })
    }

    /// Write the elements of rows to their places in `out`, which is all of a result.
    pub fn read(
        &self,
        wanted: &Descriptors<'_>,
        rows: &[Row],
        conversion: Option<&ElementConversion>,
        mut out: Out<'_>,
        record: &Record,
    ) -> Result<(), TaskError> {
        let internal = || TaskError::Internal("descriptors of another size".into());
        if wanted.descriptor_bytes != self.metadata.blocks.sizes.address + 8 {
            return Err(internal());
        }
        let first = first_of(rows);
        let start = Instant::now();
        let mut descriptors = Vec::with_capacity(rows.len() * wanted.descriptor_bytes);
        for row in rows {
            descriptors.extend_from_slice(wanted.record(row.number).0);
        }
        let elements = |of| (self.metadata).variable(of, wanted.element_bytes, u64::MAX);
        let found = elements(&descriptors).map_err(|error| stopped(first, error));
        add_ns(&record.fetch_ns, start);
        // A file that changed explains any other error.
        let file = self.file.as_ref();
        file.map_or(Ok(()), DataFile::check_unchanged)
            .map_err(|error| TaskError::Fetch(first, error))?;
        let start = Instant::now();
        let (found, mut made, mut whole) = (found?, Vec::new(), Vec::new());
        let mut bytes = found.bytes.as_slice();
        let pictures = conversion.zip(conversion.and_then(ElementConversion::picture));
        let plain = wanted.row_bytes.is_none();
        if let Some(whole) = in_line(rows, bytes.len()).filter(|_| plain) {
            room(&whole, &mut out)?.copy_from_slice(bytes);
            count(&record.decoded_bytes, whole.len);
            return Ok(());
        }
        for row in rows {
            let len = wanted.stored_len(row.number).ok_or_else(internal)?;
            let (stored, behind) = bytes.split_at_checked(len).ok_or_else(internal)?;
            match pictures.filter(|_| wanted.row_bytes.is_some()) {
                Some((conversion, picture)) => {
                    let to = match wanted.arrangement {
                        None => room(row, &mut out)?,
                        Some(_) => room_for(&mut whole, row.len, row.number as u64)?,
                    };
                    let done = conversion.decode((picture, row.number), stored, to, &mut made);
                    done.map_err(|error| TaskError::Filter(row.number as u64, error))?;
                    if let Some(arrangement) = &wanted.arrangement {
                        arrange(arrangement, row.at, &whole[..row.len], out.lend());
                    }
                }
                None => {
                    let out = room(row, &mut out)?;
                    if stored.len() != out.len() {
                        return Err(internal());
                    }
                    out.copy_from_slice(stored);
                }
            }
            count(&record.decoded_bytes, row.len);
            bytes = behind;
        }
        if wanted.row_bytes.is_some() {
            add_ns(&record.decode_ns, start);
        }
        Ok(())
    }
}

/// The number of the first of some descriptors.
pub fn first_of(rows: &[Row]) -> u64 {
    rows.first().map_or(NO_CHUNK, |row| row.number as u64)
}

fn stopped(number: u64, error: FormatError) -> TaskError {
    match error {
        FormatError::Io { error, .. } => match error.downcast::<StoreError>() {
            Ok(StoreError(error)) => TaskError::Fetch(number, error),
            Err(error) => TaskError::read(number, error),
        },
        error => TaskError::Format(number, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements, address and object of each descriptor, all of a first file but the last.
    fn words(descriptors: &[(u32, u64, u32)], element_bytes: u64) -> Vec<u64> {
        let last = descriptors.len() - 1;
        let mut words = vec![
            KIND_HEAP,
            1,
            0,
            0,
            element_bytes,
            descriptors.len() as u64,
            20,
        ];
        let bytes: Vec<u8> = (descriptors.iter().enumerate())
            .flat_map(|(number, (n, address, object))| {
                let parts = [
                    &n.to_le_bytes()[..],
                    &address.to_le_bytes(),
                    &object.to_le_bytes(),
                    &u32::from(number == last).to_le_bytes(),
                ];
                parts.concat()
            })
            .collect();
        let word = |word: &[u8]| {
            let mut whole = [0; 8];
            whole[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(whole)
        };
        words.extend(bytes.chunks(8).map(word));
        words
    }

    #[test]
    fn parts_are_all_of_it() {
        let words = words(
            &[(2, 64, 1), (9, 0, 1), (0, 64, 2), (3, 64, 3), (1, 8, 1)],
            4,
        );
        let found = Descriptors::parse(&words, None).unwrap();
        assert_eq!(found.out_bytes, 24);
        let pictures = Descriptors::parse(&words, Some(100)).unwrap();
        assert_eq!(pictures.out_bytes, 500);
        assert_eq!(pictures.bytes_of(1..4), Some(300));
        let row = |number, at, len| Row { number, at, len };
        let each = found.by_source(2..5);
        assert_eq!(each[&0], [row(2, 8, 0), row(3, 8, 12)]);
        assert_eq!(each[&1], [row(4, 20, 4)]);
        let each = pictures.by_source(3..5);
        assert_eq!(
            each.into_values().collect::<Vec<_>>(),
            [[row(3, 300, 100)], [row(4, 400, 100)]]
        );
        assert!(Descriptors::parse(&words, Some(usize::MAX)).is_err());
        for n_parts in 1..8 {
            let parts = (0..n_parts).map(|part| found.part(part, n_parts));
            assert_eq!(parts.clone().flatten().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
            let some: Vec<usize> = parts
                .enumerate()
                .filter(|one| !one.1.is_empty())
                .map(|one| one.0)
                .collect();
            assert_eq!(found.owners(n_parts as usize), some);
        }
    }

    #[test]
    fn malformed_words_are_refused() {
        let good = words(&[(2, 64, 1), (3, 64, 3)], 4);
        for len in 0..good.len() {
            assert!(Descriptors::parse(&good[..len], None).is_err());
        }
        for (at, value) in [
            (0, 0),
            (4, u64::MAX),
            (5, 3),
            (5, u64::MAX),
            (6, 12),
            (6, 29),
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(Descriptors::parse(&bad, None).is_err(), "{at} {value}");
        }
    }
}
