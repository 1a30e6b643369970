"""Writes a saved index: objects come in, their tables go out.

Law
---
1. Parts of datasets are written as they come: not all need fit into memory. Tables come last.

This file must never know what HDF5 says of an object.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from _multitables.index.chunk_index import Fingerprint, Records
from _multitables.index.saved.format import (
    CHECKED_FROM,
    CHUNK_COLUMNS,
    COLUMNS,
    HEADS,
    KINDS,
    LINK_KINDS,
    MAGIC,
    NO_NUMBER,
    NO_VALUE,
    VERSION,
    Head,
    unsigned,
)

#: Of each file of a manifest.
FILE_COLUMNS = [name for name, _, count in COLUMNS if count == "n_files"]


class Link(NamedTuple):
    """One link of a group, as it is saved."""

    name: bytes
    order: int | None
    kind: str
    target: int


class IndexWriter:
    """Takes objects one by one, file by file, and writes their tables in the end."""

    def __init__(self, file: BinaryIO, version: int = VERSION) -> None:
        #: Of the file that is being read, and of those before it.
        self._objects: list[tuple[int, ...]] = []
        self._sorted: list[tuple[int, ...]] = []
        self._surveyed: dict[str, bytearray] = {}
        self._files: dict[str, list[int]] = {name: [] for name in FILE_COLUMNS}
        self._names = bytearray()
        self._links: list[Link] = []
        self._values: dict[bytes, int] = {}
        self._parts_bytes = 0
        self._file = file
        self._file.write(bytes(HEADS[version].size))

    def value(self, value: object) -> int:
        """Keep a value of JSON's types; its number."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        return self._values.setdefault(text, len(self._values))

    def links(self, links: list[Link]) -> tuple[int, int]:
        """Keep the links of a group; the object's `first` and `second`."""
        first = len(self._links)
        self._links += sorted(links, key=lambda link: link.name)
        return first, len(links)

    def chunks(self, chunks: Records) -> tuple[int, int, int]:
        """Write a chunk table; the object's `first`, `second` and `checksum`."""
        columns = CHUNK_COLUMNS.items()
        stored = b"".join(np.asarray(chunks[name], kind).tobytes() for name, kind in columns)
        first, _, checksum = self.part(stored)
        return first, len(chunks), checksum

    def part(self, stored: bytes) -> tuple[int, int, int]:
        """Write elements; the object's `first`, `second` and `checksum`."""
        first = self._parts_bytes
        self._file.write(stored)
        self._parts_bytes += len(stored)
        return first, len(stored), zlib.crc32(stored)

    def add(
        self,
        offset: int,
        kind: str,
        *,
        attributes: int = NO_VALUE,
        space: int = NO_VALUE,
        storage: int = NO_VALUE,
        place: tuple[int, ...] = (),
    ) -> None:
        """Keep one object; `place` is as much of `first`, `second` and `checksum` as it has."""
        first, second, checksum = (*place, 0, 0, 0)[:3]
        self._objects.append(
            (offset, first, second, attributes, space, storage, checksum, KINDS.index(kind))
        )

    def offsets(self) -> list[int]:
        """Where the headers of the objects are, in their order."""
        return sorted(row[0] for row in self._objects)

    def end_file(self, surveyed: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on with the next file; survey.py has made the columns of this one's objects."""
        self._sorted += sorted(self._objects)
        self._objects = []
        for name, column in surveyed.items():
            self._surveyed.setdefault(name, bytearray()).extend(column.astype("<u8").tobytes())

    def name_file(self, filename: str, fingerprint: Fingerprint, root: int) -> None:
        """Say which file it was that ended, in a manifest."""
        of, access = fingerprint, fingerprint.access
        self._names += os.fsencode(filename) + b"\0"
        etag = NO_VALUE if access is None else self.value(access.etag)
        ends = len(self._sorted), len(self._names)
        row = (of.device, of.inode, of.size_bytes, unsigned(of.mtime_ns), root, *ends, etag)
        for column, number in zip(self._files.values(), row, strict=True):
            column.append(number)

    def finish(
        self, kinds: npt.NDArray[np.uint8], fingerprint: Fingerprint | None, root: int = 0
    ) -> None:
        """Write the tables and the head; of a manifest, without a fingerprint.

        `kinds` has those that survey.py numbered.
        """
        columns = {**self._columns(), "kinds": kinds, "file_names": _bytes(bytes(self._names))}
        sizes = self._files["file_size"]
        of = fingerprint or Fingerprint(0, 0, sum(sizes) % 2**64, 0)
        tables = b"".join(
            np.asarray(columns[name], np.dtype(kind)).tobytes() for name, kind, _ in COLUMNS
        )
        values = b"".join(self._values)
        head = Head(
            of.size_bytes,
            unsigned(of.mtime_ns),
            of.inode,
            self._parts_bytes,
            len(self._sorted),
            len(self._links),
            len(self._values),
            len(columns["dims"]),
            len(columns["scale_axis"]),
            len(columns["names"]),
            len(columns["kinds"]),
            len(values),
            zlib.crc32(tables),
            zlib.crc32(values),
            root,
            len(sizes),
            len(self._names),
        )
        fields, layout = astuple(head), HEADS[head.version]
        stored = fields if head.n_files else fields[:-2]
        numbers = layout.pack(b"", 0, 0, *stored)[CHECKED_FROM:]
        self._file.write(tables + values)
        self._file.seek(0)
        self._file.write(layout.pack(MAGIC, head.version, zlib.crc32(numbers), *stored))

    def _columns(self) -> dict[str, Any]:
        names = ("header_offset", "first", "second", "attributes", "space", "storage")
        rows = zip(*self._sorted, strict=True) if self._sorted else iter(((),) * 8)
        columns: dict[str, Any] = dict(zip((*names, "checksum", "kind"), rows, strict=True))
        surveyed = {name: np.frombuffer(column, "<u8") for name, column in self._surveyed.items()}
        for ends, counts in (("dims_end", "rank"), ("scale_end", "n_scales")):
            surveyed[ends] = np.cumsum(surveyed[counts])
        orders = (NO_NUMBER if link.order is None else link.order for link in self._links)
        return {
            **columns,
            **surveyed,
            **self._files,
            "link_target": [link.target for link in self._links],
            "link_order": list(orders),
            "link_kind": [LINK_KINDS.index(link.kind) for link in self._links],
            "link_end": _ends(len(link.name) + 1 for link in self._links),
            "names": _bytes(b"".join(link.name + b"\0" for link in self._links)),
            "value_end": _ends(map(len, self._values)),
        }


def _ends(lengths: Any) -> npt.NDArray[np.uint64]:
    return np.cumsum(np.fromiter(lengths, np.uint64), dtype=np.uint64)


def _bytes(blob: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(blob, np.uint8)
