"""The datasets of a plan or a request as the readers shall read them, with their stored chunks.

Law
---
1. Pure: equal arguments give equal tables.
2. Whether the core or a library reads a dataset is decided here, with the reason.
3. Chunk records are sorted by grid index; each dataset knows which ones are its own.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import sizes
from _multitables.index.chunk_index import ChunkIndex, grid_of

#: One stored chunk; the layout is that of `Chunk` in core/src/tables/dataset.rs. Its source is the
#: number of a file of its dataset, until the table is encoded.
CHUNK = np.dtype(
    [
        ("grid_index", "<u8"),
        ("byte_offset", "<u8"),
        ("stored_size", "<u8"),
        ("filter_mask", "<u4"),
        ("source", "<u4"),
    ]
)
Records = npt.NDArray[Any]


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
    #: Which of the table's chunks are its stored ones.
    chunks_at: int = 0
    n_chunks: int = 0

    @property
    def grid(self) -> tuple[int, ...]:
        """Chunks along each axis, stored or not."""
        # Rows without bytes may have chunks without extent.
        return grid_of(self.index.dims, tuple(max(1, extent) for extent in self.chunk_dims))

    @property
    def inner_chunks(self) -> int:
        """Chunks that lie beside each other in the same rows."""
        return math.prod(self.grid[1:])


@dataclass(frozen=True)
class DatasetTable:
    """Datasets, and the stored chunks of all of them."""

    datasets: tuple[Dataset, ...]
    chunks: Records = field(repr=False)


def dataset_of(index: ChunkIndex, direct: bool, native_filters: Container[int]) -> Dataset:
    """Return how readers shall read one dataset; its chunks are not listed yet."""
    reason = ""
    if index.layout == "library":
        reason = index.reason or "its storage is not chunked or contiguous"
    elif unknown := [spec for spec in index.pipeline if spec.id not in native_filters]:
        reason = f"filter {unknown[0].id} ({unknown[0].name or 'unnamed'}) is not native"
    stored_row_bytes = max(1, math.prod(index.dims[1:]) * index.element_bytes)
    if reason:
        outer = index.chunk_dims[0] if index.chunk_dims else 1
        rows = max(1, sizes.DIRECT_TASK_BYTES // stored_row_bytes)
        return Dataset(index, (-(-rows // outer) * outer, *index.dims[1:]), False, False, reason)
    if index.layout == "chunked" and index.chunk_dims is not None:
        return Dataset(index, index.chunk_dims, False, direct, "")
    direct = direct and not index.inline
    piece_bytes = sizes.DIRECT_TASK_BYTES if direct else sizes.PIECE_BYTES
    piece = max(1, piece_bytes // stored_row_bytes)
    return Dataset(index, (piece, *index.dims[1:]), True, direct, "")


def lead_of(indexes: Sequence[ChunkIndex]) -> int:
    """Return which dataset leads: the one with the longest rows, on which the others wait."""
    return max(range(len(indexes)), key=lambda at: (indexes[at].row_bytes, -at))


def stored_chunks(dataset: Dataset, begin: int, end: int) -> Records:
    """Records of the stored ones of the grid's chunks `[begin, end)`."""
    index = dataset.index
    if index.layout == "chunked":
        low, high = np.searchsorted(index.grid_index, np.array([begin, end], np.uint64))
        return _records(index, low, high)
    if not len(index.byte_offset):
        return np.zeros(0, CHUNK)
    chunks = np.zeros(end - begin, CHUNK)
    row_bytes = math.prod(index.dims[1:]) * index.element_bytes
    piece = np.uint64(dataset.chunk_dims[0])
    chunks["grid_index"] = np.arange(begin, end, dtype=np.uint64)
    rows = chunks["grid_index"] * piece
    chunks["byte_offset"] = index.byte_offset[0] + rows * np.uint64(row_bytes)
    left = np.minimum(np.uint64(index.dims[0]) - rows, piece)
    chunks["stored_size"] = left * np.uint64(row_bytes)
    return chunks


def _records(index: ChunkIndex, low: int, high: int) -> Records:
    """Return what the index lists from `low` to `high`."""
    chunks = np.zeros(high - low, CHUNK)
    for name in ("grid_index", "byte_offset", "stored_size", "filter_mask"):
        chunks[name] = getattr(index, name)[low:high]
    if len(index.source):
        chunks["source"] = index.source[low:high]
    return chunks


def table_of(datasets: Sequence[Dataset], tables: Sequence[Records]) -> DatasetTable:
    """Join datasets and the stored chunks of each."""
    ends = np.cumsum([len(chunks) for chunks in tables]).tolist()
    return DatasetTable(
        tuple(
            replace(dataset, chunks_at=end - len(chunks), n_chunks=len(chunks))
            for dataset, chunks, end in zip(datasets, tables, ends, strict=True)
        ),
        np.concatenate(tables),
    )


def lookup_table(
    index: ChunkIndex, *, direct: bool, native_filters: Container[int]
) -> DatasetTable:
    """Return the table of one dataset, or of a field of it, in which requests look chunks up.

    Of contiguous data there is one record, the base address. Where a library must read the dataset
    it has a `reason`, and no chunks.
    """
    dataset = dataset_of(index, direct, native_filters)
    n_chunks = 0 if dataset.reason else len(index.grid_index)
    return table_of([dataset], [_records(index, 0, n_chunks)])
