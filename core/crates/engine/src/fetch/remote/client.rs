//! The client that asks a store for ranges of its objects.
//!
//! Law:
//! 1. One client for the whole process, handed in once; it may be asked by many threads at a time.
//! 2. It gives all bytes of a range, of the version of the object that was indexed, or says why not.

use crate::fetch::error::FetchError;
use std::io;
use std::sync::OnceLock;

pub trait Client: Send + Sync {
    /// Fill `out` with the bytes of the object `name` from `begin` on. `access` is the client's own text.
    fn read(
        &self,
        name: &[u8],
        access: &[u8],
        begin: u64,
        out: &mut [u8],
    ) -> Result<(), FetchError>;
}

static CLIENT: OnceLock<Box<dyn Client>> = OnceLock::new();

/// Hand the client in; only the first one counts.
pub fn set_client(client: Box<dyn Client>) {
    let _ = CLIENT.set(client);
}

pub fn client() -> Result<&'static dyn Client, FetchError> {
    let client = CLIENT.get().map(|client| &**client);
    client.ok_or(FetchError::Open(io::ErrorKind::Unsupported.into()))
}
