"""Datasets of many files that are stored alike, joined as columns.

Law
---
1. Pure but for one question: of what a dataset with rows is.
2. What was read from elsewhere is checked here: chunks lie in their grid and their file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container
from dataclasses import replace
from typing import Any

import numpy as np

from _multitables.index.chunk_index import (
    I64,
    ChunkIndex,
    ManyFiles,
    Members,
    Stored,
    changed,
    grid_of,
)
from _multitables.index.joined import joined_alike
from _multitables.index.stored_at import inside_file

MAX_ROWS = 2**62


class UnfitError(Exception):
    """Columns that contradict each other."""


def joined_columns(
    survey: dict[str, Any],
    files: ManyFiles,
    index_in: Callable[[int], ChunkIndex],
    filters: Container[int],
) -> ChunkIndex | None:
    """Join the datasets of a survey, one in each file; None: they are not stored alike.

    Parameters
    ----------
    index_in : callable
        Returns the index of the dataset in a file, by its number.

    Raises
    ------
    UnfitError
        Chunks are not those of a grid, or there are more rows than any files have.
    """
    kinds, n_dims = survey["kinds"], int(survey["rank"][0])
    if len(kinds) != 1 or np.any(survey["kind"] != 0) or kinds[0]["layout"] == "compact":
        return None
    if not n_dims or np.any(survey["rank"] != n_dims):
        return None
    dims, extents = (survey[name].reshape(-1, n_dims) for name in ("dims", "chunk_dims"))
    n_rows = dims[:, 0].astype(np.int64)
    if np.any(dims[:, 1:] != dims[0, 1:]) or np.any(extents != extents[0]):
        return None
    first = index_in(int(np.argmax(n_rows > 0)))  # one without rows does not say how all are stored
    if not isinstance(first, Stored) or first.inline or first.others or 0 in first.shape[1:]:
        return None
    first = changed(first, file=files[0])
    if float(n_rows.sum(dtype=np.float64)) > MAX_ROWS // max(1, math.prod(first.dims[1:])):
        raise UnfitError("there are more rows than any files have")
    chunks, counts = survey["chunks"], survey["n_chunks"].astype(np.int64)
    chunks["source"] = np.repeat(np.arange(len(files), dtype=np.uint32), counts)
    if first.is_chunked:
        _check_grids(chunks, counts, n_rows, first)
    inside_file(changed(first, chunks=chunks, others=files))

    members = Members(n_rows, (first,), files, np.arange(len(files)))
    return joined_alike(replace(first, others=files), members, chunks, counts, filters)


def _check_grids(chunks: Any, counts: I64, n_rows: I64, first: ChunkIndex) -> None:
    """Raise unless the chunks of each dataset are sorted, and in its grid."""
    assert first.chunk_dims is not None
    beside = math.prod(grid_of(first.dims[1:], first.chunk_dims[1:]))
    n_chunks = -(-n_rows // first.chunk_dims[0]) * beside
    grid, begins = chunks["grid_index"], np.zeros(len(chunks) + 1, bool)
    begins[np.cumsum(counts) - counts] = True
    in_order = (grid[1:] > grid[:-1]) | begins[1:-1]
    if not np.all(in_order) or np.any(grid >= np.repeat(n_chunks, counts).astype(np.uint64)):
        raise UnfitError("the chunks of a dataset are not those of its grid")
