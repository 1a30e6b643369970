"""Numbers of formats that NumPy does not have, as HDF5 converts them.

Law
---
1. Pure: elements as bytes in, numbers out. A bit is counted from the lowest of the number.
2. The dtype holds every value of the format, as h5py chooses it, so nothing is rounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Datatype = dict[str, Any]
IMPLIED = 2  # the highest bit of the mantissa is not stored, but for subnormal numbers


def _ieee(size: int, exponent: int) -> dict[str, Any]:
    mantissa = 8 * size - 1 - exponent
    return {
        "bits": (0, 8 * size),
        "sign_at": 8 * size - 1,
        "exponent": (mantissa, exponent),
        "mantissa": (0, mantissa),
        "exponent_bias": 2 ** (exponent - 1) - 1,
        "normalization": IMPLIED,
    }


#: Floats that NumPy holds as they are stored, by their size.
FLOATS = {2: _ieee(2, 5), 4: _ieee(4, 8), 8: _ieee(8, 11)}
if np.finfo(np.longdouble).nmant == 63:  # x87's format of 80 bits, in 16 bytes
    parts = {"bits": (0, 80), "sign_at": 79, "exponent": (64, 15), "mantissa": (0, 64)}
    FLOATS[16] = {**parts, "exponent_bias": 16383, "normalization": 0}


def is_plain(datatype: Datatype) -> bool:
    """Whether an integer, bitfield or float is stored as NumPy holds it."""
    size = datatype["size"]
    if datatype["kind"] == "float":
        known = FLOATS.get(size)
        return known is not None and known.items() <= datatype.items() and datatype["order"] in "<>"
    return datatype["bits"] == (0, 8 * size) and datatype["order"] in "<>" and size in (1, 2, 4, 8)


def integers(raw: NDArray[np.uint8], datatype: Datatype, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the integers in (n, size) bytes of a format with unused bits."""
    offset, precision = datatype["bits"]
    numbers = _bits(_lowest_first(raw, datatype["order"]), offset, precision)
    if datatype.get("signed") and 0 < precision < 64:
        sign = np.uint64(1 << precision - 1)
        numbers = (numbers ^ sign) - sign
    return numbers.view(np.int64).astype(dtype) if dtype.kind == "i" else numbers.astype(dtype)


def floats(raw: NDArray[np.uint8], datatype: Datatype, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the floats in (n, size) bytes of any format."""
    raw = _lowest_first(raw, datatype["order"])
    (exponent_at, exponent_bits), bias = datatype["exponent"], datatype["exponent_bias"]
    mantissa_at, mantissa_bits = datatype["mantissa"]
    sign = _bits(raw, datatype["sign_at"], 1).astype(bool)
    exponent = _bits(raw, exponent_at, exponent_bits).astype(np.int64)
    mantissa = _bits(raw, mantissa_at, mantissa_bits)
    number = mantissa.astype(np.longdouble)
    is_zero = mantissa == 0
    point = mantissa_bits - 1
    if datatype["normalization"] == IMPLIED:
        is_subnormal, point = exponent == 0, mantissa_bits
        number = np.where(is_subnormal, number, number + np.ldexp(np.longdouble(1), point))
        exponent = np.where(is_subnormal, 1, exponent)
        is_infinite = exponent == (1 << exponent_bits) - 1
    else:
        # The highest bit of an infinity's mantissa is set where it is stored.
        is_infinite = exponent == (1 << exponent_bits) - 1
        is_zero |= is_infinite & (mantissa == np.uint64(1 << point))
    number = np.ldexp(number, (exponent - bias - point).astype(np.int32))
    number = np.where(is_infinite, np.where(is_zero, np.inf, np.nan), number)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return np.where(sign, -number, number).astype(dtype)


def _lowest_first(raw: NDArray[np.uint8], order: str) -> NDArray[np.uint8]:
    if order == "<":
        return raw
    if order == "vax":  # pairs of bytes, the highest pair first
        pairs = raw.reshape(len(raw), -1, 2)
        return pairs[:, ::-1].reshape(raw.shape)
    return raw[:, ::-1]


def _bits(raw: NDArray[np.uint8], at: int, count: int) -> NDArray[np.uint64]:
    """Return up to 64 bits of each number."""
    found = np.zeros(len(raw), np.uint64)
    for number in range(at // 8, min(-(-(at + count) // 8), raw.shape[1])):
        byte, shift = raw[:, number].astype(np.uint64), 8 * number - at
        if shift < 64:
            found |= byte << np.uint64(shift) if shift >= 0 else byte >> np.uint64(-shift)
    return found & np.uint64((1 << min(count, 64)) - 1)
