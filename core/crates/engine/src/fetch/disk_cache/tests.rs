//! The cache against objects in memory, with several users, damaged files and a full disk.

use super::page_file::MAX_OBJECT_BYTES;
use super::*;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use testing::fixtures::XorShift64;

const PAGE: u64 = PAGE_BYTES;
const ROOM: u64 = 1 << 30;

/// A folder that is removed when dropped.
struct TestFolder(PathBuf);

impl TestFolder {
    fn new(name: &str) -> TestFolder {
        let name = format!("multitables-cache-{name}-{}", std::process::id());
        TestFolder(std::env::temp_dir().join(name).join("inner"))
    }

    fn open(&self, limit: u64) -> DiskCache {
        DiskCache::open(&self.0, limit).unwrap()
    }

    /// The files of all objects.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        paths
            .filter(|path| !path.ends_with("used") && !path.ends_with("key"))
            .collect()
    }

    fn the_file(&self) -> File {
        let [path] = &self.files()[..] else {
            panic!("{:?}", self.files());
        };
        for_both(path)
    }

    /// What the disk has of all objects.
    fn allocated(&self) -> u64 {
        use std::os::unix::fs::MetadataExt;
        let files = self.files();
        files
            .iter()
            .map(|path| path.metadata().unwrap().blocks() * 512)
            .sum()
    }
}

fn for_both(path: &Path) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap()
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.0.parent().unwrap());
    }
}

fn bytes(len: u64, seed: u64) -> Vec<u8> {
    let mut random = XorShift64(seed);
    (0..len).map(|_| random.below(256) as u8).collect()
}

/// Read a range, and compare it. Each fetched range.
fn read(object: &CachedObject, whole: &[u8], begin: u64, len: u64) -> (ReadFrom, Vec<Range<u64>>) {
    let mut out = vec![0xee; len as usize];
    let mut fetched = Vec::new();
    let fetch = &mut |at: u64, place: &mut [u8]| {
        let end = at + place.len() as u64;
        place.copy_from_slice(&whole[at as usize..end as usize]);
        fetched.push(at..end);
        Ok::<_, io::Error>(())
    };
    let from = object.read(begin, &mut out, fetch).unwrap();
    assert!(
        out == whole[begin as usize..][..len as usize],
        "{begin} {len}"
    );
    assert_eq!(
        from.fetched,
        fetched.iter().map(|at| at.end - at.start).sum::<u64>()
    );
    (from, fetched)
}

fn all_cached(object: &CachedObject, whole: &[u8]) -> bool {
    let had = object.has(0, whole.len() as u64);
    let (from, _) = read(object, whole, 0, whole.len() as u64);
    assert!(had || from.fetched > 0);
    from.cached == whole.len() as u64
}

#[test]
fn random_ranges_are_those_of_the_object_and_come_once() {
    let folder = TestFolder::new("random");
    for (seed, size) in [1, PAGE - 1, PAGE, PAGE + 1, 10 * PAGE, 40 * PAGE + 77]
        .into_iter()
        .enumerate()
    {
        let (whole, mut random) = (bytes(size, 5), XorShift64(seed as u64 + 1));
        let cache = folder.open(ROOM);
        let object = cache.object(b"url", &[seed as u8], size);
        let mut fetched = 0;
        for _ in 0..300 {
            let begin = random.below(size + 1);
            let longest = if random.below(2) == 0 { size } else { PAGE };
            let len = random.below(longest.min(size - begin) + 1);
            let had = object.has(begin, len);
            let (from, _) = read(&object, &whole, begin, len);
            assert!(
                !had || from
                    == ReadFrom {
                        cached: len,
                        fetched: 0
                    }
            );
            assert!(object.has(begin, len));
            fetched += from.fetched;
        }
        fetched += read(&object, &whole, 0, size).0.fetched;
        assert_eq!(fetched, size);
        assert!(all_cached(&object, &whole));
        drop((object, cache));
        let cache = folder.open(ROOM);
        assert!(all_cached(
            &cache.object(b"url", &[seed as u8], size),
            &whole
        ));
        assert!(cache.trouble().is_none());
    }
}

#[test]
fn missing_neighbours_come_together_in_whole_pages() {
    let folder = TestFolder::new("neighbours");
    let whole = bytes(9 * PAGE + 100, 2);
    let object = folder.open(ROOM).object(b"url", b"1", whole.len() as u64);
    let page_4 = 4 * PAGE..5 * PAGE;
    assert_eq!(read(&object, &whole, 4 * PAGE + 7, 9).1, [page_4]);
    let (from, fetched) = read(&object, &whole, PAGE + 5, 8 * PAGE);
    assert_eq!(fetched, [PAGE..4 * PAGE, 5 * PAGE..whole.len() as u64]);
    assert_eq!(from.cached, PAGE);
    assert!(!object.has(0, 1) && object.has(PAGE, 8 * PAGE + 100));
    assert!(!object.has(PAGE, 8 * PAGE + 101) && !object.has(PAGE, u64::MAX));
}

#[test]
fn an_error_of_the_fetch_is_the_callers_and_nothing_is_kept() {
    let folder = TestFolder::new("error");
    let whole = bytes(3 * PAGE, 2);
    let object = folder.open(ROOM).object(b"url", b"1", 3 * PAGE);
    let out = &mut [0; 100];
    assert_eq!(object.read(PAGE, out, &mut |_, _| Err("no")), Err("no"));
    assert!(!object.has(PAGE, 1));
    // A range that leaves the object is the closure's, too.
    assert_eq!(
        object.read(3 * PAGE - 1, out, &mut |_, _| Err("end")),
        Err("end")
    );
    assert_eq!(read(&object, &whole, 0, 3 * PAGE).0.fetched, 3 * PAGE);
    assert!(all_cached(&object, &whole));
}

#[test]
fn objects_and_ranges_without_bytes() {
    let folder = TestFolder::new("empty");
    let object = folder.open(ROOM).object(b"url", b"1", 0);
    assert_eq!(read(&object, &[], 0, 0), Default::default());
    assert!(object.has(0, 0) && !object.has(0, 1) && folder.files().is_empty());
    let object = folder.open(ROOM).object(b"url", b"1", 10);
    assert_eq!(read(&object, &bytes(10, 1), 5, 0), Default::default());
    assert!(object.has(5, 0) && !object.has(5, 1));
}

/// What a server says of its size need not be true.
#[test]
fn objects_of_any_size() {
    let folder = TestFolder::new("any_size");
    let cache = folder.open(u64::MAX);
    for size in [MAX_OBJECT_BYTES, MAX_OBJECT_BYTES + 1, u64::MAX] {
        let object = cache.object(b"url", b"1", size);
        for begin in [0, size - 8] {
            let (mut out, mut fetched) = ([0; 8], 0);
            let fetch = &mut |_, place: &mut [u8]| {
                place.fill(7);
                fetched += place.len() as u64;
                Ok::<_, ()>(())
            };
            let from = object.read(begin, &mut out, fetch).unwrap();
            assert_eq!((out, from.fetched), ([7; 8], fetched));
        }
    }
}

/// As processes do: each has its own descriptors, and locks exclude these.
#[test]
fn threads_with_caches_of_their_own_share_a_folder() {
    let folder = TestFolder::new("threads");
    let whole = bytes(60 * PAGE + 3, 3);
    let size = whole.len() as u64;
    for limit in [ROOM, 25 * PAGE] {
        let shared = folder.open(limit);
        let object = &shared.object(b"url", &limit.to_le_bytes(), size);
        std::thread::scope(|scope| {
            for seed in 1..5 {
                let (folder, whole) = (&folder, &whole);
                scope.spawn(move || {
                    let own = folder
                        .open(limit)
                        .object(b"url", &limit.to_le_bytes(), size);
                    let mut random = XorShift64(seed);
                    for turn in 0..150 {
                        let begin = random.below(size);
                        let len = random.below((size - begin).min(9 * PAGE) + 1);
                        let object = if turn % 2 == 0 { object } else { &own };
                        read(object, whole, begin, len);
                    }
                });
            }
        });
        let used = shared.used_bytes().unwrap();
        assert!(used <= limit && used > limit.min(size) - PAGE);
        assert_eq!(
            LockedFolder::lock(&shared.0.folder)
                .unwrap()
                .count_anew()
                .unwrap(),
            used
        );
        read(object, &whole, 0, size);
        assert_eq!(all_cached(object, &whole), limit == ROOM);
        assert!(shared.trouble().is_none());
        // Beside what is counted, the file system notes where blocks lie.
        assert!(folder.allocated() <= used + PAGE);
    }
}

#[test]
fn the_first_pages_of_an_open_object_stay() {
    let folder = TestFolder::new("bound");
    let whole = bytes(20 * PAGE, 4);
    let cache = folder.open(8 * PAGE + 4096);
    let object = cache.object(b"url", b"1", 20 * PAGE);
    for lap in 0..3 {
        for begin in (0..20).step_by(2) {
            let (from, fetched) = read(&object, &whole, begin * PAGE + 10, 2 * PAGE - 20);
            let is_cached = lap > 0 && begin < 8;
            assert_eq!(from.cached > 0, is_cached, "{begin}");
            // No more is fetched than what is asked for, where nothing is kept.
            let exact = begin * PAGE + 10..(begin + 2) * PAGE - 10;
            assert!(is_cached || begin < 8 || fetched == [exact]);
        }
    }
    assert_eq!(cache.used_bytes().unwrap(), 8 * PAGE + 4096);
    // A page in a run of others is kept where only it has room.
    let other = folder.open(9 * PAGE + 4096).object(b"url", b"1", 20 * PAGE);
    read(&other, &whole, 6 * PAGE, 4 * PAGE);
    assert!(other.has(0, 9 * PAGE) && !other.has(9 * PAGE, 1));
}

#[test]
fn objects_in_use_stay_and_the_least_recently_opened_goes() {
    let folder = TestFolder::new("evict");
    let whole = bytes(4 * PAGE, 5);
    let size = whole.len() as u64;
    let cache = folder.open(3 * (size + 4096));
    let pause = || std::thread::sleep(std::time::Duration::from_millis(20));
    let object = |url: &[u8]| {
        pause();
        cache.object(url, b"1", size)
    };
    for url in [b"a", b"b", b"c"] {
        read(&object(url), &whole, 0, size);
    }
    let kept = object(b"a");
    object(b"b");
    // c was opened before the others.
    let d = object(b"d");
    assert!(!all_cached(&d, &whole) && all_cached(&d, &whole));
    assert!(all_cached(&object(b"b"), &whole) && all_cached(&kept, &whole));
    let b = object(b"b");
    // All are in use now, in whatever process: nothing of the next one is kept.
    for _ in 0..2 {
        let other = folder.open(cache.0.limit);
        assert!(!all_cached(&other.object(b"c", b"1", size), &whole));
    }
    drop(b);
    let c = object(b"c");
    assert!(!all_cached(&c, &whole) && all_cached(&c, &whole));
    assert!(all_cached(&kept, &whole) && all_cached(&d, &whole));
    assert_eq!(folder.files().len(), 3);
    assert_eq!(cache.used_bytes().unwrap(), cache.0.limit);
    // A folder that is opened with a smaller bound is cut to it.
    drop((c, d));
    let smaller = folder.open(size + 4096);
    assert_eq!(smaller.used_bytes().unwrap(), size + 4096);
    assert!(all_cached(&kept, &whole) && cache.trouble().is_none());
}

#[test]
fn another_version_replaces_the_old_one() {
    let folder = TestFolder::new("version");
    let (old, new) = (bytes(5 * PAGE, 6), bytes(5 * PAGE, 7));
    let cache = folder.open(ROOM);
    let reader = cache.object(b"url", b"1", 5 * PAGE);
    read(&reader, &old, 0, 2 * PAGE);
    let object = cache.object(b"url", b"2", 5 * PAGE);
    assert!(!all_cached(&object, &new) && all_cached(&object, &new));
    assert_eq!(folder.files().len(), 1);
    // The reader of the old one still has it, but no more of it is kept.
    assert!(reader.has(0, 2 * PAGE));
    read(&reader, &old, 0, 5 * PAGE);
    assert!(!reader.has(2 * PAGE, 1));
    assert_eq!(cache.used_bytes().unwrap(), 5 * PAGE + 4096);
    // Another size is another version, and the parts of the name are not run together.
    assert!(!cache.object(b"url", b"2", 5 * PAGE - 1).has(0, 1));
    assert!(!cache.object(b"ur", b"l2", 5 * PAGE).has(0, 1));
}

#[test]
fn a_damaged_page_is_fetched_again() {
    let folder = TestFolder::new("damaged");
    let whole = bytes(5 * PAGE + 9, 8);
    let cache = folder.open(ROOM);
    let object = cache.object(b"url", b"1", whole.len() as u64);
    read(&object, &whole, 0, whole.len() as u64);
    for (page, at) in [(0, 0), (2, PAGE - 1), (5, 8)] {
        let byte = 4096 + page * PAGE + at;
        folder
            .the_file()
            .write_all_at(&[0x55 ^ whole[(byte - 4096) as usize]], byte)
            .unwrap();
        let part = page * PAGE..((page + 1) * PAGE).min(whole.len() as u64);
        assert_eq!(read(&object, &whole, 0, whole.len() as u64).1, [part]);
        assert!(all_cached(&object, &whole));
    }
    assert_eq!(cache.used_bytes().unwrap(), 5 * PAGE + 2 * 4096);
}

#[test]
fn files_that_were_cut_or_hold_something_else_start_anew() {
    let folder = TestFolder::new("garbage");
    let whole = bytes(5 * PAGE, 9);
    let size = whole.len() as u64;
    for len in [0, 1, 39, 43, 44, 50, 64, 4096, 4096 + PAGE + 1] {
        // While it is open, and before it is opened.
        let cache = folder.open(ROOM);
        let object = cache.object(b"url", b"1", size);
        read(&object, &whole, 0, size);
        folder.the_file().set_len(len).unwrap();
        read(&object, &whole, 0, size);
        drop(object);
        folder.the_file().set_len(len).unwrap();
        let object = cache.object(b"url", b"1", size);
        assert!(!all_cached(&object, &whole) && all_cached(&object, &whole));
        assert!(cache.trouble().is_none());
    }
    let [path] = &folder.files()[..] else {
        panic!()
    };
    for garbage in [&bytes(9000, 1)[..], &[0xff; 9000], b"mtpages2"] {
        let whole_header = [b"mtpages2", &PAGE.to_le_bytes()[..], garbage].concat();
        for contents in [garbage, &whole_header] {
            fs::write(path, contents).unwrap();
            fs::write(folder.0.join("used"), garbage).unwrap();
            let object = folder.open(ROOM).object(b"url", b"1", size);
            assert!(!all_cached(&object, &whole) && all_cached(&object, &whole));
        }
    }
    assert_eq!(folder.open(ROOM).used_bytes().unwrap(), size + 4096);
}

#[test]
fn other_files_are_left_alone_and_the_count_is_found_again() {
    let folder = TestFolder::new("count");
    let whole = bytes(3 * PAGE, 9);
    let cache = folder.open(ROOM);
    read(&cache.object(b"url", b"1", 3 * PAGE), &whole, 0, 3 * PAGE);
    let others =
        ["notes.pages", "data", &format!("{:032x}.old", 7)].map(|name| folder.0.join(name));
    for path in &others {
        fs::write(path, "mine").unwrap();
    }
    fs::write(folder.0.join(format!("{:032x}.pages", 7)), "not mine").unwrap();
    fs::write(folder.0.join("used"), "").unwrap();
    assert_eq!(cache.used_bytes().unwrap(), 3 * PAGE + 4096);
    // A process died before it had written what it counted.
    LockedFolder::lock(&cache.0.folder)
        .unwrap()
        .set_used(99 * PAGE)
        .unwrap();
    assert_eq!(folder.open(ROOM).used_bytes().unwrap(), 99 * PAGE);
    drop(cache);
    assert_eq!(folder.open(ROOM).used_bytes().unwrap(), 3 * PAGE + 4096);
    folder.open(0);
    assert_eq!(folder.files().len(), others.len());
    assert!(others.iter().all(|path| path.exists()));
}

/// Writes to /dev/full fail as those to a full disk.
#[test]
fn a_full_disk_delivers() {
    let folder = TestFolder::new("full");
    let whole = bytes(3 * PAGE, 9);
    let cache = folder.open(ROOM);
    let object = cache.object(b"kept", b"1", 3 * PAGE);
    read(&object, &whole, 0, PAGE);
    let header = Header::new(b"url", b"1", 3 * PAGE, |bytes| cache.0.folder.tag(bytes));
    let mut full = cache.page_file(&header, b"url").unwrap().unwrap();
    full.file = for_both(Path::new("/dev/full"));
    let full = CachedObject::new(cache.clone(), Some(full));
    assert!(!all_cached(&full, &whole) && !all_cached(&full, &whole));
    let code = cache.trouble().and_then(io::Error::raw_os_error);
    assert_eq!(code, Some(libc::ENOSPC));
    // What was there is still used, and nothing is added.
    let (from, _) = read(&object, &whole, 0, 2 * PAGE);
    assert_eq!([from.cached, from.fetched], [PAGE; 2]);
    assert!(object.has(0, PAGE) && !object.has(PAGE, 1));
}

#[test]
fn a_folder_that_went_delivers() {
    let folder = TestFolder::new("went");
    let whole = bytes(3 * PAGE, 9);
    let cache = folder.open(ROOM);
    let object = cache.object(b"url", b"1", 3 * PAGE);
    read(&object, &whole, 0, PAGE);
    fs::remove_dir_all(&folder.0).unwrap();
    read(&object, &whole, 0, 3 * PAGE);
    assert!(cache.trouble().is_some());
    assert_eq!(read(&object, &whole, 0, PAGE).0.cached, PAGE);
    assert!(!all_cached(&cache.object(b"other", b"1", 3 * PAGE), &whole));
}

#[test]
fn only_the_user_may_read() {
    let folder = TestFolder::new("private");
    let cache = folder.open(ROOM);
    let _object = cache.object(b"url", b"1", PAGE);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.0), 0o700);
    assert_eq!(mode(&folder.0.join("used")), 0o600);
    assert_eq!(mode(&folder.0.join("key")), 0o600);
    assert_eq!(mode(&folder.files()[0]), 0o600);
}

#[test]
fn the_hash_is_fnv_1a() {
    assert_eq!(file_name(b""), "6c62272e07bb014262b821756295c58d.pages");
    assert_eq!(file_name(b"a"), "d228cb696f1a8caf78912b704e4a8964.pages");
}

mod foreign;
