"""Element types that NumPy lacks, drawn: floats and integers of any layout, alone and in compounds.

Law
---
1. A drawn `Kind` has HDF5's type, the dtype that elements are delivered as, and what each value is.
2. Values are calculated from stored bytes with whole numbers and fractions; nothing here is shared
   with the library, and NumPy only rounds what is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from h5py import h5t
from hypothesis import strategies as st

#: NumPy's floats: dtype, bits of mantissa, and the exponents of the largest and smallest numbers.
FLOATS = [("f2", 10, 15, -14), ("f4", 23, 127, -126), ("f8", 52, 1023, -1022)]


@dataclass(frozen=True)
class Kind:
    """A type: HDF5's, NumPy's, and the values of stored elements, as NumPy has them."""

    stored: Any
    dtype: np.dtype
    value: Callable[[bytes], Any]
    name: str = ""
    #: HDF5 makes something of zeros that are stored with an exponent.
    has_odd_zeros: bool = False

    @property
    def size(self) -> int:
        """Bytes of a stored element."""
        return int(self.stored.get_size())

    def values(self, elements: bytes) -> np.ndarray:
        """All elements in these bytes."""
        found = np.zeros(len(elements) // self.size, self.dtype)
        for number in range(len(found)):
            found[number] = self.value(elements[number * self.size :][: self.size])
        return found


def bits(number: int, at: int, count: int) -> int:
    return number >> at & ((1 << count) - 1)


def usual_bits(size: int) -> int:
    """The fewest bits that HDF5 stores in a number of this size by default."""
    return 8 * (1 << (size - 1).bit_length() >> 1) + 1 if size > 1 else 2


def ordered(draw: Any, base: str) -> tuple[Any, str]:
    """A type of HDF5 to be changed, and the order of its bytes."""
    order = draw(st.sampled_from(["little", "big"]))
    return getattr(h5t, f"{base}{'LE' if order == 'little' else 'BE'}").copy(), order


@st.composite
def floats(draw: Any) -> Kind:
    """Sign, exponent and mantissa anywhere in an element, with gaps, in any order."""
    size = draw(st.sampled_from([1, 2, 2, 3, 4, 5, 6, 7, 8]))
    stored, order = ordered(draw, "IEEE_F64")
    exponent = draw(st.integers(1, min(10, 8 * size - 2)))
    mantissa = draw(st.integers(1, min(50, 8 * size - 1 - exponent)))
    bias = draw(st.integers(max(1, 2 ** (exponent - 1) - 3), 2 ** (exponent - 1) + 2))
    left, at, places = 8 * size - 1 - exponent - mantissa, 0, {}
    for part in draw(st.permutations(["sign", "exponent", "mantissa"])):
        gap = draw(st.integers(0, left))
        left, at = left - gap, at + gap
        places[part] = at
        at += {"sign": 1, "exponent": exponent, "mantissa": mantissa}[part]
    is_implied = draw(st.booleans())
    stored.set_fields(places["sign"], places["exponent"], exponent, places["mantissa"], mantissa)
    stored.set_norm(h5t.NORM_IMPLIED if is_implied else h5t.NORM_NONE)
    stored.set_ebias(bias)
    if draw(st.booleans()):
        offset = draw(st.integers(0, min(*places.values(), 8 * size - usual_bits(size))))
        stored.set_offset(offset)
        stored.set_precision(8 * size - offset)
    stored.set_size(size)
    kind = next(
        kind
        for kind, most, high, low in FLOATS
        if np.dtype(kind).itemsize >= size
        and mantissa <= most
        and 2**exponent - bias - 2 <= high
        and 1 - bias >= low
    )
    dtype = np.dtype(("<" if order == "little" else ">") + kind)

    def value(element: bytes) -> Any:
        number = int.from_bytes(element, order)
        sign = -1 if bits(number, places["sign"], 1) else 1
        power = bits(number, places["exponent"], exponent)
        fraction = bits(number, places["mantissa"], mantissa)
        if power == 2**exponent - 1:
            is_infinite = fraction == 0 or (not is_implied and fraction == 2 ** (mantissa - 1))
            return sign * math.inf if is_infinite else math.copysign(math.nan, sign)
        whole = Fraction(fraction, 2 ** (mantissa if is_implied else mantissa - 1))
        if is_implied:
            whole, power = (whole + 1, power) if power else (whole, 1)
        return math.copysign(float(whole * Fraction(2) ** (power - bias)), sign)

    name = f"{size} bytes {order} {places} {exponent}/{mantissa} bias {bias} {is_implied}"
    return Kind(stored, dtype, value, f"float of {name}", not is_implied)


@st.composite
def integers(draw: Any) -> Kind:
    """Some bits of 1 to 8 bytes."""
    size = draw(st.integers(1, 8))
    sign = draw(st.sampled_from("IU"))
    stored, order = ordered(draw, f"STD_{sign}64")
    # Of one big-endian byte HDF5 only swaps the order, if it begins with the first bit.
    is_byte = size == 1 and order == "big"
    count = draw(st.integers(usual_bits(size), 8 * size)) if not is_byte else 8
    offset = draw(st.integers(0, 8 * size - count))
    stored.set_precision(count)
    stored.set_offset(offset)
    stored.set_size(size)
    width = next(n for n in (1, 2, 4, 8) if n >= size)
    dtype = np.dtype(f"{'<' if order == 'little' else '>'}{sign.lower()}{width}")

    def value(element: bytes) -> int:
        number = bits(int.from_bytes(element, order), offset, count)
        return number - (1 << count) if sign == "I" and number >> (count - 1) else number

    return Kind(stored, dtype, value, f"{size} bytes {order}, {count} bits from {offset}")


def _number(stored: Any, dtype: str) -> Kind:
    kind = np.dtype(dtype)
    return Kind(stored, kind, lambda element: np.frombuffer(element, kind)[0], dtype)


PLAIN = [
    _number(h5t.STD_I32LE, "<i4"),
    _number(h5t.STD_U16BE, ">u2"),
    _number(h5t.IEEE_F64LE, "<f8"),
    _number(h5t.IEEE_F32BE, ">f4"),
    _number(h5t.STD_U8LE, "u1"),
]


@st.composite
def compounds(draw: Any, inner: st.SearchStrategy[Kind]) -> Kind:
    """Members in any order, with gaps, and behind the last one padding."""
    members = draw(st.lists(inner, min_size=1, max_size=4))
    names = draw(st.permutations(["a", "b", "i", "r", "longer"]))[: len(members)]
    room, places = 0, {}
    for name, member in zip(names, members, strict=True):
        room += draw(st.integers(0, 3))
        places[name] = room
        room += member.size
    stored = h5t.create(h5t.COMPOUND, room + draw(st.integers(0, 3)))
    kinds = dict(zip(names, members, strict=True))
    order = draw(st.permutations(names))
    for name in order:
        stored.insert(name.encode(), places[name], kinds[name].stored)
    dtype = np.dtype([(name, kinds[name].dtype) for name in order])
    parts = [kinds[name].dtype for name in order]
    is_complex = (
        list(order) == ["r", "i"]
        and parts[0] == parts[1]
        and parts[0].kind == "f"
        and parts[0].itemsize > 2
    )
    if is_complex:
        dtype = np.dtype(f"{parts[0].str[0]}c{2 * parts[0].itemsize}")

    def value(element: bytes) -> Any:
        each = [kinds[n].value(element[places[n] :][: kinds[n].size]) for n in order]
        return complex(*map(float, each)) if is_complex else tuple(each)

    inside = ", ".join(f"{name} at {places[name]}: {kinds[name].name}" for name in order)
    has_odd_zeros = any(member.has_odd_zeros for member in members)
    return Kind(stored, dtype, value, f"{{{inside}}} of {stored.get_size()}", has_odd_zeros)


@st.composite
def arrays(draw: Any, inner: st.SearchStrategy[Kind]) -> Kind:
    base, dims = draw(inner), draw(st.sampled_from([(2,), (3,), (2, 2)]))
    count = math.prod(dims)

    def value(element: bytes) -> np.ndarray:
        found = base.values(element[: count * base.size])
        return found.reshape(*dims, *found.shape[1:])

    stored = h5t.array_create(base.stored, dims)
    dtype, name = np.dtype((base.dtype, dims)), f"{dims} of {base.name}"
    return Kind(stored, dtype, value, name, base.has_odd_zeros)


NUMBERS = floats() | integers() | st.sampled_from(PLAIN)
TYPES = st.recursive(
    NUMBERS, lambda inner: compounds(inner) | compounds(NUMBERS) | arrays(inner), max_leaves=6
)
