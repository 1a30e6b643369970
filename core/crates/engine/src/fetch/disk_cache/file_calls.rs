//! Locks and reads of files that go on where a signal interrupted them.
//!
//! Law: the content of files is opaque here.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

pub(super) fn flock(file: &File, operation: libc::c_int) -> io::Result<()> {
    loop {
        // SAFETY: a live descriptor.
        if unsafe { libc::flock(file.as_raw_fd(), operation) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// Fill `out` with what the file has from `at` on. Returns how many bytes were there; others stay.
pub(super) fn filled(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < out.len() {
        match file.read_at(&mut out[done..], at + done as u64) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}
