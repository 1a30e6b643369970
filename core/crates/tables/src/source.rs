//! Where stored bytes come from: files of this machine, and objects of stores.
//!
//! Law:
//! 1. `SourceValues` are laid out as a record, word by word, and read from it again.
//! 2. What identifies a file or an object goes with its name, so that another one is noticed.

use super::access::Access;
use super::words::{Refused, part};
use std::sync::Arc;

pub const SOURCE_DIRECT: u64 = 1;
pub const SOURCE_TURNSTILE: u64 = 2;
pub const SOURCE_GROWS: u64 = 4;
/// One of several files that are equal: it is opened when bytes of it are wanted.
pub const SOURCE_LISTED: u64 = 8;

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SourceRecord {
    name_at: u64,
    name_len: u64,
    device: u64,
    inode: u64,
    size_bytes: u64,
    mtime_ns: u64,
    inline_at: u64,
    inline_len: u64,
    flags: u64,
    access_at: u64,
    access_len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    pub device: u64,
    pub inode: u64,
    pub size_bytes: u64,
    pub mtime_ns: u64,
}

/// Where stored bytes come from.
#[derive(Debug)]
pub struct Source {
    pub filename: Vec<u8>,
    pub fingerprint: Fingerprint,
    /// The page cache is bypassed.
    pub direct: bool,
    /// Readers make requests one at a time, in the order of the tape.
    pub turnstile: bool,
    /// Others write it meanwhile: its size and time may change.
    pub grows: bool,
    /// It is one of several equal files, and opened when bytes of it are wanted.
    pub listed: bool,
    /// The stored bytes, where they travel with the table: then addresses count in these.
    pub inline: Arc<[u8]>,
    /// Of an object of a store: how to get at it.
    pub access: Option<Access>,
}

impl Source {
    /// Bytes that there are to fetch from.
    pub fn bytes(&self) -> u64 {
        match self.inline.is_empty() {
            true => self.fingerprint.size_bytes,
            false => self.inline.len() as u64,
        }
    }
}

/// What a record says of a source.
#[derive(Clone, Copy, Debug)]
pub struct SourceValues<'a> {
    pub filename: &'a [u8],
    pub fingerprint: Fingerprint,
    /// `SOURCE_DIRECT`, `SOURCE_TURNSTILE`, `SOURCE_GROWS`, `SOURCE_LISTED`.
    pub flags: u64,
    pub inline: &'a [u8],
    pub access: &'a [u8],
}

impl SourceValues<'_> {
    /// The record, if the bytes are there in a table.
    pub(super) fn record(&self, name_at: u64, inline_at: u64, access_at: u64) -> SourceRecord {
        SourceRecord {
            name_at,
            name_len: self.filename.len() as u64,
            device: self.fingerprint.device,
            inode: self.fingerprint.inode,
            size_bytes: self.fingerprint.size_bytes,
            mtime_ns: self.fingerprint.mtime_ns,
            inline_at,
            inline_len: self.inline.len() as u64,
            flags: self.flags,
            access_at,
            access_len: self.access.len() as u64,
        }
    }
}

impl SourceRecord {
    pub(super) fn source(&self, blob: &[u8]) -> Result<Source, Refused> {
        let access = part(blob, self.access_at, self.access_len)?;
        Ok(Source {
            filename: part(blob, self.name_at, self.name_len)?.to_vec(),
            fingerprint: Fingerprint {
                device: self.device,
                inode: self.inode,
                size_bytes: self.size_bytes,
                mtime_ns: self.mtime_ns,
            },
            direct: self.flags & SOURCE_DIRECT != 0,
            turnstile: self.flags & SOURCE_TURNSTILE != 0,
            grows: self.flags & SOURCE_GROWS != 0,
            listed: self.flags & SOURCE_LISTED != 0,
            inline: part(blob, self.inline_at, self.inline_len)?.into(),
            access: (!access.is_empty())
                .then(|| Access::parse(access))
                .transpose()?,
        })
    }
}
