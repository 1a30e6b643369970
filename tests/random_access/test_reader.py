"""Random access: what each name of the API promises, against NumPy on the whole array.

1. Every index is applied to the dataset and to the array that was written: one lambda, two results.
2. Results are taken as copies; test_reader_results.py has the other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tables
from oracle import same
from processes import children
from reader_cases import opened
from reader_file import RAGGED_ROWS, ROWS, TABLE, arrays, cube, pairs, ragged, table

import multitables
from _multitables import options

CONTENT = arrays()
ODD = np.arange(ROWS) % 2 == 1
RANGE = "(energy > 50) & (id < 300)"
FEW = [5, 2999, 5, 0, 130, 129, 128]


@pytest.fixture(params=[2, 0], ids=["processes", "threads"])
def reader(sample: Path, request: pytest.FixtureRequest) -> Iterator[Any]:
    with opened(sample, n_procs=request.param) as reader:
        yield reader


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
    "mask beside slices": ("/array", lambda d: d[:, cube()[0] > 3], IndexError),
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
    assert numbers["cache_limit_bytes"] >= 2 * options.MIN_CACHE_BYTES
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
    [{"n_procs": -1}, {"n_procs": 1.5}, {"memory_limit_bytes": 0}, {"cache_limit_bytes": -1}],
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
