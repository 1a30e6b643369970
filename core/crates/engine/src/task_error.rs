//! What can stop a task, and how it is told to the parent.
//!
//! Law:
//! 1. One error, one number and one name: the table here is all there is, and Python is given it.
//! 2. A record is complete before its `error_kind` says so.
//! 3. Composes no message: the parent knows names, this side only numbers.

use crate::fetch::error::FetchError;
use hdf5_filters::{FilterError, FilterErrorKind};
use os::sync::{AtomicU32, AtomicU64};
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Bytes of text that an error can carry.
pub const TEXT_BYTES: usize = 1536;

macro_rules! error_kinds {
    ($($name:ident = $number:literal,)*) => {
        /// Numbers of `ErrorRecord::kind`.
        pub mod error_kind {
            $(pub const $name: u32 = $number;)*
        }
        /// All kinds of errors: number and name.
        pub const ERROR_KINDS: &[(u32, &str)] = &[$(($number, stringify!($name)),)*];
    };
}

error_kinds! {
    FILTER_CHECKSUM = 1,
    FILTER_SIZE = 2,
    FILTER_MALFORMED = 3,
    FILTER_UNKNOWN = 4,
    SHORT = 5,
    READ = 6,
    OPEN = 7,
    CHANGED = 8,
    LIBRARY = 9,
    INTERNAL = 10,
    FILTER_TRUNCATED = 11,
    DIED = 12,
    FORMAT = 13,
    STORE = 14,
    MEMORY = 15,
    PICTURE_OTHER = 16,
    PICTURE_NONE = 17,
    PICTURE_DAMAGED = 18,
}

/// The chunk of an error that is about none.
pub const NO_CHUNK: u64 = u64::MAX;

/// What stopped a task.
#[derive(Debug)]
pub enum TaskError {
    /// The stored chunk numbered so in the plan does not decode.
    Filter(u64, FilterError),
    Fetch(u64, FetchError),
    UnknownFilter(u32),
    /// An exception of the library fallback: "module\0type\0text".
    Library(String),
    Internal(String),
    /// Pages of shared memory cannot be had.
    Memory(std::io::Error),
    /// A structure of the file contradicts HDF5's specification; the chunk for which it was read.
    Format(u64, String),
    /// Readers died of it: the chunk in hand, the last one's exit status, how many they were.
    Died(u64, i32, u64),
}

impl TaskError {
    /// The chunk that it is about, as the plan numbers it. What comes before it is good.
    pub fn chunk(&self) -> Option<u64> {
        match self {
            // It taints all that was fetched.
            TaskError::Fetch(_, FetchError::Changed { .. }) => None,
            TaskError::Filter(number, _) | TaskError::Fetch(number, _) => Some(*number),
            _ => None,
        }
    }

    /// All that is told of it.
    pub fn told(&self, task: u64) -> Failure {
        let (mut chunk, mut text) = (NO_CHUNK, "");
        let (kind, filter, detail, expected, got) = match self {
            TaskError::Filter(at, error) => {
                chunk = *at;
                let kind = match error.kind {
                    FilterErrorKind::Checksum => error_kind::FILTER_CHECKSUM,
                    FilterErrorKind::WrongSize => error_kind::FILTER_SIZE,
                    FilterErrorKind::Truncated => error_kind::FILTER_TRUNCATED,
                    FilterErrorKind::Malformed => error_kind::FILTER_MALFORMED,
                    FilterErrorKind::Unsupported => error_kind::FILTER_UNKNOWN,
                    FilterErrorKind::OtherPicture => error_kind::PICTURE_OTHER,
                    FilterErrorKind::NoPicture => error_kind::PICTURE_NONE,
                    FilterErrorKind::DamagedPicture => error_kind::PICTURE_DAMAGED,
                };
                (kind, error.filter, 0, error.expected, error.got)
            }
            TaskError::Fetch(at, error) => {
                chunk = *at;
                match error {
                    FetchError::Short { expected, got } => {
                        (error_kind::SHORT, 0, 0, *expected, *got)
                    }
                    FetchError::Changed { expected, got } => {
                        (error_kind::CHANGED, 0, 0, *expected, *got)
                    }
                    FetchError::Read(error) => (error_kind::READ, 0, code(error), 0, 0),
                    FetchError::Open(error) => (error_kind::OPEN, 0, code(error), 0, 0),
                    FetchError::Store(reason) => {
                        text = reason;
                        (error_kind::STORE, 0, 0, 0, 0)
                    }
                }
            }
            TaskError::UnknownFilter(id) => (error_kind::FILTER_UNKNOWN, *id, 0, 0, 0),
            TaskError::Library(reason) => {
                text = reason;
                (error_kind::LIBRARY, 0, 0, 0, 0)
            }
            TaskError::Internal(reason) => {
                text = reason;
                (error_kind::INTERNAL, 0, 0, 0, 0)
            }
            TaskError::Memory(error) => (error_kind::MEMORY, 0, code(error), 0, 0),
            TaskError::Format(at, reason) => {
                (chunk, text) = (*at, reason);
                (error_kind::FORMAT, 0, 0, 0, 0)
            }
            TaskError::Died(at, status, deaths) => {
                chunk = *at;
                (error_kind::DIED, 0, *status as u32, 0, *deaths)
            }
        };
        let text = text.to_owned();
        (kind, filter, detail, task, chunk, expected, got, text)
    }

    /// Fetching the chunk numbered so in the plan failed.
    pub fn read(chunk: u64, error: std::io::Error) -> TaskError {
        TaskError::Fetch(chunk, FetchError::Read(error))
    }
}

/// A panic is a bug, and nothing worse.
pub fn panicked(panic: &(dyn std::any::Any + Send)) -> TaskError {
    let text = match (panic.downcast_ref::<String>(), panic.downcast_ref::<&str>()) {
        (Some(text), _) => text,
        (None, Some(text)) => *text,
        _ => "a panic without a message",
    };
    TaskError::Internal(text.into())
}

/// A failed task: kind, filter, detail, task, chunk, expected, got, text.
pub type Failure = (u32, u32, u32, u64, u64, u64, u64, String);

/// Why a task failed, in shared memory; zeros: it did not.
#[repr(C)]
pub struct ErrorRecord {
    kind: AtomicU32,
    filter: AtomicU32,
    detail: AtomicU32,
    text_len: AtomicU32,
    task: AtomicU64,
    chunk: AtomicU64,
    expected: AtomicU64,
    got: AtomicU64,
    /// The tape's row up to which this task, and those that failed after it, are done.
    pub(crate) done_row: AtomicU64,
    text: [AtomicU8; TEXT_BYTES],
}

impl ErrorRecord {
    /// What `set` left here.
    pub fn get(&self) -> Option<Failure> {
        let kind = self.kind.load(SeqCst);
        let len = (self.text_len.load(Relaxed) as usize).min(TEXT_BYTES);
        let text: Vec<u8> = self.text[..len]
            .iter()
            .map(|byte| byte.load(Relaxed))
            .collect();
        (kind != 0).then(|| {
            (
                kind,
                self.filter.load(Relaxed),
                self.detail.load(Relaxed),
                self.task.load(Relaxed),
                self.chunk.load(Relaxed),
                self.expected.load(Relaxed),
                self.got.load(Relaxed),
                String::from_utf8_lossy(&text).into_owned(),
            )
        })
    }

    /// The task that failed.
    pub fn task(&self) -> Option<u64> {
        (self.kind.load(SeqCst) != 0).then(|| self.task.load(Relaxed))
    }

    /// Up to which row of the tape all tasks are done that failed; None: none did.
    pub fn done_row(&self) -> Option<u64> {
        (self.kind.load(SeqCst) != 0).then(|| self.done_row.load(SeqCst))
    }

    /// Another task failed, which is done up to `row`. Its reason is not told: it comes later.
    pub fn lower(&self, row: u64) {
        self.done_row.fetch_min(row, SeqCst);
    }

    /// Leave the reason why `task` failed.
    pub fn set(&self, task: u64, error: &TaskError) {
        let (kind, filter, detail, task, chunk, expected, got, text) = error.told(task);
        self.task.store(task, Relaxed);
        self.chunk.store(chunk, Relaxed);
        self.filter.store(filter, Relaxed);
        self.detail.store(detail, Relaxed);
        self.expected.store(expected, Relaxed);
        self.got.store(got, Relaxed);
        let bytes = text.as_bytes();
        let len = bytes.len().min(TEXT_BYTES);
        for (place, byte) in self.text.iter().zip(&bytes[..len]) {
            place.store(*byte, Relaxed);
        }
        self.text_len.store(len as u32, Relaxed);
        self.kind.store(kind, SeqCst);
    }

    /// Forget the reason: what it stood for is done, or will be tried again.
    pub fn clear(&self) {
        self.kind.store(0, SeqCst);
    }
}

/// The operating system's number; what comes without one is an input/output error.
fn code(error: &std::io::Error) -> u32 {
    error.raw_os_error().unwrap_or(libc::EIO) as u32
}
