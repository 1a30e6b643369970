"""Rotating disks: readers never hurt, whatever their number.

1. The disk is a simulated one that only counts (simulated_disk.py): what it was busy for, not what
   time went by. Where nothing can be mounted, these tests are skipped and say why.
2. Every pass is a cold one: all stored bytes come from the disk, and equal what h5py reads.
3. What the turns are for is shown too: the same readers without them cost clearly more.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from disk_cases import forget, spinning, stored
from disk_model import Figures
from processes import environment, kill, readers
from simulated_disk import Mounted

import multitables

pytestmark = pytest.mark.usefixtures("few_filters")

ROWS, COLUMNS = 6000, 1024
FILTERS: dict[str, Callable[[], dict[str, Any]]] = {
    "none": dict,
    "blosc": lambda: dict(hdf5plugin.Blosc(cname="blosclz", clevel=5)),
    "zlib": lambda: {"compression": "gzip", "compression_opts": 1},
}
DRIVERS = {"direct": {"DRIVER": "H5FD_DIRECT"}, "buffered": {}}
#: Within so much of the best number of processes.
CLOSE = 1.05


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


def busy(disk: Mounted, path: Path, read: Callable[[], None]) -> float:
    """The disk's seconds for one cold pass; for all that came from it, if that was more."""
    forget(path)
    disk.told()
    read()
    told = disk.told()
    assert told["bytes"] > 0.97 * path.stat().st_size
    # Batches read ahead into the next epoch.
    return told["busy_seconds"] / max(1, told["bytes"] / path.stat().st_size)


def cost_of_more(
    disk: Mounted, path: Path, read: Callable[[int], Callable[[], None]], n_procs: int
) -> float:
    """Divide the disk's seconds with `n_procs` readers by its seconds with one reader.

    Passes are repeated, because readers on a busy machine come late to their turns.
    """
    alone = statistics.median(busy(disk, path, read(1)) for _ in range(3))
    return min(busy(disk, path, read(n_procs)) for _ in range(5)) / alone


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


@pytest.mark.parametrize("driver", DRIVERS)
def test_readers_without_turns_hurt(
    tmp_path: Path, noise: np.ndarray, files: Path, driver: str
) -> None:
    """What the turns are for: requests reach the disk in any order, and one that cannot sort them
    moves its head.
    """
    moves = {True: 0.0, False: 0.0}
    with spinning(tmp_path, queue_depth=1) as disk:
        path = stored(disk, files / "none")
        for turns in [True, False] * 3:
            forget(path)
            disk.told()
            streamed(path, noise, 6, rotational=turns, **DRIVERS[driver])()
            moves[turns] += disk.told()["moved"]
    assert moves[False] > 1.5 * moves[True]


SHARE = """
import sys, tables
path, number, of = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with tables.open_file(path) as file:
    data = file.get_node("/x")
    begin, end = (len(data) * part // of for part in (number, number + 1))
    print(flush=True)
    input()
    for row in range(begin, end, 64):
        data.read(row, min(row + 64, end))
"""


def moves_when_shared(disk: Mounted, path: Path, of: int) -> float:
    """How often the head moves while processes of their own read a part each, with PyTables."""
    forget(path)
    commands = [[sys.executable, "-c", SHARE, path, str(part), str(of)] for part in range(of)]
    with contextlib.ExitStack() as stack:
        parts = [
            stack.enter_context(
                subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
                )
            )
            for command in commands
        ]
        for part in parts:
            assert part.stdout is not None
            assert part.stdout.readline() == b"\n"
        disk.told()
        for part in parts:
            assert part.stdin is not None
            part.stdin.write(b"\n")
            part.stdin.flush()
        assert [part.wait() for part in parts] == [0] * of
    return disk.told()["moved"]


def test_processes_that_know_nothing_of_each_other_hurt(tmp_path: Path, files: Path) -> None:
    # A pace: so that they ask for their next parts while the disk serves the others'.
    with spinning(tmp_path, pace=0.2) as disk:
        path = stored(disk, files / "none")
        alone = moves_when_shared(disk, path, 1)
        together = moves_when_shared(disk, path, 4)
    assert together > 2 * (alone + 4)


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

    # Chunks in random order: how many requests the drive can choose from makes a difference.
    assert cost_of_more(disk, path, read, 4) <= (CLOSE if shuffle is None else 1.2)


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
    assert cost_of_more(disk, path, read, 6) < 1.3


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
@pytest.mark.parametrize("n_procs", [1, 3])
def test_chunks_that_do_not_decode(
    disk: Mounted, noise: np.ndarray, files: Path, driver: str, n_procs: int
) -> None:
    """What comes before them is delivered, then they are said, and nobody waits for a turn."""
    path = stored(disk, files / "zlib")
    with h5py.File(disk.backing / path.name, "r") as file:
        places = [file["x"].id.get_chunk_info_by_coord((row, 0)) for row in (640, 704, 1280)]
    with (disk.backing / path.name).open("r+b") as raw:
        for place in places:
            raw.seek(place.byte_offset)
            raw.write(bytes(64))
    forget(path)
    streamer = multitables.Streamer(path, rotational=True, **DRIVERS[driver])
    with streamer.get_queue("x", n_procs=n_procs, block_size=64) as queue:
        for row in range(0, 640, 64):  # all before the first of them
            with queue.get() as block:
                assert np.array_equal(block, noise[row : row + 64])
        with pytest.raises(multitables.CorruptChunkError, match="Rows 640:704 were not"):
            list(queue)


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
