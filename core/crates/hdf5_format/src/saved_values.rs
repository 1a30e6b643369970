//! Values of a saved index: JSON of a known form, and what it says of objects.
//!
//! Law:
//! 1. What has another form than its reader expects is no value. A value takes no more memory than a few
//!    times its bytes, and nests as deep as its reader goes.
//! 2. What is said has the types and ranges that a file's own metadata have.

use super::attribute::Attribute;
use super::chunks::{ChunkIndexKind, ChunkedLayout};
use super::cursor::{Block, Cursor, Sizes, UNDEFINED};
use super::dataspace::{Dataspace, MAX_RANK, UNLIMITED};
use super::datatype::datatype;
use super::external_files::ExternalFile;
use super::file::Dataset;
use super::fill_value::{Fill, FillValue};
use super::filter_pipeline::Filter;
use super::layout::Layout;
use super::survey::{Kind, Storage};

/// Numbers of layouts.
const COMPACT: u64 = 0;
const CONTIGUOUS: u64 = 1;
const CHUNKED: u64 = 2;
const VIRTUAL: u64 = 3;

/// What is left of a text of JSON.
pub struct Json<'a>(&'a [u8]);

impl<'a> Json<'a> {
    /// Read a whole text.
    pub fn read<T>(text: &'a [u8], of: impl FnOnce(&mut Json<'a>) -> Option<T>) -> Option<T> {
        let mut json = Json(text);
        let value = of(&mut json)?;
        json.0.trim_ascii().is_empty().then_some(value)
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.0 = self.0.trim_ascii_start().strip_prefix(word)?;
        Some(())
    }

    fn optional<T>(&mut self, of: impl FnOnce(&mut Json<'a>) -> Option<T>) -> Option<Option<T>> {
        match self.word(b"null") {
            Some(()) => Some(None),
            None => of(self).map(Some),
        }
    }

    fn flag(&mut self) -> Option<bool> {
        match self.word(b"true") {
            Some(()) => Some(true),
            None => self.word(b"false").map(|()| false),
        }
    }

    /// An unsigned number.
    fn number<T: TryFrom<u64>>(&mut self) -> Option<T> {
        let text = self.0.trim_ascii_start();
        let is_digit = |byte: &u8| byte.is_ascii_digit();
        let len = text.iter().take_while(|byte| is_digit(byte)).count();
        let digits = text[..len].iter().map(|digit| u64::from(digit - b'0'));
        let add = |number: u64, digit| number.checked_mul(10)?.checked_add(digit);
        self.0 = &text[len..];
        let number = (len > 0).then_some(digits)?.try_fold(0, add)?;
        T::try_from(number).ok()
    }

    pub fn text(&mut self) -> Option<String> {
        self.word(b"\"")?;
        let mut text = String::new();
        loop {
            let end = self
                .0
                .iter()
                .position(|&byte| matches!(byte, b'"' | b'\\'))?;
            let (plain, rest) = self.0.split_at(end);
            text.push_str(std::str::from_utf8(plain).ok()?);
            self.0 = &rest[1..];
            if rest[0] == b'"' {
                return Some(text);
            }
            let (&escaped, rest) = self.0.split_first()?;
            self.0 = rest;
            text.push(match escaped {
                b'"' | b'\\' | b'/' => escaped.into(),
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'u' => {
                    let (digits, rest) = self.0.split_at_checked(4)?;
                    self.0 = rest;
                    let digits = std::str::from_utf8(digits).ok()?;
                    char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
                }
                _ => return None,
            });
        }
    }

    /// Bytes as Latin-1.
    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let text = self.text()?;
        text.chars()
            .map(|letter| u8::try_from(letter).ok())
            .collect()
    }

    pub fn list<T>(&mut self, mut of: impl FnMut(&mut Json<'a>) -> Option<T>) -> Option<Vec<T>> {
        let mut values = Vec::new();
        self.word(b"[")?;
        if self.word(b"]").is_some() {
            return Some(values);
        }
        loop {
            values.push(of(self)?);
            if self.word(b",").is_none() {
                return self.word(b"]").map(|()| values);
            }
        }
    }

    /// The next value of a row of values, behind a bracket or a comma.
    fn first<T>(&mut self, of: impl FnOnce(&mut Json<'a>) -> Option<T>) -> Option<T> {
        self.word(b"[")?;
        of(self)
    }

    fn next<T>(&mut self, of: impl FnOnce(&mut Json<'a>) -> Option<T>) -> Option<T> {
        self.word(b",")?;
        of(self)
    }

    fn end(&mut self) -> Option<()> {
        self.word(b"]")
    }
}

/// The shape of a dataset.
pub fn space(json: &mut Json<'_>) -> Option<Dataspace> {
    let space = Dataspace {
        is_null: json.first(Json::flag)?,
        dims: json.next(dims)?,
        max_dims: json.next(|json| {
            json.list(|json| Some(json.optional(Json::number)?.unwrap_or(UNLIMITED)))
        })?,
    };
    json.end()?;
    let is_whole = space.dims.len() == space.max_dims.len();
    (is_whole && (space.dims.is_empty() || !space.is_null)).then_some(space)
}

/// What many datasets have in common, as a dataset without a shape. Its layout lies nowhere yet.
pub fn storage(json: &mut Json<'_>) -> Option<Dataset> {
    let layout = json.first(Json::number::<u64>)?;
    let (datatype, element_bytes) = typed(json)?;
    let chunk_dims = json.next(|json| json.optional(dims))?;
    let filters = json.next(|json| json.list(filter))?;
    let value = json.next(|json| json.optional(Json::bytes))?;
    let is_never_written = json.next(Json::flag)?;
    let external_files = json.next(|json| json.list(external_file))?;
    json.end()?;
    let value = value.map_or(Some(FillValue::Undefined), |value| {
        fill(value, element_bytes)
    })?;
    Some(Dataset {
        dataspace: Dataspace::default(),
        datatype: Block {
            bytes: datatype,
            address: 0,
        },
        element_bytes,
        layout: empty_layout(layout, chunk_dims)?,
        filters,
        fill: Fill {
            value,
            is_never_written,
        },
        external_files,
    })
}

/// A kind of datasets of a survey. A missing fill value, like one of zeros, is saved empty.
pub fn kind(json: &mut Json<'_>) -> Option<Kind> {
    let layout = json.first(Json::number::<u64>)?;
    let (datatype, element_bytes) = typed(json)?;
    let filters = json.next(|json| json.list(filter))?;
    let value = json.next(Json::bytes)?;
    let class = json.next(Json::bytes)?;
    json.end()?;
    let storage = match layout {
        COMPACT => Storage::Compact,
        CONTIGUOUS => Storage::Contiguous,
        CHUNKED => Storage::Chunked,
        _ => return None,
    };
    fill(value.clone(), element_bytes)?;
    Some(Kind {
        storage,
        datatype,
        element_bytes,
        filters,
        fill: Fill {
            value: FillValue::Value(value),
            is_never_written: false,
        },
        class,
    })
}

/// An attribute of an object, and its number in the order of creation.
pub fn attribute(json: &mut Json<'_>) -> Option<(Option<u32>, Attribute)> {
    let name = json.first(Json::bytes)?;
    let order = json.next(|json| json.optional(Json::number))?;
    let datatype = json.next(Json::bytes)?;
    let dims = json.next(|json| json.optional(dims))?;
    let elements = json.next(Json::bytes)?;
    json.end()?;
    let is_null = dims.is_none();
    let dims = dims.unwrap_or_default();
    let dataspace = Dataspace {
        is_null,
        max_dims: dims.clone(),
        dims,
    };
    let n_bytes = match is_null {
        true => 0, // the type of a bad attribute cannot be read
        false => (dataspace.n_elements()?).checked_mul(element_bytes(&datatype)?.into())?,
    };
    let datatype = Block {
        bytes: datatype,
        address: 0,
    };
    let attribute = Attribute {
        name,
        datatype,
        dataspace,
        elements,
    };
    (attribute.elements.len() as u64 == n_bytes).then_some((order, attribute))
}

fn dims(json: &mut Json<'_>) -> Option<Vec<u64>> {
    let dims = json.list(Json::number)?;
    (dims.len() <= MAX_RANK).then_some(dims)
}

fn filter(json: &mut Json<'_>) -> Option<Filter> {
    let filter = Filter {
        id: json.first(Json::number)?,
        flags: json.next(Json::number)?,
        values: json.next(|json| json.list(Json::number))?,
        name: json.next(Json::bytes)?,
    };
    json.end().map(|()| filter)
}

fn external_file(json: &mut Json<'_>) -> Option<ExternalFile> {
    let file = ExternalFile {
        name: json.first(Json::bytes)?,
        byte_offset: json.next(Json::number)?,
        size: json.next(Json::number)?,
    };
    json.end().map(|()| file)
}

/// A datatype, and the bytes of its elements, which agree.
fn typed(json: &mut Json<'_>) -> Option<(Vec<u8>, u32)> {
    let datatype = json.next(Json::bytes)?;
    let stored = json.next(Json::number)?;
    (element_bytes(&datatype)? == stored).then_some((datatype, stored))
}

fn element_bytes(message: &[u8]) -> Option<u32> {
    // Which file it is of does not matter to a type.
    let sizes = Sizes {
        address: 0,
        length: 8,
        checks_sums: true,
    };
    let datatype = datatype(&mut Cursor::over(message, 0, sizes)).ok()?;
    Some(datatype.size)
}

/// One element, or no bytes: zeros.
fn fill(value: Vec<u8>, element_bytes: u32) -> Option<FillValue> {
    match value.len() {
        0 => Some(FillValue::Default),
        len if len == element_bytes as usize => Some(FillValue::Value(value)),
        _ => None,
    }
}

fn empty_layout(number: u64, chunk_dims: Option<Vec<u64>>) -> Option<Layout> {
    let address = UNDEFINED;
    Some(match (number, chunk_dims) {
        (COMPACT, None) => Layout::Compact {
            elements: Vec::new(),
            address,
        },
        (CONTIGUOUS, None) => Layout::Contiguous { address },
        (CHUNKED, Some(chunk_dims)) if !chunk_dims.contains(&0) => Layout::Chunked(ChunkedLayout {
            index: ChunkIndexKind::BTreeV1,
            address,
            chunk_dims,
            unfiltered_edges: false,
        }),
        (VIRTUAL, None) => Layout::Virtual { heap: 0, index: 0 },
        _ => return None,
    })
}
