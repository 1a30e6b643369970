//! What this process may have of the machine: the memory and the CPUs, of the machine itself and of
//! every control group that the process is in.
//!
//! Law:
//! 1. Groups are looked for where the kernel says that they are (`/proc/self/cgroup` and the mounts),
//!    in version 1 and 2 alike, from the process' own up to the root: the least counts. Where `/proc`
//!    does not say it, they are taken to be where they usually are.
//! 2. What cannot be read is no limit, never an error.
//! 3. Memory that a group gives is its limit less what it uses, but for the page cache, which gives
//!    way. Nobody can ask a group for memory and be refused: past its limit the kernel kills. So
//!    this is a look, and others may take the memory a moment later.
//! 4. Cores are the standard library's to count, which knows affinity and quotas; of memory it knows
//!    nothing.

use crate::clock::now_ns;
use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::available_parallelism;

/// The name of the controller in version 1.
const MEMORY: &str = "memory";
/// More than any machine has; version 1 says something like it where there is no limit.
const NO_LIMIT: u64 = 1 << 62;
/// What files and streams ask for when they are opened is looked up once in this time.
const KEPT_NS: u64 = 1_000_000_000;

/// Memory of the machine or of a group.
struct Memory {
    available: u64,
    total: u64,
}

/// The names of a version's files and of the lines in its `memory.stat`.
struct Version {
    limits: &'static [&'static str],
    used: &'static str,
    cache: &'static [&'static str],
}

const VERSION_1: Version = Version {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    cache: &["total_inactive_file", "total_active_file"],
};
/// Above `memory.high` a process is slowed down until it hardly runs.
const VERSION_2: Version = Version {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    cache: &["inactive_file", "active_file", "slab_reclaimable"],
};

/// Bytes that this process may still take, or might within the last second: of the machine, and of
/// each of its groups.
pub fn available_bytes() -> u64 {
    static KEPT: Kept = Kept::new();
    KEPT.value(|| least(|memory| memory.available))
}

/// What there was within the last second, less all that was taken since.
static NOT_TAKEN: Kept = Kept::new();
/// A part of what there is that may be taken without another look.
const LITTLE_PART: u64 = 16;

/// Whether this process may take memory: it is little, or there is enough of it now.
pub fn may_take(bytes: u64) -> bool {
    let not_taken = NOT_TAKEN.value(|| least(|memory| memory.available));
    bytes <= not_taken / LITTLE_PART || bytes <= spare_bytes()
}

/// This process has taken memory.
pub fn took(bytes: u64) {
    let less = |value: u64| Some(value.saturating_sub(bytes));
    let _ = NOT_TAKEN.value.fetch_update(Relaxed, Relaxed, less);
}

/// The same at this moment, less a sixteenth of the whole, which is left to others.
pub fn spare_bytes() -> u64 {
    least(|memory| memory.available.saturating_sub(memory.total / 16))
}

fn least(of: impl Fn(&Memory) -> u64) -> u64 {
    let root = Path::new("/");
    let groups = groups(root).into_iter();
    let all = groups.filter_map(|(folder, version)| of_group(&folder, version));
    let all = machine(root).into_iter().chain(all);
    all.map(|memory| of(&memory)).min().unwrap_or(NO_LIMIT)
}

/// Cores that this process may use, or might within the last second: its own, or what the quotas of
/// all its groups allow where that is less.
pub fn cores() -> u64 {
    static KEPT: Kept = Kept::new();
    KEPT.value(|| available_parallelism().map_or(1, |cores| cores.get() as u64))
}

/// A number that is looked up once in a while.
struct Kept {
    at_ns: AtomicU64,
    value: AtomicU64,
}

impl Kept {
    const fn new() -> Kept {
        Kept {
            at_ns: AtomicU64::new(0),
            value: AtomicU64::new(0),
        }
    }

    fn value(&self, look: impl FnOnce() -> u64) -> u64 {
        let (now, at) = (now_ns(), self.at_ns.load(Relaxed));
        if at != 0 && now.saturating_sub(at) < KEPT_NS {
            return self.value.load(Relaxed);
        }
        let value = look();
        self.value.store(value, Relaxed);
        self.at_ns.store(now, Relaxed);
        value
    }
}

fn machine(root: &Path) -> Option<Memory> {
    let text = read_to_string(root.join("proc/meminfo")).ok()?;
    let bytes = |name: &str| -> Option<u64> {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        rest.split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    Some(Memory {
        available: bytes("MemAvailable:")?,
        total: bytes("MemTotal:")?,
    })
}

/// None: the group has no limit of its own.
fn of_group(folder: &Path, version: &Version) -> Option<Memory> {
    let number = |name: &str| read_number(&folder.join(name));
    let limits = version.limits.iter().filter_map(|name| number(name));
    let total = limits.min().filter(|&limit| limit < NO_LIMIT)?;
    let stat = read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let cache: u64 = stat
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| version.cache.contains(name))
        .filter_map(|(_, bytes)| bytes.parse::<u64>().ok())
        .sum();
    let used = number(version.used).unwrap_or(0).saturating_sub(cache);
    Some(Memory {
        available: total.saturating_sub(used),
        total,
    })
}

fn read_number(file: &Path) -> Option<u64> {
    read_to_string(file).ok()?.trim().parse().ok()
}

/// The folders of this process' groups of memory, each with its parents.
fn groups(root: &Path) -> Vec<(PathBuf, &'static Version)> {
    let own = read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let mut found = Vec::new();
    for line in own.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (kind, version) = match controllers {
            "" => ("cgroup2", &VERSION_2),
            _ if controllers.split(',').any(|one| one == MEMORY) => ("cgroup", &VERSION_1),
            _ => continue,
        };
        for (shown, at) in mounts.lines().filter_map(|line| mount(line, kind)) {
            // A container sees its own group at the mount, under a name that it may not have there.
            let below = Path::new(group)
                .strip_prefix(shown)
                .unwrap_or(Path::new(""));
            let escapes = below.components().any(|part| part.as_os_str() == "..");
            let below = if escapes { Path::new("") } else { below };
            let top = inside(root, at);
            let folders = top.join(below);
            let levels = folders.ancestors().take(1 + below.components().count());
            found.extend(levels.map(|folder| (folder.to_owned(), version)));
        }
    }
    if found.is_empty() {
        let usual = inside(root, "/sys/fs/cgroup");
        found.extend([(usual.join(MEMORY), &VERSION_1), (usual, &VERSION_2)]);
    }
    found
}

/// Of a line of mountinfo: which group is shown, and where; if it is a mount of this kind.
fn mount<'a>(line: &'a str, kind: &str) -> Option<(&'a str, &'a str)> {
    let (place, system) = line.split_once(" - ")?;
    let mut system = system.split(' ');
    let is_kind = system.next()? == kind;
    let options = system.nth(1).unwrap_or("");
    let has_it = kind == "cgroup2" || options.split(',').any(|one| one == MEMORY);
    let mut place = place.split(' ').skip(3);
    (is_kind && has_it).then_some((place.next()?, place.next()?))
}

fn inside(root: &Path, name: &str) -> PathBuf {
    root.join(name.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir_all, remove_dir_all, write};

    /// A root folder with files, each of them a name and its text.
    fn with_files<T>(files: &[(&str, &str)], act: impl FnOnce(&Path) -> T) -> T {
        let name = format!(
            "limits-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        );
        let root = std::env::temp_dir().join(name);
        for (name, text) in files {
            let file = root.join(name);
            create_dir_all(file.parent().unwrap()).unwrap();
            write(file, text).unwrap();
        }
        let result = act(&root);
        remove_dir_all(&root).unwrap();
        result
    }

    fn memory(root: &Path) -> Vec<(u64, u64)> {
        let groups = groups(root);
        let found = groups
            .iter()
            .filter_map(|(folder, version)| of_group(folder, version));
        found
            .map(|memory| (memory.available, memory.total))
            .collect()
    }

    #[test]
    fn each_level_of_version_2_counts() {
        let files = [
            ("proc/self/cgroup", "0::/slurm/job/step\n"),
            (
                "proc/self/mountinfo",
                "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
            ),
            ("sys/fs/cgroup/slurm/job/step/memory.max", "max\n"),
            ("sys/fs/cgroup/slurm/job/step/memory.high", "900\n"),
            ("sys/fs/cgroup/slurm/job/step/memory.current", "100\n"),
            ("sys/fs/cgroup/slurm/job/memory.max", "1000\n"),
            ("sys/fs/cgroup/slurm/job/memory.current", "700\n"),
            (
                "sys/fs/cgroup/slurm/job/memory.stat",
                "anon 400\nfile 300\ninactive_file 150\nactive_file 50\nslab_reclaimable 1\n",
            ),
        ];
        with_files(&files, |root| {
            assert_eq!(memory(root), [(800, 900), (501, 1000)])
        });
    }

    #[test]
    fn a_group_of_version_1_that_a_container_sees_as_the_root_counts() {
        let files = [
            (
                "proc/self/cgroup",
                "4:cpu,cpuacct:/docker/abc/job\n9:memory:/docker/abc/job\n0::/\n",
            ),
            (
                "proc/self/mountinfo",
                "36 32 0:33 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n\
                 37 32 0:34 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup none rw,cpu,cpuacct\n\
                 38 32 0:35 / /tmp rw - tmpfs tmpfs rw\n",
            ),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "900\n"),
            (
                "sys/fs/cgroup/memory/memory.stat",
                "cache 500\ntotal_active_file 300\n",
            ),
            (
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ];
        with_files(&files, |root| assert_eq!(memory(root), [(400, 1000)]));
    }

    #[test]
    fn without_proc_the_usual_places_count_and_without_these_nothing_does() {
        let files = [
            ("sys/fs/cgroup/memory.max", "1000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000\n"),
        ];
        with_files(&files, |root| {
            assert_eq!(memory(root), [(2000, 2000), (1000, 1000)])
        });
        let outside = [
            ("proc/self/cgroup", "0::/../../other\nbroken\n"),
            (
                "proc/self/mountinfo",
                "broken\n1 2 3 / /cgroup rw - cgroup2 none rw\n",
            ),
            ("cgroup/memory.max", "1000\n"),
        ];
        with_files(&outside, |root| assert_eq!(memory(root), [(1000, 1000)]));
        with_files(&[("empty", "")], |root| {
            assert!(memory(root).is_empty() && machine(root).is_none());
        });
    }

    #[test]
    fn what_was_taken_is_looked_for_anew() {
        assert!(may_take(1) && !may_take(1 << 61));
        took(u64::MAX);
        assert!(may_take(1) && !may_take(1 << 61) && available_bytes() > 1);
    }

    #[test]
    fn a_number_is_looked_up_once_in_a_while() {
        let kept = Kept::new();
        assert_eq!((kept.value(|| 5), kept.value(|| 6)), (5, 5));
        kept.at_ns.store(1, Relaxed);
        assert_eq!(kept.value(|| 7), 7);
    }
}
