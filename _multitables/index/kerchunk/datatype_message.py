"""A NumPy dtype -> the datatype message that an HDF5 file would have for it.

Source: HDF5's file format specification, IV.A.2.d, version 3 of the message.

Law
---
1. One kind, one function; `KINDS` is all of them. What a message says is the dtype again.
2. Text without a size is the only type that no dtype stands for: `VARIABLE_TEXT`.

This file must never know files or Zarr.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np

Dtype = np.dtype[Any]

INTEGER, FLOAT, STRING, OPAQUE, COMPOUND, ENUM, SEQUENCE, ARRAY = 0, 1, 3, 5, 6, 8, 9, 10
NUL_PADDED = 1
#: Size: where the sign is, and where the exponent and the mantissa are with their bits; the bias.
FLOATS = {2: (15, 10, 5, 0, 10, 15), 4: (31, 23, 8, 0, 23, 127), 8: (63, 52, 11, 0, 52, 1023)}


def message(dtype: Dtype) -> bytes:
    """Return the message of a dtype of fixed size.

    Raises
    ------
    TypeError
        HDF5 has none.
    """
    if dtype.shape:
        base = message(dtype.base)
        dims = struct.pack(f"<B{len(dtype.shape)}I", len(dtype.shape), *dtype.shape)
        return _head(ARRAY, 0, dtype.itemsize) + dims + base
    if dtype.kind not in KINDS:
        raise TypeError(f"the dtype {dtype}")
    return KINDS[dtype.kind](dtype)


def _head(kind: int, flags: int, size: int) -> bytes:
    return struct.pack("<BBHI", 3 << 4 | kind, flags & 255, flags >> 8, size)


def _is_big(dtype: Dtype) -> bool:
    return dtype.str[0] == ">"


def _integer(dtype: Dtype) -> bytes:
    flags = _is_big(dtype) | (8 if dtype.kind == "i" else 0)
    return _head(INTEGER, flags, dtype.itemsize) + struct.pack("<HH", 0, 8 * dtype.itemsize)


def _float(dtype: Dtype) -> bytes:
    if dtype.itemsize not in FLOATS:
        raise TypeError(f"the dtype {dtype}")
    sign, *fields, bias = FLOATS[dtype.itemsize]
    flags = _is_big(dtype) | 2 << 4 | sign << 8  # the mantissa's first bit is implied
    bits = struct.pack("<HH4BI", 0, 8 * dtype.itemsize, *fields, bias)
    return _head(FLOAT, flags, dtype.itemsize) + bits


def _bool(dtype: Dtype) -> bytes:
    return _head(ENUM, 2, 1) + message(np.dtype("i1")) + b"FALSE\0TRUE\0\0\1"


def _string(dtype: Dtype) -> bytes:
    return _head(STRING, NUL_PADDED, dtype.itemsize)


def _opaque(dtype: Dtype) -> bytes:
    tag = b"" if dtype.kind == "V" else f"NUMPY:{dtype.str}".encode()
    tag = tag.ljust(-(-len(tag) // 8) * 8, b"\0")
    return _head(OPAQUE, len(tag), dtype.itemsize) + tag


def _complex(dtype: Dtype) -> bytes:
    part = np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")
    return _compound(np.dtype([("r", part), ("i", part)]))


def _compound(dtype: Dtype) -> bytes:
    if dtype.names is None:
        return _opaque(dtype)
    size, parts = dtype.itemsize, []
    offset_bytes = (size.bit_length() + 7) // 8
    for name in dtype.names:
        field, offset = dtype.fields[name][:2]  # type: ignore[index]
        encoded = name.encode("utf-8", "surrogateescape")
        parts += [encoded, b"\0", offset.to_bytes(offset_bytes, "little"), message(field)]
    return _head(COMPOUND, len(dtype.names), size) + b"".join(parts)


KINDS: dict[str, Callable[[Dtype], bytes]] = {
    "b": _bool,
    "i": _integer,
    "u": _integer,
    "f": _float,
    "c": _complex,
    "S": _string,
    "V": _compound,
    "M": _opaque,
    "m": _opaque,
}
UTF8 = 1
TEXT_BYTES = 16
#: A variable-length string of UTF-8: 4 bytes of length, 8 of a heap's address, 4 of a number in it.
VARIABLE_TEXT = _head(SEQUENCE, 1 | UTF8 << 8, TEXT_BYTES) + _integer(np.dtype("u1"))


def text_element(length: int, heap: int, number: int) -> bytes:
    """Return an element of `VARIABLE_TEXT`."""
    return struct.pack("<IQI", length, heap, number)


def texts(get: Callable[[int, int], bytes], elements: bytes, size: int) -> list[bytes]:
    """Return what elements of variable length name: `get` objects of heaps, by their numbers."""
    found = []
    for at in range(0, len(elements), size):
        length = int.from_bytes(elements[at : at + 4], "little")
        heap = int.from_bytes(elements[at + 4 : at + size - 4], "little")
        number = int.from_bytes(elements[at + size - 4 : at + size], "little")
        found.append(get(heap, number) if heap and length else b"")
    return found
