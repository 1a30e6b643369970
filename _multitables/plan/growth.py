"""Which rows of a dataset that grows are there, as two looks at its file tell.

Law
---
1. Pure: values in, values out.
2. A row is there when its chunks are stored, or when a chunk of a later row is: writers append.
3. Two looks agree on a row when both have its chunks at the same places. What one of them read
   half written does not agree with the other.
"""

from __future__ import annotations

import numpy as np

from _multitables.index.chunk_index import ChunkIndex, grid_of


def stored_rows(index: ChunkIndex) -> int:
    """Rows that are there."""
    if index.chunk_dims is None or index.row_bytes == 0:
        return index.n_rows
    grid = index.grid_index
    if not len(grid):
        return 0
    inner = _inner_chunks(index)
    last = int(grid[-1]) // inner
    n_stored = len(grid) - int(grid.searchsorted(np.uint64(last * inner)))
    return min(index.n_rows, (last + (n_stored == inner)) * index.chunk_dims[0])


def agreed_rows(one: ChunkIndex, other: ChunkIndex) -> int:
    """Rows that are there, and on which two looks agree."""
    rows = min(stored_rows(one), stored_rows(other))
    n = min(len(one.grid_index), len(other.grid_index))
    differ = one.chunks[:n] != other.chunks[:n]
    if one.chunk_dims is None or not differ.any():
        return rows
    at = int(differ.argmax())
    first = int(min(one.grid_index[at], other.grid_index[at])) // _inner_chunks(one)
    return min(rows, first * one.chunk_dims[0])


def whole_rows(index: ChunkIndex, rows: int) -> int:
    """Of the first `rows`, those in chunks that no later row belongs to."""
    return rows if index.chunk_dims is None else rows - rows % index.chunk_dims[0]


def _inner_chunks(index: ChunkIndex) -> int:
    assert index.chunk_dims is not None
    return int(np.prod(grid_of(index.dims[1:], index.chunk_dims[1:]), dtype=np.int64))
