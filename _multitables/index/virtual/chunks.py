"""A virtual dataset as the chunks of its sources, or as parts of them.

Law
---
1. Pure: mappings and the indexes of their sources in, an index out. How they match is the core's to
   find (the core's tables/mappings).
2. Chunks of parts are of a size that is good to read, and of whole chunks of the sources where
   these fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from _multitables import _core, sizes
from _multitables.index.chunk_index import ByLibrary, ChunkIndex, Stored, Virtual, changed

#: Bytes of a chunk, at most. Smaller chunks of sources without filters decode nothing twice, and a
#: chunk that fits into the cache of a core is assembled sooner.
TASK_BYTES, TASKS, PLAIN_TASKS = 4 << 20, 32, 64


def as_chunks(
    index: Stored, mappings: _core.Mappings, sources: Sequence[ChunkIndex | None]
) -> Stored | None:
    """Return the index of a virtual dataset with the chunks of its sources; None: they do not fit.

    Parameters
    ----------
    index : Stored
        Of the virtual dataset, without chunks.
    sources : sequence of ChunkIndex or None
        One for each name, not all of them None; None where there is no such file or dataset.
    """
    present = [source for source in sources if source is not None]
    first = present[0]
    if first.chunk_dims is None or not all(_alike(source, first) for source in present):
        return None
    shown = [
        None if of is None else (of.dims, of.chunks, of.kind.fill_value == index.kind.fill_value)
        for of in sources
    ]
    found = mappings.as_chunks(index.dims, first.chunk_dims, shown)
    if found is None:
        return None
    chunks, source, chunk_dims = found
    files = {index.files[0]: 0}
    numbers: list[int] = []
    begins: list[int] = []
    for of in sources:
        begins.append(len(numbers))
        numbers += [files.setdefault(file, len(files)) for file in of.files] if of else []
    chunks["source"] = np.array(numbers)[np.array(begins)[source] + chunks["source"]]
    return changed(
        index,
        chunk_dims=chunk_dims,
        kind=replace(index.kind, pipeline=first.kind.pipeline),
        chunks=chunks,
        files=tuple(files),
    )


def _alike(source: ChunkIndex, other: ChunkIndex) -> bool:
    """Whether chunks of two datasets may lie in one table."""
    return (
        source.is_chunked
        and not source.inline
        and source.chunk_dims == other.chunk_dims
        and source.kind.pipeline == other.kind.pipeline
    )


def as_parts(
    index: ChunkIndex, mappings: _core.Mappings, sources: Sequence[ChunkIndex | None]
) -> ChunkIndex:
    """Return the index of a virtual dataset as parts of its sources (None: missing).

    Raises
    ------
    UnfitError
        A source is read by a library, or a mapping is of no use.
    """
    shown = tuple(source for source in sources if source is not None)
    for one in shown:
        if isinstance(one, ByLibrary):
            raise _core.UnfitError(f"a virtual dataset of {one.path!r}: {one.reason}")
    dims = [None if source is None else source.dims for source in sources]
    found = mappings.as_parts(index.dims, dims)
    source = found and sources[found[1]]
    if found is None or source is None:
        return index
    chunk_dims = readable_chunk_dims(index, source, found[2])
    of = index.files, index.path, index.kind, index.dims, chunk_dims
    return Virtual(*of, shown=shown, parts=found[0])


def readable_chunk_dims(
    index: ChunkIndex, source: ChunkIndex, pairs: list[tuple[int, int]]
) -> tuple[int, ...]:
    """Return how large a piece readers put together, if its axes are paired with a source's."""
    extents = [1] * len(index.dims)
    chunk_dims = source.chunk_dims or (1,) * len(source.dims)
    for axis, number in pairs:
        extents[axis] = min(chunk_dims[number], index.dims[axis])
    # Large, as chunks of the sources that two of them show may be decoded twice.
    all_bytes = math.prod(index.dims) * index.kind.element_bytes
    tasks = TASKS if source.kind.pipeline else PLAIN_TASKS
    wanted = min(max(all_bytes // tasks, sizes.PIECE_BYTES), TASK_BYTES)
    for axis in reversed(range(len(extents))):
        others = math.prod(extents) // extents[axis] * index.kind.element_bytes
        most = wanted // others
        if most >= index.dims[axis]:
            extents[axis] = index.dims[axis]
            continue
        extents[axis] *= max(1, most // extents[axis])
        break
    return tuple(extents)
