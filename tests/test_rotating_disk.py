"""Rotating disks: readers never hurt, whatever their number.

1. The disk is a simulated one that only counts (simulated_disk.py): what it was busy for, not what
   time went by. Where nothing can be mounted, these tests are skipped and say why.
2. Every pass is a cold one: all stored bytes come from the disk, and equal what h5py reads.
3. What the turns are for is shown too: the same readers without them cost clearly more.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from disk_model import Figures
from processes import alive, environment, kill, readers, run_script, wait_until
from simulated_disk import Mounted, NoDiskError, mounted

import multitables
from _multitables import device
from _multitables.parent.launch import open_members
from _multitables.parent.supervisor import Readers

ROWS, COLUMNS = 6000, 1024
FILTERS: dict[str, Callable[[], dict[str, Any]]] = {
    "none": dict,
    "blosc": lambda: dict(hdf5plugin.Blosc(cname="blosclz", clevel=5)),
    "zlib": lambda: {"compression": "gzip", "compression_opts": 1},
}
DRIVERS = {"direct": {"DRIVER": "H5FD_DIRECT"}, "buffered": {}}
#: Which compares what two processes have; from <linux/kcmp.h> and the tables of system calls.
SYS_KCMP = {"x86_64": 312, "aarch64": 272}
KCMP_IO = 5
#: Within so much of the best number of processes.
CLOSE = 1.05


@contextlib.contextmanager
def spinning(inside: Path, pace: float = 0.0, **figures: Any) -> Iterator[Mounted]:
    with contextlib.ExitStack() as stack:
        try:
            disk = stack.enter_context(mounted(inside, Figures(**figures), pace))
        except NoDiskError as error:
            pytest.skip(str(error))
        yield disk


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Mounted]:
    with spinning(tmp_path) as found:
        yield found


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((ROWS, COLUMNS), "f4")


@pytest.fixture(scope="module")
def files(noise: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each of FILTERS, with the dataset /x."""
    made = tmp_path_factory.mktemp("files")
    for name, options in FILTERS.items():
        with h5py.File(made / name, "w") as file:
            file.create_dataset("x", data=noise, chunks=(64, COLUMNS), **options())
    return made


def stored(disk: Mounted, file: Path) -> Path:
    """A copy of a file on the disk, written behind it; the kernel has seen none of its bytes."""
    shutil.copy(file, disk.backing)
    return disk.path / file.name


def forget(path: Path) -> None:
    """Let the page cache forget a file."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def busy(disk: Mounted, path: Path, read: Callable[[], None]) -> float:
    """The disk's seconds for one cold pass; for all that came from it, if that was more."""
    forget(path)
    disk.told()
    read()
    told = disk.told()
    assert told["bytes"] > 0.97 * path.stat().st_size
    # Batches read ahead into the next epoch.
    return told["busy_seconds"] / max(1, told["bytes"] / path.stat().st_size)


def streamed(path: Path, want: np.ndarray, n_procs: int, **given: Any) -> Callable[[], None]:
    """A pass over /x that compares every row."""

    def read() -> None:
        at = 0
        queue = multitables.Streamer(path, **given).get_queue("x", n_procs, remainder=True)
        with queue:
            for guard in queue:
                with guard as block:
                    assert np.array_equal(block, want[at : at + len(block)])
                    at += len(block)
        assert at == len(want)

    return read


# ---- the claim


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("filters", FILTERS)
def test_processes_never_hurt(
    disk: Mounted, noise: np.ndarray, files: Path, driver: str, filters: str
) -> None:
    path = stored(disk, files / filters)
    seconds = {
        n_procs: busy(
            disk, path, streamed(path, noise, n_procs, rotational=True, **DRIVERS[driver])
        )
        for n_procs in range(1, 7)
    }
    assert max(seconds.values()) <= CLOSE * min(seconds.values()), seconds
    # And the best is as good as reading it from one end to the other.
    surface = path.stat().st_size / Figures().bytes_per_second
    assert min(seconds.values()) < 1.5 * surface, (seconds, surface)


def test_readers_without_turns_hurt(disk: Mounted, noise: np.ndarray, files: Path) -> None:
    """What the turns are for: hints and reads that reach the disk in any order."""
    path = stored(disk, files / "none")
    turns = busy(disk, path, streamed(path, noise, 3, rotational=True))
    none = busy(disk, path, streamed(path, noise, 3, rotational=False))
    assert none > 1.5 * turns


def test_readers_are_one_client_of_the_disk() -> None:
    """A scheduler that serves one client at a time (BFQ) has none to wait for while others ask."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = SYS_KCMP.get(os.uname().machine, -1)
    team = Readers(3)
    try:
        first, *others = team.pids
        compared = [libc.syscall(number, first, pid, KCMP_IO, 0, 0) for pid in others]
        parents = libc.syscall(number, first, os.getpid(), KCMP_IO, 0, 0)
    finally:
        team.stop()
    if parents < 0:
        pytest.skip(f"kcmp: {os.strerror(ctypes.get_errno())}")
    assert compared == [0, 0]
    # What the user's own program reads is another client's matter.
    assert parents != 0


SHARE = """
import sys, tables
path, number, of = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with tables.open_file(path) as file:
    data = file.get_node("/x")
    begin, end = (len(data) * part // of for part in (number, number + 1))
    for row in range(begin, end, 64):
        data.read(row, min(row + 64, end))
"""


def shared(path: Path, of: int) -> Callable[[], None]:
    """Processes of their own, each of which reads its part with PyTables."""

    def read() -> None:
        parts = [
            subprocess.Popen(
                [sys.executable, "-c", SHARE, path, str(number), str(of)], env=environment()
            )
            for number in range(of)
        ]
        assert [part.wait() for part in parts] == [0] * of

    return read


def test_processes_that_know_nothing_of_each_other_hurt(tmp_path: Path, files: Path) -> None:
    # A pace: so that they ask for their next parts while the disk serves the others'.
    with spinning(tmp_path, pace=0.2) as disk:
        path = stored(disk, files / "none")
        alone = busy(disk, path, shared(path, 1))
        together = busy(disk, path, shared(path, 4))
    assert together > 1.2 * alone


# ---- other streams


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("shuffle", [None, "chunks", "window"])
def test_batches(
    disk: Mounted, noise: np.ndarray, files: Path, driver: str, shuffle: str | None
) -> None:
    path = stored(disk, files / "none")

    def read(n_procs: int) -> Callable[[], None]:
        def read() -> None:
            streamer = multitables.Streamer(path, rotational=True, **DRIVERS[driver])
            with streamer.get_batches("x", 100, n_procs=n_procs, shuffle=shuffle) as batches:
                order, at = batches.order(), 0
                for batch in batches:
                    assert np.array_equal(batch, noise[order[at : at + len(batch)]])
                    at += len(batch)
            assert at == len(noise)

        return read

    seconds = [busy(disk, path, read(n_procs)) for n_procs in (1, 4)]
    # Chunks in random order: how many requests the drive can choose from makes a difference.
    assert seconds[1] <= (CLOSE if shuffle is None else 1.2) * seconds[0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_datasets_side_by_side(disk: Mounted, noise: np.ndarray, files: Path, driver: str) -> None:
    """The head goes from one to the other; with more readers not more often."""

    def read(n_procs: int) -> Callable[[], None]:
        def read() -> None:
            streamer = multitables.Streamer(path, rotational=True, **DRIVERS[driver])
            with streamer.get_queue(["x", "y"], n_procs=n_procs, remainder=True) as queue:
                at = 0
                for guard in queue:
                    with guard as (x, y):
                        assert np.array_equal(x, noise[at : at + len(x)])
                        assert np.array_equal(y, -x)
                        at += len(x)
            assert at == len(noise)

        return read

    path = stored(disk, files / "none")
    with h5py.File(disk.backing / path.name, "a") as file:
        file.create_dataset("y", data=-noise, chunks=(64, COLUMNS))
    seconds = [busy(disk, path, read(n_procs)) for n_procs in (1, 6)]
    assert seconds[1] < 1.3 * seconds[0]


@pytest.mark.parametrize("driver", DRIVERS)
def test_datasets_of_which_the_library_reads_one(
    disk: Mounted, noise: np.ndarray, files: Path, driver: str
) -> None:
    """Tasks that fetch nothing take their turns too, and nobody waits for ever."""
    path = stored(disk, files / "none")
    with h5py.File(disk.backing / path.name, "a") as file:
        offsets = np.arange(len(noise), dtype="i4")
        file.create_dataset("y", data=offsets, chunks=(500,), scaleoffset=0, compression="gzip")
    streamer = multitables.Streamer(path, rotational=True, **DRIVERS[driver])
    at = 0
    with streamer.get_queue(["x", "y"], n_procs=3, remainder=True) as queue:
        for guard in queue:
            with guard as (x, y):
                assert np.array_equal(x, noise[at : at + len(x)])
                assert np.array_equal(y, offsets[at : at + len(x)])
                at += len(x)
        assert "y" in str(queue.statistics()["library"])
    assert at == len(noise)


@pytest.mark.parametrize("driver", DRIVERS)
def test_readers_that_die_at_the_disk(
    tmp_path: Path, noise: np.ndarray, files: Path, driver: str
) -> None:
    """All are killed while they wait for the disk or for their turns; others take their places."""
    with spinning(tmp_path, pace=1.0, bytes_per_second=40e6) as disk:
        path = stored(disk, files / "none")
        forget(path)
        streamer = multitables.Streamer(path, rotational=True, **DRIVERS[driver])
        at = 0
        with streamer.get_queue("x", n_procs=3, remainder=True, read_ahead=2) as queue:
            for guard in queue:
                with guard as block:
                    assert np.array_equal(block, noise[at : at + len(block)])
                    at += len(block)
                if at == 64 * 10:
                    for pid in readers():
                        kill(pid)
        assert at == len(noise)


# ---- who says that a disk rotates


@pytest.mark.parametrize("value", [0, 1, "yes", 7200.0, np.array(True)])
def test_what_is_no_answer(value: Any) -> None:
    with pytest.raises(multitables.OptionsError, match="rotational") as caught:
        multitables.Streamer("x.h5", rotational=value)
    assert caught.value.option == "rotational"


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("said", [None, False, True])
def test_the_user_has_the_last_word(
    numbered: Path, monkeypatch: pytest.MonkeyPatch, kernel: bool, said: bool | None
) -> None:
    monkeypatch.setattr(device, "rotates", lambda filename: kernel)
    opened = open_members(numbered, {}, "rows", None, said)
    assert opened.turnstile is (kernel if said is None else said)


class Sysfs:
    """What the kernel says of block devices, as a folder."""

    def __init__(self, root: Path, filename: Path) -> None:
        self.root = root
        number = os.stat(filename).st_dev
        self.node = root / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
        for folder in (self.node.parent, root / "class" / "block"):
            folder.mkdir(parents=True)

    def add(self, place: str, rotational: int = 1, **level: str) -> Path:
        """A device in devices/`place`."""
        made = self.root / "devices" / place
        (made / "queue").mkdir(parents=True)
        (made / "queue" / "rotational").write_text(f"{rotational}\n")
        for name, text in level.items():
            (made / name).mkdir()
            (made / name / "level").write_text(text + "\n")
        self._name(made)
        return made

    def part(self, disk: Path, number: int) -> Path:
        made = disk / f"{disk.name}{number}"
        made.mkdir()
        (made / "partition").write_text(f"{number}\n")
        self._name(made)
        return made

    def _name(self, made: Path) -> None:
        (self.root / "class" / "block" / made.name).symlink_to(made)

    def over(self, upper: Path, *lower: Path) -> Path:
        for one in lower:
            (one / "holders").mkdir(exist_ok=True)
            (one / "holders" / upper.name).symlink_to(upper)
        return upper

    def holds(self, made: Path) -> None:
        """The test's file lies there."""
        self.node.symlink_to(made)


def disks(sysfs: Sysfs, *rotational: int) -> list[Path]:
    found = [sysfs.add(f"pci0/ata{n}/sd{'abcd'[n]}", one) for n, one in enumerate(rotational)]
    return [sysfs.part(one, 1) for one in found]


def plain(sysfs: Sysfs, rotational: int) -> Path:
    return disks(sysfs, rotational)[0]


def virtual(sysfs: Sysfs) -> Path:
    return sysfs.add("pci0/virtio2/host0/sda")


def paravirtual(sysfs: Sysfs) -> Path:
    return sysfs.add("pci0/virtio3/block/vda")


def lvm_on_crypt(sysfs: Sysfs, rotational: int) -> Path:
    crypt = sysfs.over(sysfs.add("virtual/dm-0"), *disks(sysfs, rotational))
    return sysfs.over(sysfs.add("virtual/dm-1"), crypt)


def volume_over(sysfs: Sysfs, *rotational: int) -> Path:
    return sysfs.over(sysfs.add("virtual/dm-0"), *disks(sysfs, *rotational))


def raid(sysfs: Sysfs, level: str, *rotational: int) -> Path:
    return sysfs.over(sysfs.add("virtual/md0", md=level), *disks(sysfs, *rotational))


def raid_parts(sysfs: Sysfs) -> Path:
    return sysfs.part(raid(sysfs, "raid1", 1, 1), 7)


STACKS: dict[str, tuple[Callable[[Sysfs], Path], bool]] = {
    "disk": (lambda sysfs: plain(sysfs, 1), True),
    "ssd": (lambda sysfs: plain(sysfs, 0), False),
    "virtual": (virtual, False),
    "paravirtual": (paravirtual, False),
    "crypt": (lambda sysfs: lvm_on_crypt(sysfs, 1), True),
    "crypt on ssd": (lambda sysfs: lvm_on_crypt(sysfs, 0), False),
    "volume": (lambda sysfs: volume_over(sysfs, 1, 1), True),
    "cached volume": (lambda sysfs: volume_over(sysfs, 1, 0), False),
    "raid1": (lambda sysfs: raid(sysfs, "raid1", 1, 1), True),
    "raid1 of ssds": (lambda sysfs: raid(sysfs, "raid1", 0, 0), False),
    "raid1 with an ssd": (lambda sysfs: raid(sysfs, "raid1", 0, 1), False),
    "linear": (lambda sysfs: raid(sysfs, "linear", 1, 1), True),
    "raid0": (lambda sysfs: raid(sysfs, "raid0", 1, 1), False),
    "raid5": (lambda sysfs: raid(sysfs, "raid5", 1, 1, 1), False),
    "part of raid1": (raid_parts, True),
}


@pytest.mark.parametrize("name", STACKS)
def test_what_the_kernel_says(tmp_path: Path, name: str) -> None:
    stack, rotating = STACKS[name]
    file = tmp_path / "file"
    file.touch()
    sysfs = Sysfs(tmp_path / "sys", file)
    sysfs.holds(stack(sysfs))
    assert device.rotates(str(file), str(sysfs.root)) is rotating


def test_of_other_files_the_kernel_says_nothing(tmp_path: Path) -> None:
    assert device.rotates(str(tmp_path / "none")) is False
    sysfs = Sysfs(tmp_path / "sys", tmp_path)
    assert device.rotates(str(tmp_path), str(sysfs.root)) is False


# ---- the simulated disk itself


def test_a_folder_like_others(disk: Mounted) -> None:
    data = os.urandom(3_000_001)
    (disk.path / "a").mkdir()
    (disk.path / "a" / "b").write_bytes(data)
    with open(disk.path / "a" / "b", "r+b") as file:
        file.seek(1_000_000)
        file.write(b"here")
        file.truncate(2_000_000)
    want = data[:1_000_000] + b"here" + data[1_000_004:2_000_000]
    (disk.path / "a" / "b").rename(disk.path / "c")
    forget(disk.path / "c")
    assert (disk.path / "c").read_bytes() == want == (disk.backing / "c").read_bytes()
    assert disk.told()["bytes"] >= 2_000_000
    assert sorted(os.listdir(disk.path)) == ["a", "c"]
    os.utime(disk.path / "c", (5, 6))
    os.chmod(disk.path / "c", 0o640)
    status = os.stat(disk.path / "c")
    assert (status.st_mtime, status.st_mode & 0o777, status.st_size) == (6, 0o640, 2_000_000)
    (disk.path / "a").rmdir()
    (disk.path / "c").unlink()
    assert os.listdir(disk.path) == os.listdir(disk.backing) == []
    with pytest.raises(FileNotFoundError):
        (disk.path / "c").read_bytes()
    with h5py.File(disk.path / "new.h5", "w") as file:
        file["x"] = np.arange(100_000)
    with h5py.File(disk.path / "new.h5") as file:
        assert np.array_equal(file["x"][:], np.arange(100_000))


def test_direct_reads_are_of_whole_sectors(disk: Mounted) -> None:
    data = os.urandom(20_000)
    (disk.backing / "x").write_bytes(data)
    descriptor = os.open(disk.path / "x", os.O_RDONLY | os.O_DIRECT)
    with mmap.mmap(-1, 32_768) as room:
        assert os.preadv(descriptor, [room], 8192) == len(data) - 8192
        assert room[: len(data) - 8192] == data[8192:]
        with pytest.raises(OSError, match="Invalid argument"):
            os.preadv(descriptor, [room], 4097)
        with pytest.raises(OSError, match="Invalid argument"), memoryview(room) as view:
            os.preadv(descriptor, [view[:100]], 0)
    os.close(descriptor)


def test_a_pace_makes_it_wait(tmp_path: Path) -> None:
    """Not how long, but that it is not sooner than the disk allows."""
    import time

    with spinning(tmp_path, pace=1.0, bytes_per_second=50e6) as disk:
        (disk.backing / "x").write_bytes(bytes(10_000_000))
        begin = time.monotonic()
        (disk.path / "x").read_bytes()
        assert time.monotonic() - begin > 0.1


ORPHAN = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from simulated_disk import mounted
with mounted(Path(sys.argv[1])) as disk:
    print(disk.process.pid, flush=True)
    time.sleep(60)
"""


def test_it_ends_with_its_parent(tmp_path: Path, disk: Mounted) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    command = [sys.executable, "-c", ORPHAN, str(inside), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert os.path.ismount(inside / "disk")
        parent.kill()
    wait_until(lambda: not alive(pid), "the end of the disk")
    assert not os.path.ismount(inside / "disk")


def test_nothing_is_left_when_it_dies_itself(tmp_path: Path) -> None:
    with spinning(tmp_path) as disk:
        os.kill(disk.process.pid, signal.SIGKILL)
    assert not (tmp_path / "disk").exists()


@pytest.mark.parametrize("scheduler", [None, "mq-deadline", "no-such"])
def test_the_program_runs_a_command(tmp_path: Path, disk: Mounted, scheduler: str | None) -> None:
    program = Path(__file__).parent / "simulated_disk.py"
    code = "import sys; open(sys.argv[1] + '/x', 'wb').write(bytes(99)); print(sys.argv[1])"
    given = ["--directory", str(tmp_path), "--pace", "0"]
    given += [] if scheduler is None else ["--scheduler", scheduler]
    given += ["--run", "--", sys.executable, "-c", code]
    done = subprocess.run(
        [sys.executable, str(program), *given, "{mount}"],
        capture_output=True,
        text=True,
        check=True,
    )
    if scheduler is not None and "SKIPPED" in done.stderr:
        assert list(tmp_path.iterdir()) == [disk.path, disk.backing]
        if scheduler == "no-such":
            return
        pytest.skip(done.stderr)
    assert scheduler != "no-such"
    assert "the disk was busy for" in done.stderr
    where = Path(done.stdout.strip())
    assert not where.exists()
    assert not where.parent.exists()


def test_without_fuse_it_says_so(tmp_path: Path) -> None:
    done = run_script(
        "import sys, os\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "import fuse_protocol\n"
        "def refuse(where): raise OSError('no /dev/fuse here')\n"
        "fuse_protocol.mount = refuse\n"
        "import simulated_disk\n"
        "from pathlib import Path\n"
        "simulated_disk.serve(Path(sys.argv[1]), Path(sys.argv[1]), None, 0.0)\n",
        tmp_path,
        Path(__file__).parent,
    )
    assert done.returncode == 1
    assert done.stderr.strip().endswith("no /dev/fuse here")
