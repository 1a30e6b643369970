"""Chunks that do not decode, left out of what a training run is given.

Law
---
1. Pure. A chunk that is left out is taken for one that was never stored, so that nobody fetches it;
   what the readers then put in the places of its rows is not delivered.
2. Positions stay as they are: an order, a rank's share and a state do not depend on damage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.index.chunk_index import ChunkIndex
from _multitables.plan.sharding import Ranges
from _multitables.tree import map_arrays

I64 = npt.NDArray[np.int64]


def without_chunk(index: ChunkIndex, chunk_offset: Sequence[int]) -> ChunkIndex:
    """Return the index as if this chunk had never been stored."""
    dims, chunk_dims = index.dims, index.chunk_dims or index.dims
    number = 0
    for at, dim, extent in zip(chunk_offset, dims, chunk_dims, strict=True):
        number = number * -(-dim // extent) + at // extent
    kept = index.grid_index != number
    return replace(
        index,
        grid_index=index.grid_index[kept],
        byte_offset=index.byte_offset[kept],
        stored_size=index.stored_size[kept],
        filter_mask=index.filter_mask[kept],
        source=index.source[kept] if len(index.source) else index.source,
    )


def rows_of(index: ChunkIndex, chunk_offset: Sequence[int]) -> tuple[int, int]:
    """Return the rows of which a chunk has a part: the first, and the one behind the last."""
    rows = (index.chunk_dims or index.dims)[0]
    return chunk_offset[0], min(chunk_offset[0] + rows, index.n_rows)


def places(positions: I64, ranges: Ranges) -> I64:
    """Return where ascending `positions` come in what is delivered of `ranges`."""
    found, before = [np.zeros(0, np.int64)], 0
    for begin, end in ranges:
        low, high = np.searchsorted(positions, (begin, end))
        found.append(positions[low:high] - begin + before)
        before += end - begin
    return np.concatenate(found)


def without_rows(batch: Any, rows: I64) -> Any:
    """Return a copy of a batch, of one array or several, that lacks these rows."""
    return map_arrays(lambda array: np.delete(array, rows, axis=0), batch)
