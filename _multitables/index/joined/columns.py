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

import numpy as np

from _multitables import _core
from _multitables.index.chunk_index import (
    ChunkIndex,
    ManyFiles,
    Members,
    Stored,
    changed,
)
from _multitables.index.files.stored_at import inside_file
from _multitables.index.joined.chunks import joined_alike

MAX_ROWS = 2**62


class UnfitError(Exception):
    """Columns that contradict each other."""


def joined_columns(
    survey: _core.Survey,
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
    if not survey.is_alike:
        return None
    n_rows = survey.dims.reshape(len(survey), -1)[:, 0].astype(np.int64)
    first = index_in(int(np.argmax(n_rows > 0)))  # one without rows does not say how all are stored
    if not isinstance(first, Stored) or 0 in first.shape[1:]:
        return None
    if first.inline or len(first.files) > 1:
        return None
    first = changed(first, files=(files[0],))
    if float(n_rows.sum(dtype=np.float64)) > MAX_ROWS // max(1, math.prod(first.dims[1:])):
        raise UnfitError("there are more rows than any files have")
    extents = first.chunk_dims or ()
    chunks, counts = survey.chunks, survey.n_chunks.astype(np.int64)
    chunks["source"] = np.repeat(np.arange(len(files), dtype=np.uint32), counts)
    if first.is_chunked and not survey.are_in_grids(first.dims[1:], extents):
        raise UnfitError("the chunks of a dataset are not those of its grid")
    inside_file(changed(first, chunks=chunks, files=files))

    members = Members(n_rows, (first,), files, np.arange(len(files)))
    return joined_alike(replace(first, files=files), members, chunks, counts, filters)
