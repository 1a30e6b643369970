"""What a dataset's rows are and where its bytes lie, as a value.

Law
---
1. An index is a value: once made it needs no file. Addresses are absolute in the file (a user
   block is part of it), sorted by the chunk's place in the grid, and inside the file.
2. A dataset whose stored bytes are not the delivered bytes is `ByLibrary`, and says why. An unknown
   filter is not such a reason: the core says which filters it knows (`why_library`).
3. Chunks, and rows, may lie in other files, which the index names.
"""

from __future__ import annotations

import math
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from _multitables import _core, sizes
from _multitables.index.types.kind import Kind

if TYPE_CHECKING:
    from _multitables.remote.access import Access
    from _multitables.remote.options import StorageOptions

I64 = npt.NDArray[np.int64]
U32 = npt.NDArray[np.uint32]
U64 = npt.NDArray[np.uint64]
#: Such as those of stored chunks, as the core has them, whose source is the number of a file of the
#: dataset, or of a source of a table.
Records = npt.NDArray[Any]
CHUNK: np.dtype[Any] = _core.chunk_dtype()
T = TypeVar("T")


def changed(value: T, **fields: Any) -> T:
    """Return a copy of a dataclass with these fields changed.

    `dataclasses.replace` calls the constructor with every field, which slows first reads down.
    """
    made = object.__new__(type(value))
    made.__dict__.update(value.__dict__, **fields)
    return made


@dataclass(frozen=True)
class Fingerprint:
    """What changes with a file; taken before the file is indexed."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    #: Of an object of a store: how to get at it. It has no device and no time of change, and the
    #: number of its version is its inode.
    access: Access | None = field(default=None, compare=False, repr=False)
    #: Keeps a file of this machine open, which may lose its name before its data is read.
    opened: _core.OpenedFile | None = field(
        default=None, compare=False, repr=False, metadata={"stays": True}
    )

    @classmethod
    def of(cls, stat: os.stat_result) -> Fingerprint:
        """Take it from what the system says of a file."""
        return cls(stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)

    def for_library(self, open_options: Mapping[str, object]) -> Mapping[str, object]:
        """Return options with how a library's process gets at an object: see `object_file.Access`.

        They have secrets then, and are not to be shown. Of a file, they say which one it is.
        """
        if self.access is None:
            return {**open_options, "file": [self.device, self.inode]}
        client = [self.access.etag, self.access.options.client_text(self.access.name)]
        return {**open_options, "access": {"client": client, "size": self.size_bytes}}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file in which chunks lie."""

    filename: str
    fingerprint: Fingerprint

    def for_table(self, inline: bytes = b"", flags: int = 0) -> _core.Source:
        """What a table says of it: see `_core.Source`."""
        of = self.fingerprint
        state = of.device, of.inode, of.size_bytes, of.mtime_ns
        access = of.access.encoded if of.access else b""
        return os.fsencode(self.filename), state, inline, access, flags


@dataclass(frozen=True, eq=False)
class ManyFiles(Sequence[SourceFile]):
    """The files of a manifest by their numbers: columns, of which each is made when it is named."""

    #: One behind the other, each with a NUL; and where each ends.
    names: bytes
    ends: U64
    #: Device, inode, size and time of change of each.
    states: U64
    #: Of objects of a store; of files of this machine none.
    etags: tuple[str, ...] = ()
    storage: StorageOptions | None = None
    #: The name of what lists them, or "".
    listed_by: str = ""

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, number: Any) -> Any:
        number = int(number)
        if not -len(self) <= number < len(self):
            raise IndexError(number)
        return SourceFile(self.filename(number), self.fingerprint(number))

    def filename(self, number: int) -> str:
        """Return the name of a file."""
        begin = int(self.ends[number - 1]) if number else 0
        return os.fsdecode(self.names[begin : int(self.ends[number]) - 1])

    def fingerprint(self, number: int) -> Fingerprint:
        """Return what identifies a file, as it was when it was read."""
        device, inode, size, mtime_ns = self.states[number].tolist()
        etag = self.etags[number] if self.etags else ""
        if etag:
            from _multitables.remote.access import Access, version_number  # few need it

            assert self.storage is not None
            access = Access(self.filename(number), etag, self.storage)
            return Fingerprint(0, version_number(etag), size, 0, access)
        signed = mtime_ns - 2**64 if mtime_ns >= 2**63 else mtime_ns
        return Fingerprint(device, inode, size, signed)

    @property
    def filenames(self) -> list[str]:
        """The names of all."""
        return os.fsdecode(self.names).split("\0")[:-1]

    @property
    def size_bytes(self) -> U64:
        """The sizes of all."""
        return self.states[:, 2]

    @property
    def is_remote(self) -> bool:
        """Whether a store has any of them."""
        return bool(self.etags)

    def for_table(self, flags: int) -> Sequence[_core.Source] | _core.FileColumns:
        """What a table says of them."""
        if self.is_remote:
            return [file.for_table(flags=flags) for file in self]
        return self.names, self.ends, self.states, flags


def grid_of(dims: tuple[int, ...], chunk_dims: tuple[int, ...]) -> tuple[int, ...]:
    """Chunks along each axis."""
    return tuple(-(-dim // chunk) for dim, chunk in zip(dims, chunk_dims, strict=True))


@dataclass(frozen=True)
class AxisWindow:
    """Which indices of an axis rows have: `count` of them from `start` on, `step` apart.

    If `step` is negative the last one comes first. Chunks that have none of them are not counted.
    """

    start: int
    step: int
    count: int
    #: An integer chose its only index, so the axis is dropped.
    is_dropped: bool = False

    def n_chunks(self, extent: int) -> int:
        """Chunks of this extent that have any."""
        if abs(self.step) > extent or not self.count:
            return self.count
        last = self.start + abs(self.step) * (self.count - 1)
        return last // extent - self.start // extent + 1

    def numbers(self, chunks: U64, extent: int) -> tuple[U64, npt.NDArray[np.bool_]]:
        """Number the chunks of an axis among those that have any; and tell which ones do."""
        step, one = np.uint64(abs(self.step)), np.uint64(extent)
        start = np.uint64(self.start)
        if step <= one:
            numbers = chunks - start // one
            return numbers, numbers < np.uint64(self.n_chunks(extent))  # below 0 is far above
        begin = np.maximum(chunks * one, start)
        numbers = (begin - start + step - np.uint64(1)) // step
        within = start + numbers * step < (chunks + np.uint64(1)) * one
        return numbers, within & (numbers < np.uint64(self.count))

    @property
    def key(self) -> slice:
        """The indices as a slice."""
        if not self.count:
            return slice(0, 0)
        last = self.start + abs(self.step) * (self.count - 1)
        if self.step > 0:
            return slice(self.start, last + 1, self.step)
        return slice(last, self.start - 1 if self.start else None, self.step)


def chunks_of(
    grid_index: npt.ArrayLike,
    byte_offset: npt.ArrayLike,
    stored_size: npt.ArrayLike,
    filter_mask: npt.ArrayLike = 0,
    source: npt.ArrayLike = 0,
) -> Records:
    """Return chunks by what each field is of each, or of all."""
    chunks = np.empty(np.shape(grid_index), CHUNK)
    fields = (grid_index, byte_offset, stored_size, filter_mask, source)
    for name, values in zip(CHUNK.names or (), fields, strict=True):
        chunks[name] = values
    return chunks


NO_CHUNKS = np.zeros(0, CHUNK)
NO_NUMBERS = np.zeros(0, np.uint64)
for _nothing in (NO_CHUNKS, NO_NUMBERS):  # they are shared
    _nothing.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Members(Sequence["ChunkIndex"]):
    """Datasets whose rows follow each other. Those of many files are made when they are named."""

    #: Of each dataset.
    rows: I64 = field(default_factory=lambda: np.zeros(0, np.int64))
    #: Each of them, or one of many files that are stored alike, and which of the files they are in.
    each: tuple[ChunkIndex, ...] = ()
    files: ManyFiles | None = None
    numbers: I64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, at: Any) -> Any:
        if self.files is None:
            return self.each[at]
        (first,), rows, of = self.each, int(self.rows[at]), self.files[self.numbers[at]]
        return changed(first, files=(of,), dims=(rows, *first.dims[1:]), chunks=NO_CHUNKS)

    def begins(self, extent: int) -> I64:
        """The first row of each, if each begins with a new chunk of this extent."""
        ends = np.cumsum(-(-self.rows // extent) * extent)
        return np.append(np.int64(0), ends[:-1])

    def chosen(self, at: I64) -> Members:
        """Return some of them."""
        if self.files is None:
            return replace(self, rows=self.rows[at], each=tuple(self.each[n] for n in at))
        return replace(self, rows=self.rows[at], numbers=self.numbers[at])


NO_MEMBERS = Members()
NO_INDEXES: tuple[ChunkIndex, ...] = ()
NO_INDEX: ChunkIndex | None = None


@dataclass(frozen=True)
class ChunkIndex:
    """What the rows of one dataset are; its class says where they come from."""

    #: The dataset's own (external links are followed), then others in which chunks lie.
    files: tuple[SourceFile, ...] | ManyFiles = field(repr=False)
    #: Absolute path in the file.
    path: str
    kind: Kind
    #: Dims of the dataset in HDF5's sense, at least one.
    dims: tuple[int, ...]
    chunk_dims: tuple[int, ...] | None
    #: What rows have of each axis behind the first of `dims`; (): all.
    windows: tuple[AxisWindow, ...] = ()

    # What only some classes have, as their fields.
    chunks = NO_CHUNKS
    #: Stored bytes that lie in the file's metadata.
    inline = b""
    #: The datasets of which it shows parts.
    shown = NO_INDEXES
    #: Datasets of several files whose rows it has, one behind the other.
    members = NO_MEMBERS
    #: Of rows of any length in global heaps: what says which object each is.
    descriptors = NO_INDEX
    #: Why a library reads it.
    reason = ""

    @property
    def is_chunked(self) -> bool:
        """Whether it has a table of chunks, which may be empty."""
        return False

    def by_library(self, reason: str) -> ByLibrary:
        """Return the index of a dataset that a library reads, for this reason."""
        of = (self.files[0],), self.path, self.kind, self.dims, self.chunk_dims, self.windows
        return ByLibrary(*of, reason)

    @property
    def grid_index(self) -> U64:
        """The number of each stored chunk in the grid, ascending."""
        column: U64 = self.chunks["grid_index"]
        return column

    @property
    def byte_offset(self) -> U64:
        """Where each chunk begins in its file."""
        column: U64 = self.chunks["byte_offset"]
        return column

    def why_library(self, filters: Container[int]) -> str:
        """Say why a library has to read it; "" where readers with these filters do."""
        if self.reason:
            return self.reason
        if why := self.kind.why_library(filters):
            return f"{why} is not native"
        return next((why for one in self.shown if (why := one.why_library(filters))), "")

    @property
    def filename(self) -> str:
        """Absolute name of the dataset's file."""
        filename: str = self.files[0].filename
        return filename

    @property
    def fingerprint(self) -> Fingerprint:
        """What identifies the dataset's file."""
        fingerprint: Fingerprint = self.files[0].fingerprint
        return fingerprint

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of one element as the user sees it."""
        return self.kind.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """As the user sees it: `dims`, then the dims of subarrays."""
        return self.dims + self.kind.part.leading_dims + self.kind.part.element.dtype.shape

    @property
    def is_remote(self) -> bool:
        """Whether a store has any of its files."""
        many = self.files if isinstance(self.files, ManyFiles) else self.members.files
        if many is not None:
            return many.is_remote
        return any(file.fingerprint.access for file in self.all_files)

    @property
    def all_files(self) -> Iterator[SourceFile]:
        """The dataset's own file, and every other file from which its rows come."""
        many = self.members.files
        if many is not None or not self.members:
            yield from self.files if many is None else many
        for index in () if many is not None else self.members or self.shown:
            yield from index.all_files

    @property
    def filenames(self) -> str | list[str]:
        """The name of the dataset's file, or of all whose rows it has, or of what lists these."""
        if self.members.files is not None:
            return self.members.files.listed_by or self.members.files.filenames
        names = [one.filename for one in self.members]
        return names if len(set(names)) > 1 else self.filename

    def file_of(self, grid_index: int) -> SourceFile:
        """Return the file in which a chunk of the grid lies."""
        chunk = self.chunk(grid_index)
        return self.files[0 if chunk is None else chunk["source"]]

    def chunk(self, grid_index: int) -> Any:
        """Return the record of a chunk of the grid; None: it is not stored."""
        at = int(self.grid_index.searchsorted(np.uint64(grid_index)))
        is_there = at < len(self.chunks) and self.grid_index[at] == grid_index
        return self.chunks[at] if is_there else None

    @property
    def n_rows(self) -> int:
        """Outer length."""
        return self.shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        if not self.windows:
            return self.shape[1:]
        selected = tuple(one.count for one in self.windows if not one.is_dropped)
        return selected + self.shape[len(self.dims) :]

    @property
    def row_bytes(self) -> int:
        """Bytes of one delivered row."""
        return math.prod(self.row_shape) * self.dtype.itemsize

    @property
    def decoded_row_bytes(self) -> int:
        """Bytes of a row in all chunks that have any of it."""
        inner = self.dims[1:]
        if self.windows and self.chunk_dims is not None:
            along = zip(self.windows, inner, self.chunk_dims[1:], strict=True)
            inner = tuple(min(dim, one.n_chunks(extent) * extent) for one, dim, extent in along)
        return math.prod(inner) * self.kind.element_bytes

    @property
    def block_size_default(self) -> int:
        """Rows of a block when the user names none."""
        if self.chunk_dims is not None:
            return max(1, self.chunk_dims[0])
        return max(1, sizes.UNCHUNKED_BLOCK_BYTES // max(1, self.row_bytes))


@dataclass(frozen=True)
class Stored(ChunkIndex):
    """Its chunks lie in files; without `chunk_dims`, its elements lie together, or nowhere."""

    #: One entry for each stored chunk, sorted by its row-major number in the chunk grid.
    chunks: Records = field(default_factory=lambda: NO_CHUNKS, repr=False)
    #: Stored bytes that lie in the file's metadata, as those of a compact dataset do; `byte_offset`
    #: counts from their start, of chunks whose file is the dataset's own.
    inline: bytes = field(default=b"", repr=False)

    @property
    def is_chunked(self) -> bool:
        """Whether it has a table of chunks: it has elements, and `chunk_dims`."""
        return self.chunk_dims is not None and 0 not in self.shape


@dataclass(frozen=True)
class Joined(Stored):
    """The rows of datasets of several files, one behind the other, in one table of chunks."""

    members: Members = field(default=NO_MEMBERS, repr=False)

    @property
    def begins(self) -> I64:
        """The first row of each member."""
        return self.members.begins(self.chunk_dims[0] if self.chunk_dims else 1)

    def in_file(self, row: int) -> tuple[ChunkIndex, int]:
        """Return which of `members` has a row, and its first row."""
        at = int(np.searchsorted(self.begins, row, "right")) - 1
        member: ChunkIndex = self.members[at]
        return member, int(self.begins[at])


@dataclass(frozen=True)
class Virtual(ChunkIndex):
    """A dataset that shows parts of others, as pieces of `chunk_dims`."""

    #: What it shows, and the words of each part (tables/parts.rs), whose datasets are
    #: numbered as these are.
    shown: tuple[ChunkIndex, ...] = field(default=(), repr=False)
    parts: U64 = field(default_factory=lambda: NO_NUMBERS, repr=False)
    #: Datasets of several files whose rows it has, one behind the other.
    members: Members = field(default=NO_MEMBERS, repr=False)


@dataclass(frozen=True)
class ByLibrary(ChunkIndex):
    """A dataset that an HDF5 library reads."""

    reason: str = ""


class Ragged(ByLibrary):
    """Rows of any length; its dtype is that of an atom, with its dims."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of an atom, which may be a subarray."""
        return self.kind.part.element.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """How many rows there are."""
        return self.dims
