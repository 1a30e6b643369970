"""A selection that a file holds, of a region reference, as NumPy's indexes.

Law
---
1. The result has the shape that h5py gives: a box where the selection is one, else one axis, in the
   order of the dataset (of points, in theirs).

Pure: this file must never know files or datasets.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


def region_steps(told: tuple[Any, ...], rank: int) -> tuple[Any, ...]:
    """Return NumPy's indexes, one after another, for a selection as the core tells it."""
    kind, *what = told
    if kind == "all":
        return ()
    if kind == "none":
        return ((slice(0, 0),) * rank,)
    if kind == "points":
        points = np.array(what[1], np.int64).reshape(-1, what[0])
        return (tuple(points.T),)
    if kind == "regular":
        lists = [_regular(*axis) for axis in what[0]]
        return tuple((*[slice(None)] * axis, found) for axis, found in enumerate(lists))
    return _blocks(np.array(what[1], np.int64).reshape(-1, 2, what[0]))


def _regular(start: int, stride: int, count: int, block: int) -> I64:
    starts = start + stride * np.arange(count, dtype=np.int64)
    return np.add.outer(starts, np.arange(block, dtype=np.int64)).reshape(-1)


def _blocks(bounds: I64) -> tuple[Any, ...]:
    """Blocks, which do not overlap: first and last coordinates of each."""
    points = [
        point
        for first, last in bounds.tolist()
        for point in itertools.product(
            *(range(low, high + 1) for low, high in zip(first, last, strict=True))
        )
    ]
    axes = [np.array(along, np.int64) for along in zip(*sorted(points), strict=True)]
    lists = [np.unique(along) for along in axes]
    if math.prod(map(len, lists)) == len(points):
        return tuple((*[slice(None)] * axis, found) for axis, found in enumerate(lists))
    return (tuple(axes),)


def region_shape(steps: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of what the indexes of `region_steps` give of a dataset of this shape."""
    if not steps:
        return shape
    if all(isinstance(item, slice) for item in steps[0]):
        return (0,) * len(shape)
    if len(steps) < len(shape):  # of points, or of blocks that are no box
        return (len(steps[0][0]),)
    return tuple(len(step[-1]) for step in steps)
