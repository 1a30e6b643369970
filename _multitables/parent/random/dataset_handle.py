"""A dataset that the readers of this process know: its description and its catalogues.

Law
---
1. A catalogue says where the chunks of a dataset, or of one of its columns, lie. It is made when
   it is first asked for, and is given back with the last description that refers to it.
2. What the core cannot read has no catalogue: a library reads it.
3. A column is indexed later than its dataset, so the file is checked to be the same.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.errors import FileChangedError, UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.heap import Heap
from _multitables.index.datasets.source import Source
from _multitables.index.files import device
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.index.versions.sources import of_version
from _multitables.options import CheckedVersion
from _multitables.parent.random.stage import made
from _multitables.parent.readers.place import Place, place_in_heap, place_of_request
from _multitables.plan.dataset_table import DatasetTable, lookup_table
from _multitables.select.selection import DatasetInfo
from _multitables.wire import plan_bytes
from _multitables.wire.request_bytes import unpack_ragged


@dataclass(eq=False)
class Part:
    """A dataset, or one column of it."""

    index: ChunkIndex
    #: Read around the page cache.
    direct: bool
    #: None: a library reads it.
    core: _core.Dataset | None = None

    @cached_property
    def table(self) -> DatasetTable:
        """The table of the dataset, for errors."""
        return lookup_table(self.index, direct=self.direct, native_filters=READERS_FILTERS)

    def place(self, number: int | None, steps: Sequence[Any]) -> Place:
        """Name the place of a request with these steps, or of a chunk of it, or of a heap's row."""
        if isinstance(self.index, Heap):
            return place_in_heap(self.index, steps[0], number)
        chunk = None if self.core is None or number is None else self.core.chunk(number)
        return place_of_request(self.table.of_chunk(number), chunk)

    def check_cast(self) -> None:
        """Raise if a library would read what the core has to convert."""
        index = self.index
        if self.core is None and index.kind.cast is not None:
            why = index.why_library(READERS_FILTERS) or "readers do not decode it"
            raise UnsupportedDatasetError(
                f"numbers of {index.path!r} in {index.filename!r} are not converted where single "
                f"rows or samples are requested and a library reads them: {why}",
                advice="Leave out dtype and scale, and convert what is delivered",
                path=index.path,
                filename=index.filename,
            )


class Catalogues:
    """Where the chunks of a dataset and of its columns lie, told to the readers; grows only."""

    def __init__(self, file: KeptSource, path: str, version: CheckedVersion | None) -> None:
        #: Column, or "" -> what readers know of it; for the shortest way to a request.
        self.native: dict[str, _core.Dataset] = {}
        self._lock = threading.Lock()
        self._dataset = file, path, version
        self._parts: dict[str, Part] = {}

    def part(self, field: str, queue: _core.WorkQueue) -> Part:
        """Return the dataset or a column, indexed if it was not yet."""
        with self._lock:
            known = self._parts.get(field)
            if known is not None:
                return known
            file, path, version = self._dataset
            with file.open() as source:
                _, index, table = of_version(source, version).describe(path, field)
            before = self._parts[""].index.fingerprint
            if index.fingerprint != before:
                raise FileChangedError(
                    f"{index.filename!r} changed after {index.path!r} was indexed "
                    f"({before.size_bytes} -> {index.fingerprint.size_bytes} bytes)",
                    good="Results that were taken before are good",
                    advice="Finish writing, then get the dataset again",
                    filename=index.filename,
                    path=index.path,
                    expected=before.size_bytes,
                    got=index.fingerprint.size_bytes,
                )
            return self.add(field, index, source, queue, table)

    def add(
        self,
        field: str,
        index: ChunkIndex,
        source: Source,
        queue: _core.WorkQueue,
        table: _core.Table | None = None,
    ) -> Part:
        """Tell the readers of the dataset or a column, unless a library reads it."""
        part = Part(index, source.direct)
        if table is None and not part.table.datasets[0].reason:
            table = plan_bytes.made_table(part.table)
        if table is not None:
            dtype, row_shape, known = index.dtype, list(index.row_shape), table
            part.core = self.native[field] = made(
                lambda: queue.dataset(known, dtype, row_shape), table.n_bytes
            )
        part.check_cast()
        self._parts[field] = part
        return part

    def by_library(self, field: str) -> None:
        """Let a library read a column, because the core turned out not to."""
        self._parts[field].core = None
        self.native.pop(field, None)
        self._parts[field].check_cast()


class NoCatalogues(Catalogues):
    """Those of a dataset of which the core reads nothing, nor of its columns."""

    def __init__(self, index: ChunkIndex) -> None:
        self.native = {}
        self._whole = Part(index, direct=False)

    def part(self, field: str, queue: _core.WorkQueue) -> Part:
        """Return the dataset, whatever the column."""
        return self._whole


@dataclass(frozen=True, slots=True, eq=False)
class DatasetHandle(DatasetInfo):
    """What selections know of their dataset, with its catalogues."""

    catalogues: Catalogues = field(kw_only=True)

    def unpacked(self, rows: npt.NDArray[np.uint8]) -> list[npt.NDArray[Any]]:
        """Return ragged rows as they travel as arrays."""
        return unpack_ragged(rows, self.dtype, self.atom_shape)


def open_dataset(
    queue: _core.WorkQueue, file: KeptSource, path: str, version: CheckedVersion | None = None
) -> DatasetHandle:
    """Index a dataset, in a version of it, and tell the readers of it."""
    with file.open() as source:
        kind, index, table = of_version(source, version).describe(path)
    if source.direct:
        device.check_direct(index.filename)
    return handle_of(queue, file, path, index, source, kind, version, table)


def handle_of(
    queue: _core.WorkQueue,
    file: KeptSource,
    path: str,
    index: ChunkIndex,
    source: Source,
    kind: str,
    version: CheckedVersion | None = None,
    table: _core.Table | None = None,
) -> DatasetHandle:
    """Register a dataset that was indexed with the readers; `table` is its table, if known."""
    catalogues = Catalogues(file, path, version)
    catalogues.add("", index, source, queue, table)
    return DatasetHandle(
        filename=index.filename,
        path=index.path,
        kind=kind,
        shape=index.shape,
        dtype=index.dtype.base,
        n_dims=len(index.dims),
        library=index.kind.library,
        open_options=index.fingerprint.for_library(source.open_options),
        atom_shape=index.dtype.shape,
        conversion=index.kind.conversion,
        catalogues=catalogues,
    )
