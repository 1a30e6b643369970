//! Files that have no name any more, found again where they are open.
//!
//! Law:
//! 1. A file is looked for among the descriptors of this process and of its parent, which keeps open
//!    what its readers shall read. It is not used as long as a name leads to a file.
//! 2. What is found is named by its place in `/proc`. Opening that name opens the file once more.

use std::fs::{metadata, read_dir};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// A name by which a file opens that is open here or in the parent, if it is.
pub fn name_of(device: u64, inode: u64) -> Option<PathBuf> {
    // SAFETY: getppid cannot fail.
    let parent = unsafe { libc::getppid() };
    ["self".to_owned(), parent.to_string()]
        .iter()
        .filter_map(|process| read_dir(format!("/proc/{process}/fd")).ok())
        .flat_map(|descriptors| descriptors.flatten().map(|entry| entry.path()))
        .find(|path| {
            metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (device, inode))
        })
}

#[cfg(test)]
mod tests {
    use super::name_of;
    use std::fs::{File, read, remove_file, write};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_file_without_a_name_is_found_as_long_as_it_is_open() {
        let path = std::env::temp_dir().join(format!("unlinked-{}", std::process::id()));
        write(&path, b"bytes").unwrap();
        let file = File::open(&path).unwrap();
        remove_file(&path).unwrap();
        let found = file.metadata().unwrap();
        let name = name_of(found.dev(), found.ino()).unwrap();
        assert_eq!(read(name).unwrap(), b"bytes");
        assert_eq!(name_of(found.dev(), u64::MAX), None);
    }
}
