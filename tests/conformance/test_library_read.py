"""The fallback, called as a reader calls it.

Law: runs in this process; the streams that use it are tested with their formats.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables

from _multitables.reader import library_read

ROWS = np.zeros(50, [("a", "<i4"), ("b", [("c", "<f8", (2,)), ("d/e", "S3")])])
ROWS["a"] = np.arange(50)
ROWS["b"]["c"] = np.arange(100).reshape(50, 2)
ROWS["b"]["d/e"] = b"xy"


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    library_read.close_all()


def read(library: str, path: Path, name: str, field: str, rows: range, want: np.ndarray) -> None:
    out = bytearray(want.nbytes)
    library_read.library_read(
        library, str(path), name, field, json.dumps({}), rows.start, rows.stop, memoryview(out)
    )
    assert bytes(out) == want.tobytes()


@pytest.mark.parametrize("library", ["h5py", "tables"])
def test_rows_and_fields(h5: Path, library: str) -> None:
    rows = ROWS
    if library == "h5py":
        with h5py.File(h5, "w") as file:
            file["x"] = rows
    else:
        rows = np.zeros(50, [("a", "<i4"), ("b", [("c", "<f8", (2,))])])  # no "/" in names there
        rows["a"], rows["b"]["c"] = ROWS["a"], ROWS["b"]["c"]
        with tables.open_file(str(h5), "w") as file:
            file.create_table("/", "x", rows)
    read(library, h5, "/x", "", range(3, 20), rows[3:20])
    read(library, h5, "/x", "a", range(50), np.ascontiguousarray(rows["a"]))
    read(library, h5, "/x", "b/c", range(49, 50), np.ascontiguousarray(rows["b"]["c"][49:]))


@pytest.mark.parametrize("n_rows", [1, 900])
@pytest.mark.parametrize(
    "dtype",
    ["<f4", ">f8", "<f2", ">c16", "?", "S3", h5py.string_dtype("utf-8", 6), "padded", "enum"],
    ids=str,
)
def test_large_pieces(h5: Path, dtype: Any, n_rows: int) -> None:
    """They go to the memory that is given without a copy, where h5py can do that."""
    if dtype == "padded":
        dtype = np.dtype({"names": ["a", "b"], "formats": ["i1", "<f8"], "offsets": [0, 8]})
    elif dtype == "enum":
        dtype = h5py.enum_dtype({"NO": 0, "YES": 7}, "<i4")
    dtype = np.dtype(dtype)
    rows = np.zeros(1000 * 300, dtype)
    values = np.arange(len(rows)) % 7
    if dtype.names:
        rows["a"], rows["b"] = values, values / 3
    else:
        rows[:] = values.astype("S1") if dtype.kind == "S" else values
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=rows.reshape(1000, 300), dtype=dtype)
        want = file["x"][17 : 17 + n_rows]
        read("h5py", h5, "/x", "", range(17, 17 + n_rows), want)


def test_big_endian_stays_so_with_pytables(h5: Path) -> None:
    rows = np.arange(10, dtype=">i4")
    with tables.open_file(str(h5), "w") as file:
        file.create_carray("/", "x", obj=rows, byteorder="big")
    read("tables", h5, "/x", "", range(2, 9), rows[2:9])


def test_the_file_is_kept_open_until_another_is_read(h5: Path) -> None:
    other = h5.with_name("other.h5")
    for path, first in ((h5, 0), (other, 100)):
        with h5py.File(path, "w") as file:
            file["x"] = np.arange(first, first + 10)
    read("h5py", h5, "/x", "", range(5), np.arange(5))
    kept = library_read._open
    read("h5py", h5, "/x", "", range(5, 10), np.arange(5, 10))
    assert library_read._open is kept
    read("h5py", other, "/x", "", range(5, 10), np.arange(105, 110))
    assert kept is not None
    assert not kept[1]  # an h5py.File that is closed is false


def test_what_the_library_raises_is_left_as_it_is(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = np.arange(10)
    with pytest.raises(KeyError):
        read("h5py", h5, "/y", "", range(1), np.arange(1))
    with pytest.raises(ValueError, match="expected 16"):
        read("h5py", h5, "/x", "", range(1), np.arange(2))
