"""What a null dataspace holds: a type, and no elements.

Law
---
1. Equal to every other of its dtype, as h5py's is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from _multitables.errors import public
from _multitables.index.types.as_h5py import Value


@public
class Empty(Value):
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
    __match_args__ = ("dtype",)
    _as_h5py = "Empty"

    shape = None
    size = None

    def __init__(self, dtype: DTypeLike) -> None:
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    def __repr__(self) -> str:
        return f"Empty(dtype={self.dtype!r})"
