"""Chunks that do not decode, left out of what a training run is given.

Law
---
1. Pure. A chunk that is left out is taken for one that was never stored, so that nobody fetches it;
   what the readers then put in the places of its rows is not delivered. Of rows in global heaps
   each is left out by itself: its number stands for the offset of a chunk.
2. Rows of which several files or parts make up a dataset are lost with a chunk of any of these.
3. Positions stay as they are: an order, a rank's share and a state do not depend on damage.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from _multitables.index.chunk_index import ChunkIndex, Joined, Virtual, changed
from _multitables.index.datasets.heap import Heap
from _multitables.plan.sharding import Ranges
from _multitables.plan.taken import Box
from _multitables.tree import map_arrays

I64 = npt.NDArray[np.int64]
#: The first row, and the one behind the last.
Rows: TypeAlias = tuple[int, int]


def without(
    index: ChunkIndex, filename: str, path: str, chunk_offset: Sequence[int]
) -> tuple[ChunkIndex, list[Box]]:
    """Return the index without a damaged chunk, and the elements that are lost with it.

    Those of chunks that were there.
    """
    if isinstance(index, Heap):
        return _without_row(index, filename, path, chunk_offset[0])
    if isinstance(index, Virtual):
        each = [without(one, filename, path, chunk_offset) for one in index.shown]
        boxes = [
            shown
            for number, (_, lost) in enumerate(each)
            for one in lost
            for shown in _shown_boxes(index, number, one)
        ]
        return replace(index, shown=tuple(less for less, _ in each)), sorted(boxes)
    boxes = []
    begins = index.begins.tolist() if isinstance(index, Joined) else [0]
    for one, begin in zip(index.members or (index,), begins, strict=True):
        if one.path == path and filename in [file.filename for file in one.files]:
            at = (begin + chunk_offset[0], *chunk_offset[1:])
            stored = len(index.grid_index)
            index = _without_chunk(index, at)
            if len(index.grid_index) < stored:
                extents = zip(at, index.chunk_dims or index.dims, index.dims, strict=True)
                boxes.append(tuple((low, min(low + n, dim)) for low, n, dim in extents))
    return index, boxes


def _without_row(index: Heap, filename: str, path: str, row: int) -> tuple[Heap, list[Box]]:
    """Return the index without a row of one of its datasets."""
    rows, first = set(index.left_out), 0
    for part in index.parts:
        if (part.path, part.filename) == (path, filename):
            rows.add(first + row)
        first += part.n_rows
    new = sorted(rows.difference(index.left_out))
    return replace(index, left_out=tuple(sorted(rows))), [((at, at + 1),) for at in new]


def _without_chunk(index: ChunkIndex, chunk_offset: Sequence[int]) -> ChunkIndex:
    dims, chunk_dims = index.dims, index.chunk_dims or index.dims
    number = 0
    for at, dim, extent in zip(chunk_offset, dims, chunk_dims, strict=True):
        number = number * -(-dim // extent) + at // extent
    return changed(index, chunks=index.chunks[index.grid_index != number])


def _shown_boxes(index: Virtual, number: int, box: Box) -> Iterator[Box]:
    """Yield the elements to which parts copy some of a dataset; rows that are apart, one by one."""
    n_dims = len(index.dims)
    length = 2 + 3 * (n_dims + int(index.parts[0]))
    parts = index.parts[1:].astype(np.int64).reshape(-1, length)
    for part in parts[parts[:, 0] == number]:
        axes = part[2:].reshape(-1, 3).tolist()
        # Of each axis, the steps that are in the box.
        steps = [(0, count) for _, _, count in axes[:n_dims]]
        is_shown = True
        for (begin, stride, axis), ends in zip(axes[n_dims:], box, strict=True):
            if axis < 0:  # the part has one place of it
                is_shown &= ends[0] <= begin < ends[1]
                continue
            low, high = (-(-(end - begin) // stride) for end in ends)
            steps[axis] = max(low, steps[axis][0]), min(high, steps[axis][1])
        if not is_shown or any(low >= high for low, high in steps):
            continue
        along = zip(axes[:n_dims], steps, strict=True)
        rows, *inner = (
            (first + low * step, first + (high - 1) * step + 1)
            for (first, step, _), (low, high) in along
        )
        apart = axes[0][1]
        if apart == 1:
            yield rows, *inner
        else:
            yield from (((row, row + 1), *inner) for row in range(*rows, apart))


def places(positions: I64, ranges: Ranges) -> I64:
    """Return where ascending `positions` come in what is delivered of `ranges`."""
    found, before = [np.zeros(0, np.int64)], 0
    for begin, end in ranges:
        low, high = np.searchsorted(positions, (begin, end))
        found.append(positions[low:high] - begin + before)
        before += end - begin
    return np.concatenate(found)


def without_rows(batch: Any, rows: I64) -> Any:
    """Return a copy of a batch, of one array or block or several, that lacks these rows."""
    return map_arrays(lambda array: array[np.delete(np.arange(len(array)), rows)], batch)
