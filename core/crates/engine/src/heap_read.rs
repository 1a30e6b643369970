//! Elements of variable length: what descriptors name in the global heap of a file.
//!
//! Law:
//! 1. The words of a request are written by `_multitables/wire/request_bytes.py`; `parse` checks them.
//! 2. Elements come one after the other, in the order of their descriptors. Several readers of one
//!    request share the descriptors: each has some that follow each other.
//! 3. What was read of a file that changed meanwhile is an error.
//! 4. If the dataset's conversion decodes pictures, the elements of each descriptor are one, and its pixels
//!    are delivered, where the request's arrangement has them.

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
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;
use tables::dataset::{Dataset, Source};

/// `words[0]` of such a request.
pub const KIND_HEAP: u64 = 2;
/// Words before the descriptors.
pub const HEAP_HEAD_WORDS: usize = 7;

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

impl<'a> Descriptors<'a> {
    /// `row_bytes`: the bytes of a picture, if rows are pictures.
    pub fn parse(words: &'a [u64], row_bytes: Option<usize>) -> Result<Descriptors<'a>, Refused> {
        const SHORT: Refused = "the request is shorter than it says";
        let head = words.get(..HEAP_HEAD_WORDS).ok_or(SHORT)?;
        let [KIND_HEAP, _, _, _, element_bytes, n, each] = *head else {
            return Err("the request is not one for a heap");
        };
        if !(9..=24).contains(&each) {
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
            descriptor_bytes: each as usize,
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

    fn of(&self, range: Range<usize>) -> &'a [u8] {
        &self.bytes[range.start * self.descriptor_bytes..range.end * self.descriptor_bytes]
    }

    /// How many elements each of these names. Those without an address name nothing.
    fn lengths(&self, range: Range<usize>) -> impl Iterator<Item = u64> {
        let each = self.of(range).chunks_exact(self.descriptor_bytes);
        each.map(|one| {
            let (length, rest) = one.split_at(4);
            let (address, _) = rest.split_at(rest.len() - 4);
            match address.iter().any(|&byte| byte != 0) {
                true => u64::from(u32::from_le_bytes([
                    length[0], length[1], length[2], length[3],
                ])),
                false => 0,
            }
        })
    }

    /// Bytes of the result of these.
    fn bytes_of(&self, range: Range<usize>) -> Option<usize> {
        if let Some(row_bytes) = self.row_bytes {
            let bytes = range.len().checked_mul(row_bytes)?;
            return isize::try_from(bytes).is_ok().then_some(bytes);
        }
        let mut sum = 0u64;
        for length in self.lengths(range) {
            sum = sum.checked_add(length.checked_mul(self.element_bytes)?)?;
        }
        isize::try_from(sum).ok().map(|sum| sum as usize)
    }
}

/// Bytes of a picture, if a dataset's rows are pictures of any length.
pub fn picture_bytes(dataset: &Dataset) -> Option<usize> {
    let conversion = dataset.conversion.as_deref()?;
    conversion.picture().map(|_| dataset.element_bytes)
}

/// A file whose global heap is read, which keeps collections that were read.
pub struct HeapFile {
    metadata: File,
    /// None for an object of a store: the client compares its version with each request.
    file: Option<DataFile>,
}

impl HeapFile {
    pub fn open(source: &Source, files: &OpenFiles) -> Result<HeapFile, TaskError> {
        let fetch = |error| TaskError::Fetch(NO_CHUNK, error);
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
        let metadata = File::open(bytes, true).map_err(stopped)?;
        Ok(HeapFile { metadata, file })
    }

    /// Write the elements of one part of a request to their place in `out`, which is all of it.
    pub fn read(
        &self,
        wanted: &Descriptors<'_>,
        part: Range<usize>,
        conversion: Option<&ElementConversion>,
        mut out: Out<'_>,
        record: &Record,
    ) -> Result<(), TaskError> {
        let internal = || TaskError::Internal("descriptors of another size".into());
        if wanted.descriptor_bytes != self.metadata.blocks.sizes.address + 8 {
            return Err(internal());
        }
        let start = Instant::now();
        let read = |part| {
            self.metadata
                .variable(wanted.of(part), wanted.element_bytes, u64::MAX)
        };
        let found = read(part.clone()).map_err(stopped);
        add_ns(&record.fetch_ns, start);
        // A file that changed explains any other error.
        let changed = |error| TaskError::Fetch(NO_CHUNK, error);
        let file = self.file.as_ref();
        file.map_or(Ok(()), DataFile::check_unchanged)
            .map_err(changed)?;
        let bytes = found?.bytes;
        if let (Some(conversion), Some(_)) = (conversion, wanted.row_bytes) {
            let start = Instant::now();
            let len = part.len();
            pictures(wanted, part, conversion, &bytes, out)?;
            add_ns(&record.decode_ns, start);
            count(&record.decoded_bytes, len * wanted.row_bytes.unwrap_or(0));
            return Ok(());
        }
        let at = wanted.bytes_of(0..part.start).ok_or_else(internal)?;
        let len = wanted.bytes_of(part.clone()).ok_or_else(internal)?;
        let end = at.checked_add(len).filter(|end| *end <= out.len());
        let out = out.part(at..end.ok_or_else(internal)?);
        if bytes.len() != len {
            return Err(internal());
        }
        out.copy_from_slice(&bytes);
        count(&record.decoded_bytes, len);
        Ok(())
    }
}

/// Decode pictures that follow each other into their places in `out`, which has those of all parts.
fn pictures(
    wanted: &Descriptors<'_>,
    part: Range<usize>,
    conversion: &ElementConversion,
    mut bytes: &[u8],
    mut out: Out<'_>,
) -> Result<(), TaskError> {
    let internal = || TaskError::Internal("pictures of another size".into());
    let row_bytes = wanted.row_bytes.filter(|bytes| *bytes > 0);
    let (row_bytes, picture) = row_bytes.zip(conversion.picture()).ok_or_else(internal)?;
    if out.len() != wanted.out_bytes {
        return Err(internal());
    }
    let (mut whole, mut room) = (Vec::new(), Vec::new());
    for (number, length) in part.clone().zip(wanted.lengths(part)) {
        let length = length.checked_mul(wanted.element_bytes);
        let length = length.and_then(|length| usize::try_from(length).ok());
        let cut = length.and_then(|length| bytes.split_at_checked(length));
        let (stored, behind) = cut.ok_or_else(internal)?;
        let at = number * row_bytes;
        let to = match wanted.arrangement {
            None => out.part(at..at + row_bytes),
            Some(_) => room_for(&mut whole, row_bytes, NO_CHUNK)?,
        };
        let done = conversion.decode((picture, number), stored, to, &mut room);
        done.map_err(|error| TaskError::Filter(NO_CHUNK, error))?;
        if let Some(arrangement) = &wanted.arrangement {
            arrange(arrangement, at, &whole[..row_bytes], out.lend());
        }
        bytes = behind;
    }
    Ok(())
}

fn stopped(error: FormatError) -> TaskError {
    match error {
        FormatError::Io { error, .. } => match error.downcast::<StoreError>() {
            Ok(StoreError(error)) => TaskError::Fetch(NO_CHUNK, error),
            Err(error) => TaskError::read(NO_CHUNK, error),
        },
        error => TaskError::Format(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(descriptors: &[(u32, u64, u32)], element_bytes: u64) -> Vec<u64> {
        let mut words = vec![
            KIND_HEAP,
            1,
            0,
            0,
            element_bytes,
            descriptors.len() as u64,
            16,
        ];
        let bytes: Vec<u8> = (descriptors.iter())
            .flat_map(|(n, address, object)| {
                let parts = [
                    &n.to_le_bytes()[..],
                    &address.to_le_bytes(),
                    &object.to_le_bytes(),
                ];
                parts.concat()
            })
            .collect();
        let word = |word: &[u8]| u64::from_le_bytes(word.try_into().unwrap());
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
            (6, 8),
            (6, 25),
        ] {
            let mut bad = good.clone();
            bad[at] = value;
            assert!(Descriptors::parse(&bad, None).is_err(), "{at} {value}");
        }
    }
}
