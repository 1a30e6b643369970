"""The type that readers convert numbers to, and the scale that they apply.

Law
---
1. A value: the cast of one dataset, checked against its elements and rows.
2. The core reads the words of a cast (hdf5_filters/convert/cast.rs); numbers.rs there defines how
   it rounds.

This file must never know options, files or chunks.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

#: The types of numbers, as the core numbers them.
NAMES = (
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16",
    "float32", "float64", "bfloat16",
)  # fmt: skip
NUMBERS = {name: number for number, name in enumerate(NAMES)}
#: Delivered to NumPy, which has no such type, as its bits.
BFLOAT16 = "bfloat16"
#: The most numbers of the tables of means and deviations, as the core limits them.
MAX_TABLES = 1 << 25
#: Shorter runs of equal means are written out there.
MIN_RUN = 64


class Axis(NamedTuple):
    """An axis of a dataset behind the first, and the part of it that rows have."""

    dim: int
    #: Of a chunk.
    extent: int
    #: The indices that rows have.
    key: slice
    #: They have only one, and no axis.
    is_dropped: bool


@dataclass(frozen=True, eq=False)
class Cast:
    """Numbers become those of type `name`, and are scaled before if there is a mean."""

    name: str
    #: These broadcast to a row. Both are there, or none.
    mean: F64 | None = None
    deviation: F64 | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of delivered elements."""
        return np.dtype(np.uint16 if self.name == BFLOAT16 else self.name)

    def words(
        self, stored: np.dtype[Any], element_shape: tuple[int, ...], axes: Sequence[Axis]
    ) -> list[int] | None:
        """Return the words of a cast of elements of this type; None: tables would be too large."""
        swaps, per_element = not stored.isnative, math.prod(element_shape)
        head = [NUMBERS[stored.name], NUMBERS[self.name], 0, int(swaps), per_element]
        if self.mean is None or self.deviation is None:
            return head
        head[2] = 8 if self.name == "float64" else 4
        both = np.broadcast_arrays(self.mean, self.deviation)
        mean, deviation = (
            _table(values, behind, element_shape, axes)
            for values, behind in zip(both, (0.0, 1.0), strict=True)
        )
        varies = [extent > 1 for extent in mean.shape]
        if not _fits(varies, [*axes, Axis(per_element, per_element, slice(None), False)]):
            return None
        values = np.concatenate([mean.ravel(), deviation.ravel()])
        bits: list[int] = values.view(np.uint64).tolist()
        return [*head, *map(int, varies), *bits]


def is_number(dtype: np.dtype[Any]) -> bool:
    """Whether elements of a type can be cast."""
    return dtype.name in NUMBERS


def _table(values: F64, behind: float, element_shape: tuple[int, ...], axes: Sequence[Axis]) -> F64:
    """Return values of a row for a stored one; they are `behind` where rows have no element.

    They have an axis for each of `axes`, and one for the numbers of an element, of length 1 where
    all are equal.
    """
    n_axes = sum(not axis.is_dropped for axis in axes)
    shape = (1,) * (n_axes + len(element_shape) - values.ndim) + values.shape
    outer, inner = shape[:n_axes], shape[n_axes:]
    values = values.reshape(shape)
    if math.prod(inner) > 1:
        values = np.broadcast_to(values, outer + element_shape)
    values = values.reshape(*outer, -1)
    for at, axis in enumerate(axes):
        if axis.is_dropped:
            values = np.expand_dims(values, at)
        elif values.shape[at] > 1:
            whole = np.full((*values.shape[:at], axis.dim, *values.shape[at + 1 :]), behind)
            whole[(slice(None),) * at + (axis.key,)] = values
            values = whole
    return values


def _fits(varies: Sequence[bool], axes: Sequence[Axis]) -> bool:
    """Whether the core makes such tables; see scale.rs."""
    if True not in varies:
        return True
    first, last = varies.index(True), len(varies) - varies[::-1].index(True)
    chunks = [-(-axis.dim // axis.extent) for axis, one in zip(axes, varies, strict=True) if one]
    run = math.prod(axis.extent for axis in axes[last:])
    each = math.prod(axis.extent for axis in axes[first:last]) * (run if run < MIN_RUN else 1)
    return each * math.prod(chunks) <= MAX_TABLES and run < sys.maxsize
