"""Streams on threads of this process: who reads what, how they end, and memory that is kept."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from processes import Holdings, children, wait_until

import multitables

ROWS = np.arange(60_000, dtype=np.int32).reshape(-1, 6)


@pytest.fixture
def rows(h5: Path) -> Path:
    with h5py.File(h5, "w") as file:
        file["plain"] = ROWS
        file.create_dataset("gzip", data=ROWS, chunks=(500, 6), compression="gzip")
        file.create_dataset("scaled", data=ROWS, chunks=(500, 6), scaleoffset=0)
        file.create_dataset("large", data=np.zeros(5 << 20, "i4"), chunks=(1 << 18,), compression=1)
    return h5


def read(stream: multitables.StreamQueue) -> np.ndarray:
    blocks = []
    for guard in stream:
        with guard as block:
            blocks.append(block.copy())
    return np.concatenate(blocks)


def memory(stream: multitables.StreamQueue) -> int:
    return stream.source.memory()[0][0]


@pytest.mark.parametrize("n_procs", [None, 0])
@pytest.mark.parametrize("path", ["plain", "gzip"])
def test_little_data_starts_no_process(rows: Path, path: str, n_procs: int | None) -> None:
    streamer = multitables.Streamer(rows)
    with streamer.get_queue(path, n_procs, remainder=True, block_size=700) as stream:
        assert children() == {}
        np.testing.assert_array_equal(read(stream), ROWS)
    with streamer.get_batches(path, 256, n_procs=n_procs, shuffle="window", seed=3) as batches:
        got = np.concatenate([batch.copy() for batch in batches])
        np.testing.assert_array_equal(np.sort(got[:, 0]), ROWS[:, 0])
        assert children() == {}


def test_much_data_with_a_filter_has_processes_unless_threads_are_named(rows: Path) -> None:
    streamer = multitables.Streamer(rows)
    for n_procs, has_any in ((None, True), (0, False), (1, True)):
        with streamer.get_queue("large", n_procs) as stream:
            assert (children() != {}) == has_any
            with stream.get() as block:
                assert not block.any()


@pytest.mark.usefixtures("few_filters")
@pytest.mark.parametrize("n_procs", [None, 0])
def test_what_a_library_reads_has_a_process(rows: Path, n_procs: int | None) -> None:
    with multitables.Streamer(rows).get_queue("scaled", n_procs, remainder=True) as stream:
        assert children() != {}
        np.testing.assert_array_equal(read(stream), ROWS)


@pytest.mark.parametrize("times", [1, 5])
def test_a_stream_that_only_a_library_can_go_on_with_is_handed_over(h5: Path, times: int) -> None:
    """Of one chunk the core finds out too late that it is not for it."""
    import hdf5plugin

    with h5py.File(h5, "w") as file:
        options = hdf5plugin.Blosc(cname="zlib")
        file.create_dataset("x", data=np.tile(ROWS, (times, 1)), chunks=(500, 6), **options)
        dataset = file["x"].id
        _, stored = dataset.read_direct_chunk((5000, 0))
        # The compressor's number, in the high bits of the flags, is one that nobody has.
        broken = bytes([*stored[:2], stored[2] | 0xE0, *stored[3:]])
        dataset.write_direct_chunk((5000, 0), broken)
    with (
        multitables.Streamer(h5).get_queue("x", 0, remainder=True) as stream,
        pytest.raises(multitables.SubprocessException),
    ):
        read(stream)


def test_a_stream_that_is_left_leaves_nothing(rows: Path) -> None:
    streamer = multitables.Streamer(rows)
    for end in ("close", "drop", "hold"):
        stream = streamer.get_queue("large", 0, block_size=1000, cyclic=True)
        guard = stream.get()
        block = guard.__enter__()
        if end == "drop":
            del stream
            gc.collect()
        else:
            stream.close()
            assert stream.get() is multitables.QueueClosed
        assert not block.any()
        guard.__exit__(None, None, None)
        del block, guard


def test_a_fork_has_no_part_in_it(rows: Path) -> None:
    stream = multitables.Streamer(rows).get_queue("large", 0, block_size=1000)
    with stream.get():
        pid = os.fork()
        if not pid:
            status = 1
            try:
                stream.get(timeout=5)
            except multitables.ClosedError:
                own = multitables.Streamer(rows).get_queue("plain", 0, remainder=True)
                status = int(not np.array_equal(read(own), ROWS))
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        with stream.get(timeout=30) as block:
            assert not block.any()
    stream.close()


@pytest.mark.parametrize("n_procs", [0, 2])
def test_memory_serves_the_next_stream(rows: Path, n_procs: int) -> None:
    with multitables.Streamer(rows) as streamer:
        multitables.release_memory()
        places = set()
        for _ in range(4):
            with streamer.get_queue("gzip", n_procs, remainder=True) as stream:
                places.add(memory(stream))
                np.testing.assert_array_equal(read(stream), ROWS)
            del stream
        before = Holdings.now().mappings
        assert before
        multitables.release_memory()
        assert not Holdings.now().mappings & before
        assert len(places) <= 2  # a thread may hold the first for a moment


def ring_bytes() -> int:
    """Memory of rings that this process has mapped, each tape twice."""
    places = (line.split()[0].split("-") for line in Holdings.now().mappings if "-ring" in line)
    return sum(int(end, 16) - int(begin, 16) for begin, end in places) // 2


def test_kept_memory_is_bounded(rows: Path) -> None:
    multitables.release_memory()
    before = ring_bytes()
    streamer = multitables.Streamer(rows)
    for n_blocks in range(2, 30):
        with streamer.get_queue("large", 0, read_ahead=n_blocks, block_size=1 << 18) as stream:
            stream.get()
        del stream
    # The threads of the last streams may hold theirs for a moment.
    wait_until(lambda: ring_bytes() - before <= 64 << 20, "the end of the streams")
    assert ring_bytes() > before
    multitables.release_memory()
    wait_until(lambda: ring_bytes() == before, "the release of all")


def test_a_block_that_is_held_keeps_its_memory(rows: Path) -> None:
    streamer = multitables.Streamer(rows)
    stream = streamer.get_queue("plain", 0, remainder=True)
    held = stream.get().__enter__()
    expected, place = held.copy(), memory(stream)
    stream.close()
    del stream
    for _ in range(3):
        with streamer.get_queue("gzip", 0, remainder=True) as other:
            assert memory(other) != place
            np.testing.assert_array_equal(read(other), ROWS)
    np.testing.assert_array_equal(held, expected)


def test_without_python_threads_read_what_they_can(
    rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    streamer = multitables.Streamer(rows)
    with streamer.get_queue("large", remainder=True) as stream:
        assert not read(stream).any()
    with pytest.raises(multitables.ReaderDiedError, match="frozen"):
        streamer.get_queue("large", 1)
