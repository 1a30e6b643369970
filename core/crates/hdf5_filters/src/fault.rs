//! What can be wrong with the stored bytes of a chunk.
//!
//! Law: a filter says what it met; the pipeline adds which filter it was.

/// What went wrong; says what `expected` and `got` of the error mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterErrorKind {
    /// `expected` is the checksum that is stored, `got` the one computed.
    Checksum,
    /// `expected` bytes had to come out, `got` bytes did (at least, where the filter stopped).
    WrongSize,
    /// `expected` bytes had to be stored, `got` were.
    Truncated,
    /// The stored bytes break the filter's format; `got` is the decoder's code, as an i64.
    Malformed,
    /// Perhaps valid, but not handled here; `got` is what was met. A library may read it.
    Unsupported,
    /// Element `expected` has a picture of another size; `got` is its channels, height and width in 8, 28
    /// and 28 bits.
    OtherPicture,
    /// Element `expected` begins with bytes, `got`, of no picture.
    NoPicture,
    /// Element `expected` has a picture that does not decode.
    DamagedPicture,
}

/// One stage of a pipeline failed on one chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterError {
    pub filter: u32,
    pub kind: FilterErrorKind,
    pub expected: u64,
    pub got: u64,
}

impl std::error::Error for FilterError {}

/// A `FilterError` before the pipeline has put the filter's id on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub kind: FilterErrorKind,
    pub expected: u64,
    pub got: u64,
}

impl Fault {
    pub fn wrong_size(expected: usize, got: usize) -> Fault {
        Fault::new(FilterErrorKind::WrongSize, expected as u64, got as u64)
    }

    pub fn truncated(expected: usize, got: usize) -> Fault {
        Fault::new(FilterErrorKind::Truncated, expected as u64, got as u64)
    }

    pub fn malformed(code: i64) -> Fault {
        Fault::new(FilterErrorKind::Malformed, 0, code as u64)
    }

    pub fn unsupported(what: u64) -> Fault {
        Fault::new(FilterErrorKind::Unsupported, 0, what)
    }

    /// The same, of a filter.
    pub fn of(self, filter: u32) -> FilterError {
        FilterError {
            filter,
            kind: self.kind,
            expected: self.expected,
            got: self.got,
        }
    }

    pub fn checksum(stored: u32, computed: u32) -> Fault {
        Fault::new(FilterErrorKind::Checksum, stored.into(), computed.into())
    }

    pub fn other_picture(element: usize, height: u32, width: u32, channels: u32) -> Fault {
        let side = |side: u32| u64::from(side.min((1 << 28) - 1));
        let size = side(height) << 28 | side(width);
        let got = u64::from(channels) << 56 | size;
        Fault::new(FilterErrorKind::OtherPicture, element as u64, got)
    }

    pub fn no_picture(element: usize, head: [u8; 8]) -> Fault {
        let got = u64::from_be_bytes(head);
        Fault::new(FilterErrorKind::NoPicture, element as u64, got)
    }

    /// The number of the element that has no good picture.
    pub fn element(&self) -> Option<usize> {
        let is_picture = matches!(
            self.kind,
            FilterErrorKind::OtherPicture
                | FilterErrorKind::NoPicture
                | FilterErrorKind::DamagedPicture
        );
        is_picture.then_some(self.expected as usize)
    }

    pub fn damaged_picture(element: usize) -> Fault {
        Fault::new(FilterErrorKind::DamagedPicture, element as u64, 0)
    }

    fn new(kind: FilterErrorKind, expected: u64, got: u64) -> Fault {
        Fault {
            kind,
            expected,
            got,
        }
    }
}
