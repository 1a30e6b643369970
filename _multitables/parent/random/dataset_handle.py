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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from _multitables import _core
from _multitables.errors import FileChangedError, OptionsError
from _multitables.index import device
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.hdf5_file import open_source
from _multitables.parent.random.stage import made
from _multitables.plan.dataset_table import lookup_table
from _multitables.select.selection import DatasetInfo
from _multitables.wire import plan_bytes


@dataclass(slots=True)
class Part:
    """A dataset, or one column of it."""

    index: ChunkIndex
    #: Extent of what a chunk of the catalogue stands for.
    chunk_dims: tuple[int, ...]
    #: None: a library reads it.
    core: _core.Dataset | None
    #: Why a library reads it, or "".
    reason: str


class DatasetHandle(DatasetInfo):
    """What selections know of their dataset, with its catalogues."""

    __slots__ = ("_lock", "_options", "_parts", "_where", "native")

    #: Column, or "" -> its catalogue; for the shortest way to a request.
    native: dict[str, _core.Dataset]
    _lock: threading.Lock
    _where: tuple[Any, str]
    _options: Mapping[str, Any]
    _parts: dict[str, Part]

    @classmethod
    def made(
        cls,
        board: _core.Board,
        filename: Any,
        path: str,
        options: Mapping[str, Any],
    ) -> DatasetHandle:
        """Index the dataset and lay its catalogue out for the readers."""
        with open_source(filename, options) as source:
            kind, index = source.describe(path)
            base, inner = index.dtype, ()
            if index.dtype.subdtype is not None:
                base, inner = index.dtype.subdtype
            info = cls(
                filename=index.filename,
                path=index.path,
                kind=kind,
                shape=index.shape,
                dtype=base,
                n_dims=len(index.dims),
                library=index.library,
                open_options=source.open_options,
                atom_shape=inner,
            )
            direct = source.direct
        if direct and device.refuses_direct(index.filename):
            raise OptionsError(
                f"the file system of {index.filename!r} refuses direct I/O (O_DIRECT)",
                advice="Leave DRIVER='H5FD_DIRECT' out, or put the file on another file system",
                filename=index.filename,
            )
        # Frozen: a description does not change; what is added here only grows.
        for name, value in {
            "_lock": threading.Lock(),
            "_where": (filename, path),
            "_options": options,
            "_parts": {},
            "native": {},
        }.items():
            object.__setattr__(info, name, value)
        info._add("", index, direct, board)
        return info

    def part(self, field: str, board: _core.Board) -> Part:
        """Return the dataset or a column, indexed if it was not yet."""
        with self._lock:
            known: Part | None = self._parts.get(field)
            if known is not None:
                return known
            filename, path = self._where
            with open_source(filename, self._options) as source:
                index = source.index(path, field)
                direct = source.direct
            before = self._parts[""].index.fingerprint
            if index.fingerprint != before:
                raise FileChangedError(
                    f"{self.filename!r} changed after {self.path!r} was indexed "
                    f"({before.size_bytes} -> {index.fingerprint.size_bytes} bytes)",
                    good="Results that were taken before are good",
                    advice="Finish writing, then get the dataset again",
                    filename=self.filename,
                    path=self.path,
                    expected=before.size_bytes,
                    got=index.fingerprint.size_bytes,
                )
            return self._add(field, index, direct, board)

    def by_library(self, field: str) -> None:
        """Let a library read a column, because the core turned out not to."""
        self._parts[field].core = None
        self.native.pop(field, None)

    def _add(self, field: str, index: ChunkIndex, direct: bool, board: _core.Board) -> Part:
        part = Part(index, index.dims, None, index.reason or "ragged")
        if self.kind != "vlarray":
            table = lookup_table(index, direct=direct, native_filters=_core.native_filters())
            dataset = table.datasets[0]
            part = Part(index, dataset.chunk_dims, None, dataset.reason)
            if not dataset.reason:
                encoded = plan_bytes.encode_datasets(table, self.open_options, [field])
                part.core = made(
                    lambda: board.dataset(encoded, index.dtype, list(index.row_shape)),
                    len(encoded),
                )
                self.native[field] = part.core
        self._parts[field] = part
        return part
