"""What a stream must equal, and the one comparison that says so.

Law
---
1. The oracle is h5py, or PyTables for what only PyTables reads; never this library.
2. Equal means: same dtype (byte order too), same shape, same bytes in every field, NaNs included.
   Only padding is free: between the fields of a compound, and in a long double.
3. `fast` and `slow` also say which way the rows took.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import multitables


def h5py_read(path: Path, dataset: str, field: str | None = None) -> np.ndarray:
    """All rows as h5py gives them."""
    with h5py.File(path, "r") as file:
        data = file[dataset]
        assert isinstance(data, h5py.Dataset)
        if field is None:
            return np.asarray(data[()])
        return np.asarray(data[field])


def pytables_read(path: Path, dataset: str, field: str | None = None) -> np.ndarray:
    """All rows as PyTables gives them."""
    import tables

    with tables.open_file(str(path), "r") as file:
        node = file.get_node(dataset)
        rows = node.read() if field is None else node.read(field=field)
    return ragged(rows) if isinstance(rows, list) else np.asarray(rows)


def ragged(rows: list[np.ndarray]) -> np.ndarray:
    """Rows of different lengths, as an array of objects."""
    made = np.empty(len(rows), object)
    for number, row in enumerate(rows):
        made[number] = row
    return made


def streamed(
    path: Path, dataset: str, *, open_options: dict[str, Any] | None = None, **options: Any
) -> tuple[np.ndarray | None, dict[str, Any]]:
    """All rows of one pass (None if there is no block) and the stream's statistics."""
    options = {"n_procs": 2, "remainder": True, **options}
    blocks = []
    streamer = multitables.Streamer(path, **(open_options or {}))
    with streamer.get_queue(dataset, **options) as queue:
        for guard in queue:
            with guard as block:
                assert isinstance(block, np.ndarray)
                assert len(block) <= queue.block_size
                blocks.append(block.copy())
        statistics = queue.statistics()
    if not blocks:
        return None, statistics
    # Not np.concatenate: it makes byte orders native and packs compounds.
    rows = np.empty((sum(map(len, blocks)), *blocks[0].shape[1:]), blocks[0].dtype)
    at = 0
    for block in blocks:
        assert block.dtype == rows.dtype
        rows[at : at + len(block)] = block
        at += len(block)
    return rows, statistics


def same(got: Any, want: np.ndarray | bytes) -> None:
    """Fail unless both are the same rows, byte for byte."""
    if got is None:
        assert want.size == 0
        return
    if isinstance(want, bytes):
        assert got == want
        return
    if want.dtype == object:
        assert len(got) == len(want)
        for one, other in zip(got, want, strict=True):
            same(one, other)
        return
    assert got.dtype == want.dtype, f"dtype: got {got.dtype}, expected {want.dtype}"
    assert got.shape == want.shape, f"shape: got {got.shape}, expected {want.shape}"
    _same_bytes(got, want, "")


def _same_bytes(got: np.ndarray, want: np.ndarray, name: str) -> None:
    if want.dtype.names is not None:
        for field in want.dtype.names:
            _same_bytes(got[field], want[field], f"{name}/{field}")
        return
    if want.dtype.itemsize == 0 or want.size == 0:
        return
    size = want.dtype.itemsize
    ours = np.ascontiguousarray(got).view(np.uint8).reshape(-1, size)
    theirs = np.ascontiguousarray(want).view(np.uint8).reshape(-1, size)
    if want.dtype.char in "gG" and np.finfo(want.dtype).nmant == 63:  # 10 bytes, and padding
        ours, theirs = (a.reshape(-1, 16)[:, :10].reshape(len(a), -1) for a in (ours, theirs))
    wrong = (ours != theirs).any(axis=1)
    if wrong.any():
        at = int(np.argmax(wrong))
        where = tuple(int(n) for n in np.unravel_index(at, want.shape))
        raise AssertionError(
            f"{int(wrong.sum())} of {want.size} elements differ{name and ' in field ' + name}, "
            f"first at {where}: got {bytes(ours[at])!r}, expected {bytes(theirs[at])!r}"
        )


def fast(
    path: Path,
    dataset: str,
    want: np.ndarray | Callable[[Path, str], np.ndarray] = h5py_read,
    **options: Any,
) -> dict[str, Any]:
    """The stream equals `want`, and no row came through an HDF5 library."""
    statistics = _compared(path, dataset, want, options)
    assert statistics["library"] == {}
    assert sum(reader["library_tasks"] for reader in statistics["readers"]) == 0
    return statistics


def slow(
    path: Path,
    dataset: str,
    want: np.ndarray | Callable[[Path, str], np.ndarray] = h5py_read,
    **options: Any,
) -> str:
    """The stream equals `want`, and came through an HDF5 library; returns the stated reason."""
    # One reader: each has to import the library first.
    statistics = _compared(path, dataset, want, {"n_procs": 1, **options})
    assert list(statistics["library"]) == [dataset]
    assert sum(reader["library_tasks"] for reader in statistics["readers"]) > 0
    return str(statistics["library"][dataset])


def _compared(path: Path, dataset: str, want: Any, options: dict[str, Any]) -> dict[str, Any]:
    expected = want(path, dataset) if callable(want) else want
    got, statistics = streamed(path, dataset, **options)
    same(got, expected)
    if got is not None:
        assert sum(reader["decoded_bytes"] for reader in statistics["readers"]) > 0
    return statistics
