"""A selection that a file holds, of a region reference, as NumPy's indexes.

Law
---
1. The result has the shape that h5py gives: a box where the selection is one, else one axis, in the
   order of the dataset (of points, in theirs).
2. A selection of some bytes may have any number of elements: what is to be listed is counted first.
   One that is not within the dataset is refused.

Pure: this file must never know files or datasets.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]
#: Elements that are listed, along one axis or of blocks together.
MAX_LISTED = 1 << 21


class RegionError(Exception):
    """Its text is why a selection cannot be used."""


def region_steps(selection: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return NumPy's indexes, one after another, for a selection as the core gives it.

    Raises
    ------
    RegionError
        It is not within this shape, or has too many elements that are to be listed.
    """
    kind, *what = selection
    if kind == "all":
        return ()
    if kind == "none":
        return ((slice(0, 0),) * len(shape),)
    if kind == "regular":
        _check_grid(shape, what[0])
        return _along_axes([_regular(*axis) for axis in what[0]])
    rank, numbers = what
    points = np.array(numbers, np.uint64).reshape(-1, rank)
    _check(shape, rank, [int(end) + 1 for end in points.max(axis=0, initial=0)])
    places = points.astype(np.int64)
    return (tuple(places.T),) if kind == "points" else _blocks(places.reshape(-1, 2, rank))


def region_shape(selection: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of what the indexes of `region_steps` give of a dataset of this shape."""
    kind, *what = selection
    if kind == "all":
        return shape
    if kind == "none":
        return (0,) * len(shape)
    if kind == "regular":
        _check_grid(shape, what[0])
        return tuple(count * block for _, _, count, block in what[0])
    steps = region_steps(selection, shape)
    if len(steps) < len(shape):  # of points, or of blocks that are no box
        return (len(steps[0][0]),)
    return tuple(len(step[-1]) for step in steps)


def _check(shape: tuple[int, ...], rank: int, ends: list[int]) -> None:
    if rank != len(shape) or any(end > dim for end, dim in zip(ends, shape, strict=True)):
        raise RegionError(f"goes to {tuple(ends)}, beyond the shape {shape}")


def _check_grid(shape: tuple[int, ...], axes: Any) -> None:
    ends = [start + stride * (count - 1) + block for start, stride, count, block in axes]
    _check(shape, len(axes), ends)
    if any(
        not count or not block or (count > 1 and stride < block) for _, stride, count, block in axes
    ):
        raise RegionError(f"has blocks that are empty or overlap: {axes}")


def _along_axes(lists: list[Any]) -> tuple[Any, ...]:
    return tuple((*[slice(None)] * axis, found) for axis, found in enumerate(lists))


def _regular(start: int, stride: int, count: int, block: int) -> slice | I64:
    if count == 1 or stride == block:  # a box
        return slice(start, start + count * block)
    if block == 1:
        return slice(start, start + stride * (count - 1) + 1, stride)
    _check_listed(count * block)
    starts = start + stride * np.arange(count, dtype=np.int64)
    return np.add.outer(starts, np.arange(block, dtype=np.int64)).reshape(-1)


def _check_listed(n: int) -> None:
    if n > MAX_LISTED:
        raise RegionError(f"has {n} elements that do not follow one another (at most {MAX_LISTED})")


def _blocks(bounds: I64) -> tuple[Any, ...]:
    """Blocks, which do not overlap: first and last coordinates of each."""
    lengths = (bounds[:, 1] - bounds[:, 0] + 1).tolist()
    if any(length < 1 for of in lengths for length in of):
        raise RegionError("has a block that ends before it begins")
    _check_listed(sum(map(math.prod, lengths)))
    parts = [
        np.indices(of, np.int64).reshape(len(of), -1).T + first
        for of, first in zip(lengths, bounds[:, 0], strict=True)
    ]
    points = np.concatenate(parts)
    points = points[np.lexsort(points.T[::-1])]
    lists = [np.unique(along) for along in points.T]
    if math.prod(map(len, lists)) == len(points):
        return _along_axes(lists)
    return (tuple(points.T),)
