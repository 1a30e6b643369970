"""The value of an attribute, of what the core tells of it.

Law
---
1. A value is what h5py gives: a NumPy scalar or array, strings, or `Empty`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from _multitables.elements.empty import Empty
from _multitables.elements.values import decode
from _multitables.index.opened.open_files import Place
from _multitables.index.types.element_type import element_type
from _multitables.index.types.numpy_type import (
    PADDING_NULLPAD,
    PADDING_NULLTERM,
    PADDING_SPACEPAD,
    datatype_of,
    dtype_of,
)

#: Kinds whose values are mostly stored as NumPy has them.
NUMBERS = {"integer", "float"}
#: By the padding of a string: its bytes without it, as most attributes are one string.
ENDED: dict[int, Callable[[bytes], bytes]] = {
    PADDING_NULLTERM: lambda stored: stored.partition(b"\0")[0],
    PADDING_NULLPAD: lambda stored: stored.rstrip(b"\0"),
    PADDING_SPACEPAD: lambda stored: stored.rstrip(b" ").rstrip(b"\0"),
}


@lru_cache(maxsize=1024)
def _is_plain(body: bytes) -> bool:
    return not element_type(datatype_of(body), False).changes


def decoded(place: Place, body: bytes, dims: tuple[int, ...] | None, stored: bytes) -> Any:
    """Return the value of an attribute: its datatype, dims (None: null) and elements are given."""
    datatype = datatype_of(body)
    if dims is None:
        return Empty(dtype_of(body))
    if stored and datatype.kind in NUMBERS and _is_plain(body):
        number = np.ndarray(dims, dtype_of(body), bytearray(stored))
        return number if dims else number[()]
    if datatype.kind == "string" and dims == ():
        ended = ENDED.get(datatype.padding, ENDED[PADDING_NULLTERM])  # or damaged
        return np.bytes_(ended(stored))
    elements = np.frombuffer(stored, f"V{datatype.size}") if stored else np.empty(0, "V1")
    value = decode(elements.reshape(dims), datatype, place.file)
    if datatype.kind == "variable_string":
        texts = [string.decode("utf-8", "surrogateescape") for string in value.flat]
        value = np.array(texts, value.dtype).reshape(value.shape)
    return value[()] if value.ndim == 0 else value
