"""HDF5 element type -> NumPy dtype, and what makes delivered elements of stored ones.

Law
---
1. The dtype is that of numpy_type.py. In PyTables' own datasets the types that PyTables defines are
   what PyTables gives (`Datatype.as_pytables`).
2. What HDF5's conversion from file to memory, or h5py, or PyTables changes is a list of conversions
   of values at any offset of an element. The core applies it (hdf5_filters/convert): to chunks as
   they are read, and to elements that Python has.
3. A type that is not read into elements of fixed size raises `Unsupported`.

This file must never know paths, chunks or files.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from _multitables._core import Datatype
from _multitables.index.types.numpy_type import (
    PADDING_NULLPAD,
    PADDING_NULLTERM,
    PADDING_SPACEPAD,
    PADDINGS,
    NoDtypeError,
    Unsupported,
    numpy_dtype,
)

MAX_CONVERSIONS = 1 << 14  # with more of them a library is as fast
VERY_MANY = "very many strings or odd numbers in one element"


#: Kinds of conversions, as the core numbers them (hdf5_filters/convert/kind.rs), beside
#: the paddings of strings. Numbers and truth values have flags and bits, floats a format,
#: pictures a number of channels.
COPY, FLOAT, NUMBER, TIME64, TRUTH, PICTURE = 1, 3, 4, 8, 12, 16
SIGNED, BIG_ENDIAN = 1, 2
ORDERS = {"<": 0, ">": 1, "vax": 2}
IMPLIED = 2  # the highest bit of the mantissa is not stored, but for subnormal numbers

#: NumPy's floats, by bytes and bits of mantissa: where the sign, the exponent (with its bits), the
#: mantissa lie, the bias, and whether the first bit of the mantissa is left out (2) or stored (0).
FLOATS = {
    (2, 10): (15, (10, 5), (0, 10), 15, 2),
    (4, 23): (31, (23, 8), (0, 23), 127, 2),
    (8, 52): (63, (52, 11), (0, 52), 1023, 2),
    (16, 63): (79, (64, 15), (0, 64), 16383, 0),
    (16, 112): (127, (112, 15), (0, 112), 16383, 2),
}
#: Kinds without a fixed size, and what they are called.
NOT_FIXED = {
    "variable_string": "variable-length string",
    "sequence": "variable-length",
    "reference": "reference",
}


@dataclass(frozen=True)
class Conversion:
    """``count`` values of an element, ``step`` bytes apart, and where they are delivered.

    ``kind`` is as the core reads it. 0 (NULLTERM): all bytes of a string after the first NUL become
    NUL. 2 (SPACEPAD): its trailing spaces become NUL. Others: `COPY`, `FLOAT` and so on.
    """

    start: int
    size: int
    step: int
    to: int
    to_size: int
    to_step: int
    count: int = 1
    kind: int = COPY
    bias: int = 0

    @classmethod
    def of(cls, size: int, kind: int = COPY, to_size: int = 0, bias: int = 0) -> Conversion:
        """Return the conversion of one value at offset 0; its size stays by default."""
        to_size = to_size or size
        return cls(0, size, size, 0, to_size, to_size, 1, kind, bias)

    @property
    def words(self) -> tuple[int, ...]:
        """The conversion as a plan has it."""
        here = (self.start, self.size, self.step)
        return (*here, self.to, self.to_size, self.to_step, self.count, self.kind, self.bias)

    @property
    def is_in_place(self) -> bool:
        """Whether values stay where they are."""
        if self.kind & 0xFF == PICTURE:
            return False
        return (self.start, self.size, self.step) == (self.to, self.to_size, self.to_step)

    def moved(self, by: int, to: int) -> Conversion:
        """Return the conversion for an element at these further offsets."""
        return replace(self, start=self.start + by, to=self.to + to)


@dataclass(frozen=True)
class ElementType:
    """One HDF5 type as NumPy sees it."""

    dtype: np.dtype[Any]  # may be a subarray dtype, as nested as h5py's
    size_bytes: int  # as stored
    #: Together they make the delivered element; plain bytes are a `COPY`.
    conversions: tuple[Conversion, ...]
    delivered_bytes: int
    #: The core converts it. If not, the reason why a library reads it.
    direct: bool = True
    reason: str = ""
    library: str = ""  # which library must read it; "" if either can

    @cached_property
    def is_in_place(self) -> bool:
        """Whether delivered elements are stored elements of which some values are changed."""
        alike = self.delivered_bytes == self.size_bytes
        return alike and all(one.is_in_place for one in self.conversions)

    @cached_property
    def changes(self) -> tuple[Conversion, ...]:
        """The conversions that the core applies; in place, without the copies."""
        if not self.is_in_place:
            return self.conversions
        return tuple(one for one in self.conversions if one.kind != COPY)

    @property
    def oddness(self) -> str:
        """Say what elements are, if they are not delivered as they are stored."""
        kinds = {one.kind for one in self.changes}
        if kinds.issubset(PADDINGS):
            return "strings that end with a NUL" if kinds else ""
        return f"numbers that are stored in another way than {self.dtype}"

    @property
    def converted_bytes(self) -> int:
        """Bytes of an element that is converted to another place, 0 if it stays in its own."""
        return 0 if self.is_in_place else self.delivered_bytes


def flat(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of an array of arrays as that of one array: (4,) of (6, 3) is (4, 6, 3).

    NumPy joins the levels when it makes an array of such elements, but keeps them in the dtype.
    """
    if dtype.subdtype is None:
        return dtype
    one = np.empty(0, dtype)
    return np.dtype((one.dtype, one.shape[1:]))


def element_type(datatype: Datatype, pytables: bool) -> ElementType:
    """Describe a type of the file; `pytables`: the dataset is one of PyTables' own.

    Raises
    ------
    Unsupported
        Its elements have no fixed size; `NoDtypeError`: NumPy has no dtype for it.
    """
    datatype = datatype.as_pytables() if pytables else datatype
    if why := _not_fixed(datatype):
        raise Unsupported(why)
    dtype = numpy_dtype(datatype)
    if dtype.hasobject:
        raise Unsupported("object")
    return _with(dtype, datatype.size, _conversions(datatype, dtype), dtype.itemsize)


def _with(
    dtype: np.dtype[Any], size: int, conversions: Iterable[Conversion], delivered: int
) -> ElementType:
    found = tuple(_merged(conversions))
    element = ElementType(dtype, size, found, delivered)
    if len(element.changes) > MAX_CONVERSIONS:
        if not element.is_in_place:  # no library delivers such elements
            raise NoDtypeError(VERY_MANY)
        return replace(element, direct=False, reason=VERY_MANY)
    return element


def _not_fixed(datatype: Datatype) -> str:
    """Return what in a type has no fixed size."""
    for name, _, member in datatype.fields:
        if why := _not_fixed(member):
            return f"{why}, field {name!r}"
    kind = datatype.kind
    return _not_fixed(datatype.base) if kind == "array" else NOT_FIXED.get(kind, "")


# ---- conversions of each kind -----------------------------------------------------------------


def _conversions(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    return CONVERSIONS[datatype.kind](datatype, dtype)


def _copied(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    if dtype.itemsize != datatype.size:
        raise NoDtypeError(f"opaque ({dtype})")
    return [Conversion.of(datatype.size)]


def _bits(datatype: Datatype) -> int:
    """Return which bits of an integer count, and the order of its bytes, as part of a kind."""
    offset, count = datatype.bits
    return BIG_ENDIAN * (datatype.order == ">") | count << 8 | offset << 24


def _integer(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    size, (first, count) = datatype.size, datatype.bits
    # Of one big-endian byte HDF5 only swaps the order of bytes.
    is_byte = (datatype.kind, size, first, datatype.order) == ("integer", 1, 0, ">")
    if dtype.itemsize == size and ((first, count) == (0, 8 * size) or is_byte):
        return [Conversion.of(size)]
    kind = NUMBER | SIGNED * datatype.signed | _bits(datatype)
    return [Conversion.of(size, kind, dtype.itemsize)]


def _float(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    size = datatype.size
    is_numpys = datatype.float_format == FLOATS.get((dtype.itemsize, np.finfo(dtype).nmant))
    if is_numpys and size == dtype.itemsize and datatype.order != "vax":
        return [Conversion.of(size)]
    sign, exponent, mantissa, bias, normalization = datatype.float_format
    order = ORDERS[datatype.order] | (normalization == IMPLIED) << 2
    parts = (FLOAT, order, sign, *exponent, *mantissa)
    return [Conversion.of(size, int.from_bytes(parts, "little"), dtype.itemsize, bias)]


def _string(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    padding = datatype.padding
    if padding == PADDING_NULLPAD:
        return _copied(datatype, dtype)
    is_padded = padding == PADDING_SPACEPAD  # a damaged file may say anything
    kind = PADDING_SPACEPAD if is_padded else PADDING_NULLTERM
    return [Conversion.of(datatype.size, kind)]


def _enum(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    base = datatype.base
    if dtype != np.bool_:
        return _conversions(base, dtype)
    if base.size == 1 and base.bits == (0, 8):
        return [Conversion.of(1)]
    return [Conversion.of(base.size, TRUTH | _bits(base), 1)]


def _array(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    inner = numpy_dtype(datatype.base)
    found = _merged(_conversions(datatype.base, inner))
    steps = datatype.base.size, inner.itemsize
    return _repeated(found, math.prod(datatype.dims), *steps)


def _complex(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    part = np.zeros(0, dtype).real.dtype
    found = _conversions(datatype.base, part)
    return _repeated(found, 2, datatype.base.size, part.itemsize)


def _compound(datatype: Datatype, dtype: np.dtype[Any]) -> Iterable[Conversion]:
    if dtype.kind == "c":
        part = np.zeros(0, dtype).real.dtype
        places = {"r": (part, 0), "i": (part, part.itemsize)}
    else:
        places = {name: field[:2] for name, field in (dtype.fields or {}).items()}
    for name, offset, member in datatype.fields:
        inner, to = places[name]
        yield from (one.moved(offset, to) for one in _conversions(member, inner))


CONVERSIONS: dict[str, Callable[[Datatype, np.dtype[Any]], Iterable[Conversion]]] = {
    "integer": _integer,
    "float": _float,
    "complex": _complex,
    "bitfield": _integer,
    "truth": _copied,
    "string": _string,
    "opaque": _copied,
    "enum": _enum,
    "time": _copied,
    "time64": lambda datatype, _: [Conversion.of(8, TIME64 | (datatype.order == ">"))],
    "array": _array,
    "compound": _compound,
}


def _repeated(
    conversions: Iterable[Conversion], count: int, step: int, to_step: int
) -> Iterator[Conversion]:
    """Yield the conversions of several elements, one behind the other."""
    for one in conversions:
        if (one.step * one.count == step and one.to_step * one.count == to_step) or count == 1:
            yield replace(one, count=one.count * count)
        elif one.count <= count:  # the fewer become conversions of their own
            each = replace(one, count=count, step=step, to_step=to_step)
            yield from (each.moved(n * one.step, n * one.to_step) for n in range(one.count))
        else:
            yield from (one.moved(n * step, n * to_step) for n in range(count))


def _merged(conversions: Iterable[Conversion]) -> Iterator[Conversion]:
    """Yield the conversions with neighbouring bytes that are copied in one."""
    last: Conversion | None = None
    for one in map(_joined, conversions):
        if last is not None and _follows(one, last):
            last = Conversion.of(last.size + one.size).moved(last.start, last.to)
            continue
        if last is not None:
            yield last
        last = one
    if last is not None:
        yield last


def _joined(one: Conversion) -> Conversion:
    """Return bytes that are copied and lie together as one value."""
    if one.kind != COPY or not one.step == one.size == one.to_step:
        return one
    return Conversion.of(one.size * one.count).moved(one.start, one.to)


def _follows(one: Conversion, last: Conversion) -> bool:
    plain = one.kind == last.kind == COPY and one.count == last.count == 1
    places = (one.start - last.start, one.to - last.to)
    return plain and places == (last.size, last.size)


# ---- fields -----------------------------------------------------------------------------------


class FieldType(NamedTuple):
    """The part of an element that reaches the user."""

    element: ElementType  # of the field, or of the whole element; its dtype is `flat`
    offset: int  # bytes into the stored element
    leading_dims: tuple[int, ...] = ()  # of arrays of compounds that hold the field

    @property
    def for_table(self) -> tuple[int, int, int, list[int]]:
        """What the core makes a table with: `_core.StoredDataset.table`."""
        element = self.element
        words = [word for one in element.changes for word in one.words]
        return self.offset, element.size_bytes, element.converted_bytes, words


@lru_cache(maxsize=256)
def stored_type(n_bytes: int) -> FieldType:
    """Return the type of elements that are delivered as bytes, as they are stored."""
    copied = (Conversion.of(n_bytes),)
    return FieldType(ElementType(np.dtype(f"V{n_bytes}"), n_bytes, copied, n_bytes), 0)


@lru_cache(maxsize=1024)
def field_type(datatype: Datatype, field: str | None, pytables: bool) -> FieldType:
    """Describe one field of a dataset's type, or the whole type; ``"a/b"`` is ``b`` in ``a``.

    A file has few types, and very many datasets of each.

    Raises
    ------
    KeyError
        No such field; the arguments are the missing name and the names there are.
    Unsupported
        As `element_type`.
    """
    # h5py reads no field of a compound that has a time anywhere in it.
    library = "tables" if datatype.has("time", "time64") else ""
    arrays: list[tuple[int, Datatype]] = []  # that hold the field, and where: the outermost first
    offset, rest = 0, field or ""
    while rest:
        while datatype.kind == "array":
            arrays.append((offset, datatype))
            offset, datatype = 0, datatype.base
        found = {name: (at, member) for name, at, member in datatype.fields}
        name, _, after = rest.partition("/")
        if rest in found:  # a name may itself hold a slash
            name, after = rest, ""
        if name not in found:
            raise KeyError(rest, list(found))
        at, datatype = found[name]
        offset, rest = offset + at, after
    element = element_type(datatype, pytables)
    if library:
        element = replace(element, library=library)
    if element.dtype.subdtype is not None:
        element = replace(element, dtype=flat(element.dtype))
    leading: tuple[int, ...] = ()
    for at, array in reversed(arrays):
        inside = [one.moved(offset, 0) for one in element.conversions]
        count, delivered = math.prod(array.dims), element.delivered_bytes
        found_inside = _repeated(inside, count, array.base.size, delivered)
        element = _with(element.dtype, array.size, found_inside, delivered * count)
        element = replace(element, library=library)
        offset, leading = at, (*array.dims, *leading)
    return FieldType(element, offset, leading)
