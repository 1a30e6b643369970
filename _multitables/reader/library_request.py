"""Requests that an HDF5 library answers: what the core does not read, and what only PyTables does.

Law
---
1. Reads no more rows than the request wants, and gives them to NumPy for what is left of it.
2. The result has the dtype that was told, in C order, in the memory that is given. One that is too
   large is kept for one retry of the very same ask.
3. Keeps the last files open, as long as they are the same files.
4. Raises the library's own exceptions, or what `explained` makes of them; the parent gives them
   their address.

This file must never know selections, slots or stages.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.reader.chunk_by_chunk import name_chunks
from _multitables.reader.library_failure import explained
from _multitables.reader.library_read import OPENERS, field_of, from_h5py
from _multitables.wire.request_bytes import decode_library, pack_ragged

#: Files that are kept open.
MAX_OPEN = 8

Array = npt.NDArray[Any]

#: How it was opened -> the file and the dataset; the last one used at the end.
_open: OrderedDict[tuple[Any, ...], tuple[Any, Any]] = OrderedDict()
#: The last ask whose result did not fit, with the result's parts and shape.
_kept: tuple[bytes, list[Array], list[int]] | None = None


def library_request(
    ask: memoryview, out: memoryview, mark: memoryview | None = None
) -> tuple[int, list[int]]:
    """Answer a request through an HDF5 library.

    Parameters
    ----------
    ask : memoryview
        As `encode_library` laid it out.
    out : memoryview
        Receives the result; untouched when it is too small.
    mark : memoryview, optional
        For the name of the chunk in hand, when a reader has died of this ask before.

    Returns
    -------
    n_bytes : int
        Of the result; more than ``len(out)`` if it did not fit.
    shape : list of int
    """
    global _kept
    key = bytes(ask)
    if _kept is not None and _kept[0] == key:
        _, parts, shape = _kept
    else:
        parts, shape = _answer(decode_library(key), mark)
    _kept = None
    n_bytes = sum(part.nbytes for part in parts)
    if n_bytes > len(out):
        _kept = key, parts, shape
        return n_bytes, shape
    target, at = np.frombuffer(out, np.uint8), 0
    for part in parts:
        target[at : at + part.nbytes] = part
        at += part.nbytes
    return n_bytes, shape


def close_all() -> None:
    """Close the files that are kept open, and forget what is kept for a retry."""
    global _kept
    _kept = None
    while _open:
        _open.popitem()[1][0].close()


def _answer(told: dict[str, Any], mark: memoryview | None) -> tuple[list[Array], list[int]]:
    with explained(told["library"], lambda: OPENERS["h5py"](*_where_from(told))):
        if mark is not None:
            _look_carefully(told, mark)
        return _result(told)


def _result(told: dict[str, Any]) -> tuple[list[Array], list[int]]:
    """The result's bytes in parts, and its shape."""
    result = METHODS[told["method"]](told, **told["arguments"])
    for step in told["steps"]:
        result = field_of(result, step) if isinstance(step, str) else result[_numpy_key(step)]
    if told["ragged"]:
        parts = pack_ragged([np.asarray(row) for row in result])
        return parts, [sum(part.nbytes for part in parts)]
    array = np.asarray(result)
    shape = list(array.shape)
    if array.dtype != told["dtype"]:  # of another byte order, most of the time
        array = array.astype(told["dtype"])
    flat = np.ascontiguousarray(array).reshape(-1)
    return [flat.view(np.uint8) if flat.nbytes else np.zeros(0, np.uint8)], shape


def _numpy_key(step: Any) -> Any:
    """Several names at once are a list to NumPy."""
    if isinstance(step, tuple) and step and all(isinstance(name, str) for name in step):
        return list(step)
    return step


# ---- methods ------------------------------------------------------------------------------


def _getitem(
    told: dict[str, Any],
    fields: tuple[str, ...],
    key: Any,
    shape: tuple[int, ...],
    n_dims: int,
) -> Any:
    library, dataset = _dataset(told, told["library"])
    box, rest = boxed(key, shape, n_dims)
    return READERS[library](dataset, fields, box)[rest]


def _from_tables(node: Any, fields: Sequence[str], box: tuple[Any, ...]) -> Any:
    if hasattr(node, "read_coordinates"):
        (rows,) = box
        if isinstance(rows, slice):
            values = node.read(rows.start, rows.stop, rows.step)
        else:
            values = node.read_coordinates(rows)
    else:
        values = np.asarray(node[box if len(box) > 1 else box[0]])
    for field in fields:
        values = field_of(values, field)
    return values


READERS: dict[str, Callable[[Any, Sequence[str], tuple[Any, ...]], Any]] = {
    "h5py": from_h5py,
    "tables": _from_tables,
}


def _getragged(told: dict[str, Any], key: Any) -> Any:
    _, dataset = _dataset(told, told["library"])
    wanted = np.arange(int(dataset.shape[0]))[key]
    if wanted.ndim == 0:
        return dataset[int(wanted)]
    rows, back = np.unique(wanted, return_inverse=True)
    if not len(rows):
        return []
    if rows[-1] - rows[0] + 1 == len(rows):
        read = dataset[int(rows[0]) : int(rows[-1]) + 1]
    else:
        read = dataset[rows.tolist()]
    return [read[at] for at in back]


def _where(told: dict[str, Any], condition: str, condvars: dict[str, Any], **rows: Any) -> Any:
    _, table = _dataset(told, "tables")
    return table.read_where(condition, condvars, **rows)


def _read_sorted(told: dict[str, Any], sortby: str, check_csi: bool, **rows: Any) -> Any:
    _, table = _dataset(told, "tables")
    return table.read_sorted(sortby, checkCSI=check_csi, **rows)


METHODS: dict[str, Callable[..., Any]] = {
    "getitem": _getitem,
    "getragged": _getragged,
    "where": _where,
    "read_sorted": _read_sorted,
}


def _look_carefully(told: dict[str, Any], mark: memoryview) -> None:
    """Read the chunks that a request may need one by one, so that a bad one is known."""
    by_rows = told["method"] in ("where", "read_sorted")
    _, dataset = _dataset(told, "tables" if by_rows else told["library"])
    given = told["arguments"]
    if told["method"] == "getitem":
        box, _ = boxed(given["key"], given["shape"], given["n_dims"])
        ends = [(item.start, item.stop) if isinstance(item, slice) else item for item in box]
    else:
        rows = np.arange(int(dataset.shape[0]))
        key = slice(given.get("start"), given.get("stop")) if by_rows else given["key"]
        ends = [rows[key].reshape(-1)]
    name_chunks(dataset, [_hull(item) for item in ends], mark)


def _hull(rows: Any) -> tuple[int, int]:
    if isinstance(rows, tuple):
        return rows
    return (int(rows.min()), int(rows.max()) + 1) if len(rows) else (0, 0)


# ---- files that are kept open -------------------------------------------------------------


def _dataset(told: dict[str, Any], library: str) -> tuple[str, Any]:
    """The library that opened the dataset, and the dataset."""
    filename, path, options = _where_from(told)
    stat = os.stat(told["filename"])
    same = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    key = (library, told["filename"], told["path"], json.dumps(options, sort_keys=True), same)
    if key in _open:
        _open.move_to_end(key)
        return library, _open[key][1]
    for other in [other for other in _open if other[1] == key[1] and other[-1] != same]:
        _open.pop(other)[0].close()  # HDF5 would take the old file's structure for the new one's
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTables warns of what it cannot open; see below
        file, dataset = OPENERS[library](filename, path, options)
    if type(dataset).__name__ in ("UnImplemented", "Unknown"):  # PyTables' words for "not mine"
        file.close()
        if told["method"] not in ("getitem", "getragged"):
            raise TypeError(f"{told['path']!r} is not a table that PyTables can open")
        return _dataset(told, "h5py")
    _open[key] = file, dataset
    if len(_open) > MAX_OPEN:
        _open.popitem(last=False)[1][0].close()
    return library, dataset


def _where_from(told: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    options = dict(told["open_options"])
    return options.pop("filename", told["filename"]), told["path"], options


# ---- no more than is wanted ---------------------------------------------------------------


def boxed(key: Any, shape: tuple[int, ...], n_dims: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Part a NumPy key into what a library reads, and the key to what it read.

    Parameters
    ----------
    key
        For an array of this shape.
    shape : tuple of int
        HDF5's own `n_dims` dims, then a subarray's.

    Returns
    -------
    box : tuple
        A slice for each of HDF5's dims; at most one is a sorted list without repetitions.
    rest : tuple
        Index of what the box holds, which gives what `key` would.
    """
    items = key if isinstance(key, tuple) else (key,)
    n_left = len(shape) - sum(map(_n_axes, items))
    box: list[Any] = [slice(0, length) for length in shape[:n_dims]]
    rest: list[Any] = []
    places: dict[int, int] = {}  # axis -> its place in `rest`
    axis = 0
    for item in items:
        for part in _parts(item, shape[axis:]):
            acts = part is not Ellipsis and _n_axes(part) == 1
            if acts and axis < n_dims:
                places[axis] = len(rest)
                box[axis], found = _along(part, shape[axis])
                rest.append(found)
            else:
                rest.append(part)
            axis += n_left if part is Ellipsis else acts
    lists = [axis for axis, item in enumerate(box) if isinstance(item, np.ndarray)]
    empty = any(isinstance(item, slice) and item.start >= item.stop for item in box)
    for axis in lists if empty else lists[1:]:  # the libraries take one list, and none of nothing
        rows = box[axis]
        box[axis] = slice(int(rows[0]), int(rows[-1]) + 1)
        rest[places[axis]] = rows[rest[places[axis]]] - rows[0]
    return tuple(box), tuple(rest)


def _n_axes(item: Any) -> int:
    """How many axes an item of a key acts on: None and one boolean act on none."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == np.bool_ else 1


def _parts(item: Any, shape: tuple[int, ...]) -> Sequence[Any]:
    """An item, or a mask as the index arrays that NumPy takes it for."""
    if not isinstance(item, np.ndarray) or item.dtype != np.bool_ or not item.ndim:
        return (item,)
    if any(got not in (length, 0) for got, length in zip(item.shape, shape, strict=False)):
        raise IndexError(f"a mask of shape {item.shape} does not fit {shape[: item.ndim]}")
    return item.nonzero()


def _along(item: Any, length: int) -> tuple[Any, Any]:
    """What to read along one axis, a slice or a sorted list, and the index of what was read."""
    if isinstance(item, slice):
        wanted = range(*item.indices(length))
        if not wanted:
            return slice(0, 0), slice(None)
        if wanted.step > 0:
            return slice(wanted[0], wanted[-1] + 1, wanted.step), slice(None)
        return slice(wanted[-1], wanted[0] + 1, -wanted.step), slice(None, None, -1)
    numbers = np.asarray(item)
    if ((numbers >= length) | (numbers < -length)).any():
        raise IndexError(f"index out of range (expected {-length} to {length - 1}, got {item})")
    if numbers.size == 0:
        return slice(0, 0), numbers
    numbers = np.where(numbers < 0, numbers + length, numbers)
    if numbers.ndim == 0:
        return slice(int(numbers), int(numbers) + 1), 0
    rows, back = np.unique(numbers, return_inverse=True)
    back = back.reshape(numbers.shape)  # NumPy 2.0 gave another shape
    if rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1), back
    return rows, back
