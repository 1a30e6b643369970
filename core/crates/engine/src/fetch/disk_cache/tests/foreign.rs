//! Folders and files that another user may have made: refused, and never written through.

use super::*;
use std::os::unix::fs::symlink;

fn refusal(folder: &Path) -> String {
    DiskCache::check(folder).unwrap_err().to_string()
}

#[test]
fn a_folder_that_others_may_write_or_that_is_elsewhere_is_refused() {
    let folder = TestFolder::new("foreign");
    drop(folder.open(ROOM));
    for mode in [0o720, 0o702, 0o1777] {
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(mode)).unwrap();
        assert!(refusal(&folder.0).contains("other users may write it"));
    }
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o755)).unwrap();
    DiskCache::check(&folder.0).unwrap();
    let link = folder.0.with_file_name("link");
    symlink(&folder.0, &link).unwrap();
    assert_eq!(refusal(&link), "it is a symbolic link");
    for name in ["used", "key"] {
        let victim = folder.0.with_file_name("victim");
        fs::write(&victim, "precious").unwrap();
        fs::remove_file(folder.0.join(name)).unwrap();
        for is_link in [true, false] {
            let named = folder.0.join(name);
            let made = match is_link {
                true => symlink(&victim, named),
                false => fs::hard_link(&victim, named),
            };
            made.unwrap();
            assert!(DiskCache::check(&folder.0).is_err());
            assert_eq!(fs::read(&victim).unwrap(), b"precious");
            fs::remove_file(folder.0.join(name)).unwrap();
        }
        DiskCache::check(&folder.0).unwrap();
    }
}

#[test]
fn what_others_put_in_the_place_of_an_object_is_neither_read_nor_written() {
    let folder = TestFolder::new("planted");
    let (whole, other) = (bytes(3 * PAGE, 9), bytes(3 * PAGE, 10));
    let victim = folder.0.with_file_name("victim");
    let plants: [fn(&Path, &Path); 5] = [
        |_, of| fs::set_permissions(of, fs::Permissions::from_mode(0o666)).unwrap(),
        |victim, of| {
            fs::rename(of, victim).unwrap();
            symlink(victim, of).unwrap();
        },
        |victim, of| fs::hard_link(of, victim).unwrap(),
        |_, of| {
            fs::remove_file(of).unwrap();
            let path = std::ffi::CString::new(of.to_str().unwrap()).unwrap();
            // SAFETY: a string that ends with a NUL.
            assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
        },
        // Of another folder, which has another key.
        |_, of| fs::remove_file(of.with_file_name("key")).unwrap(),
    ];
    for plant in plants {
        read(
            &folder.open(ROOM).object(b"url", b"1", 3 * PAGE),
            &other,
            0,
            3 * PAGE,
        );
        plant(&victim, &folder.files()[0]);
        let before = fs::read(&victim).ok();
        let cache = folder.open(ROOM);
        let object = cache.object(b"url", b"1", 3 * PAGE);
        assert!(!all_cached(&object, &whole) && all_cached(&object, &whole));
        assert!(cache.trouble().is_none());
        assert_eq!(fs::read(&victim).ok(), before);
        let _ = fs::remove_file(&victim);
        fs::remove_file(&folder.files()[0]).unwrap();
    }
}
