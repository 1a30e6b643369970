"""The normal form of a selection, and how NumPy's indexing composes into it.

Law
---
1. A `Hyperslab` says which elements of an HDF5 dataset, which bytes of each, in C order of the
   result: points over the leading axes (or none), then each remaining axis by itself.
2. A `View` is a result that was described, not read: an index on it gives what NumPy's index on
   the array would give, or `NotNative` when a hyperslab cannot say it.
3. What NumPy refuses is NumPy's exception, with the values in its text.

Pure: this file must never know datasets by name, readers or files.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

I64 = npt.NDArray[np.int64]


class Range(NamedTuple):
    """`count` indices from `start` on, `step` apart."""

    start: int
    step: int
    count: int


#: The indices of one axis.
Indices = Range | I64


@dataclass(frozen=True, slots=True, eq=False)
class Hyperslab:
    """Which elements of a dataset, and which bytes of each."""

    #: Path of the field, "" for whole elements.
    field: str
    #: How many leading HDF5 axes are selected by points together.
    k: int
    #: Row-major numbers over the first `k` dims.
    points: I64
    #: Of each remaining HDF5 axis.
    axes: tuple[Indices, ...]
    #: Byte offset in the field and length; none: the entire field.
    runs: tuple[tuple[int, int], ...]
    #: Bytes delivered of each element.
    element_bytes: int
    #: Of the result.
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def n_bytes(self) -> int:
        """Bytes of the result."""
        return math.prod(self.shape) * self.dtype.itemsize
