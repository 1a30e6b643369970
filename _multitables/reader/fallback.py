"""The fallback: what the core cannot decode, and what only PyTables does, read through a library.

Law
---
1. One function, `read`. A request is one call; rows of a stream are the same call with a slice of
   rows for its key.
2. Reads no more rows than are wanted, and leaves the rest of an index to NumPy.
3. The result has the dtype that was asked for, in C order, in the memory that is given. A result
   that is too large is kept for one retry of the same call.
4. Keeps the last files open, as long as they are the same files. Objects of stores are read by
   `object_file`, others are opened as `local_file` says.
5. Raises the library's own exceptions, or what `explained` makes of them. The parent adds where it
   happened.

This file must never know selections, plans, rings or stages.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import math
import os
import sys
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.reader.box import boxed
from _multitables.reader.library_failure import UntrustedError, explained
from _multitables.reader.local_file import is_unlinked, opening_name, takes_locks, whole
from _multitables.reader.object_file import (
    Access,
    ObjectFile,
    OtherFilesError,
    check_alone,
    copy_of,
)
from _multitables.wire.request_bytes import decode_library, pack_ragged

#: Files that are kept open.
MAX_OPEN = 8
#: From this size on, the copy that h5py's indexing makes costs more than reading without it.
IN_PLACE_BYTES = 256 << 10

Array = npt.NDArray[Any]

#: How it was opened -> the file and the dataset; the last one used at the end.
_open: OrderedDict[tuple[Any, ...], tuple[Any, Any]] = OrderedDict()
#: The last call whose result did not fit, with the result's parts and shape.
_too_large: tuple[bytes | str, list[Array], list[int]] | None = None


def read(
    call: bytes | str,
    rows: tuple[int, int] | None,
    out: memoryview,
    mark: memoryview | None = None,
) -> tuple[int, list[int]]:
    """Read through an HDF5 library; return the bytes and the shape of the result.

    Parameters
    ----------
    call : bytes or str
        What `encode_library` or `encode_rows` laid out.
    rows : (int, int), optional
        Begin and end, in place of the first slice of the call's own key. They must fill `out`.
    out : memoryview
        Receives the result, unless that has more bytes.
    mark : memoryview, optional
        Eight bytes for the chunk in hand, given when a reader died of this call before.
    """
    global _too_large
    if _too_large is not None and _too_large[0] == call:
        _, parts, shape = _too_large
    else:
        told = decode_library(call)
        if not told["open_options"].get("trusted", True):
            raise UntrustedError
        if rows is not None:
            told["arguments"]["key"] = slice(*rows), *told["arguments"]["key"][1:]
        parts, shape = _answer(told, out, mark)
    _too_large = None
    n_bytes = sum(part.nbytes for part in parts)
    if rows is not None and n_bytes != len(out):
        raise ValueError(
            f"the library gave {n_bytes} bytes for rows {rows[0]}:{rows[1]}, expected {len(out)}"
        )
    if n_bytes > len(out):
        _too_large = call, parts, shape
        return n_bytes, shape
    target, at = np.frombuffer(out, np.uint8), 0
    for part in parts:
        target[at : at + part.nbytes] = part
        at += part.nbytes
    return n_bytes, shape


@atexit.register  # h5py would call file objects after Python has ended
def close_all() -> None:
    """Close the files that are kept open, and forget what is kept for a retry."""
    global _too_large
    _too_large = None
    while _open:
        _open.popitem()[1][0].close()


def _answer(
    told: dict[str, Any], out: memoryview, mark: memoryview | None
) -> tuple[list[Array], list[int]]:
    """Return the result's bytes in parts, and its shape."""
    with explained(told["library"], lambda: OPENERS["h5py"](*_where_from(told))):
        if mark is not None:
            _name_chunks(told, mark)
        result = METHODS[told["method"]](told, out, **told["arguments"])
    for step in told["steps"]:
        result = field_of(result, step) if isinstance(step, str) else result[_numpy_key(step)]
    if told["ragged"]:
        parts = pack_ragged([np.asarray(row) for row in result])
        return parts, [sum(part.nbytes for part in parts)]
    array = np.asarray(result)
    shape = list(array.shape)
    names = told["dtype"].names
    if names and array.dtype.names and len(names) < len(array.dtype.names):
        array = array[list(names)]  # others have no fixed size
    if array.dtype != told["dtype"]:  # PyTables, for one, delivers the machine's byte order
        array = array.astype(told["dtype"])
    flat = np.ascontiguousarray(array).reshape(-1)
    return [flat.view(np.uint8) if flat.nbytes else np.zeros(0, np.uint8)], shape


def _numpy_key(step: Any) -> Any:
    """Several names at once are a list to NumPy."""
    if isinstance(step, tuple) and step and all(isinstance(name, str) for name in step):
        return list(step)
    return step


def field_of(rows: Any, path: str) -> Any:
    """Return the field of rows that a path leads to; a name may itself hold a slash."""
    while path not in (rows.dtype.names or ()) and "/" in path:
        name, _, path = path.partition("/")
        rows = rows[name]
    return rows[path]


# ---- methods ------------------------------------------------------------------------------


def _getitem(
    told: dict[str, Any],
    out: memoryview,
    fields: tuple[str, ...],
    key: Any,
    shape: tuple[int, ...],
    n_dims: int,
    n_converted: int = 0,
) -> Any:
    library, dataset = _dataset(told, "h5py" if "conversion" in told else told["library"])
    box, rest = boxed(key, shape, n_dims)
    # Where members have no fixed size, HDF5 has elements of another size in memory.
    if "conversion" in told and dataset.id.get_type().get_size() == told["conversion"][0]:
        values = _converted(told, dataset, box)
        for field in fields[n_converted:]:
            values = field_of(values, field)
        return values[rest]
    if library == "h5py" and not fields and all(isinstance(part, slice) for part in (*box, *rest)):
        result = _in_place(told["dtype"], dataset, box, out)
        if result is not None:
            return result[rest]
    return READERS[library](dataset, fields, box)[rest]


def _in_place(dtype: np.dtype[Any], dataset: Any, box: Sequence[Any], out: memoryview) -> Any:
    """Let h5py read into `out`. None: not worth it, or not the bytes that are wanted."""
    ranges = [range(item.start, item.stop, item.step or 1) for item in box]
    shape = tuple(map(len, ranges))
    if not IN_PLACE_BYTES <= math.prod(shape) * dtype.itemsize <= len(out):
        return None
    if dataset.dtype != dtype or dtype.fields or dtype.subdtype or dtype.hasobject:
        return None  # of compound rows h5py leaves the gaps as they are
    from h5py import h5s

    space = dataset.id.get_space()
    starts, steps = zip(*((along.start, along.step) for along in ranges), strict=True)
    space.select_hyperslab(starts, shape, steps)
    # Not kept in a variable: the traceback of an exception would hold `out`.
    dataset.id.read(h5s.create_simple(shape), space, _viewed(out, shape, dataset.dtype))
    return _viewed(out, shape, dataset.dtype)


def _viewed(out: memoryview, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    n_bytes = math.prod(shape) * dtype.itemsize
    return np.frombuffer(out, np.uint8, n_bytes).view(dtype).reshape(shape)


def _converted(told: dict[str, Any], dataset: Any, box: Sequence[Any]) -> Any:
    """Read elements as they are stored, and convert them as the core does."""
    from h5py import h5s

    size, delivered, words = told["conversion"]
    hulls = [part if isinstance(part, slice) else slice(part[0], part[-1] + 1) for part in box]
    ranges = [range(hull.start, hull.stop, hull.step or 1) for hull in hulls]
    shape = tuple(map(len, ranges))
    stored = np.zeros((*shape, size), np.uint8)
    if stored.size:
        space = dataset.id.get_space()
        if shape:
            starts, steps = zip(*((along.start, along.step) for along in ranges), strict=True)
            space.select_hyperslab(starts, shape, steps)
        memory = h5s.create_simple(shape) if shape else h5s.create(h5s.SCALAR)
        dataset.id.read(memory, space, stored, dataset.id.get_type())
    made = _core.converted(stored.tobytes(), size, delivered, words)
    values = np.ndarray(shape, told["element"], made.data)
    lists = (slice(None) if isinstance(part, slice) else part - part[0] for part in box)
    return values[tuple(lists)]


def _from_h5py(dataset: Any, fields: Sequence[str], box: tuple[Any, ...]) -> Any:
    names = dataset.dtype.names
    if not fields or names is None:  # of elements that are arrays, h5py reads no field
        values = dataset[box]
    else:
        path, *fields = fields
        name, _, inner = (path, "", "") if path in names else path.partition("/")
        values = dataset.fields(name)[box]
        fields = [inner, *fields] if inner else fields
    for path in fields:
        values = field_of(values, path)
    return values


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
    "h5py": _from_h5py,
    "tables": _from_tables,
}


def _getragged(told: dict[str, Any], _: memoryview, key: Any) -> Any:
    _library, dataset = _dataset(told, told["library"])
    wanted = np.arange(int(dataset.shape[0]))[key]
    if wanted.ndim == 0:
        return dataset[int(wanted)]
    rows, back = np.unique(wanted, return_inverse=True)
    if not len(rows):
        return []
    if rows[-1] - rows[0] + 1 == len(rows):
        values = dataset[int(rows[0]) : int(rows[-1]) + 1]
    else:
        values = dataset[rows.tolist()]
    return [values[at] for at in back]


def _getobjects(told: dict[str, Any], out: memoryview, **selection: Any) -> list[Array]:
    """Strings and sequences one after another, as arrays of their bytes or elements."""
    found = _getitem(told, out, **selection)
    many = isinstance(found, np.ndarray) and found.dtype.hasobject
    objects = found.reshape(-1).tolist() if many else [found]
    return [np.frombuffer(one, np.uint8) if isinstance(one, bytes) else one for one in objects]


def _where(
    told: dict[str, Any], _: memoryview, condition: str, condvars: dict[str, Any], **rows: Any
) -> Any:
    return _dataset(told, "tables")[1].read_where(condition, condvars, **rows)


def _read_sorted(
    told: dict[str, Any], _: memoryview, sortby: str, check_csi: bool, **rows: Any
) -> Any:
    return _dataset(told, "tables")[1].read_sorted(sortby, checkCSI=check_csi, **rows)


METHODS: dict[str, Callable[..., Any]] = {
    "getitem": _getitem,
    "getobjects": _getobjects,
    "getragged": _getragged,
    "where": _where,
    "read_sorted": _read_sorted,
}


# ---- a careful look before a second try ---------------------------------------------------


def _name_chunks(told: dict[str, Any], mark: memoryview) -> None:
    """Read the chunks that a call may need one by one, each with its name in `mark`.

    A chunk's name is its row-major number in the dataset's grid + 1. If this reader dies as well,
    the parent finds there which chunk it died of. What is read is thrown away, exceptions too: the
    call itself comes afterwards.
    """
    by_rows = told["method"] in ("where", "read_sorted")
    _, dataset = _dataset(told, "tables" if by_rows else told["library"])
    found = getattr(dataset, "chunks", None) or getattr(dataset, "chunkshape", None)
    if not found:
        return
    chunk = [int(extent) for extent in found]  # PyTables' are NumPy's numbers
    shape = [int(length) for length in dataset.shape]
    counts = [-(-length // extent) for length, extent in zip(shape, chunk, strict=True)]
    hull = [_ends(part) for part in _needed(told, shape[0])]
    bounds = [*hull, *((0, length) for length in shape[len(hull) :])]
    along = [
        range(begin // extent, min(-(-end // extent), count)) if begin < end else range(0)
        for (begin, end), extent, count in zip(bounds, chunk, counts, strict=False)
    ]
    for place in itertools.product(*along):
        number = 0
        for at, count in zip(place, counts, strict=True):
            number = number * count + at
        mark[:] = (number + 1).to_bytes(8, sys.byteorder)
        key = tuple(
            slice(at * extent, min((at + 1) * extent, length))
            for at, extent, length in zip(place, chunk, shape, strict=True)
        )
        with contextlib.suppress(Exception):
            dataset[key if len(key) > 1 else key[0]]
    mark[:] = bytes(8)


def _needed(told: dict[str, Any], n_rows: int) -> Sequence[Any]:
    """What a call may need along the first dims: slices, or arrays of indices."""
    given = told["arguments"]
    if told["method"] == "getitem":
        return boxed(given["key"], given["shape"], given["n_dims"])[0]
    key = given["key"] if "key" in given else slice(given.get("start"), given.get("stop"))
    return [np.arange(n_rows)[key].reshape(-1)]


def _ends(part: Any) -> tuple[int, int]:
    if isinstance(part, slice):
        return part.start, part.stop
    return (int(part.min()), int(part.max()) + 1) if len(part) else (0, 0)


# ---- files that are kept open -------------------------------------------------------------


def _dataset(told: dict[str, Any], library: str) -> tuple[str, Any]:
    """Return the library that opened the dataset, and the dataset."""
    filename, path, options = _where_from(told)
    same = _state(told["filename"], told["open_options"])
    key = (library, told["filename"], told["path"], json.dumps(options, sort_keys=True), same)
    if key in _open:
        _open.move_to_end(key)
        return library, _open[key][1]
    for other in [other for other in _open if other[1] == key[1] and other[-1] != same]:
        _open.pop(other)[0].close()  # HDF5 would take the old file's structure for the new one's
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTables warns of what it cannot open; see below
        if library == "tables" and "access" in options:  # PyTables does not tell what h5py does
            OPENERS["h5py"](filename, path, options)[0].close()
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


def _state(filename: str, options: dict[str, Any]) -> Any:
    """Return what changes with a file."""
    access: Access | None = options.get("access")
    if access is not None:
        return access["client"][0], access["size"]
    stat = os.stat(opening_name(filename, options.get("file")))
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _where_from(told: dict[str, Any]) -> tuple[str, str, dict[str, Any]]:
    filename, options = where_from(told["filename"], told["open_options"])
    return filename, told["path"], options


def where_from(filename: str, open_options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the name that opens a file, and the options of the library that opens it."""
    options = dict(open_options)
    identity, base = options.pop("file", None), options.pop("filename", None)
    return base or opening_name(filename, identity), options


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
    access = open_options.get("access")
    given: Any = ObjectFile(filename, access) if access else filename
    if is_unlinked(filename):  # HDF5 resolves such a name, which leads nowhere
        given = open(filename, "rb")  # noqa: SIM115 - h5py closes it with the file
    elif not access and not takes_locks(filename):
        driver["locking"] = False
    file = h5py.File(given, "r", **driver)
    found = file[path]
    if isinstance(found, h5py.Dataset):
        try:
            check_alone(found, access)
        except OtherFilesError:
            file.close()
            raise
    return file, found


def _open_tables(filename: str, path: str, open_options: dict[str, Any]) -> tuple[Any, Any]:
    if "access" not in open_options and not takes_locks(filename):
        # PyTables has no option for it; its HDF5 looks here when it is imported.
        os.environ.setdefault("HDF5_USE_FILE_LOCKING", "FALSE")
    import tables

    # A reader is one process of several: their number is the user's parallelism.
    tables.set_blosc_max_threads(1)
    if hasattr(tables, "set_blosc2_max_threads"):
        tables.set_blosc2_max_threads(1)
    given = {name.upper(): value for name, value in open_options.items()}
    access = given.pop("ACCESS", None)
    if access or is_unlinked(filename):
        given["DRIVER"], given["DRIVER_CORE_BACKING_STORE"] = "H5FD_CORE", 0
        given["DRIVER_CORE_IMAGE"] = copy_of(filename, access) if access else whole(filename)
        filename += "" if access else "-copy"  # PyTables refuses the name of an existing file
    file = tables.open_file(filename, "r", **given)
    return file, file.get_node(path)


OPENERS = {"h5py": _open_h5py, "tables": _open_tables}
