"""Files with ragged rows, and what their rows are.

Law
---
1. Row ``i`` is told by its number: what is delivered for it is compared with what was written.
2. Rows without elements, in the middle and at both ends, are part of every file.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import tables

#: Columns of the sparse matrix.
N_COLUMNS = 500


def lengths(n_rows: int, longest: int = 40, seed: int = 1) -> np.ndarray:
    """Return row lengths, some of them 0."""
    random = np.random.default_rng(seed)
    found = random.integers(0, longest, n_rows) * random.integers(0, 2, n_rows)
    found[:1] = found[-1:] = 0
    return found


def ends_of(each: np.ndarray) -> np.ndarray:
    """Return where rows begin and end."""
    return np.concatenate([[0], np.cumsum(each)])


def write_sparse(
    path: Path, n_rows: int = 700, *, chunk: int | None = 64, **filters: Any
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Write a CSR matrix below ``/X`` as AnnData does, and labels; return its rows."""
    each = lengths(n_rows)
    ends = ends_of(each)
    random = np.random.default_rng(2)
    data = random.random(ends[-1]).astype("f4")
    columns = random.integers(0, N_COLUMNS, ends[-1]).astype("i4")
    with h5py.File(path, "w") as file:
        chunks = None if chunk is None else (chunk,)
        file.create_dataset("X/data", data=data, chunks=chunks, **filters)
        file.create_dataset("X/indices", data=columns, chunks=chunks, **filters)
        file.create_dataset("X/indptr", data=ends.astype("i4"), chunks=chunks)
        file["label"] = np.arange(n_rows)
        file.create_dataset("wide", data=np.arange(n_rows * 3.0).reshape(-1, 3), chunks=(50, 3))
        file["points"] = np.arange(3.0 * ends[-1]).reshape(-1, 3)
    pairs = itertools.pairwise(ends)
    return [(data[begin:end], columns[begin:end]) for begin, end in pairs]


def write_variable(path: Path, n_rows: int = 400, **filters: Any) -> dict[str, list[Any]]:
    """Write sequences and strings of any length with h5py; return the rows of each dataset."""
    each = lengths(n_rows, 30)
    rows: dict[str, list[Any]] = {
        "numbers": [np.arange(n, dtype="<i4") + i for i, n in enumerate(each)],
        "big": [(np.arange(n) * i).astype(">f8") for i, n in enumerate(each)],
        "text": [("ü" * n + str(i)).encode() * (i % 3 > 0) for i, n in enumerate(each)],
        "ascii": [b"a" * n for n in each],
    }
    types = {
        "numbers": h5py.vlen_dtype("<i4"),
        "big": h5py.vlen_dtype(">f8"),
        "text": h5py.string_dtype(),
        "ascii": h5py.string_dtype("ascii"),
    }
    with h5py.File(path, "w") as file:
        file["label"] = np.arange(n_rows)
        for name, dtype in types.items():
            dataset = file.create_dataset(name, (n_rows,), dtype=dtype, chunks=(33,), **filters)
            for number, row in enumerate(rows[name]):
                dataset[number] = row
    return rows


def write_vlarray(path: Path, n_rows: int = 300) -> list[np.ndarray]:
    """Write PyTables' VLArray ``/ragged``, and ``/points`` of atoms with a shape; return rows."""
    each = lengths(n_rows, 20)
    with tables.open_file(str(path), "w") as file:
        ragged = file.create_vlarray("/", "ragged", tables.Int64Atom(), filters=tables.Filters(1))
        points = file.create_vlarray("/", "points", tables.Float32Atom((2,)))
        for number, n in enumerate(each):
            ragged.append(np.arange(n) * number)
            points.append(np.full((n, 2), number, "f4"))
    return [np.arange(n) * number for number, n in enumerate(each)]


def same_rows(got: list[Any], expected: list[Any]) -> None:
    """Compare rows, their number, dtypes and values."""
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        if isinstance(other, bytes):
            assert one == other
        elif isinstance(other, tuple):
            same_rows(list(one), list(other))
        else:
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
