"""A saved index: the tables of a file's objects, links and chunks, as bytes of a file of their own.

The bytes, of version 3; all numbers are little-endian:

- `HEAD`: the magic, the version, the CRC-32 of what follows in the head, and `Head`'s numbers.
- The parts of datasets, one behind the other. A chunk table: of n chunks the columns grid_index,
  byte_offset and stored_size (8 bytes each) and filter_mask (4), as the core tells them. Or the
  elements of a compact dataset.
- The columns of `COLUMNS`, one behind the other. Objects are sorted by the offset of their header,
  the links of a group by name. Names end with a NUL.
- The values. A value is JSON, with bytes as Latin-1, and is kept once, however many objects have
  it.

What an object's ``first`` and ``second`` say: its first link and their number (a group); where its
part begins, and how many chunks (chunked) or bytes (compact) that has, of which ``checksum`` is the
CRC-32; the address of its bytes (contiguous); an object of the global heap (virtual). What
``common``, ``dims_end``, ``scale_end`` and the kinds say, survey.py knows.

Law
---
1. Written whole or not at all: under a name of its own, then renamed.
2. Nothing is trusted: sums, then ranges, when it is read; parts and values when they are asked for.
   No memory map: others may truncate the file.
3. An index of another version, or of a file that has changed since, is not used.

This file must never know what HDF5 says of an object.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables._core import Descriptor
from _multitables.index.chunk_index import CHUNK, U64, Fingerprint, Records, chunks_of
from _multitables.index.saved.owners import folder_for, opened_index

I64 = npt.NDArray[np.int64]

MAGIC = b"\x89MTIDX\r\n"
VERSION = 3
HEAD = struct.Struct("<8sII15Q")
#: An entry has no more bytes than this many times those that it has in the file, beside some.
MAX_RATIO, FREE_BYTES = 64, 1 << 20
CHECKED_FROM = 16  # of the head
#: No creation order, no address; no value: the file itself must be asked.
NO_NUMBER, NO_VALUE = 2**64 - 1, 2**32 - 1
CHUNK_COLUMNS = {name: CHUNK[name] for name in (CHUNK.names or ())[:4]}

KINDS = ("group", "dataset", "datatype", "other")
LINK_KINDS = ("hard", "soft", "external", "user_defined")
GROUP, DATASET = KINDS.index("group"), KINDS.index("dataset")
HARD, USER_DEFINED = 0, 3

#: Name, element type, and of what there is one entry each; wide ones first, so all are aligned.
COLUMNS = (
    ("header_offset", "<u8", "n_objects"),
    ("first", "<u8", "n_objects"),
    ("second", "<u8", "n_objects"),
    ("link_target", "<u8", "n_links"),
    ("link_order", "<u8", "n_links"),
    ("link_end", "<u8", "n_links"),
    ("value_end", "<u8", "n_values"),
    ("dims_end", "<u8", "n_objects"),
    ("dims", "<u8", "n_dims"),
    ("chunk_dims", "<u8", "n_dims"),
    ("scale_end", "<u8", "n_objects"),
    ("scale_axis", "<u8", "n_scales"),
    ("scale_target", "<u8", "n_scales"),
    ("attributes", "<u4", "n_objects"),
    ("space", "<u4", "n_objects"),
    ("storage", "<u4", "n_objects"),
    ("checksum", "<u4", "n_objects"),
    ("common", "<u4", "n_objects"),
    ("kind", "u1", "n_objects"),
    ("link_kind", "u1", "n_links"),
    ("names", "u1", "names_bytes"),
    ("kinds", "u1", "kinds_bytes"),
)


class DamagedIndexError(Exception):
    """What is wrong with a saved index."""


@dataclass(frozen=True)
class Head:
    """The numbers of the head, in their order."""

    size_bytes: int
    mtime_ns: int
    inode: int
    parts_bytes: int
    n_objects: int
    n_links: int
    n_values: int
    n_dims: int
    n_scales: int
    names_bytes: int
    kinds_bytes: int
    values_bytes: int
    tables_sum: int
    values_sum: int
    root: int

    def is_of(self, fingerprint: Fingerprint) -> bool:
        """Whether the file is as it was; devices are numbered anew when a machine starts."""
        of_file = (fingerprint.size_bytes, _unsigned(fingerprint.mtime_ns), fingerprint.inode)
        return of_file == (self.size_bytes, self.mtime_ns, self.inode)


class Link(NamedTuple):
    """One link of a group, as it is saved."""

    name: bytes
    order: int | None
    kind: str
    target: int


@contextlib.contextmanager
def replaced(filename: str, *, private: bool = False) -> Iterator[BinaryIO]:
    """Open a new file, which takes the place of another when the context ends without an error.

    A private one is in a folder of this user's, which is made if it is missing.
    """
    name = os.path.basename(filename)
    part = f"{name}.{os.urandom(4).hex()}.tmp"
    folder = folder_for(filename, private=private)
    at = folder.fileno()
    try:
        written = Descriptor.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, folder)
        with open(written.fileno(), "wb", closefd=False) as file:
            yield file
        written.close()
        os.replace(part, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part, dir_fd=at)
        raise


class IndexWriter:
    """Takes objects one by one, and writes their tables in the end."""

    def __init__(self, file: BinaryIO) -> None:
        self._objects: list[tuple[int, ...]] = []
        self._links: list[Link] = []
        self._values: dict[bytes, int] = {}
        self._parts_bytes = 0
        self._file = file
        self._file.write(bytes(HEAD.size))

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

    def finish(self, fingerprint: Fingerprint, surveyed: Mapping[str, Any], root: int) -> None:
        """Write the tables and the head; survey.py has made the columns `surveyed`."""
        columns = {**self._columns(), **surveyed}
        tables = b"".join(
            np.asarray(columns[name], np.dtype(kind)).tobytes() for name, kind, _ in COLUMNS
        )
        values = b"".join(self._values)
        head = Head(
            fingerprint.size_bytes,
            _unsigned(fingerprint.mtime_ns),
            fingerprint.inode,
            self._parts_bytes,
            len(self._objects),
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
        )
        numbers = HEAD.pack(b"", 0, 0, *astuple(head))[CHECKED_FROM:]
        self._file.write(tables + values)
        self._file.seek(0)
        self._file.write(HEAD.pack(MAGIC, VERSION, zlib.crc32(numbers), *astuple(head)))

    def _columns(self) -> dict[str, Any]:
        names = ("header_offset", "first", "second", "attributes", "space", "storage")
        rows = zip(*sorted(self._objects), strict=True) if self._objects else iter(((),) * 8)
        columns: dict[str, Any] = dict(zip((*names, "checksum", "kind"), rows, strict=True))
        orders = (NO_NUMBER if link.order is None else link.order for link in self._links)
        return {
            **columns,
            "link_target": [link.target for link in self._links],
            "link_order": list(orders),
            "link_kind": [LINK_KINDS.index(link.kind) for link in self._links],
            "link_end": _ends(len(link.name) + 1 for link in self._links),
            "names": _bytes(b"".join(link.name + b"\0" for link in self._links)),
            "value_end": _ends(map(len, self._values)),
        }


class SavedIndex:
    """The tables of a file, read and checked."""

    def __init__(self, fd: Descriptor, head: Head, columns: dict[str, npt.NDArray[Any]]) -> None:
        self._fd = fd
        self.head = head
        self._values: memoryview | None = None
        self.header_offset, self.kind = columns["header_offset"], columns["kind"]
        self._offsets = self.header_offset.data
        self.first, self.second = columns["first"], columns["second"]
        self.attributes, self.space = columns["attributes"], columns["space"]
        self.storage, self.checksum = columns["storage"], columns["checksum"]
        self.link_target, self.link_order = columns["link_target"], columns["link_order"]
        self.link_end, self.link_kind = columns["link_end"], columns["link_kind"]
        self.common, self.kinds = columns["common"], columns["kinds"]
        self.dims_end, self.dims = columns["dims_end"], columns["dims"]
        self.chunk_dims, self.scale_end = columns["chunk_dims"], columns["scale_end"]
        self.scale_axis, self.scale_target = columns["scale_axis"], columns["scale_target"]
        self.value_end = columns["value_end"]
        self.names = columns["names"].data  # copying it would take as long as reading it
        #: Close the file. May be called again; chunk tables cannot be asked for then.
        self.close = fd.close

    def row(self, offset: int) -> int | None:
        """The number of the object whose header is at an offset, if it is saved."""
        row = bisect_left(self._offsets, offset)
        is_saved = row < len(self._offsets) and self._offsets[row] == offset
        return row if is_saved else None

    def rows(self, offsets: U64) -> I64:
        """The numbers of the objects at some offsets; -1 if an object is not saved."""
        rows = self.header_offset.searchsorted(offsets)
        if not len(self.header_offset):
            return rows - 1
        is_saved = self.header_offset[np.minimum(rows, len(self.header_offset) - 1)] == offsets
        return np.where(is_saved, rows, -1)

    def value(self, number: int) -> Any:
        """A value of JSON's types."""
        if self._values is None:
            begin = HEAD.size + self.head.parts_bytes + _tables_bytes(self.head)
            values = _read(self._fd, begin, self.head.values_bytes)
            if zlib.crc32(values) != self.head.values_sum:
                raise DamagedIndexError("the checksum of the values differs")
            self._values = values
        begin = int(self.value_end[number - 1]) if number else 0
        try:
            return json.loads(bytes(self._values[begin : int(self.value_end[number])]))
        except (ValueError, RecursionError) as error:
            raise DamagedIndexError(f"value {number} is not JSON") from error

    def link_range(self, row: int) -> tuple[int, int]:
        """The first link of a group, and the end of its links."""
        first = int(self.first[row])
        return first, first + int(self.second[row])

    def link_name(self, link: int) -> bytes:
        """The name of a link."""
        return bytes(self.names[self._name_begin(link) : int(self.link_end[link]) - 1])

    def link_names(self, first: int, end: int) -> list[bytes]:
        """The names of links that follow one another."""
        return self.stored_names(first, end).split(b"\0")[:-1]

    def stored_names(self, first: int, end: int) -> bytes:
        """The same, each with a NUL."""
        return bytes(self.names[self._name_begin(first) : self._name_begin(end)])

    def _name_begin(self, link: int) -> int:
        return int(self.link_end[link - 1]) if link else 0

    def chunks(self, rows: I64) -> Records:
        """The chunk tables of datasets, one behind the other."""
        columns = self._parts(rows, [kind.itemsize for kind in CHUNK_COLUMNS.values()])
        return chunks_of(*map(np.ndarray.view, columns, CHUNK_COLUMNS.values()))

    def elements(self, rows: I64) -> list[bytes]:
        """The elements of compact datasets."""
        (column,) = self._parts(rows, [1])
        stored, ends = column.tobytes(), np.cumsum(self.second[rows]).tolist()
        return [stored[begin:end] for begin, end in pairwise([0, *ends])]

    def _parts(self, rows: I64, widths: list[int]) -> list[npt.NDArray[np.uint8]]:
        """Read and check parts of `second` entries: the columns, whose entries have `widths`."""
        first, second, limit = self.first[rows], self.second[rows], self.head.parts_bytes
        if np.any(second > limit // sum(widths)) or np.any(first > limit):
            raise DamagedIndexError("parts of datasets lie outside of all of them")
        sizes = second * np.uint64(sum(widths))
        most = int(np.bincount(rows).max(initial=0)) * limit  # an object may be asked for twice
        if np.any(first + sizes > limit) or float(sizes.sum(dtype=np.float64)) > most:
            raise DamagedIndexError("parts of datasets lie over one another")
        try:
            return _core.saved_parts(
                self._fd.fileno(), first + HEAD.size, second, self.checksum[rows], widths
            )
        except ValueError as error:
            raise DamagedIndexError(str(error)) from error


def read(filename: str, fingerprint: Fingerprint, of: str | None = None) -> SavedIndex | None:
    """Read a saved index; None if it is missing, or of another version or state of the file.

    `of` is the file beside which it lies; None: it is in the cache directory.

    Raises
    ------
    DamagedIndexError
        It contradicts itself, or is another kind of file.
    ForeignIndexError
        Another user may have written it.
    OSError
        It cannot be read.
    """
    fd = opened_index(filename, of)
    if fd is None:
        return None
    head = _read_head(fd, fingerprint)
    return None if head is None else SavedIndex(fd, head, _read_columns(fd, head))


def _read_head(fd: Descriptor, fingerprint: Fingerprint) -> Head | None:
    stored = bytes(_read(fd, 0, HEAD.size))
    magic, version, checksum, *numbers = HEAD.unpack(stored)
    if magic != MAGIC:
        raise DamagedIndexError(f"expected the magic {MAGIC!r}, got {magic!r}")
    if version != VERSION:
        return None
    if zlib.crc32(stored[CHECKED_FROM:]) != checksum:
        raise DamagedIndexError("the checksum of the head differs")
    head = Head(*numbers)
    if not head.is_of(fingerprint):
        return None
    expected = HEAD.size + head.parts_bytes + _tables_bytes(head) + head.values_bytes
    size = os.fstat(fd.fileno()).st_size
    if size != expected:
        raise DamagedIndexError(f"expected {expected} bytes, got {size}")
    most = FREE_BYTES + MAX_RATIO * head.size_bytes
    if size > most:
        raise DamagedIndexError(f"expected at most {most} bytes for this file, got {size}")
    return head


def _read_columns(fd: Descriptor, head: Head) -> dict[str, npt.NDArray[Any]]:
    tables = _read(fd, HEAD.size + head.parts_bytes, _tables_bytes(head))
    if zlib.crc32(tables) != head.tables_sum:
        raise DamagedIndexError("the checksum of the tables differs")
    parts = _split(tables, ((np.dtype(kind), getattr(head, count)) for _, kind, count in COLUMNS))
    columns = dict(zip((name for name, _, _ in COLUMNS), parts, strict=True))
    wrong = next((what for what, is_right in _checks(head, columns) if not is_right), None)
    if wrong is not None:
        raise DamagedIndexError(f"{wrong} contradict one another")
    return columns


def _checks(head: Head, of: dict[str, npt.NDArray[Any]]) -> Iterator[tuple[str, bool]]:
    """What may be relied on from here on."""
    groups = of["kind"] == GROUP
    yield "header offsets", _increase(of["header_offset"])
    yield "kinds", bool(np.all(of["kind"] < len(KINDS)))
    yield "kinds of links", bool(np.all(of["link_kind"] < len(LINK_KINDS)))
    for name in ("attributes", "space", "storage"):
        yield name, bool(np.all((of[name] < head.n_values) | (of[name] == NO_VALUE)))
    for name, blob in (("link_end", head.names_bytes), ("value_end", head.values_bytes)):
        ends = of[name]
        yield name, _increase(ends) and (int(ends[-1]) if len(ends) else 0) == blob
    for name, count in (("dims_end", head.n_dims), ("scale_end", head.n_scales)):
        ends = of[name]
        is_sorted = bool(np.all(ends[1:] >= ends[:-1]))
        yield name, is_sorted and (int(ends[-1]) if len(ends) else 0) == count
    names_end = np.flatnonzero(of["names"] == 0) + 1
    yield "names", np.array_equal(names_end.astype(np.uint64), of["link_end"])
    first, second = of["first"][groups], of["second"][groups]
    within = (first <= head.n_links) & (second <= head.n_links)
    yield "links of groups", bool(np.all(within)) and bool(np.all(first + second <= head.n_links))
    texts = (of["link_kind"] > HARD) & (of["link_kind"] < USER_DEFINED)
    yield "targets of links", bool(np.all(of["link_target"][texts] < head.n_values))


def _increase(column: npt.NDArray[Any]) -> bool:
    return bool(np.all(column[1:] > column[:-1]))


def _tables_bytes(head: Head) -> int:
    return sum(np.dtype(kind).itemsize * int(getattr(head, count)) for _, kind, count in COLUMNS)


def _split(stored: memoryview, parts: Iterator[tuple[np.dtype[Any], int]]) -> Iterator[Any]:
    begin = 0
    for kind, count in parts:
        yield np.frombuffer(stored, kind, count, begin)
        begin += kind.itemsize * count


def _read(fd: Descriptor, begin: int, count: int) -> memoryview:
    """Read exactly these bytes, of which the file's size was compared with the head."""
    view, done = np.empty(count, np.uint8).data, 0
    while done < count:
        got = os.preadv(fd.fileno(), [view[done:]], begin + done)
        if not got:
            raise DamagedIndexError("it ends too early")
        done += got
    return view


def _unsigned(number: int) -> int:
    """Times before 1970 are negative."""
    return number % 2**64


def _ends(lengths: Any) -> npt.NDArray[np.uint64]:
    return np.cumsum(np.fromiter(lengths, np.uint64), dtype=np.uint64)


def _bytes(blob: bytes) -> npt.NDArray[np.uint8]:
    return np.frombuffer(blob, np.uint8)
