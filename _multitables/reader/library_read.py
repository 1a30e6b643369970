"""The fallback: rows read through h5py or PyTables, for tasks that the core cannot decode.

Law
---
1. Reads exactly the bytes that the library's own user would see, into the memory it is given.
2. Keeps the last file and dataset open, because consecutive tasks read the same one.
3. Raises the library's own exceptions, or what `explained` makes of them; the parent gives them
   their address.

This file must never know of rings or plans.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from _multitables.reader.chunk_by_chunk import name_chunks
from _multitables.reader.library_failure import explained

#: From so many bytes on the copy that h5py's indexing makes costs more than to ask without it.
STRAIGHT_BYTES = 256 << 10

_open: tuple[tuple[str, ...], Any, Any] | None = None  # key, file, dataset


def library_read(
    library: str,
    filename: str,
    path: str,
    field: str,
    open_options_json: str,
    start: int,
    stop: int,
    out: memoryview,
    mark: memoryview | None = None,
) -> None:
    """Read rows of a dataset through an HDF5 library.

    Parameters
    ----------
    library : str
        ``"h5py"`` or ``"tables"``.
    filename, path, field : str
        What to read; `field` may be "".
    open_options_json : str
        Options of ``tables.open_file``, as JSON.
    start, stop : int
        Rows.
    out : memoryview
        Receives the rows' bytes, in C order.
    mark : memoryview, optional
        For the name of the chunk in hand, when a reader has died of these rows before.
    """
    with explained(library, lambda: _opened("h5py", filename, path, open_options_json)):
        dataset = _dataset(library, filename, path, open_options_json)
        if mark is not None:
            name_chunks(dataset, [(start, stop)], mark)
        if library == "h5py" and not field and _straight(dataset, start, stop, out):
            return
        if library == "tables":
            rows = _from_tables(dataset, field, start, stop)
        else:
            rows = from_h5py(dataset, [field] if field else [], slice(start, stop))
    rows = np.ascontiguousarray(rows)
    if rows.nbytes != len(out):
        raise ValueError(
            f"{library} gave {rows.nbytes} bytes for rows {start}:{stop} of {path!r}, "
            f"expected {len(out)}"
        )
    if rows.nbytes:
        np.frombuffer(out, np.uint8)[:] = rows.reshape(-1).view(np.uint8)


def close_all() -> None:
    """Close the file that is kept open."""
    global _open
    if _open is not None:
        _open[1].close()
        _open = None


def _dataset(library: str, filename: str, path: str, open_options_json: str) -> Any:
    global _open
    key = (library, filename, path, open_options_json)
    if _open is None or _open[0] != key:
        close_all()
        _open = key, *_opened(*key)
    return _open[2]


def _opened(library: str, filename: str, path: str, open_options_json: str) -> tuple[Any, Any]:
    open_options = json.loads(open_options_json)
    filename = open_options.pop("filename", filename)
    return OPENERS[library](filename, path, open_options)


def _open_h5py(filename: str, path: str, open_options: dict[str, Any]) -> tuple[Any, Any]:
    import h5py

    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401 - registers its filters
    driver: dict[str, Any] = {}
    if open_options.get("driver") == "H5FD_SPLIT":
        driver = {
            "driver": "split",
            "meta_ext": open_options.get("driver_split_meta_ext", "-m.h5").encode(),
            "raw_ext": open_options.get("driver_split_raw_ext", "-r.h5").encode(),
        }
    file = h5py.File(filename, "r", **driver)
    return file, file[path]


def _open_tables(filename: str, path: str, open_options: dict[str, Any]) -> tuple[Any, Any]:
    import tables

    # A reader is one process of several: their number is the user's parallelism.
    tables.set_blosc_max_threads(1)
    if hasattr(tables, "set_blosc2_max_threads"):
        tables.set_blosc2_max_threads(1)
    given = {name.upper(): value for name, value in open_options.items()}
    file = tables.open_file(filename, "r", **given)
    return file, file.get_node(path)


OPENERS = {"h5py": _open_h5py, "tables": _open_tables}


def _straight(dataset: Any, start: int, stop: int, out: memoryview) -> bool:
    """Let h5py read into the memory that is given. False: not worth it, or not the same."""
    if len(out) < STRAIGHT_BYTES:
        return False
    dtype = dataset.dtype
    shape = (stop - start, *dataset.shape[1:])
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.fields or dtype.subdtype or dtype.hasobject or n_bytes != len(out):
        return False  # of compound rows h5py leaves the gaps as they are
    from h5py import h5s

    rows = np.frombuffer(out, np.uint8).view(dtype).reshape(shape)
    # `read_direct` does the same, with four times the Python.
    space = dataset.id.get_space()
    space.select_hyperslab((start, *(0,) * (len(shape) - 1)), shape)
    dataset.id.read(h5s.create_simple(shape), space, rows)
    return True


def from_h5py(dataset: Any, fields: Sequence[str], box: Any) -> Any:
    """Read a part of a dataset, or of the field of a field that these paths lead to."""
    names = dataset.dtype.names
    if not fields or names is None:  # of elements that are arrays, h5py reads no field
        rows = dataset[box]
    else:
        path, *fields = fields
        name, _, inner = (path, "", "") if path in names else path.partition("/")
        rows = dataset.fields(name)[box]
        fields = [inner, *fields] if inner else fields
    for path in fields:
        rows = field_of(rows, path)
    return rows


def _from_tables(node: Any, field: str, start: int, stop: int) -> Any:
    rows = node.read(start, stop)
    if field:
        rows = field_of(rows, field)
    # PyTables delivers the machine's byte order, a stream the file's.
    if getattr(node, "byteorder", None) == "big":
        rows = rows.astype(rows.dtype.newbyteorder(">"))
    return rows


def field_of(rows: Any, path: str) -> Any:
    """Return the field of rows that a path leads to; a name may itself hold a slash."""
    while path not in (rows.dtype.names or ()) and "/" in path:
        name, _, path = path.partition("/")
        rows = rows[name]
    return rows[path]
