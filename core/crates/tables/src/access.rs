//! How readers get at an object of a store: limits of their requests, and a text for the store's client.
//!
//! Law:
//! 1. Written by `_multitables/remote/access.py`: a line of numbers, a line for the folder of the disk
//!    cache, and the client's text, which only the client reads.
//! 2. The text may hold credentials, so it is never shown.

use super::words::Refused;
use std::fmt;
use std::path::PathBuf;

#[derive(Clone, PartialEq, Eq)]
pub struct Access {
    /// Gaps up to this size between wanted bytes are fetched along rather than skipped.
    pub gap_bytes: u64,
    /// One request asks for at most this much, unless a single chunk is larger.
    pub request_bytes: u64,
    /// Bytes that one queue has asked for and not taken yet, unless a single request is larger.
    pub memory_bytes: u64,
    /// Requests in flight, of all queues of a process.
    pub requests: usize,
    /// The folder of the cache on disk, and its bound.
    pub cache: Option<(PathBuf, u64)>,
    pub client: Vec<u8>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    pub fn parse(text: &[u8]) -> Result<Access, Refused> {
        use std::os::unix::ffi::OsStrExt;
        let wrong = "the access to an object is not laid out as expected";
        let mut lines = text.splitn(3, |&byte| byte == b'\n');
        let mut line = || lines.next().ok_or(wrong);
        let (numbers, folder, client) = (line()?, line()?, line()?);
        let numbers = std::str::from_utf8(numbers).map_err(|_| wrong)?;
        let numbers: Result<Vec<u64>, _> = numbers.split(' ').map(str::parse).collect();
        let [
            gap_bytes,
            request_bytes,
            memory_bytes,
            requests,
            cache_bytes,
        ] = numbers
            .map_err(|_| wrong)?
            .try_into()
            .map_err(|_: Vec<u64>| wrong)?;
        let folder = std::ffi::OsStr::from_bytes(folder);
        Ok(Access {
            gap_bytes,
            request_bytes: request_bytes.max(1),
            memory_bytes,
            requests: requests.clamp(1, 1024) as usize,
            cache: (!folder.is_empty()).then(|| (folder.into(), cache_bytes)),
            client: client.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let found = Access::parse(b"1 2 3 4 5\n/a b\n{\"x\":\n1}").unwrap();
        let expected = Access {
            gap_bytes: 1,
            request_bytes: 2,
            memory_bytes: 3,
            requests: 4,
            cache: Some(("/a b".into(), 5)),
            client: b"{\"x\":\n1}".to_vec(),
        };
        assert_eq!(found, expected);
        assert_eq!(Access::parse(b"1 2 3 4 5\n\n").unwrap().cache, None);
        assert!(!format!("{found:?}").contains('x'));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "1 2 3 4 5",
            "1 2 3 4\n\n",
            "1 2 3 4 x\n\n",
            "1 2 3 4 5 6\n\n",
        ] {
            assert!(Access::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }
}
