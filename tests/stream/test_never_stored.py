"""Chunks that were never stored: they cost nothing, and are what h5py says they are.

1. Whatever the ring or a buffer held before is never a row: fill values stand there, and zeros
   where a dataset has no fill value.
2. The plan of a dataset is as large as what is stored of it; one that does not fit into memory is
   refused with the dataset's name.
"""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import fast, h5py_read, slow
from plans import NATIVE

import multitables
from _multitables import sizes
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.source import open_source
from _multitables.plan.stream_plan import plan_reads
from multitables import OptionsError, UnsupportedDatasetError

pytestmark = pytest.mark.usefixtures("few_filters")


@pytest.fixture
def huge(h5: Path) -> Path:
    """10^11 chunks, of which three are stored."""
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", (10**13,), "i1", chunks=(100,), fillvalue=7)
        for row in (0, 5 * 10**12 + 3, 10**13 - 1):
            made[row] = 9
        file.create_dataset("never", (10**9, 4), "<f4", chunks=(1, 4))
        file.create_dataset("wide", (3, 10**15), "i1", chunks=(1, 10**9))
    return h5


def index_of(path: Path, name: str) -> ChunkIndex:
    with open_source(path, {}) as source:
        return source.index(name)


def test_a_stream_begins_at_once(huge: Path) -> None:
    with multitables.Streamer(huge).get_queue("/x", n_procs=2, block_size=1 << 20) as queue:
        for begin in (0, 1 << 20, 2 << 20):
            with queue.get() as block:
                want = np.full(1 << 20, 7, np.int8)
                want[0] = 9 if begin == 0 else 7
                np.testing.assert_array_equal(block, want)
            del block
        assert queue.statistics()["tasks"] > 10**7
    for first, row in ((5 * 10**12, 3), (10**13 - 50, 49)):
        rows = slice(first, first + 50)
        with multitables.Streamer(huge).get_batches("/x", 50, rows=rows, n_procs=1) as batches:
            (batch,) = batches
            assert batch.tolist() == [9 if at == row else 7 for at in range(50)]
            del batch
    tail = multitables.Streamer(huge).get_remainder("/x", 3)
    assert tail.tolist() == [9]
    with multitables.Reader(huge, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        assert reader.request(dataset[[1, 5 * 10**12 + 3, -1]]).get().tolist() == [7, 9, 9]


def test_several_huge_datasets_in_lock_step(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        for name, chunk, row in (("x", 100, 10**6), ("y", 8, 3 * 10**6), ("z", 1000, 10**6)):
            made = file.create_dataset(name, (10**12,), "i2", chunks=(chunk,), fillvalue=chunk)
            made[row] = 9
    indexes = [index_of(h5, name) for name in "xyz"]
    plan = plan_reads(indexes, block_rows=1000, n_readers=2, native_filters=NATIVE)
    assert len(plan.tasks) < 100
    paths = {name: f"/{name}" for name in "xyz"}
    with multitables.Streamer(h5).get_queue(paths, n_procs=2, block_size=10**6) as queue:
        for begin in range(0, 4 * 10**6, 10**6):
            with queue.get() as block:
                for name, fill, row in (("x", 100, 10**6), ("y", 8, 3 * 10**6), ("z", 1000, 10**6)):
                    want = np.full(10**6, fill, np.int16)
                    if row == begin:
                        want[0] = 9
                    np.testing.assert_array_equal(block[name], want)
            del block


def test_stretches_cost_nothing_for_each_chunk(huge: Path) -> None:
    for name, most in (("x", 1 << 16), ("never", 1 << 16)):
        index = index_of(huge, name)
        tracemalloc.start()
        plan = plan_reads([index], block_rows=1 << 20, n_readers=2, native_filters=NATIVE)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < most
        assert len(plan.tasks) <= 8
        assert plan.lap_rows >= index.n_rows // (1 << 20) * (1 << 20)


def test_what_cannot_be_planned_is_refused_by_name(huge: Path) -> None:
    streamer = multitables.Streamer(huge)
    for use in (
        lambda: next(iter(streamer.get_batches("/x", 8, shuffle="chunks"))),
        lambda: next(iter(streamer.get_batches("/x", 8, shuffle=True))),
        lambda: next(iter(streamer.get_batches("/x", 8, shuffle="full"))),
        lambda: next(iter(streamer.get_batches("/x", 8, shuffle=True, window_rows=100))),
    ):
        with pytest.raises(
            (UnsupportedDatasetError, OptionsError), match=r"memory|order"
        ) as caught:
            use()
        assert "/x" in str(caught.value)


def test_a_row_larger_than_memory(huge: Path) -> None:
    with pytest.raises(OptionsError, match="One row is larger than memory") as caught:
        multitables.Streamer(huge).get_queue("/wide", block_size=1)
    assert "smaller" not in str(caught.value)
    with pytest.raises(OptionsError, match="smaller block_size"):
        multitables.Streamer(huge).get_queue("/x", block_size=10**13)


# ---- as h5py reads them -----------------------------------------------------------------------


@st.composite
def a_sparse_dataset(draw: st.DrawFn) -> dict[str, Any]:
    shape = (draw(st.integers(1, 300)), *draw(st.lists(st.integers(1, 7), max_size=2)))
    count = int(np.prod(shape))
    return {
        "shape": shape,
        "chunks": tuple(draw(st.integers(1, min(n, 20))) for n in shape),
        "fillvalue": draw(st.sampled_from([0, 7, 77777])),
        "compression": draw(st.sampled_from([None, "gzip"])),
        "written": draw(st.lists(st.integers(0, count - 1), max_size=4)),
    }


@pytest.mark.hang(240)
@settings(
    max_examples=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(a_sparse_dataset(), st.integers(1, 40), st.integers(0, 3))
def test_any_sparse_dataset(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    made: dict[str, Any],
    block_size: int,
    scale: int,
) -> None:
    """With tasks so small that stretches of them are repeated, and rings that go round often."""
    monkeypatch.setattr(sizes, "TASK_BYTES", 16 << scale)
    monkeypatch.setattr(sizes, "INTERLEAVED_TASK_BYTES", 16 << scale)
    monkeypatch.setattr(sizes, "RING_BYTES", 1)
    path = tmp_path_factory.mktemp("sparse") / "sparse.h5"
    written = made.pop("written")
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", dtype="<i4", **made)
        for at in written:
            data[np.unravel_index(at, data.shape)] = at + 1
        length = len(data)
        other = file.create_dataset("y", (length,), "<i2", chunks=(min(5, length),), fillvalue=3)
        other[length // 3 : length // 2] = 1
    want, others = h5py_read(path, "x"), h5py_read(path, "y")
    fast(path, "/x", want, block_size=block_size)
    streamer = multitables.Streamer(path)
    with streamer.get_queue(("/x", "/y"), 2, block_size=block_size, remainder=True) as queue:
        for guard in queue:
            with guard as (x, y):
                begin = (queue.statistics()["blocks_received"] - 1) * block_size
                np.testing.assert_array_equal(x, want[begin : begin + len(x)])
                np.testing.assert_array_equal(y, others[begin : begin + len(y)])
            del x, y, guard
    with streamer.get_queue("/x", 1, cyclic=True, block_size=block_size) as queue:
        for number in range(2 * len(want) // block_size + 2):
            rows = (number * block_size + np.arange(block_size)) % len(want)
            with queue.get() as block:
                np.testing.assert_array_equal(block, want[rows])
            del block
    with streamer.get_batches("/x", block_size, shuffle="window", window_rows=13) as batches:
        got = np.concatenate([np.array(batch) for batch in batches])
        np.testing.assert_array_equal(got, want[batches.order(0)])
    path.unlink()


TIMES = {"never": h5py.h5d.FILL_TIME_NEVER, "if set": h5py.h5d.FILL_TIME_IFSET}


@pytest.mark.parametrize("fill", [None, 7])
@pytest.mark.parametrize("time", TIMES)
@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("rows", [1000, 400_000])
def test_what_hdf5_leaves_out_is_not_what_the_ring_held(
    h5: Path, fill: int | None, time: str, scaled: bool, rows: int
) -> None:
    with h5py.File(h5, "w") as file:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk((rows // 10,))
        plist.set_fill_time(TIMES[time])
        if fill is not None:
            plist.set_fill_value(np.array(fill, "<i4"))
        if scaled:  # a library's to read
            plist.set_scaleoffset(h5py.h5z.SO_INT, 0)
        space = h5py.h5s.create_simple((rows,))
        made = h5py.Dataset(h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, space, plist))
        for begin in range(0, rows, rows // 5):
            made[begin : begin + rows // 10] = np.arange(1, rows // 10 + 1)
    want = h5py_read(h5, "x")
    if scaled:
        assert "scaleoffset" in slow(h5, "/x", want, block_size=rows // 20, read_ahead=1)
    else:
        fast(h5, "/x", want, block_size=rows // 20, read_ahead=1)
    with multitables.Streamer(h5).get_queue("/x", 1, cyclic=True, block_size=rows // 20) as queue:
        for number in itertools.islice(itertools.cycle(range(20)), 60):
            with queue.get() as block:
                begin = number * (rows // 20)
                np.testing.assert_array_equal(block, want[begin : begin + len(block)])
            del block
    with multitables.Streamer(h5).get_batches("/x", 100, shuffle="chunks", n_procs=1) as batches:
        got = np.concatenate([np.array(batch) for batch in batches])
        np.testing.assert_array_equal(got, want[batches.order(0)])
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        for _ in range(2):
            np.testing.assert_array_equal(reader.request(dataset[::3]).get(), want[::3])
