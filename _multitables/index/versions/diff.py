"""Which rows differ between two versions of a dataset, as their chunks tell.

Law
---
1. Pure. Versions share the chunks that are equal in both: where both have the same stored chunk, or
   none, the rows are equal.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex, Stored, grid_of


def differing_rows(old: ChunkIndex, new: ChunkIndex, *, same_type: bool) -> list[slice]:
    """Return the ranges of rows that differ between two versions of a dataset.

    Raises
    ------
    UnsupportedDatasetError
        One of them does not say where its chunks are stored.
    """
    for index in (old, new):
        if not isinstance(index, Stored):
            raise UnsupportedDatasetError(
                f"it cannot be told which rows of {index.path!r} in {index.filename!r} differ: "
                f"{index.reason or 'it shows parts of chunks'} (expected one that the package "
                "versioned-hdf5 wrote)",
                advice="Read both versions, and compare them",
                path=index.path,
                filename=index.filename,
            )
    length, common = max(old.n_rows, new.n_rows), min(old.n_rows, new.n_rows)
    chunks = {index.chunk_dims or index.dims for index in (old, new) if len(index.chunks)}
    one, other = ((of.row_shape, of.kind.fill_value, of.files) for of in (old, new))
    same = same_type and one == other
    if not same or len(chunks) > 1:
        return _joined([(0, length)])
    rows = [(common, length)]
    for chunk_dims in chunks:
        inner = math.prod(grid_of(old.dims[1:], chunk_dims[1:]))
        begins = np.unique(_differing_chunks(old, new) // inner) * chunk_dims[0]
        rows += [(begin, min(begin + chunk_dims[0], length)) for begin in begins.tolist()]
    return _joined(rows)


def _differing_chunks(old: ChunkIndex, new: ChunkIndex) -> npt.NDArray[np.int64]:
    """Return the numbers of the chunks that only one of them has, or stored elsewhere."""
    chunks = np.concatenate([index.chunks for index in (old, new)])
    chunks = chunks[["grid_index", "byte_offset", "source"]]
    chunks.sort()
    grid = chunks["grid_index"].astype(np.int64)
    same = chunks[1:] == chunks[:-1]
    found: npt.NDArray[np.int64] = grid[~(np.append(same, False) | np.append(False, same))]
    return found


def _joined(ranges: list[tuple[int, int]]) -> list[slice]:
    """Join ranges that touch, and leave out those without rows."""
    joined: list[slice] = []
    for begin, end in sorted(ranges):
        if joined and begin <= joined[-1].stop:
            joined[-1] = slice(joined[-1].start, max(end, joined[-1].stop))
        elif begin < end:
            joined.append(slice(begin, end))
    return joined
