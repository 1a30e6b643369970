"""What a null dataspace holds: a type, and no elements.

Law
---
1. Equal to every other of its dtype, as h5py's is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike


class Empty:
    """The value of an attribute or a dataset that has a type but neither shape nor elements.

    Parameters
    ----------
    dtype : dtype-like
        The type.

    Attributes
    ----------
    dtype : numpy.dtype
        The type.
    shape, size : None
        Nothing is there.
    """

    __slots__ = ("dtype",)

    shape = None
    size = None

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Empty) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((Empty, self.dtype))

    def __repr__(self) -> str:
        return f"Empty(dtype={self.dtype!r})"
