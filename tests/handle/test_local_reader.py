"""The core's reading inside this process, without the handle above it.

Law
---
1. Results equal what h5py wrote, whatever the storage, the threads and the cache.
2. A failure tells what a reader process would leave of it; nothing else is affected.
3. A forked child reads whatever its parent's threads were at.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from indexes import index_of
from keys import a_key
from oracle import same
from selection_oracle import info

from _multitables import _core
from _multitables.parent.readers.error_report import Record
from _multitables.plan.dataset_table import lookup_table
from _multitables.select.normalize import Native, normalize
from _multitables.select.selection import Selection
from _multitables.wire.plan_bytes import made_table
from _multitables.wire.request_bytes import encode_hyperslab

SHAPE = (500, 30, 20)
VALUES = np.arange(np.prod(SHAPE), dtype="<i4").reshape(SHAPE)
STORAGE: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (7, 30, 20)},
    "gzip": {"chunks": (7, 30, 20), "compression": "gzip"},
    "shuffle": {"chunks": (50, 11, 13), "compression": "gzip", "shuffle": True},
    "blosc": {"chunks": (16, 16, 16), **hdf5plugin.Blosc(cname="lz4")},
    "checked": {"chunks": (40, 30, 20), "fletcher32": True},
}
COUNTERS = _core.COUNTERS


class Local:
    """One dataset of a file, read as it is indexed."""

    def __init__(self, reader: _core.LocalReader, path: Path, name: str) -> None:
        index = index_of(path, name)
        table = lookup_table(index, direct=False, native_filters=_core.native_filters())
        self.core = reader.dataset(made_table(table))

    def __getitem__(self, key: Any) -> np.ndarray:
        form = normalize(Selection(info(np.broadcast_to(VALUES[:1, :1, :1], SHAPE)))[key])
        assert isinstance(form, Native)
        slab = form.hyperslab
        out = np.empty(slab.shape, slab.dtype)
        self.core.read(encode_hyperslab(slab), out)
        return out

    def kept(self, key: Any) -> np.ndarray | None:
        return self.core.read_key(key, lambda shape: np.full(shape, -1, "<i4"))


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("local") / "data.h5"
    with h5py.File(path, "w") as file:
        for name, options in STORAGE.items():
            file.create_dataset(name, data=VALUES, **options)
    return path


def counted(reader: _core.LocalReader, name: str) -> int:
    return reader.counters()[COUNTERS.index(name)]


@pytest.mark.parametrize(("n_threads", "cache_bytes"), [(1, 0), (2, 1 << 20), (4, 64 << 20)])
def test_every_storage_reads_as_numpy_indexes(
    stored: Path, n_threads: int, cache_bytes: int
) -> None:
    reader = _core.LocalReader(n_threads, cache_bytes)
    datasets = [Local(reader, stored, name) for name in STORAGE]

    @settings(max_examples=40, deadline=None)
    @given(st.data())
    def check(data: st.DataObject) -> None:
        key = data.draw(a_key(SHAPE))
        try:
            want = VALUES[key]
        except IndexError:
            return
        if isinstance(normalize(Selection(info(VALUES))[key]), Native):
            same(data.draw(st.sampled_from(datasets))[key], np.asarray(want))

    check()
    for dataset in datasets:
        same(dataset[()], VALUES)
        same(dataset.kept(slice(499, 199, -3)), VALUES[499:199:-3])
    assert counted(reader, "cache_bytes") <= cache_bytes


NUMBER = st.integers(-60, 600)
ITEM = st.one_of(
    NUMBER,
    NUMBER.map(np.int64),
    NUMBER.map(np.int32),
    st.just(2**70),
    st.booleans(),
    st.none(),
    st.just(...),
    st.just([1, 2]),
    st.just(np.array(1)),
    st.builds(slice, st.none() | NUMBER, st.none() | NUMBER, st.none() | st.integers(-9, 9)),
)


@given(name=st.sampled_from(sorted(STORAGE)), key=ITEM | st.lists(ITEM, max_size=4).map(tuple))
def test_keys_of_numbers_and_slices_are_numpys_and_others_are_left(
    stored: Path, name: str, key: Any
) -> None:
    items = key if isinstance(key, tuple) else (key,)
    plain = all(type(item) in (int, np.int64, slice) for item in items) or key is Ellipsis
    dataset = Local(_core.LocalReader(1, 1 << 20), stored, name)
    try:
        want = VALUES[key] if plain else None
    except (IndexError, ValueError):
        want = None
    if want is None or want.size == 0:
        with contextlib.suppress(ValueError):  # a step of 0
            assert dataset.kept(key) is None
        return
    found = dataset.kept(key)
    assert found is not None
    same(found, np.asarray(want))


def test_many_threads_read_at_once(stored: Path) -> None:
    reader = _core.LocalReader(2, 1 << 20)
    datasets = [Local(reader, stored, name) for name in STORAGE]

    def read(seed: int) -> None:
        random = np.random.default_rng(seed)
        for number in random.permutation(len(datasets)):
            dataset = datasets[number]
            for row in random.integers(0, len(VALUES), 50).tolist():
                same(dataset.kept(slice(row, row + 1)), VALUES[row : row + 1])
            rows = random.integers(0, len(VALUES), 30)
            same(dataset[rows], VALUES[rows])
            same(dataset[()], VALUES)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(read, range(8)))


def test_a_chunk_is_decoded_once_and_found_again(stored: Path) -> None:
    reader = _core.LocalReader(2, 64 << 20)
    dataset, again = Local(reader, stored, "gzip"), Local(reader, stored, "gzip")
    same(dataset.kept(slice(3, 4)), VALUES[3:4])
    for row in range(7):
        same(again.kept(slice(row, row + 1)), VALUES[row : row + 1])
    assert (counted(reader, "cache_hits"), counted(reader, "cache_misses")) == (7, 1)
    # What is decoded straight into the result is kept nowhere else; what is kept is not decoded.
    before = counted(reader, "cache_bytes")
    same(dataset[:497], VALUES[:497])
    assert counted(reader, "cache_bytes") == before > 0
    assert (counted(reader, "cache_hits"), counted(reader, "chunks")) == (8, 71)
    uncached = _core.LocalReader(2, 0)
    for row in range(3):
        same(Local(uncached, stored, "gzip").kept(slice(row, row + 1)), VALUES[row : row + 1])
    assert counted(uncached, "cache_misses") == 3
    assert counted(uncached, "cache_bytes") == 0


def test_datasets_of_a_file_share_its_descriptor(stored: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    reader = _core.LocalReader(1, 0)
    datasets = [Local(reader, stored, name) for name in [*STORAGE] * 20]
    assert len(os.listdir("/proc/self/fd")) == descriptors
    for dataset in datasets:
        same(dataset.kept(slice(8, 9)), VALUES[8:9])
    assert len(os.listdir("/proc/self/fd")) == descriptors + 1
    del reader, datasets[1:], dataset
    same(datasets[0].kept(slice(1, 3)), VALUES[1:3])
    del datasets
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_damage_is_told_with_its_chunk(stored: Path, h5: Path) -> None:
    h5.write_bytes(stored.read_bytes())
    with h5py.File(h5) as file:
        bad = file["checked"].id.get_chunk_info_by_coord((80, 0, 0))
    with open(h5, "r+b") as raw:
        raw.seek(bad.byte_offset + 100)
        raw.write(b"oops")
    reader = _core.LocalReader(2, 1 << 20)
    dataset = Local(reader, h5, "checked")
    for key in (slice(None), 81, slice(70, 130)):
        with pytest.raises(_core.ReadFailed) as caught:
            dataset[key]
        record = Record.of(caught.value.args)
        assert (record.kind, record.filter, record.chunk) == ("filter_checksum", 3, 2)
        assert dataset.core.chunk(2) == (2, bad.byte_offset, bad.size)
        del caught
    same(dataset[120:], VALUES[120:])
    same(dataset[79], VALUES[79])


def test_a_file_that_changed_is_told(stored: Path, h5: Path) -> None:
    h5.write_bytes(stored.read_bytes())
    reader = _core.LocalReader(2, 1 << 20)
    gone, datasets = Local(reader, h5, "gzip"), [Local(reader, h5, name) for name in STORAGE]
    for dataset in datasets:
        same(dataset.kept(slice(8, 9)), VALUES[8:9])
    with h5py.File(h5, "r+") as file:
        file["gzip"][:] = 0
    for dataset in datasets:
        with pytest.raises(_core.ReadFailed) as caught:
            dataset[()]
        assert Record.of(caught.value.args).kind == "changed"
    h5.unlink()
    with pytest.raises(_core.ReadFailed) as caught:
        gone.kept(200)
    assert Record.of(caught.value.args).kind == "changed"
    with h5py.File(h5, "w") as file:
        file["contiguous"] = VALUES
    late = Local(reader, h5, "contiguous")
    h5.unlink()
    with pytest.raises(_core.ReadFailed) as caught:
        late[0]
    assert Record.of(caught.value.args).kind == "open"
    del caught


def test_what_does_not_fit_is_refused(stored: Path) -> None:
    reader = _core.LocalReader(1, 0)
    with pytest.raises(ValueError, match="dataset"):
        reader.dataset(_core.TableBuilder().table())
    dataset = Local(reader, stored, "gzip").core
    row = np.empty(SHAPE[1:], "<i4")
    read_only = row.copy()
    read_only.flags.writeable = False
    for out in (row[1:], row.astype("i8"), read_only, row.T, row.astype(object)):
        with pytest.raises(ValueError, match="out must"):
            dataset.read_key(0, lambda _shape, out=out: out)
    with pytest.raises(ValueError, match="words"):
        dataset.read(b"7 bytes", row)
    with pytest.raises(TypeError):
        dataset.read_key(0, lambda _: bytearray(row.nbytes))  # type: ignore[arg-type, return-value]


def test_a_forked_child_makes_its_own(stored: Path) -> None:
    reader = _core.LocalReader(3, 1 << 20)
    datasets = [Local(reader, stored, name) for name in STORAGE]
    stop = threading.Event()

    def keep_reading(seed: int) -> None:
        random = np.random.default_rng(seed)
        while not stop.is_set():
            dataset = datasets[random.integers(len(datasets))]
            row = int(random.integers(len(VALUES)))
            same(dataset.kept(slice(row, row + 1)), VALUES[row : row + 1])
            same(dataset[()], VALUES)

    with ThreadPoolExecutor(3) as pool:
        threads = [pool.submit(keep_reading, seed) for seed in range(3)]
        try:
            ended = [child_of(datasets) for _ in range(10)]
        finally:
            stop.set()
        for thread in threads:
            thread.result()
    assert ended == [0] * 10


def child_of(datasets: list[Local]) -> int:
    """Fork a child that reads; how it ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
        child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    try:
        signal.alarm(30)
        good = all(np.array_equal(dataset[()], VALUES) for dataset in datasets)
        good &= np.array_equal(datasets[2].kept(slice(9, 10)), VALUES[9:10])
        datasets.clear()
        os._exit(0 if good else 1)
    finally:
        os._exit(2)


def test_a_signal_ends_a_long_read(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("zeros", (100, 1 << 16), "<i4", chunks=(1, 1 << 16), compression="gzip")
        file["zeros"][:] = 7

    class RangError(Exception):
        pass

    def ring(*_: object) -> None:
        raise RangError

    def read_on() -> None:
        while True:
            dataset.read_key(..., lambda _shape: out)

    index = index_of(h5, "zeros")
    table = lookup_table(index, direct=False, native_filters=_core.native_filters())
    out = np.empty(index.shape, index.dtype)
    for n_threads in (1, 3):
        dataset = _core.LocalReader(n_threads, 0).dataset(made_table(table))
        before = signal.signal(signal.SIGUSR1, ring)
        killer = threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGUSR1))
        killer.start()
        try:
            with pytest.raises(RangError):
                read_on()
        finally:
            killer.join()
            signal.signal(signal.SIGUSR1, before)
        out[:] = 0
        assert not out.any()
        dataset.read_key(..., lambda _shape: out)
        assert (out == 7).all()


def test_memory_of_large_results_is_used_again() -> None:
    n_bytes = _core.ResultMemory.MIN_BYTES + 4
    first = np.asarray(_core.ResultMemory(n_bytes))
    first[:] = 7
    view, at = first.view("<i4").reshape(-1, 3)[5:], first.ctypes.data
    del first
    other = np.asarray(_core.ResultMemory(n_bytes))
    assert other.ctypes.data != at
    assert (view == 0x07070707).all()
    del view
    again = np.asarray(_core.ResultMemory(n_bytes))
    assert again.ctypes.data == at
    assert (again.shape, again.dtype, again.flags.writeable) == ((n_bytes,), np.uint8, True)
