"""Requests and items that this process answers itself: who reads what, and how they end."""

from __future__ import annotations

import gc
import os
from concurrent.futures import wait
from pathlib import Path

import h5py
import numpy as np
import pytest
from processes import children

import multitables

ROWS = np.arange(60_000, dtype=np.int32).reshape(-1, 6)
PATHS = ("plain", "gzip", "large")


@pytest.fixture
def rows(h5: Path) -> Path:
    with h5py.File(h5, "w") as file:
        file["plain"] = ROWS
        file.create_dataset("gzip", data=ROWS, chunks=(500, 6), compression="gzip")
        file.create_dataset("scaled", data=ROWS, chunks=(500, 6), scaleoffset=0)
        file["large"] = np.arange(5 << 20, dtype="i4")
        file.create_dataset("much", data=np.zeros(5 << 20, "i4"), chunks=(1 << 18,), compression=1)
    return h5


@pytest.mark.parametrize("n_procs", [None, 0])
@pytest.mark.parametrize("path", PATHS)
def test_little_or_plain_data_starts_no_process(rows: Path, path: str, n_procs: int | None) -> None:
    with h5py.File(rows) as file:
        expected = file[path][...]
    with multitables.Reader(rows, n_procs) as reader:
        dataset = reader.get_dataset(path)
        first = reader.request(dataset[:]).get()
        first[...] = 0  # it is the caller's own
        many = [reader.request(dataset[n : n + 700]) for n in range(0, 7000, 700)]
        wait(many)
        got = np.concatenate([one.result() for one in many])
        np.testing.assert_array_equal(got, expected[:7000])
        with reader.request(dataset[5:], dataset.create_stage(len(expected))).get_unsafe() as view:
            np.testing.assert_array_equal(view, expected[5:])
        assert reader.request(dataset[::-3]).exception(timeout=30) is None
        assert children() == {}
        assert sum(one["tasks"] for one in reader.statistics()["readers"]) >= 13


def test_much_data_with_a_filter_has_processes_unless_threads_are_named(rows: Path) -> None:
    for n_procs, has_any in ((None, True), (0, False), (1, True)):
        with multitables.Reader(rows, n_procs) as reader:
            dataset = reader.get_dataset("much")
            assert not reader.request(dataset[:]).get().any()
            assert (children() != {}) == has_any


@pytest.mark.usefixtures("few_filters")
@pytest.mark.parametrize("n_procs", [None, 0])
def test_what_a_library_reads_has_a_process(rows: Path, n_procs: int | None) -> None:
    with multitables.Reader(rows, n_procs) as reader:
        plain = reader.get_dataset("plain")
        pending = [reader.request(plain[n:]) for n in range(20)]
        scaled = reader.get_dataset("scaled")
        np.testing.assert_array_equal(reader.request(scaled[:]).get(), ROWS)
        assert children() != {}
        for n, request in enumerate(pending):
            np.testing.assert_array_equal(request.get(), ROWS[n:])


def test_what_nobody_waits_for_is_answered(rows: Path) -> None:
    reader = multitables.Reader(rows, 0)
    dataset = reader.get_dataset("plain")
    dropped = reader.request(dataset[:])
    del dropped
    gc.collect()
    ended: list[object] = []
    reader.request(dataset[1]).add_done_callback(ended.append)
    kept = reader.request(dataset[2:5])
    reader.close(wait=True)
    assert len(ended) == 1
    np.testing.assert_array_equal(kept.get(), ROWS[2:5])


def test_a_stop_ends_what_is_not_answered(rows: Path) -> None:
    reader = multitables.Reader(rows, 0)
    request = reader.request(reader.get_dataset("plain")[:])
    cancelled = reader.request(reader.get_dataset("plain")[:3])
    assert cancelled.cancel() or cancelled.done()
    reader.stop()
    error = request.exception(timeout=30)
    assert error is None or isinstance(error, multitables.ClosedError)


def test_a_damaged_chunk_is_named(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        dataset = file.create_dataset("x", data=ROWS, chunks=(500, 6), compression="gzip")
        dataset.id.write_direct_chunk((5000, 0), b"no gzip")
    with multitables.Reader(h5, 0) as reader:
        found = reader.get_dataset("x")
        with pytest.raises(multitables.CorruptChunkError, match=r"chunk \(5000, 0\)"):
            reader.request(found[5000:5500]).get()
        np.testing.assert_array_equal(reader.request(found[:5000]).get(), ROWS[:5000])


def test_a_fork_has_no_part_in_it(rows: Path) -> None:
    with multitables.Reader(rows, 0) as reader:
        dataset = reader.get_dataset("gzip")
        request = reader.request(dataset[:])
        pid = os.fork()
        if not pid:
            status = 1
            try:
                request.get()
            except multitables.ClosedError:
                with multitables.Reader(rows, 0) as own:
                    got = own.request(own.get_dataset("gzip")[:]).get()
                    status = int(not np.array_equal(got, ROWS))
            finally:
                os._exit(status)
        assert os.waitpid(pid, 0)[1] == 0
        np.testing.assert_array_equal(request.get(), ROWS)


@pytest.mark.parametrize("n_procs", [None, 0, 2])
def test_items(rows: Path, n_procs: int | None) -> None:
    with h5py.File(rows) as file:
        expected = {path: file[path][...] for path in file}
    with multitables.Streamer(rows) as streamer:
        for _ in range(2):  # the second uses memory of the first
            items = streamer.get_collection("/*", n_procs=n_procs, epochs=2)
            got = {item.key: item for item in items}
            assert got.keys() == expected.keys()
            for path, array in expected.items():
                np.testing.assert_array_equal(got[path][path], array)
            items.close()
