"""How each entry point reads a dataset: natively, by a library, or not, and why.

Law
---
1. "native" is what is read with ``trusted=False``, where no HDF5 library may help. "trusted" needs
   a filter's plugin, or files of any name, "library" an HDF5 library. All equal what h5py reads, or
   PyTables, or it is an `AssertionError`.
2. A refusal is one of the library's errors that say that a dataset is not read: `REFUSALS`. Any
   other exception is passed on: it is a failure.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin  # noqa: F401 - filters for h5py
import numpy as np
from oracle import pytables_read, ragged, same

import multitables
from _multitables.index.types.plugins import READERS_FILTERS

NATIVE, TRUSTED, LIBRARY, REFUSED = "native", "trusted", "library", "refused"
EXTERNAL = "its bytes lie in external files"
REFUSALS = (multitables.UnsupportedDatasetError,)
#: What h5py raises for types that NumPy does not have; for VAX floats, a KeyError.
NO_TYPE = (KeyError, TypeError, ValueError)
OBJECTS = (h5py.Reference, h5py.RegionReference)


class Faces(contextlib.ExitStack):
    """A file as all entry points have it open; a context manager."""

    def __init__(self, path: Path, *, trusted: bool) -> None:
        super().__init__()
        self.path = path
        self.streamer = self.enter_context(multitables.Streamer(path, trusted=trusted))
        self.reader = self.enter_context(multitables.Reader(path, n_procs=1, trusted=trusted))
        self.file = self.enter_context(multitables.open(path, trusted=trusted))

    def queue(self, name: str) -> Any:
        with self.streamer.get_queue(name, n_procs=1, remainder=True) as blocks:
            return _joined([guard.__enter__().copy() for guard in blocks])

    def batches(self, name: str) -> Any:
        with self.streamer.get_batches(name, 64, n_procs=1, shuffle="chunks") as made:
            order, rows = made.order(0), _joined([batch.copy() for batch in made])
        return rows if rows is None else rows[np.argsort(order)]

    def request(self, name: str) -> Any:
        return self.reader.request(self.reader.get_dataset(name)[:]).get()

    def opened(self, name: str) -> Any:
        return self.file[name][()]

    def item(self, name: str) -> Any:
        with self.streamer.get_collection(only(name), scales=False, n_procs=1) as items:
            (item,) = items
            (value,) = item.values()
            return _joined([value]) if isinstance(value, multitables.RaggedBlock) else value


Entry = Callable[[Faces, str], Any]
ENTRIES: dict[str, Entry] = {
    "get_queue": Faces.queue,
    "get_batches": Faces.batches,
    "Reader": Faces.request,
    "get_collection": Faces.item,
    "open": Faces.opened,
}


def only(name: str) -> str:
    """A pattern that only this path matches: its last letter in brackets."""
    at = max(n for n, letter in enumerate(name) if letter.isalnum())
    return f"{glob.escape(name[:at])}[{name[at]}]{glob.escape(name[at + 1 :])}"


def _joined(parts: list[Any]) -> np.ndarray | None:
    """All rows, in the byte order of the file; None if there are none."""
    if parts and isinstance(parts[0], multitables.RaggedBlock):
        return ragged([row for part in parts for row in part])
    return np.concatenate(parts, dtype=parts[0].dtype) if parts else None


class FewerColumnsError(AssertionError):
    """Rows without some columns, but equal otherwise: as a Reader has them."""


class Oracle:
    """The right content of a dataset: as h5py reads it, or PyTables, unless h5py crashes."""

    def __init__(
        self,
        path: Path,
        name: str,
        *,
        crashes: bool = False,
        by_pytables: Callable[[Path, str], Any] = pytables_read,
    ) -> None:
        self.path, self.name, self.crashes = path, name, crashes
        self.reads: list[Any] = []
        self.by_pytables = functools.cache(lambda: by_pytables(path, name))
        self.damaged = crashes
        if not crashes:
            try:
                with contextlib.suppress(*NO_TYPE), h5py.File(path) as file:
                    dataset = file[os.fsencode(name)]  # a name may be of any bytes
                    self.reads.append(read_by_h5py(dataset))
            except (OSError, RuntimeError):
                self.damaged = not list(self._rows(None))

    def check(self, got: Any) -> None:
        """Fail unless these are the rows of one of them."""
        if self.crashes:
            return
        wrong = None
        for rows in self._rows(got):
            try:
                _check(got, rows)
            except AssertionError as error:
                wrong = wrong or error
            else:
                return
        raise AssertionError(f"nothing reads the same: {wrong}") from wrong

    def _rows(self, got: Any) -> Iterator[Any]:
        yield from self.reads
        with contextlib.suppress(Exception):  # PyTables may not know it
            rows = self.by_pytables()
            # Which gives the machine's byte order, and we the file's.
            dtype = getattr(got, "dtype", rows.dtype)
            is_like = rows.dtype.newbyteorder("=") == dtype.newbyteorder("=")
            yield rows.astype(dtype) if is_like else rows


def read_by_h5py(dataset: h5py.Dataset) -> Any:
    """All of it; opaque elements with a tag, which h5py does not convert, as they are stored."""
    if not isinstance(dataset.id.get_type(), h5py.h5t.TypeOpaqueID):
        return dataset[()]
    rows = np.empty(dataset.shape, dataset.dtype)
    dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, rows, mtype=dataset.id.get_type())
    return rows if dataset.shape else rows[()]


def _check(got: Any, rows: Any) -> None:
    """Compare rows; of references, whether there are as many."""
    if isinstance(rows, h5py.Empty):
        assert isinstance(got, multitables.Empty)
    elif got is None:
        assert not len(rows)
    elif _is_plain(np.asarray(rows).dtype):
        same(np.asarray(got), np.asarray(rows))
    else:
        _check_objects(got, rows)


def _is_plain(dtype: np.dtype) -> bool:
    names = dtype.names or ()
    return dtype.base.kind != "O" and all(_is_plain(dtype[name].base) for name in names)


def _check_objects(got: Any, rows: Any) -> None:
    if isinstance(rows, OBJECTS):
        return
    if isinstance(rows, np.void) or getattr(getattr(rows, "dtype", None), "names", None):
        missing = [name for name in rows.dtype.names if name not in got.dtype.names]
        for name in rows.dtype.names:
            if name not in missing:
                _check_objects(got[name], rows[name])
        if missing:
            raise FewerColumnsError(f"without {missing}")
    elif isinstance(rows, np.ndarray) and rows.dtype.kind == "O":
        if not isinstance(got, list):  # as PyTables gives ragged rows
            assert got.shape == rows.shape
            got = got.ravel()
        for one, other in zip(got, rows.ravel(), strict=True):
            _check_objects(one, other)
    else:
        np.testing.assert_array_equal(got, rows)


def outcome(entry: Entry, natively: Faces, fully: Faces, oracle: Oracle) -> tuple[str, str]:
    """How a dataset is read, and why not natively."""
    name = oracle.name
    try:
        oracle.check(entry(natively, name))
    except REFUSALS as error:
        why = reason(error, oracle)
    else:
        return NATIVE, ""
    try:
        got = entry(fully, name)
    except REFUSALS as error:
        return REFUSED, reason(error, oracle)
    oracle.check(got)
    filters = re.fullmatch(r"filter (\d+)", why)
    if filters and int(filters[1]) in READERS_FILTERS and entry is not Faces.opened:
        return TRUSTED, why
    return (TRUSTED if why == EXTERNAL else LIBRARY), why


def reason(error: multitables.MultitablesError, oracle: Oracle) -> str:
    """What an error says, without where."""
    text = error.happened.split("switches off: ")[-1]
    text = re.sub(r"\(expected.*|;.*|: needed to.*", "", text)
    text = re.sub(rf"{re.escape(repr(oracle.name))} in '[^']*'(, chunk \([^)]*\))?,?", "", text)
    text = re.sub(r"(filter \d+) .*", r"\1", text)  # its name depends on who wrote the file
    return " ".join(text.split())
