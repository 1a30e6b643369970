"""A saved index: the tables of objects, links and chunks, as bytes of a file of their own.

It is of one file (version 3), or a manifest of many (version 4). All numbers are little-endian:

- `HEAD`: the magic, the version, the CRC-32 of what follows in the head, and `Head`'s numbers.
- The parts of datasets, one behind the other. A chunk table: of n chunks the columns grid_index,
  byte_offset and stored_size (8 bytes each) and filter_mask (4), as the core tells them. Or the
  elements of a compact dataset.
- The columns of `COLUMNS`, one behind the other. Objects are those of the first file, of the second
  and so on; of one file they are sorted by the offset of their header. The links of a group are
  sorted by name. Names end with a NUL. An index of one file has no columns of files.
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
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables._core import Descriptor
from _multitables.index.chunk_index import CHUNK, U32, U64, Fingerprint, Records
from _multitables.index.saved.owners import folder_for, opened_index

I64 = npt.NDArray[np.int64]

MAGIC = b"\x89MTIDX\r\n"
VERSION, MANIFEST = 3, 4
HEADS = {VERSION: struct.Struct("<8sII15Q"), MANIFEST: struct.Struct("<8sII17Q")}
HEAD = HEADS[VERSION]
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
    ("file_device", "<u8", "n_files"),
    ("file_inode", "<u8", "n_files"),
    ("file_size", "<u8", "n_files"),
    ("file_mtime", "<u8", "n_files"),
    ("file_root", "<u8", "n_files"),
    ("file_objects_end", "<u8", "n_files"),
    ("file_name_end", "<u8", "n_files"),
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
    ("file_etag", "<u4", "n_files"),
    ("attributes", "<u4", "n_objects"),
    ("space", "<u4", "n_objects"),
    ("storage", "<u4", "n_objects"),
    ("checksum", "<u4", "n_objects"),
    ("common", "<u4", "n_objects"),
    ("kind", "u1", "n_objects"),
    ("link_kind", "u1", "n_links"),
    ("names", "u1", "names_bytes"),
    ("kinds", "u1", "kinds_bytes"),
    ("file_names", "u1", "files_bytes"),
)

#: What a survey is made of.
OF_SURVEYS = (
    "header_offset",
    "common",
    "kind",
    "dims_end",
    "dims",
    "chunk_dims",
    "scale_end",
    "scale_axis",
    "scale_target",
)


class DamagedIndexError(Exception):
    """What is wrong with a saved index."""


@dataclass(frozen=True)
class Head:
    """The numbers of the head, in their order; a manifest has the last two, and no root."""

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
    n_files: int = 0
    files_bytes: int = 0

    @property
    def version(self) -> int:
        """Of what version the index is."""
        return MANIFEST if self.n_files else VERSION

    @property
    def n_bytes(self) -> int:
        """The bytes of the head."""
        return HEADS[self.version].size

    def is_of(self, fingerprint: Fingerprint) -> bool:
        """Whether the file is as it was; devices are numbered anew when a machine starts."""
        of_file = (fingerprint.size_bytes, unsigned(fingerprint.mtime_ns), fingerprint.inode)
        return of_file == (self.size_bytes, self.mtime_ns, self.inode)


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


class SavedIndex:
    """The tables of a file, or of many, read and checked."""

    def __init__(self, fd: Descriptor, head: Head, columns: dict[str, npt.NDArray[Any]]) -> None:
        self._fd = fd
        self.head = head
        self._columns = columns
        #: Where the headers of which objects are searched: those of one file.
        self.begin, self.end, self.root = 0, head.n_objects, head.root
        self._values: memoryview | None = None
        self.header_offset, self.kind = columns["header_offset"], columns["kind"]
        self._offsets = self.header_offset.data
        self.first, self.second = columns["first"], columns["second"]
        self.attributes, self.space = columns["attributes"], columns["space"]
        self.storage, self.checksum = columns["storage"], columns["checksum"]
        self.link_target, self.link_order = columns["link_target"], columns["link_order"]
        self.link_end, self.link_kind = columns["link_end"], columns["link_kind"]
        self.common, self.kinds = columns["common"], columns["kinds"]
        self.value_end = columns["value_end"]
        self.names = columns["names"].data  # copying it would take as long as reading it
        #: Close the file. May be called again; chunk tables cannot be asked for then.
        self.close = fd.close

    def of_file(self, number: int) -> SavedIndex:
        """The index of one file of a manifest; what both have is there once."""
        ends = self._columns["file_objects_end"]
        one = copy(self)
        one.begin, one.end = int(ends[number - 1]) if number else 0, int(ends[number])
        one.root = int(self._columns["file_root"][number])
        one.close = lambda: None
        return one

    def of_files(self, name: str) -> npt.NDArray[Any]:
        """A column of a manifest's files, without `file_`."""
        return self._columns[f"file_{name}"]

    def row(self, offset: int) -> int | None:
        """The number of the object whose header is at an offset, if it is saved."""
        row = bisect_left(self._offsets, offset, self.begin, self.end)
        is_saved = row < self.end and self._offsets[row] == offset
        return row if is_saved else None

    def rows(self, offsets: U64) -> I64:
        """The numbers of the objects at some offsets; -1 if an object is not saved."""
        header_offset = self.header_offset[self.begin : self.end]
        rows = header_offset.searchsorted(offsets)
        if not len(header_offset):
            return rows - 1
        is_saved = header_offset[np.minimum(rows, len(header_offset) - 1)] == offsets
        return np.where(is_saved, rows + self.begin, -1)

    def value(self, number: int) -> Any:
        """A value of JSON's types."""
        if self._values is None:
            begin = self.head.n_bytes + self.head.parts_bytes + _tables_bytes(self.head)
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

    def chunks(self, row: int) -> Records:
        """The chunk table of a dataset."""
        with _damage():
            return _core.saved_chunks(self._stored, row)

    def elements(self, row: int) -> bytes:
        """The elements of a compact dataset."""
        with _damage():
            return _core.saved_elements(self._stored, row)

    def survey(
        self, rows: I64, files: U32, kinds: dict[int, _core.StoredKind], with_scales: bool
    ) -> _core.Survey:
        """What objects are, each in a file of this number; `kinds` has those that they name."""
        columns = tuple(self._columns[name] for name in OF_SURVEYS)
        with _damage():
            return _core.saved_survey(self._stored, columns, rows, files, kinds, with_scales)

    @property
    def _stored(self) -> _core.SavedParts:
        begin, limit = self.head.n_bytes, self.head.parts_bytes
        return self._fd.fileno(), begin, limit, self.first, self.second, self.checksum


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise DamagedIndexError(f"its columns contradict one another: {error}") from None


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
    head = _read_head(fd, VERSION)
    if head is None or not head.is_of(fingerprint):
        return None
    _check_size(fd, head)
    return SavedIndex(fd, head, _read_columns(fd, head))


def read_manifest(filename: str) -> SavedIndex | None:
    """Read the index of many files; None if it is one of another version.

    Raises
    ------
    DamagedIndexError
        It contradicts itself, or is another kind of file.
    OSError
        It cannot be read.
    """
    fd = Descriptor.open(filename, os.O_RDONLY | os.O_NONBLOCK)
    head = _read_head(fd, MANIFEST)
    if head is None:
        return None
    _check_size(fd, head)
    return SavedIndex(fd, head, _read_columns(fd, head))


def _read_head(fd: Descriptor, expected: int) -> Head | None:
    stored = bytes(_read(fd, 0, HEAD.size))
    magic, version, checksum, *_ = HEAD.unpack(stored)
    if magic != MAGIC:
        raise DamagedIndexError(f"expected the magic {MAGIC!r}, got {magic!r}")
    if version != expected:
        return None
    layout = HEADS[expected]
    stored = bytes(_read(fd, 0, layout.size))
    if zlib.crc32(stored[CHECKED_FROM:]) != checksum:
        raise DamagedIndexError("the checksum of the head differs")
    head = Head(*layout.unpack(stored)[3:])
    if head.version != expected:
        raise DamagedIndexError("a manifest has no files")
    return head


def _check_size(fd: Descriptor, head: Head) -> None:
    expected = head.n_bytes + head.parts_bytes + _tables_bytes(head) + head.values_bytes
    size = os.fstat(fd.fileno()).st_size
    if size != expected:
        raise DamagedIndexError(f"expected {expected} bytes, got {size}")
    most = FREE_BYTES * max(1, head.n_files) + MAX_RATIO * head.size_bytes
    if size > most:
        raise DamagedIndexError(f"expected at most {most} bytes for this file, got {size}")


def _read_columns(fd: Descriptor, head: Head) -> dict[str, npt.NDArray[Any]]:
    tables = _read(fd, head.n_bytes + head.parts_bytes, _tables_bytes(head))
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
    ends = of["file_objects_end"].astype(np.int64)
    in_order = not len(ends) or (ends[-1] == head.n_objects and bool(np.all(np.diff(ends) >= 0)))
    yield "objects of files", in_order and not (len(ends) and ends[0] < 0)
    is_first = np.zeros(head.n_objects + 1, bool)
    is_first[ends] = True
    increases = of["header_offset"][1:] > of["header_offset"][:-1]
    yield "header offsets", bool(np.all(increases | is_first[1:-1]))
    yield "kinds", bool(np.all(of["kind"] < len(KINDS)))
    yield "kinds of links", bool(np.all(of["link_kind"] < len(LINK_KINDS)))
    for name in ("attributes", "space", "storage", "file_etag"):
        yield name, bool(np.all((of[name] < head.n_values) | (of[name] == NO_VALUE)))
    for name, blob in (("link_end", head.names_bytes), ("value_end", head.values_bytes)):
        ends = of[name]
        yield name, _increase(ends) and (int(ends[-1]) if len(ends) else 0) == blob
    for name, count in (("dims_end", head.n_dims), ("scale_end", head.n_scales)):
        ends = of[name]
        is_sorted = bool(np.all(ends[1:] >= ends[:-1]))
        yield name, is_sorted and (int(ends[-1]) if len(ends) else 0) == count
    for names, name_end in (("names", "link_end"), ("file_names", "file_name_end")):
        names_end = np.flatnonzero(of[names] == 0) + 1
        yield names, np.array_equal(names_end.astype(np.uint64), of[name_end])
    yield "names of files", not head.files_bytes or of["file_names"][-1] == 0
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


def unsigned(number: int) -> int:
    """Times before 1970 are negative."""
    return number % 2**64
