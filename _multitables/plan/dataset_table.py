"""The datasets of a plan or a request as the readers shall read them, with their stored chunks.

Law
---
1. Pure: equal arguments give equal tables.
2. Whether the core or a library reads a dataset, and why, its index says (`why_library`).
3. Chunk records are sorted by grid index; each dataset knows which ones are its own. The grid has
   only chunks that hold something of a row as it is selected.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from _multitables import sizes
from _multitables.index.chunk_index import (
    CHUNK,
    NO_CHUNKS,
    AxisWindow,
    ChunkIndex,
    Records,
    Virtual,
    changed,
    grid_of,
)


@dataclass(frozen=True)
class Dataset:
    """One dataset as the readers shall read it."""

    index: ChunkIndex
    #: Extent of what one chunk record stands for: a stored chunk, or a piece of contiguous rows.
    chunk_dims: tuple[int, ...]
    #: Pieces end with the dataset's last row.
    clipped: bool
    direct: bool
    #: Why the library reads it, or "".
    reason: str
    #: Its dims as the core is told them, and what rows have of those behind the first; (): all.
    dims: tuple[int, ...]
    windows: tuple[AxisWindow, ...] = ()
    #: Of each row of contiguous data, stored bytes before those of `dims`.
    skipped_bytes: int = 0
    #: The datasets of which it shows parts, and the number of the first of these in the table.
    shown: tuple[Dataset, ...] = ()
    shown_at: int = 0
    #: Which of the table's chunks are its stored ones.
    chunks_at: int = 0
    n_chunks: int = 0

    @property
    def grid(self) -> tuple[int, ...]:
        """Chunks along each axis, stored or not."""
        # Rows without bytes may have chunks without extent.
        extents = tuple(max(1, extent) for extent in self.chunk_dims)
        if not self.windows:
            return grid_of(self.dims, extents)
        inner = zip(self.windows, extents[1:], strict=True)
        counts = (window.n_chunks(extent) for window, extent in inner)
        return (*grid_of(self.dims[:1], extents[:1]), *counts)

    @property
    def inner_chunks(self) -> int:
        """Chunks that lie beside each other in the same rows."""
        return math.prod(self.grid[1:])


@dataclass(frozen=True)
class DatasetTable:
    """Datasets, and the stored chunks of all of them."""

    datasets: tuple[Dataset, ...]
    chunks: Records = field(repr=False)
    #: Datasets of which those before them show parts.
    shown: tuple[Dataset, ...] = ()

    def of_chunk(self, number: int | None) -> Dataset:
        """Return the dataset that has a chunk, or the first one."""
        for dataset in self.shown if number is not None else ():
            if number in range(dataset.chunks_at, dataset.chunks_at + dataset.n_chunks):
                return dataset
        return self.datasets[0]


def reader_bytes(indexes: Sequence[ChunkIndex], direct: bool) -> int:
    """Return the bytes of the ring that each reader needs for requests in flight; 0: no matter."""
    if any(index.is_remote for index in indexes):
        return sizes.REMOTE_READER_BYTES
    return sizes.DIRECT_READER_BYTES if direct else 0


def dataset_of(index: ChunkIndex, direct: bool, native_filters: Container[int]) -> Dataset:
    """Return how readers shall read one dataset; its chunks are not listed yet."""
    reason = index.why_library(native_filters)
    shown = tuple(dataset_of(one, direct, native_filters) for one in index.shown)
    dims, windows, stored_row_bytes = index.dims, index.windows, max(1, index.decoded_row_bytes)
    if reason:
        outer = index.chunk_dims[0] if index.chunk_dims else 1
        rows = -(-max(1, sizes.DIRECT_TASK_BYTES // stored_row_bytes) // outer) * outer
        inner = tuple(window.count for window in windows) if windows else dims[1:]
        return Dataset(index, (rows, *inner), False, False, reason, (dims[0], *inner))
    direct = direct and not index.inline
    if index.is_chunked and index.chunk_dims is not None:
        return Dataset(index, index.chunk_dims, False, direct, "", dims, windows)
    if isinstance(index, Virtual) and index.chunk_dims is not None:
        return Dataset(index, index.chunk_dims, True, direct, "", dims, windows, shown=shown)
    inner, inner_windows, skipped = _hull(index)
    hull_bytes = math.prod(inner) * index.kind.element_bytes
    if stored_row_bytes - hull_bytes >= sizes.SKIPPED_BYTES:
        dims = (dims[0], *inner)
        return Dataset(index, (1, *inner), False, direct, "", dims, inner_windows, skipped)
    piece_bytes = sizes.DIRECT_TASK_BYTES if direct else sizes.PIECE_BYTES
    if index.is_remote:
        piece_bytes = sizes.REMOTE_TASK_BYTES
    piece = max(1, piece_bytes // stored_row_bytes)
    return Dataset(index, (piece, *dims[1:]), True, direct, "", dims, windows)


def _hull(index: ChunkIndex) -> tuple[tuple[int, ...], tuple[AxisWindow, ...], int]:
    """Return the part of a row that lies together in the file and has all that is selected.

    These are its inner dims, the windows in them, and the bytes of the row before it.
    """
    dims, windows, skipped = list(index.dims[1:]), list(index.windows), 0
    for axis, window in enumerate(index.windows):
        dims[axis] = abs(window.step) * (window.count - 1) + 1 if window.count else 0
        windows[axis] = replace(window, start=0)
        behind = math.prod(index.dims[axis + 2 :]) * index.kind.element_bytes
        skipped += window.start * behind
        if window.count != 1:
            break
    return tuple(dims), tuple(windows), skipped


def lead_of(indexes: Sequence[ChunkIndex]) -> int:
    """Return which dataset leads: the one with the longest rows, on which the others wait."""
    if len(indexes) == 1:
        return 0
    return max(range(len(indexes)), key=lambda at: (indexes[at].row_bytes, -at))


def stored_chunks(dataset: Dataset, begin: int, end: int) -> Records:
    """Records of the stored ones of the grid's chunks `[begin, end)`."""
    index = dataset.index
    if begin == end or not len(index.chunks):
        return NO_CHUNKS
    if index.is_chunked:
        return _selected_records(dataset, begin, end)
    chunks = np.zeros(end - begin, CHUNK)
    row_bytes = math.prod(index.dims[1:]) * index.kind.element_bytes
    piece = np.uint64(dataset.chunk_dims[0])
    chunks["grid_index"] = np.arange(begin, end, dtype=np.uint64)
    rows = chunks["grid_index"] * piece
    base = index.byte_offset[0] + np.uint64(dataset.skipped_bytes)
    chunks["byte_offset"] = base + rows * np.uint64(row_bytes)
    left = np.minimum(np.uint64(index.dims[0]) - rows, piece)
    chunks["stored_size"] = left * np.uint64(math.prod(dataset.dims[1:]) * index.kind.element_bytes)
    chunks["source"] = index.chunks["source"][0]
    return chunks


def _selected_records(dataset: Dataset, begin: int, end: int) -> Records:
    """Return the records of some rows of chunks, less those that have nothing of a row."""
    index, inner = dataset.index, dataset.inner_chunks
    whole = math.prod(grid_of(dataset.dims, dataset.chunk_dims)[1:])
    ends = np.array([begin // inner * whole, -(-end // inner) * whole], np.uint64)
    low, high = np.searchsorted(index.grid_index, ends)
    chunks = index.chunks[low:high]
    if not dataset.windows:
        return chunks
    chunks = chunks.copy()
    rest, wanted = chunks["grid_index"], np.ones(len(chunks), bool)
    number, factor = np.zeros(len(chunks), np.uint64), 1
    axes = list(zip(dataset.windows, dataset.dims[1:], dataset.chunk_dims[1:], strict=True))
    for window, dim, extent in reversed(axes):
        rest, along = np.divmod(rest, np.uint64(-(-dim // extent)))
        along, within = window.numbers(along, extent)
        number, wanted = number + along * np.uint64(factor), wanted & within
        factor *= window.n_chunks(extent)
    chunks["grid_index"] = number + rest * np.uint64(factor)
    return chunks[wanted]


def table_of(datasets: Sequence[Dataset], tables: Sequence[Records]) -> DatasetTable:
    """Join datasets, those of which they show parts, and the stored chunks of each."""
    count, everything = len(datasets), list(datasets)
    for number, dataset in enumerate(everything):  # which grows
        if dataset.shown:
            everything[number] = changed(dataset, shown_at=len(everything))
            everything += dataset.shown
    tables = [*tables, *(_all_chunks(dataset) for dataset in everything[count:])]
    ends = np.cumsum([len(chunks) for chunks in tables]).tolist()
    placed = tuple(
        changed(dataset, chunks_at=end - len(chunks), n_chunks=len(chunks))
        for dataset, chunks, end in zip(everything, tables, ends, strict=True)
    )
    chunks = tables[0] if len(tables) == 1 else np.concatenate(tables)
    return DatasetTable(placed[:count], chunks, placed[count:])


def _all_chunks(dataset: Dataset) -> Records:
    return NO_CHUNKS if dataset.reason else dataset.index.chunks


def lookup_table(
    index: ChunkIndex, *, direct: bool, native_filters: Container[int]
) -> DatasetTable:
    """Return the table of one dataset, or of a field of it, in which requests look chunks up.

    Of contiguous data there is one record, the base address. Where a library must read the dataset
    it has a `reason`, and no chunks.
    """
    dataset = dataset_of(index, direct, native_filters)
    return table_of([dataset], [_all_chunks(dataset)])
