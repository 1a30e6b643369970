"""Files that are followed while a writer appends to them: every row once, in order.

1. The writer is a process of its own, in each of the ways that files grow in practice.
2. A row says which row it is, so that one look tells whether any is missing, repeated or torn.
3. Nothing is timed: a writer is waited for by what it says, a queue by its blocks.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from processes import kill, readers

import multitables
from _multitables.parent.stream import growing_data

WRITER = """
import random, sys, time
import h5py, numpy as np, tables

way, filename, first = sys.argv[1:4]
rng = random.Random(way)

def rows(begin, end):
    return np.arange(begin * 3, end * 3, dtype="f8").reshape(-1, 3)

class H5py:
    def __init__(self, libver, swmr, **options):
        self.file = h5py.File(filename, "w", libver=libver)
        for name, chunks in (("x", (20, 2)), ("y", (64, 3))):
            options |= {"chunks": chunks, "maxshape": (None, 3)}
            self.file.create_dataset(name, (0, 3), "f8", **options)
        if swmr:
            self.file.swmr_mode = True
        self.file.flush()

    def append(self, data, names):
        for name in names:
            made = self.file[name]
            made.resize(len(made) + len(data), 0)
            made[-len(data):] = data
        self.file.flush()

class Tables:
    def __init__(self, **options):
        self.file = tables.open_file(filename, "w")
        filters = tables.Filters(**options)
        make = self.file.create_earray
        for name, rows in (("x", 20), ("y", 64)):
            make("/", name, tables.Float64Atom(), (0, 3), filters=filters, chunkshape=(rows, 3))
        row = np.dtype([("at", "f8", 3), ("n", "i4")])
        self.file.create_table("/", "t", row, filters=filters, chunkshape=16)

    def append(self, data, names):
        for name in names:
            self.file.get_node("/", name).append(data)
        table = self.file.root.t
        made = np.zeros(len(data), table.dtype)
        made["at"] = data
        table.append(made)
        table.flush()
        self.file.flush()

class Reopened(H5py):
    def append(self, data, names):
        self.file.close()
        self.file = h5py.File(filename, "a")
        super().append(data, names)

writer = {
    "swmr": lambda: H5py("latest", True, compression="gzip", fletcher32=True),
    "swmr plain": lambda: H5py("latest", True),
    "flush": lambda: H5py("earliest", False, compression="gzip"),
    "flush plain": lambda: H5py("earliest", False),
    "flush lzf": lambda: H5py("latest", False, compression="lzf"),
    "reopened": lambda: Reopened("earliest", False, compression="gzip", shuffle=True),
    "tables": lambda: Tables(),
    "tables zlib": lambda: Tables(complevel=3, complib="zlib"),
    "tables blosc2": lambda: Tables(complevel=3, complib="blosc2"),
}[way]()
at = {"x": 0, "y": 0}

def write(n, names):
    begin = at[names[0]]
    writer.append(rows(begin, begin + n), names)
    for name in names:
        at[name] += n

write(int(first), ["x", "y"])
print("written", flush=True)
for line in sys.stdin:
    n, total, pause, *names = line.split()
    for _ in range(0, int(total), int(n)):
        write(int(n), names or ["x", "y"])
        if float(pause):
            time.sleep(rng.random() * float(pause))
    print("written", flush=True)
writer.file.close()
"""
WAYS = ("swmr", "swmr plain", "flush", "flush plain", "flush lzf", "reopened")
TABLES = ("tables", "tables zlib", "tables blosc2")


class Writer:
    """A process that appends rows, when it is told to."""

    def __init__(self, path: Path, way: str, first: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WRITER, way, str(path), str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.wait()

    def begin(self, n: int, total: int, *names: str, pause: float = 0.004) -> None:
        """Append `n` rows at a time, until it is `total`, with pauses of random length."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{n} {total} {pause} {' '.join(names)}\n")
        self.process.stdin.flush()

    def wait(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "written\n"

    def write(self, n: int, total: int, *names: str) -> None:
        self.begin(n, total, *names)
        self.wait()


@pytest.fixture
def write(h5: Path) -> Iterator[Callable[..., Writer]]:
    made: list[Writer] = []

    def started(way: str, first: int) -> Writer:
        made.append(Writer(h5, way, first))
        return made[-1]

    yield started
    for writer in made:
        writer.process.kill()
        writer.process.communicate()


def rows(begin: int, end: int) -> np.ndarray:
    return np.arange(begin * 3, end * 3, dtype="f8").reshape(-1, 3)


def follow(h5: Path, path: Any = "/x", **options: Any) -> multitables.FollowQueue:
    options = {"n_procs": 2, "max_wait_seconds": 0.02, **options}
    made = multitables.Streamer(h5).get_queue(path, follow=True, **options)
    assert isinstance(made, multitables.FollowQueue)
    return made


def take(blocks: multitables.FollowQueue, begin: int, end: int, **timeout: Any) -> None:
    """Take blocks up to a row."""
    while begin < end:
        guard = blocks.get(**timeout)
        assert guard is not multitables.QueueClosed
        with guard as block:
            assert guard.rows == (begin, begin + len(block))
            assert len(block) <= blocks.block_size
            np.testing.assert_array_equal(block, rows(begin, begin + len(block)))
            begin += len(block)
        del block, guard
    assert begin == end


@pytest.mark.parametrize("way", [*WAYS, *TABLES])
def test_every_row_comes_once(h5: Path, write: Callable[..., Writer], way: str) -> None:
    writer = write(way, 150)
    with follow(h5, block_size=32) as blocks:
        writer.begin(7, 700)
        take(blocks, 0, 850)
        writer.wait()
        writer.begin(100, 500)
        take(blocks, 850, 1350)
        blocks.stop()
        assert blocks.get() is multitables.QueueClosed
        assert blocks.get_nowait() is multitables.QueueClosed
        assert list(blocks) == []
    writer.wait()
    assert readers() == []


@pytest.mark.parametrize("way", ["flush", "flush lzf"])
def test_a_writer_that_never_pauses(h5: Path, write: Callable[..., Writer], way: str) -> None:
    """HDF5 gives the places of chunks that moved to others, before it says that they moved."""
    writer = write(way, 10)
    with follow(h5, block_size=17, max_wait_seconds=0.001) as blocks:
        writer.begin(3, 1200, pause=0)
        take(blocks, 0, 1210)
    writer.wait()


@pytest.mark.parametrize("way", ["swmr", "flush", "tables zlib"])
def test_stopping_delivers_what_is_there(h5: Path, write: Callable[..., Writer], way: str) -> None:
    """Also what fills no block, and to who waits for one."""
    writer = write(way, 130)
    with follow(h5, block_size=50, max_wait_seconds=None) as blocks:
        take(blocks, 0, 100)
        with pytest.raises(queue.Empty):
            blocks.get(timeout=0.05)
        writer.write(5, 10)
        threading.Timer(0.05, blocks.stop).start()
        take(blocks, 100, 140)
        assert blocks.get() is multitables.QueueClosed


def test_stopping_does_not_wait_for_the_writer(h5: Path, write: Callable[..., Writer]) -> None:
    writer = write("swmr", 100)
    with follow(h5, block_size=10, max_wait_seconds=None) as blocks:
        writer.begin(3, 900)
        take(blocks, 0, 200)
        blocks.stop()
        found = [len(guard.__enter__()) for guard in blocks]
    assert 0 <= sum(found) <= 800
    writer.wait()


def test_a_writer_that_dies(h5: Path, write: Callable[..., Writer]) -> None:
    writer = write("swmr", 45)
    with follow(h5) as blocks:
        take(blocks, 0, 45)
        writer.process.kill()
        writer.process.wait()
        with pytest.raises(queue.Empty):
            blocks.get(timeout=0.1)
        with pytest.raises(queue.Empty):
            blocks.get_nowait()
        blocks.stop()
        assert blocks.get() is multitables.QueueClosed


def test_datasets_in_lock_step(h5: Path, write: Callable[..., Writer]) -> None:
    writer = write("swmr", 30)
    with follow(h5, {"a": "/x", "b": "/y"}, block_size=25) as blocks:
        writer.write(10, 60, "x")
        writer.begin(4, 40, "y")
        seen = 0
        while seen < 70:
            with blocks.get() as block:
                n = len(block["a"])
                for array in block.values():
                    np.testing.assert_array_equal(array, rows(seen, seen + n))
                seen += n
            del block, array
        assert seen == 70
        with pytest.raises(queue.Empty):
            blocks.get(timeout=0.05)  # /x has 90 rows, /y has 70
        writer.wait()


def test_a_column_of_a_table(h5: Path, write: Callable[..., Writer]) -> None:
    writer = write("tables zlib", 10)
    with follow(h5, "/t", field="at", block_size=8) as blocks:
        writer.begin(9, 90)
        take(blocks, 0, 100)
    writer.wait()


def test_rows_of_a_generator(h5: Path, write: Callable[..., Writer]) -> None:
    writer = write("flush", 33)
    streamer = multitables.Streamer(h5)
    found = streamer.get_generator("/x", n_procs=1, follow=True, max_wait_seconds=0.02)
    writer.begin(10, 50)
    for number, row in enumerate(itertools.islice(found, 83)):
        np.testing.assert_array_equal(row, rows(number, number + 1)[0])
    found.close()  # type: ignore[attr-defined]
    writer.wait()
    assert readers() == []


def test_rows_that_were_made_and_not_written_yet(h5: Path) -> None:
    """A dataset that has its final length from the start, and one row without a chunk."""
    with h5py.File(h5, "w", libver="latest") as file:
        made = file.create_dataset("x", (100, 3), "f8", chunks=(10, 3))
        file.swmr_mode = True
        with follow(h5, block_size=10) as blocks:
            for number in range(5):
                made[number * 10 : number * 10 + 10] = rows(number * 10, number * 10 + 10)
                made.flush()
                take(blocks, number * 10, number * 10 + 10)
            made[70:80] = 1
            made.flush()
            for wanted in (0, 0, 1):  # what nobody wrote is the fill value
                with blocks.get() as block:
                    assert (block == wanted).all()
                del block
            with pytest.raises(queue.Empty):
                blocks.get(timeout=0.05)


def test_threads_share_it_and_closing_wakes_them(h5: Path, write: Callable[..., Writer]) -> None:
    write("swmr", 120)
    found: list[tuple[int, int]] = []

    def consume(blocks: multitables.FollowQueue) -> None:
        found.extend(guard.rows for guard in blocks)

    with follow(h5, block_size=20) as blocks:
        threads = [threading.Thread(target=consume, args=[blocks]) for _ in range(3)]
        for thread in threads:
            thread.start()
        while len(found) < 6:
            threads[0].join(0.01)
        assert blocks.is_open
        blocks.close()
        for thread in threads:
            thread.join()
    assert sorted(found) == [(at, at + 20) for at in range(0, 120, 20)]
    assert not blocks.is_open


def test_a_streamer_keeps_the_readers_and_ends_the_queue(
    h5: Path, write: Callable[..., Writer]
) -> None:
    write("swmr", 60)
    with multitables.Streamer(h5) as streamer:
        blocks = streamer.get_queue("/x", n_procs=1, block_size=20, follow=True)
        pids = set()
        for number in range(3):
            guard = blocks.get()
            assert guard.rows == (number * 20, number * 20 + 20)
            pids |= set(readers())
        assert len(pids) == 1
        assert "rows delivered, open" in repr(blocks)
        del guard
    assert blocks.get() is multitables.QueueClosed
    assert "60 rows delivered, closed" in repr(blocks)


def test_leaving_it_without_a_word(h5: Path, write: Callable[..., Writer]) -> None:
    write("swmr", 60)
    blocks = follow(h5, block_size=20)
    guard = blocks.get()
    with guard as block:
        del blocks, guard
        while readers():
            pass
        np.testing.assert_array_equal(block, rows(0, 20))  # what is held stays


def test_a_fork_has_none_of_it(h5: Path, write: Callable[..., Writer]) -> None:
    write("swmr", 60)
    with follow(h5, block_size=20) as blocks:
        take(blocks, 0, 20)
        child = os.fork()
        if child == 0:
            try:
                blocks.get()
            except multitables.ClosedError:
                blocks.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        take(blocks, 20, 60)


def test_what_it_tells(h5: Path, write: Callable[..., Writer]) -> None:
    writer = write("swmr", 40)
    with follow(h5, block_size=20, n_procs=1) as blocks:
        assert blocks.statistics()["rows_received"] == 0
        assert blocks.endless
        take(blocks, 0, 40)
        writer.write(20, 20)
        take(blocks, 40, 60)
        told = blocks.statistics()
        named = [told[name] for name in ("rows_received", "blocks_received", "blocks_total")]
        assert named == [60, 3, None]
        assert sum(reader["chunks"] for reader in told["readers"]) >= 6
        assert blocks.empty()


def test_a_reader_that_is_killed(h5: Path, write: Callable[..., Writer]) -> None:
    writer = write("swmr", 40)
    with follow(h5, block_size=20, n_procs=1) as blocks:
        take(blocks, 0, 40)
        kill(readers()[0])
        writer.write(20, 40)
        take(blocks, 40, 80)


# ---- what ends it with an error


def test_another_file_of_its_name(h5: Path, write: Callable[..., Writer]) -> None:
    write("swmr", 20)
    with follow(h5) as blocks:
        take(blocks, 0, 20)
        other = h5.with_name("other.h5")
        with h5py.File(other, "w") as file:
            file.create_dataset("x", data=rows(0, 50), chunks=(20, 3))
        os.replace(other, h5)
        for _ in range(2):
            with pytest.raises(multitables.FileChangedError, match="replaced by another file"):
                blocks.get()
        assert "failed: FileChangedError" in repr(blocks)


def test_a_file_that_is_gone(h5: Path, write: Callable[..., Writer]) -> None:
    write("flush", 20)
    with follow(h5) as blocks:
        take(blocks, 0, 20)
        h5.unlink()
        with pytest.raises(multitables.FileChangedError, match="not there any more"):
            blocks.get()


def test_rows_that_are_lost(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=rows(0, 50), chunks=(20, 3), maxshape=(None, 3))
        file.flush()
        with follow(h5) as blocks:
            take(blocks, 0, 50)
            made.resize(30, 0)
            file.flush()
            with pytest.raises(multitables.FileChangedError, match="lost rows"):
                blocks.get()


def test_a_damaged_chunk(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chunk that stays as it is, is not about to be completed."""
    monkeypatch.setattr(growing_data, "SETTLED_SECONDS", 0.2)
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=rows(0, 60), chunks=(20, 3), fletcher32=True)
        damaged = made.id.get_chunk_info(1).byte_offset
    with h5.open("r+b") as raw:
        raw.seek(damaged)
        raw.write(b"damage")
    with follow(h5, block_size=20) as blocks:
        take(blocks, 0, 20)
        with pytest.raises(multitables.CorruptChunkError, match="fletcher32"):
            blocks.get()
    assert readers() == []


def test_a_damaged_file(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_data, "SETTLED_SECONDS", 0.1)
    with h5py.File(h5, "w", libver="latest") as file:
        file.create_dataset("x", data=rows(0, 60), chunks=(20, 3))
        offset = h5py.h5o.get_info(file["x"].id).addr
    with h5.open("r+b") as raw:
        raw.seek(offset + 20)
        raw.write(b"damage")
    with pytest.raises(multitables.CorruptFileError):
        follow(h5)


# ---- what cannot be followed


@pytest.mark.usefixtures("without_plugins")
def test_refusals(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("contiguous", data=rows(0, 4))
        file.create_dataset("x", data=rows(0, 4), chunks=(2, 3))
        file.create_dataset("unknown", data=rows(0, 4), chunks=(2, 3), **hdf5plugin.Zfp())
    for path, reason in (("/contiguous", "not stored in chunks"), ("/unknown", "HDF5 library")):
        with pytest.raises(multitables.UnsupportedDatasetError, match=reason):
            follow(h5, path)
    with pytest.raises(multitables.MissingDatasetError):
        follow(h5, "/nothing")
    with pytest.raises(multitables.MissingFileError):
        follow(h5.with_name("nothing"))
    with pytest.raises(multitables.OptionsError, match="cyclic"):
        follow(h5, cyclic=True)
    with pytest.raises(multitables.OptionsError, match="max_wait_seconds"):
        follow(h5, max_wait_seconds=0)
    with pytest.raises(multitables.OptionsError, match="DRIVER"):
        multitables.Streamer(h5, DRIVER="H5FD_DIRECT").get_queue("/x", follow=True)
    with pytest.raises(ValueError, match="timeout"), follow(h5) as blocks:
        blocks.get(timeout=-1)
