"""Masks: of rows, of other axes, of several, through the core and through a library.

Law
---
1. Every result is NumPy's on the whole array; what PyTables refuses in one step is refused.
2. A dataset that the core does not read gives the same as one that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from oracle import same
from reader_cases import opened

import multitables

pytestmark = pytest.mark.usefixtures("few_filters")

CUBE = np.arange(20 * 12 * 7, dtype="<i4").reshape(20, 12, 7)
TABLE = np.zeros(20, [("a", "<i4", (3, 2)), ("b", "<f8")])
TABLE["a"], TABLE["b"] = np.arange(120).reshape(20, 3, 2), np.arange(20) / 7
NATIVE, LIBRARY = ("/zlib", "/contiguous"), ("/bzip2", "/scaleoffset")

ROWS, LINES, CELLS = np.arange(20) % 3 == 1, np.arange(12) % 4 == 1, np.arange(7) % 2 == 0
MASKS: dict[str, Any] = {
    "rows": np.s_[ROWS],
    "rows, tuple": np.s_[ROWS,],
    "rows, slice": np.s_[ROWS, 2:9:3],
    "rows, ellipsis": np.s_[ROWS, ...],
    "rows, number": np.s_[ROWS, 3],
    "rows, numbers": np.s_[ROWS, 3, -1],
    "rows, number, slice": np.s_[ROWS, 3, ::-1],
    "rows, slice, number": np.s_[ROWS, :, 3],
    "slice, lines": np.s_[:, LINES],
    "step, lines, number": np.s_[::-3, LINES, 5],
    "number, lines": np.s_[3, LINES],
    "ellipsis, cells": np.s_[..., CELLS],
    "two": np.s_[np.arange(20) > 16, LINES],
    "two, apart": np.s_[np.arange(20) > 15, :, CELLS],
    "two, number": np.s_[np.arange(20) > 15, 3, CELLS],
    "three": np.s_[np.arange(20) > 16, LINES, np.arange(7) > 3],
    "with a list": np.s_[np.arange(20) > 17, [5, 5]],
    "with lists": np.s_[np.arange(20) > 17, [5, 5], [0, 6]],
    "with one row": np.s_[np.arange(20) == 4, [5, 1, 5]],
    "list of booleans": ROWS.tolist(),
    "list of booleans, number": np.s_[ROWS.tolist(), 3],
    "slice, list of booleans": np.s_[:, LINES.tolist()],
    "lists of booleans": (CUBE[:, :, 0] % 5 == 0).tolist(),
    "rows and lines": CUBE[:, :, 0] % 5 == 0,
    "all axes": CUBE % 7 == 0,
    "no row": np.zeros(20, bool),
    "every row": np.ones(20, bool),
    "no row, number": np.s_[np.zeros(20, bool), 3],
    "no element": CUBE < 0,
}
WRONG: dict[str, Any] = {
    "short": np.ones(19, bool),
    "long": np.ones(21, bool),
    "short, number": np.s_[np.ones(19, bool), 3],
    "slice, short": np.s_[:, np.ones(11, bool)],
    "list of booleans that is short": [True, False],
    "two of other lengths": np.s_[ROWS, CELLS],
    "another shape": np.ones((20, 11), bool),
    "several axes beside a slice": np.s_[:, CUBE[0] > 5],
    "several axes beside a number": np.s_[CUBE[:, :, 0] > 5, 3],
    "too many": np.s_[ROWS, 3, 4, 5],
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("masks") / "masks.h5"
    zlib, bzip2 = tables.Filters(3, "zlib", shuffle=True), tables.Filters(3, "bzip2")
    with tables.open_file(str(found), "w") as made:
        for name, filters in (("zlib", zlib), ("bzip2", bzip2)):
            made.create_carray("/", name, obj=CUBE, filters=filters, chunkshape=(4, 5, 3))
            made.create_table("/", f"table_{name}", obj=TABLE, filters=filters, chunkshape=6)
        made.create_array("/", "contiguous", obj=CUBE)
    with h5py.File(found, "a") as more:
        more.create_dataset("scaleoffset", data=CUBE, chunks=(4, 5, 3), scaleoffset=0)
    return found


@pytest.fixture
def reader(file: Path) -> Iterator[Any]:
    with opened(file) as reader:
        yield reader


@pytest.mark.parametrize("path", NATIVE + LIBRARY)
def test_masks_mean_what_numpy_means(reader: Any, path: str) -> None:
    dataset = reader.get_dataset(path)
    stage = dataset.create_stage(None)
    requests = 0

    def check(name: str, selection: Any) -> None:
        for stages in (stage, None):
            same(reader.request(selection, stages).get(), CUBE[MASKS[name]])

    for name, mask in MASKS.items():
        check(name, dataset[mask])
        check(name, dataset[:][mask])
        requests += 4 * bool(CUBE[mask].size)
    library = reader.statistics()["library_requests"]
    assert library >= requests if path in LIBRARY else library == 0


@pytest.mark.parametrize("path", NATIVE + LIBRARY)
def test_masks_that_are_wrong(reader: Any, path: str) -> None:
    dataset = reader.get_dataset(path)

    def check(name: str) -> None:
        with pytest.raises(IndexError) as caught:
            reader.request(dataset[WRONG[name]]).get()
        assert isinstance(caught.value, multitables.SubprocessException)

    for name in WRONG:
        check(name)
    same(reader.request(dataset[ROWS]).get(), CUBE[ROWS])


@pytest.mark.parametrize("path", ["/table_zlib", "/table_bzip2"])
def test_masks_of_the_rows_of_a_table(reader: Any, path: str) -> None:
    dataset = reader.get_dataset(path)
    inner = np.array([True, False, True])
    for key in (ROWS, ROWS.tolist(), np.s_[ROWS,], np.s_[ROWS, ...], np.s_[..., ROWS]):
        same(reader.request(dataset[key]).get(), TABLE[key])
        same(reader.request(dataset[key]["a"]).get(), TABLE[key]["a"])
        same(reader.request(dataset[key]["a"][:, inner]).get(), TABLE[key]["a"][:, inner])
    same(reader.request(dataset["a"][ROWS]).get(), TABLE["a"][ROWS])
    same(reader.request(dataset["a"][ROWS, 1]).get(), TABLE["a"][ROWS, 1])
    same(reader.request(dataset["a"][:, inner]).get(), TABLE["a"][:, inner])
    same(reader.request(dataset.read_coordinates(ROWS)).get(), TABLE[ROWS])


@pytest.mark.parametrize("path", NATIVE + LIBRARY)
@pytest.mark.parametrize("rows", [ROWS, ROWS.tolist()], ids=["array", "list"])
def test_masks_of_the_rows_of_batches(file: Path, path: str, rows: Any) -> None:
    stream = multitables.Streamer(file)
    with stream.get_batches(path, 3, rows=rows, n_procs=1) as batches:
        same(np.concatenate([batch.copy() for batch in batches]), CUBE[ROWS])
    for wrong in (CUBE[:, :, 0] > 5, ROWS[:19]):
        with pytest.raises(multitables.OptionsError, match="mask"):
            list(stream.get_batches(path, 3, rows=wrong, n_procs=1))
