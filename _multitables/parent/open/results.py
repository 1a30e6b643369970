"""Memory for results.

Law
---
1. A large result takes the memory of one that went, if there is any: zeroing new pages takes as
   long as to fill them (the core's os/recycled.rs). Every element is written afterwards.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core


def new_array(
    shape: tuple[int, ...], dtype: np.dtype[Any], out: npt.NDArray[Any] | None = None
) -> npt.NDArray[Any]:
    """Return an array whose elements are to be written: `out`, if it is alike; objects are None.

    Raises
    ------
    MemoryError
        It is larger than the memory that can be had.
    """
    if out is not None and (out.shape, out.dtype) == (shape, dtype) and out.flags.c_contiguous:
        return out
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes >= _core.ResultMemory.MIN_BYTES and not dtype.hasobject:
        with contextlib.suppress(OSError, OverflowError):  # then NumPy says why
            return np.asarray(_core.ResultMemory(n_bytes)).view(dtype).reshape(shape)
    try:
        return np.empty(shape, dtype)
    except ValueError as error:  # more than NumPy counts
        raise MemoryError(str(error)) from None
