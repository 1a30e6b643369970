"""A NumPy key in two: the box that a library reads, and the index of what the box holds.

Law
---
1. The box has a slice for each of HDF5's dims, or at most one sorted list: that is what both
   libraries take.
2. The box holds no more rows than the key wants, and the rest gives what the key would.

Pure: this file must never know datasets or libraries.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def boxed(key: Any, shape: tuple[int, ...], n_dims: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Part a NumPy key into the box that a library reads, and the key to what it read.

    The box has a slice for each of HDF5's `n_dims` dims, or for one of them a sorted list without
    repetitions. What follows in `shape` are dims of a subarray.
    """
    items = key if isinstance(key, tuple) else (key,)
    n_left = len(shape) - sum(map(_n_axes, items))
    box: list[Any] = [slice(0, length) for length in shape[:n_dims]]
    rest: list[Any] = []
    places: dict[int, int] = {}  # axis -> its place in `rest`
    axis = 0
    for item in items:
        for part in _parts(item, shape[axis:]):
            acts = part is not Ellipsis and _n_axes(part) == 1
            if acts and axis < n_dims:
                places[axis] = len(rest)
                box[axis], found = _along(part, shape[axis])
                rest.append(found)
            else:
                rest.append(part)
            axis += n_left if part is Ellipsis else acts
    lists = [axis for axis, item in enumerate(box) if isinstance(item, np.ndarray)]
    empty = any(isinstance(item, slice) and item.start >= item.stop for item in box)
    for axis in lists if empty else lists[1:]:  # the libraries take one list, and none of nothing
        rows = box[axis]
        box[axis] = slice(int(rows[0]), int(rows[-1]) + 1)
        rest[places[axis]] = rows[rest[places[axis]]] - rows[0]
    return tuple(box), tuple(rest)


def _n_axes(item: Any) -> int:
    """How many axes an item of a key acts on: None and one boolean act on none."""
    if item is None or item is Ellipsis or isinstance(item, (bool, np.bool_)):
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == np.bool_ else 1


def _parts(item: Any, shape: tuple[int, ...]) -> Sequence[Any]:
    """An item, or a mask as the index arrays that NumPy takes it for."""
    if not isinstance(item, np.ndarray) or item.dtype != np.bool_ or not item.ndim:
        return (item,)
    if any(got not in (length, 0) for got, length in zip(item.shape, shape, strict=False)):
        raise IndexError(f"a mask of shape {item.shape} does not fit {shape[: item.ndim]}")
    return item.nonzero()


def _along(item: Any, length: int) -> tuple[Any, Any]:
    """What to read along one axis, a slice or a sorted list, and the index of what was read."""
    if isinstance(item, slice):
        wanted = range(*item.indices(length))
        if not wanted:
            return slice(0, 0), slice(None)
        if wanted.step > 0:
            return slice(wanted[0], wanted[-1] + 1, wanted.step), slice(None)
        return slice(wanted[-1], wanted[0] + 1, -wanted.step), slice(None, None, -1)
    numbers = np.asarray(item)
    if ((numbers >= length) | (numbers < -length)).any():
        raise IndexError(f"index out of range (expected {-length} to {length - 1}, got {item})")
    if numbers.size == 0:
        return slice(0, 0), numbers
    numbers = np.where(numbers < 0, numbers + length, numbers)
    if numbers.ndim == 0:
        return slice(int(numbers), int(numbers) + 1), 0
    rows, back = np.unique(numbers, return_inverse=True)
    back = back.reshape(numbers.shape)  # NumPy 2.0 gave another shape
    if rows[-1] - rows[0] + 1 == len(rows):
        return slice(int(rows[0]), int(rows[-1]) + 1), back
    return rows, back
