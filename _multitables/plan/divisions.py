"""Tables that are sorted by an index, cut into partitions by its values.

Law
---
1. Pure. No partition splits the rows of one value, and partition i of each table has the same range
   of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Key = npt.NDArray[Any]


def cut_by_value(keys: Sequence[Key], rows: int) -> tuple[list[Any], list[list[int]]]:
    """Cut tables into partitions of at most this many rows of each, or of one value.

    Parameters
    ----------
    keys : sequence of ndarray
        Of each table the values of the index, in ascending order.

    Returns
    -------
    divisions : list
        The first value of each partition, and the last value of all.
    starts : list of list of int
        Of each table the first row of each partition.
    """
    common = np.result_type(*keys)
    keys = [key.astype(common, copy=False) for key in keys]
    stored = [key for key in keys if len(key)]
    if not stored:
        return [0, 0], [[0] for _ in keys]
    values = [min(key[0] for key in stored)]
    while (value := _next(stored, values[-1], rows)) is not None:
        values.append(value)
    starts = [np.searchsorted(key, np.array(values, common)).tolist() for key in keys]
    last = max(key[-1] for key in stored)
    return [value.item() for value in (*values, last)], starts


def _next(keys: Sequence[Key], value: Any, rows: int) -> Any:
    """Return the first value of the partition behind one that begins with `value`, or None."""
    within = _at(keys, [int(np.searchsorted(key, value)) + rows for key in keys])
    if within is None or within > value:
        return within
    return _at(keys, [int(np.searchsorted(key, value, side="right")) for key in keys])


def _at(keys: Sequence[Key], rows: Sequence[int]) -> Any:
    """Return the least of the values in some rows, one of each table; None where all end before."""
    found = [key[row] for key, row in zip(keys, rows, strict=True) if row < len(key)]
    return min(found, default=None)
