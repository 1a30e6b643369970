"""HDF5 element type -> NumPy dtype, and whether the stored bytes are the delivered bytes.

1. The dtype is what h5py gives (numpy_type.py). In PyTables' own datasets the types that PyTables
   defines are what PyTables gives: 8-bit bitfields are bool, Time32 is int32, Time64 is float64.
2. A type is ``direct`` only if HDF5's conversion from file to memory leaves every byte as it is,
   except for each `Fix`: h5py replaces the padding of fixed strings by NULs, HDF5 extends the sign
   of numbers over bits that they do not use, and PyTables makes floats of its Time64. PyTables
   delivers strings as stored.
3. A type that neither library reads into elements of fixed size raises `Unsupported`.

This file must never know paths, chunks or files.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from _multitables.index.numpy_type import Datatype, numpy_dtype

MAX_FIXES = 4096  # with more of them a library is as fast
VERY_MANY = "very many strings or odd numbers in one element"

PADDING_NULLTERM, PADDING_NULLPAD, PADDING_SPACEPAD = PADDINGS = 0, 1, 2

#: The kind of a `Fix`: microseconds and seconds, of 4 bytes each, become a float of seconds.
TIME64 = 8

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


class Unsupported(Exception):  # noqa: N818 - internal, turned into UnsupportedDatasetError
    """Its text is the kind of type."""


@dataclass(frozen=True)
class Fix:
    """``count`` consecutive values of ``size`` bytes, ``offset`` bytes into one element.

    ``kind`` is as the core reads it. 0 (NULLTERM): all bytes of a string after the first NUL become
    NUL. 2 (SPACEPAD): its trailing spaces become NUL. 8: `TIME64`. Others: `number_fix`.
    """

    offset: int
    size: int
    count: int
    kind: int


def number_fix(datatype: Datatype) -> Fix:
    """Return what extends integers over the bits above those that count."""
    flags = 4 | bool(datatype["signed"]) | (datatype["order"] == ">") << 1
    return Fix(0, datatype["size"], 1, flags | datatype["bits"][1] << 8)


@dataclass(frozen=True)
class ElementType:
    """One HDF5 type as NumPy sees it."""

    dtype: np.dtype[Any]  # may be a subarray dtype, as nested as h5py's
    size_bytes: int  # as stored
    direct: bool = True
    reason: str = ""  # why not direct
    library: str = ""  # which library must read it; "" if either can
    fixes: tuple[Fix, ...] = ()
    own: bool = False  # one of PyTables' types: h5py has another dtype for it


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
        No NumPy dtype of fixed size stands for it.
    """
    kind = datatype["kind"]
    if kind in NOT_FIXED:
        raise Unsupported(NOT_FIXED[kind])
    return ELEMENTS[kind](datatype, pytables)


def _dtype(datatype: Datatype) -> np.dtype[Any]:
    try:
        dtype = numpy_dtype(datatype)
    except TypeError as error:
        raise Unsupported(str(error)) from None
    if dtype.hasobject:
        raise Unsupported("object")
    return dtype


def _is_whole(datatype: Datatype) -> bool:
    """Whether all bits of a number count, in an order that NumPy has."""
    return datatype["bits"] == (0, 8 * datatype["size"]) and datatype["order"] in "<>"


def _is_numpys_float(datatype: Datatype, dtype: np.dtype[Any]) -> bool:
    if dtype.itemsize != datatype["size"]:
        return False
    fields = tuple(datatype[name] for name in ("sign_at", "exponent", "mantissa", "exponent_bias"))
    layout = FLOATS.get((dtype.itemsize, np.finfo(dtype).nmant))
    return layout == (*fields, datatype["normalization"])


def _number(datatype: Datatype, is_numpys: bool) -> ElementType:
    dtype = _dtype(datatype)
    if is_numpys:
        return ElementType(dtype, datatype["size"])
    reason = f"a number format that NumPy does not have (read as {dtype})"
    return ElementType(dtype, datatype["size"], False, reason)


def _integer(datatype: Datatype, _: bool) -> ElementType:
    found = _number(datatype, _is_whole(datatype))
    first, n_bits = datatype["bits"]
    counts = first == 0 and 0 < n_bits <= 8 * datatype["size"]
    if not found.direct and counts and datatype["order"] in "<>":
        if datatype["size"] == 1 and datatype["order"] == ">":
            return ElementType(found.dtype, 1)  # HDF5 only swaps the order of bytes
        return ElementType(found.dtype, found.size_bytes, fixes=(number_fix(datatype),))
    return found


def _float(datatype: Datatype, _: bool) -> ElementType:
    return _number(datatype, _is_numpys_float(datatype, _dtype(datatype)))


def _complex(datatype: Datatype, pytables: bool) -> ElementType:
    return _number(datatype, element_type(datatype["base"], pytables).direct)


def _bitfield(datatype: Datatype, pytables: bool) -> ElementType:
    size = datatype["size"]
    if pytables and size == 1:
        return ElementType(np.dtype(np.bool_), 1, own=True)
    dtype = _dtype(datatype)
    if _is_whole(datatype):
        return ElementType(dtype, size)
    return ElementType(dtype, size, False, "a bitfield with unused bits")


def _string(datatype: Datatype, pytables: bool) -> ElementType:
    size, padding = datatype["size"], datatype["padding"]
    fixes: tuple[Fix, ...] = ()
    if padding != PADDING_NULLPAD and not pytables:
        is_padded = padding == PADDING_SPACEPAD  # a damaged file may say anything
        fixes = (Fix(0, size, 1, PADDING_SPACEPAD if is_padded else PADDING_NULLTERM),)
    return ElementType(_dtype(datatype), size, fixes=fixes)


def _opaque(datatype: Datatype, _: bool) -> ElementType:
    found = ElementType(_dtype(datatype), datatype["size"])
    if found.dtype.itemsize != found.size_bytes:
        raise Unsupported(f"opaque ({found.dtype})")
    return found


def _enum(datatype: Datatype, pytables: bool) -> ElementType:
    base = element_type(datatype["base"], pytables)
    found = replace(base, dtype=_dtype(datatype))  # h5py keeps the names as metadata
    if base.fixes:
        return replace(found, direct=False, reason="an enum of numbers with unused bits", fixes=())
    if found.dtype.itemsize == base.size_bytes:
        return found
    return replace(found, direct=False, reason=f"a bool in {base.size_bytes} bytes")


def _time(datatype: Datatype, _: bool) -> ElementType:
    order, size = datatype["order"], datatype["size"]
    if size == 4:
        return ElementType(np.dtype(order + "i4"), 4, library="tables", own=True)
    if size == 8:
        reason = "" if order == "<" else "Time64 in an order that PyTables does not write"
        found = ElementType(np.dtype(order + "f8"), 8, not reason, reason, "tables", own=True)
        return found if reason else replace(found, fixes=(Fix(0, 8, 1, TIME64),))
    raise Unsupported("time")


def _array(datatype: Datatype, pytables: bool) -> ElementType:
    base, dims = element_type(datatype["base"], pytables), datatype["dims"]
    count = math.prod(dims)
    found = replace(base, dtype=np.dtype((base.dtype, dims)), size_bytes=datatype["size"])
    if not base.fixes:
        return found
    first = base.fixes[0]
    if len(base.fixes) == 1 and first.size * first.count == base.size_bytes:
        return replace(found, fixes=(replace(first, count=first.count * count),))
    if len(base.fixes) * count > MAX_FIXES:
        return replace(found, fixes=(), direct=False, reason=VERY_MANY)
    starts = range(0, count * base.size_bytes, base.size_bytes)
    return replace(
        found, fixes=tuple(replace(f, offset=f.offset + at) for at in starts for f in base.fixes)
    )


def _members(datatype: Datatype) -> Iterator[tuple[str, int, Datatype]]:
    for name, offset, member in datatype["fields"]:
        yield name.decode("utf-8", "surrogateescape"), offset, member


def _compound(datatype: Datatype, pytables: bool) -> ElementType:
    size = datatype["size"]
    seen: np.dtype[Any] | None = None
    with contextlib.suppress(TypeError):  # h5py has none for some member
        seen = numpy_dtype(datatype)
    names, offsets, members = [], [], []
    for name, offset, member in _members(datatype):
        try:
            members.append(element_type(member, pytables))
        except Unsupported as error:
            raise Unsupported(f"{error}, field {name!r}") from None
        names.append(name)
        offsets.append(offset)
    if seen is not None and seen.kind == "c":
        numpys = all(member.direct for member in members) and offsets == [0, size // 2]
        return _number(datatype, numpys and seen.itemsize == size)
    dtype = np.dtype(
        {
            "names": names,
            "formats": [member.dtype for member in members],
            "offsets": offsets,
            "itemsize": size,
        }
    )
    own = any(member.own for member in members)
    odd = next((n for n, m in zip(names, members, strict=True) if not m.direct), None)
    reason = "" if odd is None else f"field {odd!r}: {members[names.index(odd)].reason}"
    library = next((member.library for member in members if member.library), "")
    if not own and seen is not None:
        reason = reason if seen == dtype else "a compound that h5py lays out in another way"
        dtype = seen
    fixes = tuple(
        replace(fix, offset=fix.offset + offset)
        for offset, member in zip(offsets, members, strict=True)
        for fix in member.fixes
    )
    if len(fixes) > MAX_FIXES:
        fixes, reason = (), reason or VERY_MANY
    return ElementType(dtype, size, not reason, reason, library, fixes, own)


ELEMENTS: dict[str, Callable[[Datatype, bool], ElementType]] = {
    "integer": _integer,
    "float": _float,
    "complex": _complex,
    "bitfield": _bitfield,
    "string": _string,
    "opaque": _opaque,
    "enum": _enum,
    "time": _time,
    "array": _array,
    "compound": _compound,
}


def _has_time(datatype: Datatype) -> bool:
    inner = [member for _, _, member in datatype.get("fields", ())]
    inner += [datatype["base"]] if datatype["kind"] == "array" else []
    return datatype["kind"] == "time" or any(map(_has_time, inner))


@dataclass(frozen=True)
class FieldType:
    """The part of an element that reaches the user."""

    element: ElementType  # of the field, or of the whole element; its dtype is `flat`
    offset: int  # bytes into the stored element
    leading_dims: tuple[int, ...] = ()  # of arrays of compounds that hold the field


def field_type(datatype: Datatype, field: str | None, pytables: bool) -> FieldType:
    """Describe one field of a dataset's type, or the whole type; ``"a/b"`` is ``b`` in ``a``.

    Raises
    ------
    KeyError
        No such field; the arguments are the missing name and the names there are.
    Unsupported
        As `element_type`.
    """
    # h5py reads no field of a compound that has a time anywhere in it.
    times = _has_time(datatype)
    offset, leading, inside_array = 0, (), False
    rest = field or ""
    while rest:
        while datatype["kind"] == "array":
            leading, inside_array = (*leading, *datatype["dims"]), True
            datatype = datatype["base"]
        found = {}
        if datatype["kind"] == "compound":
            found = {name: (at, member) for name, at, member in _members(datatype)}
        name, _, after = rest.partition("/")
        if rest in found:  # a name may itself hold a slash
            name, after = rest, ""
        if name not in found:
            raise KeyError(rest, list(found))
        at, datatype = found[name]
        offset, rest = offset + at, after
    element = element_type(datatype, pytables)
    if inside_array:
        reason = element.reason or "a field inside an array of compounds"
        element = replace(element, direct=False, reason=reason, fixes=())
    if times:
        element = replace(element, library="tables")
    if element.dtype.subdtype is not None:
        element = replace(element, dtype=flat(element.dtype))
    return FieldType(element, offset, leading)


def fixed(datatype: Datatype) -> Datatype | None:
    """Return a type without the members of compounds that have no fixed size, others in place.

    None: nothing is left.
    """
    kind = datatype["kind"]
    if kind == "array":
        base = fixed(datatype["base"])
        return base and {**datatype, "base": base}
    if kind != "compound":
        return None if kind in NOT_FIXED else datatype
    members = [(name, at, fixed(member)) for name, at, member in datatype["fields"]]
    left = [member for member in members if member[2]]
    return {**datatype, "fields": left} if left else None
