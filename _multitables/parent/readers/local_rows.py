"""Rows of a dataset that this process needs itself before others are read: offsets, or keys.

Law
---
1. Read on threads of this process, natively or not at all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.errors import SharedMemoryError, UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.types import hdf5_errors
from _multitables.machine import available_cores
from _multitables.plan.dataset_table import lookup_table
from _multitables.wire.plan_bytes import made_table


def local_reader(n_threads: int, cache_bytes: int) -> _core.LocalReader:
    """Make threads of this process that read.

    Raises
    ------
    SharedMemoryError
        There is no memory for what they share.
    """
    try:
        return _core.LocalReader(n_threads, cache_bytes)
    except (OSError, MemoryError) as error:
        raise SharedMemoryError(
            f"memory for the threads that read cannot be reserved: {error}",
            advice="Free memory",
        ) from error


class LocalRows:
    """The rows of a dataset that the core reads; chunks are kept as far as `reader` keeps some.

    Raises
    ------
    UnsupportedDatasetError
        A library would have to read it.
    """

    def __init__(self, index: ChunkIndex, reader: _core.LocalReader) -> None:
        self.index = index
        self._table = lookup_table(index, direct=False, native_filters=_core.native_filters())
        (dataset,) = self._table.datasets
        if dataset.reason:
            raise UnsupportedDatasetError(
                f"{index.path!r} in {index.filename!r}, which must be read before others are, is "
                f"not read natively: {dataset.reason}",
                advice="Store it without this filter",
                path=index.path,
                filename=index.filename,
            )
        self._core = reader.dataset(made_table(self._table)) if index.n_rows else None

    def read(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Return some rows.

        Raises
        ------
        CorruptChunkError
            A chunk of them does not decode. Others as of a stream.
        """
        try:
            out = np.empty((end - begin, *self.index.row_shape), self.index.dtype)
        except (MemoryError, ValueError):
            raise hdf5_errors.no_memory(self.index.filename, self.index.path) from None
        if not out.size or self._core is None:
            return out
        try:
            self._core.read_key(slice(begin, end), lambda _shape: out)
        except _core.ReadFailed as failure:
            from _multitables.parent.readers import error_report
            from _multitables.parent.readers.place import place_of_request

            record = error_report.Record.of(failure.args)
            chunk = None if record.chunk is None else self._core.chunk(record.chunk)
            place = place_of_request(self._table.of_chunk(record.chunk), chunk)
            raise error_report.task_error(place, record) from None
        return out


def whole(index: ChunkIndex) -> npt.NDArray[Any]:
    """Read all of a dataset, as `LocalRows` does."""
    return LocalRows(index, local_reader(available_cores(), 0)).read(0, index.n_rows)
