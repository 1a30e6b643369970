"""Elements of one dtype as elements of another, as HDF5 converts them.

Law
---
1. Whole numbers that do not fit become the nearest that does, also from floats, of which the part
   behind the point is cut off. Compounds are matched by the names of their fields.
2. What HDF5 does not convert, NumPy does.

Pure: this file must never know datasets or files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def converted(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return an array as one of this dtype; the array itself if it has it.

    Raises
    ------
    TypeError, ValueError
        As `numpy.ndarray.astype`.
    """
    if array.dtype == dtype:
        return array
    if dtype.names is not None and array.dtype.names is not None:
        made = np.zeros(array.shape, dtype)
        for name in dtype.names:
            if name in array.dtype.names:
                made[name] = converted(array[name], dtype[name].base)
        return made
    kinds = array.dtype.kind, dtype.kind
    if kinds == ("S", "S"):
        return _ended(array.astype(dtype))
    if kinds[0] in "iu" and kinds[1] in "iu":
        return _clipped(array, dtype)
    if kinds[0] == "f" and kinds[1] in "iu":
        return _cut_off(array, dtype)
    if kinds[1] == "T":  # NumPy takes bytes for ASCII only
        texts: Array = decoded(array, "utf-8", "strict").astype(dtype)
        return texts
    with np.errstate(over="ignore", invalid="ignore"):
        return array.astype(dtype)


def _clipped(array: Array, dtype: np.dtype[Any]) -> Array:
    have, want = np.iinfo(array.dtype), np.iinfo(dtype)
    low, high = max(have.min, want.min), min(have.max, want.max)
    if (low, high) != (have.min, have.max):
        kind = array.dtype.type
        array = np.clip(array, kind(low), kind(high))
    return array.astype(dtype)


def _cut_off(array: Array, dtype: np.dtype[Any]) -> Array:
    want = np.iinfo(dtype)
    with np.errstate(invalid="ignore"):
        made = np.asarray(array.astype(dtype))
    made[np.isnan(array)] = 0
    made[array >= float(want.max)] = want.max
    made[array <= float(want.min)] = want.min
    return made


def _ended(strings: Array) -> Array:
    """Make NULs of what stands behind the first NUL of each string, in place."""
    letters = strings.reshape(-1).view(np.uint8).reshape(strings.size, -1)
    letters[np.logical_or.accumulate(letters == 0, axis=1)] = 0
    return strings


# ---- strings ------------------------------------------------------------------------------


def encoding_of(dtype: np.dtype[Any]) -> str | None:
    """Return the encoding that a dtype of h5py's strings names; None for any other dtype."""
    metadata: Mapping[str, Any] = dtype.metadata or {}
    if dtype.kind == "S":
        return str(metadata.get("h5py_encoding", "ascii"))
    return {str: "utf-8", bytes: "ascii"}.get(metadata.get("vlen", None))


def decoded(strings: Any, encoding: str, errors: str) -> Any:
    """Return byte strings as an array of str objects; a single one as str."""
    if isinstance(strings, bytes):
        return strings.decode(encoding, errors)
    made = np.empty(strings.shape, object)
    made.reshape(-1)[:] = [one.decode(encoding, errors) for one in strings.reshape(-1).tolist()]
    return made
