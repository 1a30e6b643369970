"""Random access: what each name of the API promises, against NumPy on the whole array.

1. Every index is applied to the dataset and to the array that was written: one lambda, two results.
2. Waiting is for an event, never for a time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import operator
import queue
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from oracle import same
from processes import children
from reader_file import RAGGED_ROWS, ROWS, TABLE, arrays, cube, pairs, ragged, table, write

import multitables
from _multitables import options

CONTENT = arrays()
ODD = np.arange(ROWS) % 2 == 1
RANGE = "(energy > 50) & (id < 300)"
FEW = [5, 2999, 5, 0, 130, 129, 128]


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("reader") / "sample.h5")


@pytest.fixture
def reader(sample: Path) -> Iterator[Any]:
    with multitables.Reader(sample, n_procs=2) as reader:
        yield weakref.proxy(reader)  # pytest keeps what it is given beyond the audit
    del reader
    assert children() == {}


INDEXES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    # the issue's
    "rows": ("/table", lambda d: d[30:35]),
    "column, rows": ("/table", lambda d: d["energy"][30:35]),
    "rows, column": ("/table", lambda d: d[30:35]["energy"]),
    "column, rows, inner": ("/table", lambda d: d["vector"][30:35, ..., :2]),
    "list": ("/table", lambda d: d[[1, 2, 3]]),
    "row, column": ("/table", lambda d: d[0]["energy"]),
    "column, rows, mask": ("/table", lambda d: d["vector"][30:35, np.arange(3) > 0]),
    "step, rest": ("/array", lambda d: d[4:16:2, ...]),
    "rest, slice": ("/array", lambda d: d[..., :105]),
    "mask": ("/array", lambda d: d[cube() % 3 == 1]),
    "list beside slices": ("/array", lambda d: d[2:4, [1, 2]]),
    "lists": ("/array", lambda d: d[[1, 2, 3], [1, 2, 3], [1, 2, 3]]),
    "all, then mask": ("/array", lambda d: d[:][:, np.arange(20) % 3 == 0]),
    # tables
    "row": ("/table", lambda d: d[7]),
    "last row": ("/table", lambda d: d[-1]),
    "first of all from the end": ("/table", lambda d: d[-ROWS]),
    "row of a NumPy number": ("/table", lambda d: d[np.int64(17)]),
    "all rows": ("/table", lambda d: d[:]),
    "nothing": ("/table", lambda d: d[10:10]),
    "backwards": ("/table", lambda d: d[1000:10:-7]),
    "beyond the end": ("/table", lambda d: d[2990:99999]),
    "array of rows": ("/table", lambda d: d[np.array(FEW)]),
    "small numbers": ("/table", lambda d: d[np.array([200, 3], np.uint8)]),
    "rows from the end": ("/table", lambda d: d[[-1, 0, -ROWS]]),
    "no rows": ("/table", lambda d: d[[]]),
    "rows by mask": ("/table", lambda d: d[ODD]),
    "column": ("/table", lambda d: d["name"][:]),
    "column, row": ("/table", lambda d: d["c"][9]),
    "column, list": ("/table", lambda d: d["vector"][FEW]),
    "list, column": ("/table", lambda d: d[FEW]["vector"]),
    "column, mask": ("/table", lambda d: d["id"][ODD]),
    "column, one inner": ("/table", lambda d: d["vector"][3:400:5, 1]),
    "rows, column, inner": ("/table", lambda d: d[3:9]["vector"][:, ::-1]),
    "rows, rows": ("/table", lambda d: d[100:200][5:50:3]),
    "rows, row, column": ("/table", lambda d: d[100:200][5]["id"]),
    "several columns": ("/table", lambda d: d[["id", "c"]][4:9]),
    # arrays
    "element": ("/carray", lambda d: d[3, 4, 5]),
    "plane": ("/carray", lambda d: d[11]),
    "line": ("/carray", lambda d: d[:, 3, -2]),
    "box": ("/carray", lambda d: d[10:100:9, 2:19, 3::4]),
    "rows of an earray": ("/earray", lambda d: d[[9, 0, 299, 10, 10]]),
    "list beside slices, later": ("/earray", lambda d: d[:][3:9, [1, 0], ::2]),
    "new axis, later": ("/earray", lambda d: d[5:7][:, None, 3]),
    "list on the last axis": ("/line", lambda d: d[[4999, 0, 17]]),
    "scalar": ("/line", lambda d: d[4321]),
    "all": ("/line", lambda d: d[...]),
    "tuple of one": ("/line", lambda d: d[(slice(3, 9),)]),
}


@pytest.mark.parametrize("name", INDEXES)
def test_indexes(reader: Any, name: str) -> None:
    path, index = INDEXES[name]
    dataset = reader.get_dataset(path)
    want = np.asarray(index(CONTENT[path]))
    stage = dataset.create_stage(max(1, dataset.shape[0]))
    for stages in (stage, None):
        same(reader.request(index(dataset), stages).get(), want)


def test_what_a_dataset_says(reader: Any) -> None:
    found = reader.get_dataset("/table")
    assert isinstance(found, multitables.TableDataset)
    assert (found.dtype, found.shape, len(found)) == (TABLE, (ROWS,), ROWS)
    for path in ("/array", "/carray", "/earray"):
        found = reader.get_dataset(path)
        assert isinstance(found, multitables.ArrayDataset)
        assert (found.dtype, found.shape) == (np.dtype("<i4"), (300, 20, 15))
    found = reader.get_dataset("/ragged")
    assert isinstance(found, multitables.VLArrayDataset)
    assert (found.dtype, found.shape) == (np.dtype("<i4"), (RAGGED_ROWS,))
    assert reader.get_dataset("/pairs").dtype == np.dtype(("<i2", (2,)))
    assert "'/ragged'" in repr(found)
    for use in (iter, list, np.sum):
        with pytest.raises(TypeError):
            use(found)


def test_datasets_that_are_none(reader: Any) -> None:
    with pytest.raises(multitables.MissingDatasetError, match="carray"):
        reader.get_dataset("/carra")
    with pytest.raises(multitables.UnsupportedDatasetError, match="group"):
        reader.get_dataset("/group")
    for path in (None, 3, ["/table"]):
        with pytest.raises(multitables.OptionsError, match="path"):
            reader.get_dataset(path)


def test_methods_of_tables(reader: Any) -> None:
    dataset, rows = reader.get_dataset("/table"), CONTENT["/table"]

    def got(selection: Any) -> Any:
        return reader.request(selection).get()

    same(got(dataset.col("energy")[30:35]), rows["energy"][30:35])
    same(got(dataset.col("vector")[30:35, ..., :2]), rows["vector"][30:35, ..., :2])
    same(got(dataset.col("id")), rows["id"])
    same(got(dataset.read()), rows)
    same(got(dataset.read(10, 20)), rows[10:20])
    same(got(dataset.read(stop=300, step=7, field="c")), rows["c"][:300:7])
    same(got(dataset.read(10, 20)["name"]), rows["name"][10:20])
    same(got(dataset.read_coordinates(FEW)), rows[FEW])
    same(got(dataset.read_coordinates(FEW, "vector")), rows["vector"][FEW])
    same(got(dataset.read_coordinates(np.array(FEW))["id"]), rows["id"][FEW])


def test_where_and_read_sorted_mean_what_pytables_means(reader: Any, sample: Path) -> None:
    dataset = reader.get_dataset("/indexed")
    with tables.open_file(str(sample)) as file:
        node = file.root.indexed
        wants = {
            "where": node.read_where("energy > limit", {"limit": 90.5}),
            "where in a range": node.read_where(RANGE, start=7, stop=250, step=3),
            "none": node.read_where("energy < 0"),
            "sorted": node.read_sorted("energy", True),
            "sorted, column": node.read_sorted("energy", field="id", start=10, stop=200, step=3),
        }  # fmt: skip
    gots = {
        "where": dataset.where("energy > limit", {"limit": 90.5}),
        "where in a range": dataset.where(RANGE, None, 7, 250, 3),
        "none": dataset.where("energy < 0"),
        "sorted": dataset.read_sorted("energy", True),
        "sorted, column": dataset.read_sorted(
            "energy", checkCSI=False, field="id", start=10, stop=200, step=3
        ),
    }
    stage = dataset.create_stage(None)
    for name, selection in gots.items():
        for stages in (stage, None):
            same(reader.request(selection, stages).get(), wants[name])
    same(reader.request(gots["where"]["id"]).get(), wants["where"]["id"])
    same(reader.request(gots["sorted"][::-1]).get(), wants["sorted"][::-1])
    assert reader.statistics()["library_requests"] >= 12


def test_methods_of_arrays(reader: Any) -> None:
    for path in ("/array", "/carray", "/earray"):
        dataset, whole = reader.get_dataset(path), CONTENT[path]
        same(reader.request(dataset.read()).get(), whole)
        same(reader.request(dataset.read(3, 30, 4)).get(), whole[3:30:4])
        same(reader.request(dataset.read(stop=5)[2]).get(), whole[2])


def test_ragged_data(reader: Any) -> None:
    dataset, want = reader.get_dataset("/ragged"), ragged()
    stage = dataset.create_stage_natoms(200)
    for row in (0, 5, 6, -1):
        for stages in (stage, None):
            same(reader.request(dataset[row], stages).get(), want[row])
    same(reader.request(dataset[5][1:]).get(), want[5][1:])
    for selection, rows in (
        (dataset[3:9], want[3:9]),
        (dataset[::-5], want[::-5]),
        (dataset.read(), want),
        (dataset.read(1, 30, 4), want[1:30:4]),
        (dataset[[7, 7, 2]], [want[7], want[7], want[2]]),
        (dataset[4:4], []),
    ):
        got = reader.request(selection).get()
        assert isinstance(got, list)
        assert len(got) == len(rows)
        for one, row in zip(got, rows, strict=True):
            same(one, row)
    with reader.request(dataset[3:9], stage).get_unsafe() as rows:
        assert [len(row) for row in rows] == [len(row) for row in want[3:9]]
        assert not rows[1].flags.owndata
    del rows
    dataset, want = reader.get_dataset("/pairs"), pairs()
    same(reader.request(dataset[3]).get(), want[3])
    kept = reader.request(dataset[2:5])
    for _ in range(2):
        for one, row in zip(kept.result(), want[2:5], strict=True):
            same(one, row)


# ---- selections that are wrong


WRONG: dict[str, tuple[str, Callable[[Any], Any], type[Exception]]] = {
    "row": ("/table", lambda d: d[ROWS], IndexError),
    "row from the end": ("/table", lambda d: d[-ROWS - 1], IndexError),
    "list": ("/table", lambda d: d[[0, ROWS]], IndexError),
    "coordinates": ("/table", lambda d: d.read_coordinates([0, ROWS]), IndexError),
    "mask": ("/table", lambda d: d[np.ones(5, bool)], IndexError),
    "axes": ("/line", lambda d: d[1, 2], IndexError),
    "mask beside slices": ("/array", lambda d: d[:, np.arange(20) > 3], IndexError),
    "two lists beside slices": ("/array", lambda d: d[2:4, [1, 2], [1, 2]], IndexError),
    "column": ("/table", lambda d: d["energie"][3], KeyError),
    "column of an array": ("/line", lambda d: d["x"], IndexError),
    "index of an index": ("/line", lambda d: d[3:5][2], IndexError),
    "condition": ("/indexed", lambda d: d.where("energy >"), SyntaxError),
    "no index": ("/table", lambda d: d.read_sorted("energy", True), ValueError),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_selections_are_told_when_the_result_is_asked_for(reader: Any, name: str) -> None:
    path, index, kind = WRONG[name]
    dataset = reader.get_dataset(path)
    stage = dataset.create_stage(None)
    request = reader.request(index(dataset), stage)
    for take in (request.get, request.result, request.get_unsafe().__enter__):
        with pytest.raises(kind) as caught:
            take()
        assert isinstance(caught.value, multitables.SubprocessException)
        assert repr(path) in str(caught.value)
    assert isinstance(request.exception(), kind)
    assert request.done()
    assert not request.cancelled()
    # Nothing else is touched, the stage least of all.
    same(reader.request(dataset[0:2], stage).get(), CONTENT[path][0:2])


def test_a_bare_ellipsis_takes_no_further_index(reader: Any) -> None:
    for path in ("/table", "/array", "/ragged"):
        dataset = reader.get_dataset(path)
        with pytest.raises(IndexError):
            dataset[...][0]


def test_what_is_no_selection(reader: Any) -> None:
    dataset = reader.get_dataset("/table")
    for key in (dataset, 3, None, "x"):
        with pytest.raises(multitables.OptionsError, match="indexing a dataset"):
            reader.request(key)
    with pytest.raises(multitables.OptionsError, match="stage"):
        reader.request(dataset[3], 5)


def test_a_key_is_as_it_was_when_it_was_made(reader: Any) -> None:
    dataset, key = reader.get_dataset("/table"), np.array([1, 2, 3])
    selection = dataset[key]
    key[:] = 9
    same(reader.request(selection).get(), CONTENT["/table"][[1, 2, 3]])


def test_more_requests_than_the_board_has_slots(reader: Any) -> None:
    dataset = reader.get_dataset("/line")
    stages = dataset.create_stage_pool(1, 3000)
    held = [reader.request(dataset[i], stages) for i in range(3000)]
    assert reader.request(dataset[7]).get() == CONTENT["/line"][7]
    for number, request in enumerate(held):
        assert request.get() == CONTENT["/line"][number]


def test_one_selection_many_requests(reader: Any) -> None:
    dataset = reader.get_dataset("/table")
    selection = dataset["id"][5:9]
    requests = [reader.request(selection) for _ in range(5)]
    for request in requests:
        same(request.get(), CONTENT["/table"]["id"][5:9])


# ---- results


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
            del rows
        assert not stage.busy


def test_a_view_that_is_kept_keeps_its_stage(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")
    stage = dataset.create_stage(5)
    with reader.request(dataset[5:10], stage).get_unsafe() as rows:
        kept = rows[1:3]
    del rows
    with pytest.raises(multitables.StageBusyError):
        reader.request(dataset[0:5], stage)
    same(kept, cube()[6:8])
    del kept
    same(reader.request(dataset[0:5], stage).get(), cube()[0:5])


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


# ---- stages


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
        same(three.request(dataset[3:5], stage).get(), CONTENT["/line"][3:5])


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


# ---- futures


def test_a_request_is_a_future(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")
    requests = [reader.request(dataset[i]) for i in range(30)]
    assert all(isinstance(request, concurrent.futures.Future) for request in requests)
    done, not_done = concurrent.futures.wait(requests, timeout=30)
    assert (len(done), len(not_done)) == (30, 0)
    assert all(request.done() and not request.running() for request in requests)
    for number, request in enumerate(requests):
        same(request.result(), cube()[number])
    numbers = {id(request): i for i, request in enumerate(requests)}
    for request in concurrent.futures.as_completed(requests, timeout=30):
        same(request.result(timeout=0), cube()[numbers[id(request)]])
    more = [reader.request(dataset[i]) for i in range(30)]
    first = concurrent.futures.wait(more, 30, concurrent.futures.FIRST_COMPLETED)
    assert first.done
    wrong = [*more, reader.request(dataset[300])]
    ended = concurrent.futures.wait(wrong, 30, concurrent.futures.FIRST_EXCEPTION)
    assert wrong[-1] in ended.done
    assert "pending" not in repr(wrong[-1])


def test_callbacks(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")
    called: queue.Queue[Any] = queue.Queue()
    for index in (slice(3, 5), 299, 300):
        request = reader.request(dataset[index])
        request.add_done_callback(called.put)
        assert called.get(timeout=30) is request
        request.add_done_callback(called.put)  # it has ended: at once
        assert called.get(timeout=0) is request
        assert (request.exception() is None) == (index != 300)


def test_asyncio(reader: Any) -> None:
    dataset = reader.get_dataset("/carray")

    async def one(number: int) -> Any:
        return await reader.request(dataset[number])

    async def many() -> list[Any]:
        loop_wrapped = asyncio.wrap_future(reader.request(dataset[7]))
        rows = await asyncio.gather(*(one(i) for i in range(50)))
        rows.append(await asyncio.wait_for(loop_wrapped, 30))
        with pytest.raises(IndexError):
            await one(300)
        return list(rows)

    *rows, seven = asyncio.run(many())
    for number, row in enumerate(rows):
        same(row, cube()[number])
    same(seven, cube()[7])


def test_cancelling(reader: Any) -> None:
    """What no reader has begun can be taken back; what was answered cannot."""
    dataset = reader.get_dataset("/carray")
    request = reader.request(dataset[3])
    request.result()
    assert not request.cancel()
    requests = [reader.request(dataset[::2]) for _ in range(50)]
    cancelled = [request for request in requests if request.cancel()]
    for request in cancelled:
        assert request.cancelled()
        assert request.done()
        assert request.cancel()
        for take in (request.get, request.result, request.exception):
            with pytest.raises(concurrent.futures.CancelledError):
                take()
    done, _ = concurrent.futures.wait(requests, 30)
    assert len(done) == 50
    for request in requests:
        if not request.cancelled():
            same(request.get(), cube()[::2])


def test_timeouts(reader: Any) -> None:
    import signal

    from processes import kill, readers

    dataset = reader.get_dataset("/carray")
    for pid in readers():
        kill(pid, signal.SIGSTOP)
    try:
        request = reader.request(dataset[3])
        for ask in (request.result, request.exception):
            with pytest.raises(concurrent.futures.TimeoutError):
                ask(timeout=0.05)
            with pytest.raises(concurrent.futures.TimeoutError):
                ask(timeout=0)
        assert not request.done()
        assert request.running()
    finally:
        for pid in readers():
            kill(pid, signal.SIGCONT)
    same(request.result(timeout=30), cube()[3])


def test_notify(sample: Path) -> None:
    told: list[Any] = []
    threads: set[int] = set()

    def notify(request: Any) -> None:
        threads.add(threading.get_ident())
        told.append(request)

    with multitables.Reader(sample, n_procs=2, notify=notify) as reader:
        dataset = reader.get_dataset("/carray")
        requests = [reader.request(dataset[i]) for i in (*range(20), 300)]
        for number, request in enumerate(requests[:-1]):
            same(request.get(), cube()[number])
    assert told.pop() is multitables.QueueClosed
    assert set(map(id, told)) == set(map(id, requests))
    assert len(threads - {threading.get_ident()}) == 1


def test_request_pool(reader: Any) -> None:
    dataset = reader.get_dataset("/table")
    stages = dataset.create_stage_pool(1, 4)
    pool = multitables.RequestPool()
    assert len(pool) == 0

    def ask() -> None:
        for number in range(200):
            pool.add(reader.request(dataset[number], stages))

    thread = threading.Thread(target=ask)
    thread.start()
    rows = table()
    for number in range(200):
        same(pool.next().get(), np.asarray(rows[number]))
    thread.join(20)
    assert len(pool) == 0


def test_statistics(reader: Any) -> None:
    dataset = reader.get_dataset("/table")
    for _ in range(3):
        same(reader.request(dataset[[1, 500, 2000]]).get(), table()[[1, 500, 2000]])
        same(reader.request(dataset[:]).get(), table())
    numbers = reader.statistics()
    assert numbers["requests"] == 6
    assert numbers["tasks"] >= 6
    assert numbers["tasks_pending"] == 0
    assert numbers["library_requests"] == 0
    assert numbers["cache_misses"] > 0
    assert numbers["cache_hits"] > 0
    assert 0 < numbers["cache_bytes"] <= numbers["cache_limit_bytes"]
    assert numbers["cache_limit_bytes"] >= 2 * options.LEAST_CACHE_BYTES
    assert numbers["readers_replaced"] == 0
    assert len(numbers["readers"]) == 2
    assert sum(one["cache_hits"] for one in numbers["readers"]) == numbers["cache_hits"]
    with multitables.Reader(
        reader.filename, n_procs=1, cache_limit_bytes=0, memory_limit_bytes=1 << 20
    ) as other:
        dataset = other.get_dataset("/table")
        for _ in range(3):
            other.request(dataset[5:9]).get()
        numbers = other.statistics()
        assert (numbers["cache_bytes"], numbers["cache_limit_bytes"]) == (0, 0)
        assert numbers["memory_limit_bytes"] == 1 << 20


@pytest.mark.parametrize(
    "options",
    [{"n_procs": 0}, {"n_procs": 1.5}, {"memory_limit_bytes": 0}, {"cache_limit_bytes": -1}],
    ids=str,
)
def test_options_that_cannot_work(sample: Path, options: dict[str, Any]) -> None:
    with pytest.raises(multitables.OptionsError, match=next(iter(options))):
        multitables.Reader(sample, **options)
    assert children() == {}


def test_files_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        multitables.Reader(tmp_path / "none.h5")
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(multitables.FileOpenError, match="not an HDF5 file"):
        multitables.Reader(tmp_path / "text.h5")
    assert children() == {}


def test_options_of_the_file(sample: Path) -> None:
    with multitables.Reader(sample, 1, DRIVER="H5FD_DIRECT") as reader:
        dataset = reader.get_dataset("/carray")
        same(reader.request(dataset[3:50:7]).get(), cube()[3:50:7])
