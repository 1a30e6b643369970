"""Datasets of items that are read one by one, by readers or in this process.

Law
---
1. Rows of texts and sequences of any length are ragged, as in streams. Numbers come from readers.
2. This process reads what becomes objects of Python, and what has one element at most: arrays of
   objects as `multitables.open` gives them, a text as `bytes`, a null dataspace as `Empty`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from _multitables import _core
from _multitables.elements.empty import Empty
from _multitables.elements.values import decode
from _multitables.errors import UnsupportedDatasetError
from _multitables.index.datasets.heap import Heap
from _multitables.index.datasets.source import Source
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.opened.open_files import Place
from _multitables.index.types.numpy_type import datatype_of, dtype_of
from _multitables.parent.ragged.open_rows import Entry, in_heap
from _multitables.parent.ragged.rows_of_requests import asking_heap, block_of
from _multitables.parent.random.dataset_handle import DatasetHandle, handle_of, open_dataset
from _multitables.parent.random.request import Request
from _multitables.parent.random.service import Service
from _multitables.parent.readers.local_rows import whole
from _multitables.plan.ragged import I64, Fetch


@dataclass(frozen=True)
class RaggedDataset:
    """A dataset whose rows lie in the file's global heap."""

    handle: DatasetHandle
    rows: Heap


@dataclass(frozen=True)
class RaggedRequest:
    """All rows of a `RaggedDataset`, which readers fetch."""

    entry: Entry
    offsets: I64
    request: Request

    @property
    def block(self) -> Any:
        """The rows, when they are there."""
        return block_of(self.entry, [self.request], self.offsets)


#: How a dataset is read: by readers, or, if this is None, here.
Alone = DatasetHandle | RaggedDataset | None


def open_alone(queue: _core.WorkQueue, file: KeptSource, path: str) -> Alone:
    """Find out how a dataset is read.

    Raises
    ------
    UnsupportedDatasetError
        NumPy has no such type.
    """
    with file.open() as source:
        place = source.find(path)
        if not _has_objects(source, place):
            return open_dataset(queue, file, path) if source.stored(place).dims else None
        try:
            rows = source.heap(place)
        except UnsupportedDatasetError:
            return None  # rows of rows, or of texts
        if rows is None:
            return None
        return RaggedDataset(handle_of(queue, file, path, rows, source, "array"), rows)


def _has_objects(source: Source, place: Place) -> bool:
    try:
        return bool(dtype_of(source.stored(place).datatype).hasobject)
    except TypeError:  # NumPy has no such type, which is refused where it is opened or read
        return False


def ask_rows(service: Service, dataset: RaggedDataset, tries: int | None) -> RaggedRequest | Any:
    """Ask for all rows of a dataset; without any, return the block at once.

    Raises
    ------
    CorruptFileError, CorruptChunkError
        The descriptors are damaged.
    """
    entry, n_rows = in_heap(dataset.rows), dataset.rows.n_rows
    if not n_rows:
        return entry.nothing()
    fetch = Fetch(range(n_rows), [n_rows], 0)
    offsets, ask = asking_heap((service, service.pool), entry, dataset.handle, fetch)
    return RaggedRequest(entry, offsets, ask(tries))


def value_of(file: KeptSource, path: str) -> Any:
    """Read a dataset in this process.

    Raises
    ------
    UnsupportedDatasetError
        NumPy has no such type, or the core does not read the dataset.
    CorruptFileError, CorruptChunkError
        It is damaged, or what it names in the file is not there.
    """
    with file.open() as source:
        place = source.find(path)
        with place.errors_named():
            found = source.stored(place)
            if found.is_null:
                return Empty(dtype_of(found.datatype))
            stored = whole(source.index_at(place, as_stored=True)).reshape(found.dims)
            value = decode(stored, datatype_of(found.datatype), place.file)
            return value[()] if value.dtype.hasobject and not value.ndim else value
