"""Memory for results.

Law
---
1. A large result takes the memory of one that went, if there is any: zeroing new pages takes as
   long as to fill them (core/src/os/recycled.rs). Every element is written afterwards.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return an array whose elements are to be written; objects are None."""
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes >= _core.ResultMemory.MIN_BYTES and not dtype.hasobject:
        with contextlib.suppress(OSError):  # then NumPy says that there is no memory
            return np.asarray(_core.ResultMemory(n_bytes)).view(dtype).reshape(shape)
    return np.empty(shape, dtype)
