//! The bytes of a saved index: its head, and the columns of files, objects and links.
//!
//! It is of one file (version 3), or a manifest of many (version 4). All numbers are little-endian:
//!
//! - The magic, the version, the CRC-32 of what follows in the head, and the `Number`s of the head, of
//!   which an index of one file has not the last two.
//! - The parts of datasets, one behind the other. A chunk table: of n chunks the columns grid_index,
//!   byte_offset and stored_size (8 bytes each) and filter_mask (4). Or the elements of a compact
//!   dataset.
//! - The columns of `COLUMNS`, one behind the other, wide ones first. Objects are those of the first
//!   file, of the second and so on; of one file they are sorted by the offset of their header. The links
//!   of a group are sorted by name. Names end with a NUL.
//! - The values. A value is JSON, with bytes as Latin-1, and is kept once, however many objects have it.
//!
//! What an object's `first` and `second` say: its first link and their number (a group); where its part
//! begins, and how many chunks (chunked) or bytes (compact) that has, of which `checksum` is the CRC-32;
//! the address of its bytes (contiguous); an object of the global heap (virtual). `common` says which of
//! the kinds a dataset has, or that the object is `ALONE` or `NO_DATASET`; the kinds are one text of JSON.
//! `dims_end` and `scale_end` say where the dims and the scales of an object end, which begin where those
//! of the one before it end.
//!
//! Law:
//! 1. Nothing is trusted: the size of the file, then sums, then ranges. No memory is taken before the
//!    size of the file agrees with the head.
//! 2. No memory map: others may truncate the file.

use super::source::ByteSource;
use std::fmt;
use std::io::{self, ErrorKind};
use std::ops::Range;

const MAGIC: &[u8; 8] = b"\x89MTIDX\r\n";
/// Of an index of one file, and of many.
pub const VERSION: u32 = 3;
pub const MANIFEST: u32 = 4;
/// Bytes of the head before what its sum is of.
const CHECKED_FROM: usize = 16;
/// An entry has no more bytes than this many times those that it has in the file, beside some.
const MAX_RATIO: u128 = 64;
const FREE_BYTES: u128 = 1 << 20;
/// Bytes that are read at once.
const WINDOW_BYTES: usize = 64 << 10;

/// No creation order, no address; no value: the file itself answers.
pub const NO_NUMBER: u64 = u64::MAX;
pub const NO_VALUE: u32 = u32::MAX;

/// Kinds of objects, and of links.
pub const GROUP: u8 = 0;
pub const DATASET: u8 = 1;
pub const DATATYPE: u8 = 2;
const OTHER: u8 = 3;
pub const HARD: u8 = 0;
pub const SOFT: u8 = 1;
pub const EXTERNAL: u8 = 2;
pub const USER_DEFINED: u8 = 3;

/// A CRC-32, of which this crate knows no fast one.
pub trait Sum {
    fn update(&mut self, bytes: &[u8]);
    fn sum(&self) -> u32;
}

/// Makes sums; none: they are not compared. (Tests of damaged indexes want to get past them.)
pub type Sums = Option<fn() -> Box<dyn Sum>>;

/// Why an index cannot be used.
#[derive(Debug)]
pub enum Failure {
    /// What is wrong with it.
    Damaged(String),
    Io(io::Error),
}

impl From<&str> for Failure {
    fn from(what: &str) -> Failure {
        Failure::Damaged(what.to_owned())
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        match error.kind() {
            ErrorKind::UnexpectedEof => "it ends too early".into(),
            _ => Failure::Io(error),
        }
    }
}

pub type Result<T> = std::result::Result<T, Failure>;

pub fn damaged<T>(what: impl fmt::Display) -> Result<T> {
    Err(Failure::Damaged(what.to_string()))
}

/// The numbers of the head, in their order.
#[derive(Clone, Copy)]
pub enum Number {
    SizeBytes,
    MtimeNs,
    Inode,
    PartsBytes,
    Objects,
    Links,
    Values,
    Dims,
    Scales,
    NamesBytes,
    KindsBytes,
    ValuesBytes,
    TablesSum,
    ValuesSum,
    Root,
    Files,
    FilesBytes,
}

const N_NUMBERS: usize = Number::FilesBytes as usize + 1;

/// The columns, in their order.
#[derive(Clone, Copy)]
pub enum Column {
    FileDevice,
    FileInode,
    FileSize,
    FileMtime,
    FileRoot,
    FileObjectsEnd,
    FileNameEnd,
    HeaderOffset,
    First,
    Second,
    LinkTarget,
    LinkOrder,
    LinkEnd,
    ValueEnd,
    DimsEnd,
    Dims,
    ChunkDims,
    ScaleEnd,
    ScaleAxis,
    ScaleTarget,
    FileEtag,
    Attributes,
    Space,
    Storage,
    Checksum,
    Common,
    Kind,
    LinkKind,
    Names,
    Kinds,
    FileNames,
}

const N_COLUMNS: usize = Column::FileNames as usize + 1;

/// The name of each, the bytes of an entry, and which number of the head says how many there are.
#[rustfmt::skip]
pub const COLUMNS: [(&str, usize, Number); N_COLUMNS] = [
    ("file_device", 8, Number::Files),
    ("file_inode", 8, Number::Files),
    ("file_size", 8, Number::Files),
    ("file_mtime", 8, Number::Files),
    ("file_root", 8, Number::Files),
    ("file_objects_end", 8, Number::Files),
    ("file_name_end", 8, Number::Files),
    ("header_offset", 8, Number::Objects),
    ("first", 8, Number::Objects),
    ("second", 8, Number::Objects),
    ("link_target", 8, Number::Links),
    ("link_order", 8, Number::Links),
    ("link_end", 8, Number::Links),
    ("value_end", 8, Number::Values),
    ("dims_end", 8, Number::Objects),
    ("dims", 8, Number::Dims),
    ("chunk_dims", 8, Number::Dims),
    ("scale_end", 8, Number::Objects),
    ("scale_axis", 8, Number::Scales),
    ("scale_target", 8, Number::Scales),
    ("file_etag", 4, Number::Files),
    ("attributes", 4, Number::Objects),
    ("space", 4, Number::Objects),
    ("storage", 4, Number::Objects),
    ("checksum", 4, Number::Objects),
    ("common", 4, Number::Objects),
    ("kind", 1, Number::Objects),
    ("link_kind", 1, Number::Links),
    ("names", 1, Number::NamesBytes),
    ("kinds", 1, Number::KindsBytes),
    ("file_names", 1, Number::FilesBytes),
];

/// The head of an index.
pub struct Head([u64; N_NUMBERS]);

impl Head {
    /// Read the head of an index of this version. None: it is of another version.
    pub fn read(source: &dyn ByteSource, version: u32, sums: Sums) -> Result<Option<Head>> {
        let mut first = [0; CHECKED_FROM];
        source.read(0, &mut first)?;
        let (magic, rest) = first.split_at(MAGIC.len());
        if magic != MAGIC {
            let expected = MAGIC.escape_ascii();
            return damaged(format!(
                "expected the magic {expected}, got {}",
                magic.escape_ascii()
            ));
        }
        let [stored, sum] = [&rest[..4], &rest[4..]].map(|word| number(word) as u32);
        if stored != version {
            return Ok(None);
        }
        let most = Number::Root as usize + 1;
        let n_numbers = if version == MANIFEST { N_NUMBERS } else { most };
        let mut checked = vec![0; 8 * n_numbers];
        source.read(CHECKED_FROM as u64, &mut checked)?;
        compare("head", sums, &checked, sum.into())?;
        let mut head = Head([0; N_NUMBERS]);
        let words = checked.chunks_exact(8).map(number);
        head.0.iter_mut().zip(words).for_each(|(to, of)| *to = of);
        if (head.get(Number::Files) > 0) != (version == MANIFEST) {
            return damaged("a manifest has no files");
        }
        let (size, expected) = (u128::from(source.size()), head.end());
        if size != expected {
            return damaged(format!("expected {expected} bytes, got {size}"));
        }
        let free = FREE_BYTES * u128::from(head.get(Number::Files).max(1));
        let most = free + MAX_RATIO * u128::from(head.get(Number::SizeBytes));
        if size > most {
            return damaged(format!(
                "expected at most {most} bytes for this file, got {size}"
            ));
        }
        Ok(Some(head))
    }

    pub fn get(&self, number: Number) -> u64 {
        self.0[number as usize]
    }

    /// Where the parts of datasets begin.
    pub fn parts_begin(&self) -> u64 {
        let is_manifest = self.get(Number::Files) > 0;
        let left_out = if is_manifest { 0 } else { 2 };
        (CHECKED_FROM + 8 * (N_NUMBERS - left_out)) as u64
    }

    /// Where the values begin; the head was compared with the size of the file.
    pub fn values_begin(&self) -> u64 {
        (self.end() - u128::from(self.get(Number::ValuesBytes))) as u64
    }

    fn tables_begin(&self) -> u64 {
        self.parts_begin() + self.get(Number::PartsBytes)
    }

    /// As many bytes as the file is to have.
    fn end(&self) -> u128 {
        let tables = COLUMNS.iter().map(|(_, width, count)| {
            let count = u128::from(self.get(*count));
            *width as u128 * count
        });
        let around = [Number::PartsBytes, Number::ValuesBytes].map(|of| u128::from(self.get(of)));
        u128::from(self.parts_begin()) + around.iter().sum::<u128>() + tables.sum::<u128>()
    }
}

/// The columns of an index, read and checked.
pub struct Tables {
    pub head: Head,
    longs: Vec<u64>,
    words: Vec<u32>,
    bytes: Vec<u8>,
    /// Where each column lies, among those of its width.
    places: Vec<Range<usize>>,
}

impl Tables {
    pub fn read(source: &dyn ByteSource, head: Head, sums: Sums) -> Result<Tables> {
        let (mut ends, mut places) = ([0; 9], Vec::with_capacity(N_COLUMNS));
        for (_, width, count) in COLUMNS {
            let begin = ends[width];
            ends[width] = begin + head.get(count) as usize;
            places.push(begin..ends[width]);
        }
        let mut window = Window {
            source,
            at: head.tables_begin(),
            sum: sums.map(|new| new()),
            buffer: Vec::new(),
        };
        let long = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        let tables = Tables {
            longs: window.read(ends[8], 8, long)?,
            words: window.read(ends[4], 4, word)?,
            bytes: window.read(ends[1], 1, |bytes| bytes[0])?,
            places,
            head,
        };
        let expected = tables.head.get(Number::TablesSum);
        if window.sum.is_some_and(|it| u64::from(it.sum()) != expected) {
            return damaged("the checksum of the tables differs");
        }
        match tables.checks().into_iter().find(|(_, holds)| !holds) {
            Some((what, _)) => damaged(format!("{what} contradict one another")),
            None => Ok(tables),
        }
    }

    pub fn longs(&self, column: Column) -> &[u64] {
        &self.longs[self.places[column as usize].clone()]
    }

    pub fn words(&self, column: Column) -> &[u32] {
        &self.words[self.places[column as usize].clone()]
    }

    pub fn bytes(&self, column: Column) -> &[u8] {
        &self.bytes[self.places[column as usize].clone()]
    }

    /// What may be relied on from here on.
    fn checks(&self) -> Vec<(&'static str, bool)> {
        let count = |number| self.head.get(number);
        let sorted = |column| self.longs(column).is_sorted();
        let last = |column| self.longs(column).last().copied().unwrap_or(0);
        let (n_values, n_links) = (count(Number::Values), count(Number::Links));
        let is_value = |&number: &u32| number == NO_VALUE || u64::from(number) < n_values;
        let values = |column| self.words(column).iter().all(is_value);
        let ends = |column, of| sorted(column) && last(column) == count(of);
        let increasing = |column| self.longs(column).windows(2).all(|two| two[0] < two[1]);
        let n_files = count(Number::Files);
        let of_files = n_files == 0 || ends(Column::FileObjectsEnd, Number::Objects);
        let link_kinds = self.bytes(Column::LinkKind);
        let targets = link_kinds.iter().zip(self.longs(Column::LinkTarget));
        let mut targets = targets.filter(|(kind, _)| matches!(**kind, SOFT | EXTERNAL));
        let places = self.longs(Column::First).iter();
        let places = places.zip(self.longs(Column::Second));
        let mut groups = places.zip(self.bytes(Column::Kind));
        let within =
            |first: u64, count: u64| first.checked_add(count).is_some_and(|n| n <= n_links);
        vec![
            ("objects of files", of_files),
            ("header offsets", of_files && self.has_sorted_headers()),
            (
                "kinds",
                self.bytes(Column::Kind).iter().all(|&kind| kind <= OTHER),
            ),
            (
                "kinds of links",
                link_kinds.iter().all(|&kind| kind <= USER_DEFINED),
            ),
            ("attributes", values(Column::Attributes)),
            ("shapes", values(Column::Space)),
            ("types", values(Column::Storage)),
            ("versions of files", values(Column::FileEtag)),
            (
                "ends of values",
                increasing(Column::ValueEnd)
                    && last(Column::ValueEnd) == count(Number::ValuesBytes),
            ),
            ("dims", ends(Column::DimsEnd, Number::Dims)),
            ("scales", ends(Column::ScaleEnd, Number::Scales)),
            ("names", self.has_names(Column::Names, Column::LinkEnd)),
            (
                "names of files",
                self.has_names(Column::FileNames, Column::FileNameEnd),
            ),
            (
                "links of groups",
                groups.all(|((&first, &n), &kind)| kind != GROUP || within(first, n)),
            ),
            ("targets of links", targets.all(|(_, &at)| at < n_values)),
        ]
    }

    /// Whether the headers of each file's objects are sorted; the ends of files are.
    fn has_sorted_headers(&self) -> bool {
        let headers = self.longs(Column::HeaderOffset);
        let ends = self.longs(Column::FileObjectsEnd);
        let (mut begin, whole) = (0, [headers.len() as u64]);
        let ends = if ends.is_empty() { &whole } else { ends };
        ends.iter().all(|&end| {
            let of_file = &headers[begin..end as usize];
            begin = end as usize;
            of_file.windows(2).all(|two| two[0] < two[1])
        })
    }

    /// Whether each name ends with its NUL, and has no other.
    fn has_names(&self, names: Column, ends: Column) -> bool {
        let names = self.bytes(names);
        let mut ends = self.longs(ends).iter();
        let mut nuls = (1..).zip(names).filter(|(_, byte)| **byte == 0);
        names.last().is_none_or(|&byte| byte == 0)
            && nuls.all(|(at, _)| ends.next() == Some(&at))
            && ends.next().is_none()
    }
}

/// Reads a file piece by piece.
struct Window<'a> {
    source: &'a dyn ByteSource,
    at: u64,
    sum: Option<Box<dyn Sum>>,
    buffer: Vec<u8>,
}

impl Window<'_> {
    /// The next numbers of `width` bytes; there are as many in the file.
    fn read<T>(&mut self, count: usize, width: usize, of: impl Fn(&[u8]) -> T) -> Result<Vec<T>> {
        let mut numbers = Vec::with_capacity(count);
        while numbers.len() < count {
            let left = (count - numbers.len()) * width;
            self.buffer.resize(left.min(WINDOW_BYTES), 0);
            self.source.read(self.at, &mut self.buffer)?;
            self.at += self.buffer.len() as u64;
            if let Some(sum) = &mut self.sum {
                sum.update(&self.buffer);
            }
            numbers.extend(self.buffer.chunks_exact(width).map(&of));
        }
        Ok(numbers)
    }
}

/// Compare the sum of something.
pub fn compare(what: &str, sums: Sums, bytes: &[u8], expected: u64) -> Result<()> {
    let Some(new) = sums else {
        return Ok(());
    };
    let mut sum = new();
    sum.update(bytes);
    match u64::from(sum.sum()) == expected {
        true => Ok(()),
        false => damaged(format!("the checksum of the {what} differs")),
    }
}

/// A little-endian number.
fn number(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |n, &byte| n << 8 | u64::from(byte))
}
