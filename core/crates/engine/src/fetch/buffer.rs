//! Memory that is used again and again.
//!
//! Law: it grows to its largest use. Too little memory is an error, never an abort.

use std::io;

/// Make `buffer`, whose bytes may be anything, at least `len` long.
pub fn grow(buffer: &mut Vec<u8>, len: usize) -> io::Result<()> {
    if buffer.len() < len {
        let no_memory = |_| io::Error::from_raw_os_error(libc::ENOMEM);
        buffer.clear();
        buffer.try_reserve_exact(len).map_err(no_memory)?;
        buffer.resize(len, 0);
    }
    Ok(())
}
