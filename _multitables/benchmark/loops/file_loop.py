"""The loops in which whole datasets of any kind are read and timed, as a child of its own.

Law
---
1. A recipe yields arrays whose rows are what is compared: rows of a dataset, or the values of rows
   of any length, or the bytes of texts.
2. A pass begins with opening the file.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from . import passes, refusals
from .passes import Pass
from .shell import Loop, opening

BLOCK_BYTES = 1 << 20


@contextlib.contextmanager
def _ours(library: Any, asked: dict[str, Any]) -> Iterator[Pass]:
    """A queue, or shuffled batches, of a streamer that keeps its readers."""
    path = asked["path"] if isinstance(asked["path"], str) else library.Ragged(**asked["path"])
    options = {"n_procs": asked["n_procs"], **asked["options"]}
    rows, inner = options.pop("rows", None), options.pop("inner", None)
    if rows is not None:
        options["rows"] = slice(*rows)
    if inner is not None:
        options["inner"] = tuple(slice(*one) for one in inner)
    with library.Streamer(asked["filename"]) as streamer:

        def blocks() -> Iterator[Any]:
            if asked["shuffle"]:
                with streamer.get_batches(path, shuffle=asked["shuffle"], **options) as batches:
                    yield from (_values(library, batch) for batch in batches)
                return
            with streamer.get_queue(path, remainder=True, **options) as queue:
                for guard in queue:
                    with guard as block:
                        yield from _arrays(library, block)

        yield blocks


def _arrays(library: Any, block: Any) -> Iterator[Any]:
    """The arrays of a block: one for each version, or its own."""
    for one in block.values() if isinstance(block, dict) else (block,):
        yield _values(library, one)


def _values(library: Any, block: Any) -> Any:
    kind = getattr(library, "RaggedBlock", None)
    return block.values if kind is not None and isinstance(block, kind) else block


@contextlib.contextmanager
def _h5py(_library: Any, asked: dict[str, Any]) -> Iterator[Pass]:
    """Slices of some rows, as long as a block of 1 MiB, in the order of the file."""
    h5py = importlib.import_module("h5py")
    with contextlib.suppress(ImportError):
        importlib.import_module("hdf5plugin")  # registers filters like blosc

    def blocks() -> Iterator[Any]:
        with h5py.File(asked["filename"]) as file:
            for path in asked["paths"]:
                dataset = file[path]
                check_filters(h5py, dataset)
                yield from _h5py_rows(dataset, asked["options"])

    yield blocks


def _h5py_rows(dataset: Any, options: dict[str, Any]) -> Iterator[Any]:
    rows = range(*slice(*options.get("rows", (None,))).indices(len(dataset)))
    inner = tuple(slice(*one) for one in options.get("inner", ()))
    row_bytes = dataset.dtype.itemsize * int(np.prod(dataset.shape[1:]))
    if dataset.dtype.hasobject:
        row_bytes = 256
    step = max(1, BLOCK_BYTES // row_bytes)
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        found = dataset[(slice(some.start, some.stop, some.step), *inner)]
        yield _flat(found) if found.dtype.hasobject else found


def _flat(rows: Any) -> Any:
    """The values of rows of any length, or the bytes of texts."""
    if isinstance(rows[0], bytes):
        return np.frombuffer(b"".join(rows), np.uint8)
    return np.concatenate(rows)


def check_filters(h5py: Any, dataset: Any) -> None:
    """Refuse a dataset with a filter that h5py lacks."""
    for virtual in dataset.virtual_sources() if dataset.is_virtual else ():
        if virtual.file_name == ".":
            check_filters(h5py, dataset.file[virtual.dset_name])
            return
    pipeline = dataset.id.get_create_plist()
    for number in range(pipeline.get_nfilters()):
        filter_id = pipeline.get_filter(number)[0]
        if not h5py.h5z.filter_avail(filter_id):
            raise refusals.CannotReadError(f"no filter {filter_id}: pip install hdf5plugin")


@contextlib.contextmanager
def _pytables(_library: Any, asked: dict[str, Any]) -> Iterator[Pass]:
    tables = importlib.import_module("tables")

    def blocks() -> Iterator[Any]:
        with tables.open_file(asked["filename"]) as file:
            (path,) = asked["paths"]
            array = file.get_node(path)
            for first in range(0, len(array), 4096):
                yield np.concatenate(array[first : first + 4096])

    yield blocks


RECIPES: dict[str, Callable[[Any, dict[str, Any]], contextlib.AbstractContextManager[Pass]]] = {
    "multitables": _ours,
    "h5py": _h5py,
    "tables": _pytables,
}


LOOP = Loop(opening(RECIPES, passes.VERBS))
