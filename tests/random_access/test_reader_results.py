"""Random access: results as copies and views, and the stages that they lie in."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oracle import same
from reader_cases import opened
from reader_file import ROWS, TABLE, cube, line, table

import multitables
from _multitables import _core


@pytest.fixture(params=[2, 0], ids=["processes", "threads"])
def reader(sample: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    with opened(sample, n_procs=request.param) as reader:
        yield reader


def test_a_copy_is_the_callers(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")
    stage = dataset.create_stage(5)
    copy = reader.request(dataset[0:5], stage).get()
    assert copy.flags.owndata
    assert copy.flags.writeable
    reader.request(dataset[5:10], stage).get()
    same(copy, cube()[0:5])
    copy[:] = 0


@pytest.mark.parametrize("way", ["get_unsafe", "get_proxy", "get_direct"])
def test_views_lend_the_stage(reader: Any, way: str) -> None:
    dataset = reader.get_dataset("/carray")
    stage = dataset.create_stage(5)
    for first in range(0, 100, 5):
        request = reader.request(dataset[first : first + 5], stage)
        want = cube()[first : first + 5]
        if way == "get_direct":

            def action(rows: Any, want: Any = want) -> str:
                assert not rows.flags.owndata
                same(rows, want)
                return "done"

            assert request.get_direct(action) == "done"
        else:
            with getattr(request, way)() as rows:
                np.testing.assert_array_equal(rows, want)
                assert stage.busy
        assert not stage.busy


@pytest.mark.parametrize("way", ["get_unsafe", "get_proxy", "get_direct"])
@pytest.mark.parametrize("count", [None, 1, 3])
def test_views_that_are_kept_leave_their_stages_free(
    reader: Any, way: str, count: int | None
) -> None:
    dataset = reader.get_dataset("/carray")
    reader.request(dataset[0]).get()  # what the Reader keeps is there
    used = _core.Arena(1).used_bytes
    stages = dataset.create_stage_pool(5, count) if count else dataset.create_stage(5)
    kept, rows = [], None
    for first in range(0, 100, 5):
        request = reader.request(dataset[first : first + 5], stages)
        if way == "get_direct":
            kept.append(request.get_direct(lambda rows: rows[1:3]))
        else:
            with getattr(request, way)() as rows:
                kept.append(rows[1:3])
                if count is None:
                    with pytest.raises(multitables.StageBusyError):
                        reader.request(dataset[0], stages)
        assert stages.lent() == (0, 0)
    for number, view in enumerate(kept):
        same(view, cube()[5 * number + 1 : 5 * number + 3])
    stages.close()
    same(kept.pop(), cube()[96:98])
    del kept, rows, view
    assert _core.Arena(1).used_bytes == used


def test_a_stage_uses_its_memory_again(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")
    before = _core.Arena(1).used_bytes
    stage = dataset.create_stage(5)
    used = _core.Arena(1).used_bytes

    def places(drops: bool) -> set[int]:
        found = set()
        for first in range(0, 100, 5):
            with reader.request(dataset[first : first + 5], stage).get_unsafe() as rows:
                found.add(rows.ctypes.data)
            if drops:
                del rows
        return found

    assert len(places(drops=True)) == 1
    assert _core.Arena(1).used_bytes == used
    assert len(places(drops=False)) == 2  # in turn
    assert _core.Arena(1).used_bytes == used + (used - before)
    assert len(places(drops=True)) == 1


def test_no_memory_for_another_result(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_multitables.machine.memory_limit_bytes", lambda: 16 << 20)
    with multitables.Reader(sample, n_procs=1) as reader:
        dataset = reader.get_dataset("/carray")
        stage = dataset.create_stage_natoms(1 << 20)
        kept: list[Any] = []

        def keep() -> None:
            while True:
                with reader.request(dataset[len(kept)], stage).get_unsafe() as rows:
                    kept.append(rows)

        with pytest.raises(multitables.SharedMemoryError, match="cannot be reserved") as caught:
            keep()
        assert "drop views" in str(caught.value)
        assert len(kept) == 3
        assert not stage.busy
        del caught
        kept.pop(1)
        with reader.request(dataset[9], stage).get_unsafe() as rows:
            same(rows, cube()[9])
        for number, view in zip((0, 2), kept, strict=True):
            same(view, cube()[number])


def test_results_are_taken_once_and_kept_by_result(reader: Any) -> None:
    dataset = reader.get_dataset("/line")
    for take in ("get", "result"):
        request = reader.request(dataset[3:9])
        first = getattr(request, take)()
        if take == "get":
            for again in (request.get, request.result, request.get_proxy().__enter__):
                with pytest.raises(multitables.ClosedError, match="taken before"):
                    again()
        else:
            assert request.result() is first
            assert request.result(timeout=0) is first
            again = request.get()
            assert again is not first
            same(again, first)
            with request.get_unsafe() as view:
                same(view, first)
            assert request.exception() is None


def test_a_proxy_behaves_as_the_array_and_ends_with_its_block(reader: Any) -> None:
    dataset, want = reader.get_dataset("/carray"), cube()[3:6]
    with reader.request(dataset[3:6]).get_proxy() as rows:
        assert isinstance(rows, np.ndarray)
        assert (rows.shape, rows.dtype, rows.ndim, len(rows)) == (want.shape, want.dtype, 3, 3)
        assert int(rows.sum()) == int(want.sum())
        np.testing.assert_array_equal(np.asarray(rows), want)
        np.testing.assert_array_equal(np.array(rows, dtype=float), want.astype(float))
        np.testing.assert_array_equal(rows[1, ..., ::2], want[1, ..., ::2])
        for one, row in zip(rows, want, strict=True):
            np.testing.assert_array_equal(one, row)
        for binary in (operator.add, operator.sub, operator.mul, operator.lt, operator.eq):
            np.testing.assert_array_equal(binary(rows, want + 1), binary(want, want + 1))
            np.testing.assert_array_equal(binary(want + 1, rows), binary(want + 1, want))
            np.testing.assert_array_equal(binary(rows, 3), binary(want, 3))
            np.testing.assert_array_equal(binary(3, rows), binary(3, want))
        np.testing.assert_array_equal(-rows, -want)
        np.testing.assert_array_equal(np.sqrt(rows), np.sqrt(want))
        np.testing.assert_array_equal(np.add(rows, rows), 2 * want)
        np.testing.assert_array_equal(np.concatenate([rows, rows]), np.concatenate([want, want]))
        assert repr(rows) == repr(want)
        assert 7 in rows or 7 not in want
        view = rows[0]
        rows += 1  # noqa: PLW2901 - in place, and still the proxy
        np.testing.assert_array_equal(rows, want + 1)
        np.multiply(rows, 2, out=rows)
        rows[2] = 5
        assert int(rows[2].max()) == 5
    for use in (
        len, iter, repr, str, np.asarray, np.sqrt, lambda p: p + 1, lambda p: 1 + p,
        lambda p: p.shape, lambda p: p[0], lambda p: p.__setitem__(0, 1), bool, lambda p: p == p,
        lambda p: np.add(want, p), lambda p: setattr(p, "shape", (1,)),
    ):  # fmt: skip
        with pytest.raises(multitables.ClosedError, match="after the end of its block"):
            use(rows)
    assert int(view[0, 0]) == (int(want[0, 0, 0]) + 1) * 2  # what was taken out is valid


def test_stages_of_partial_shapes(reader: Any) -> None:
    table_, array = reader.get_dataset("/table"), reader.get_dataset("/carray")
    row, plane = TABLE.itemsize, 20 * 15 * 4
    for made, want in (
        (table_.create_stage(10), 10 * row),
        (table_.create_stage((10,)), 10 * row),
        (table_.create_stage(None), ROWS * row),
        (table_.create_stage(-1), ROWS * row),
        (array.create_stage(10), 10 * plane),
        (array.create_stage((10, -1, 3)), 10 * 20 * 3 * 4),
        (array.create_stage([10, None]), 10 * plane),
        (array.create_stage((None, 2)), 300 * 2 * 15 * 4),
        (array.create_stage(np.int32(3)), 3 * plane),
        (array.create_stage((2, 20, 15, 4)), 8 * plane),
        (array.create_stage_natoms(7), 28),
        (reader.get_dataset("/pairs").create_stage_natoms(7), 28),
        (array.create_stage(0), 0),
    ):
        assert made.size_nbytes == want
        made.close()
    pool = array.create_stage_pool((10, 5), 3)
    assert (pool.size_nbytes, pool.num_stages) == (10 * 5 * 15 * 4, 3)
    for shape in ("x", (3, "y"), -2, (1, 2, 3, -1), 2.5):
        with pytest.raises(multitables.OptionsError, match="shape"):
            array.create_stage(shape)


def test_a_stage_has_one_result_at_a_time(reader: Any) -> None:
    dataset = reader.get_dataset("/table")
    stage = dataset.create_stage(5)
    first = reader.request(dataset[0:5], stage)
    for selection in (dataset[5:10], dataset[[9, 3]], dataset["id"][3:4], dataset[ROWS]):
        with pytest.raises(multitables.StageBusyError) as caught:
            reader.request(selection, stage)
        assert isinstance(caught.value, RuntimeError)
    same(first.get(), table()[0:5])
    second = reader.request(dataset[5:10], stage)
    del second  # nobody wants it: the stage is free when the readers are through
    third = None
    while third is None:
        try:
            third = reader.request(dataset[7:9], stage)
        except multitables.StageBusyError:
            continue
    same(third.get(), table()[7:9])


def test_a_stage_that_is_too_small(reader: Any) -> None:
    dataset, indexed = reader.get_dataset("/table"), reader.get_dataset("/indexed")
    row = TABLE.itemsize
    stage = dataset.create_stage(5)
    for selection, needed in (
        (dataset[0:6], 6 * row),
        (dataset[list(range(7))], 7 * row),
        (dataset[["id", "c"]][0:40], 40 * row),
        (indexed.where("id < 8"), 8 * row),
    ):
        request = reader.request(selection, stage)
        with pytest.raises(multitables.SharedMemoryError) as caught:
            request.get()
        assert isinstance(caught.value, MemoryError)
        assert str(5 * row) in str(caught.value)
        assert str(needed) in str(caught.value)
        assert (caught.value.expected, caught.value.got) == (5 * row, needed)
        del request, caught
    same(reader.request(dataset[0:5], stage).get(), table()[0:5])


def test_a_pool_hands_out_the_next_free_stage_and_blocks_otherwise(reader: Any) -> None:
    dataset = reader.get_dataset("/table")
    pool = dataset.create_stage_pool(4, 3)
    held = [reader.request(dataset[i : i + 4], pool) for i in range(3)]
    waiting, got = threading.Event(), []

    def ask() -> None:
        waiting.set()
        got.append(reader.request(dataset[50:54], pool).get())

    thread = threading.Thread(target=ask)
    thread.start()
    waiting.wait()
    thread.join(0.15)
    assert not got
    same(held.pop(1).get(), table()[1:5])
    thread.join(20)
    same(got[0], table()[50:54])
    for number, request in zip((0, 2), held, strict=True):
        same(request.get(), table()[number : number + 4])


def test_stages_serve_every_reader_and_dataset(sample: Path) -> None:
    with multitables.Reader(sample, n_procs=1) as one:
        stage = one.get_dataset("/table").create_stage(100)
        with multitables.Reader(sample, n_procs=1) as two:
            dataset = two.get_dataset("/carray")
            same(two.request(dataset[2], stage).get(), cube()[2])
            same(one.request(dataset[3], stage).get(), cube()[3])
    with multitables.Reader(sample, n_procs=1) as three:
        dataset = three.get_dataset("/line")
        same(three.request(dataset[3:5], stage).get(), line()[3:5])


def test_results_without_a_stage(sample: Path) -> None:
    """The reader's own memory grows with what is held, up to its limit, and is used again."""
    with multitables.Reader(sample, n_procs=2, memory_limit_bytes=1 << 20) as reader:
        dataset = reader.get_dataset("/carray")
        for first in range(0, 300, 3):
            same(reader.request(dataset[first : first + 3]).get(), cube()[first : first + 3])
        held = [reader.request(dataset[i]) for i in range(100)]
        for number, request in enumerate(held):
            same(request.get(), cube()[number])
        assert 0 < reader.statistics()["memory_bytes"] <= 1 << 20
        small = reader.request(reader.get_dataset("/earray")[:200])
        same(small.get(), cube()[:200])
    with multitables.Reader(sample, n_procs=1, memory_limit_bytes=10_000) as reader:
        request = reader.request(reader.get_dataset("/carray")[:])
        with pytest.raises(multitables.SharedMemoryError, match="memory_limit_bytes") as caught:
            request.get()
        assert caught.value.got == cube().nbytes
