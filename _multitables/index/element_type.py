"""HDF5 element type -> NumPy dtype, and whether the stored bytes are the delivered bytes.

1. The dtype is what h5py gives. In PyTables' own datasets the types that PyTables defines are
   what PyTables gives: 8-bit bitfields are bool, Time32 is int32, Time64 is float64.
2. A type is ``direct`` only if HDF5's conversion from file to memory leaves every byte as it is,
   except for each `StringFix`: h5py replaces the padding of fixed strings by NULs. PyTables
   delivers strings as stored, so its datasets need none.
3. A type that neither library reads into elements of fixed size raises `Unsupported`.

This file must never know paths, chunks or files.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

MAX_STRING_FIXES = 4096  # with more of them a library is as fast

PADDING_NULLTERM, PADDING_NULLPAD, PADDING_SPACEPAD = 0, 1, 2


class Unsupported(Exception):  # noqa: N818 - internal, turned into UnsupportedDatasetError
    """Its text is the kind of type."""


@dataclass(frozen=True)
class StringFix:
    """``count`` consecutive strings of ``size`` bytes, ``offset`` bytes into one element.

    ``padding`` 0 (NULLTERM): all bytes after the first NUL become NUL. 2 (SPACEPAD): trailing
    spaces become NUL.
    """

    offset: int
    size: int
    count: int
    padding: int


@dataclass(frozen=True)
class ElementType:
    """One HDF5 type as NumPy sees it."""

    dtype: np.dtype[Any]  # may be a subarray dtype, as nested as h5py's
    size_bytes: int  # as stored
    direct: bool = True
    reason: str = ""  # why not direct
    library: str = ""  # which library must read it; "" if either can
    fixes: tuple[StringFix, ...] = ()
    own: bool = False  # one of PyTables' types: h5py has another dtype for it


def flat(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of an array of arrays as that of one array: (4,) of (6, 3) is (4, 6, 3).

    NumPy joins the levels when it makes an array of such elements, but keeps them in the dtype.
    """
    one = np.empty(0, dtype)
    return np.dtype((one.dtype, one.shape[1:]))


def element_type(tid: Any, pytables: bool) -> ElementType:
    """Describe a type of the file; `pytables`: the dataset is one of PyTables' own.

    Raises
    ------
    Unsupported
        No NumPy dtype of fixed size stands for it.
    """
    from h5py import h5t

    kind = tid.get_class()
    if kind in (h5t.INTEGER, h5t.FLOAT):
        return _compared(tid)
    if kind == h5t.BITFIELD:
        return _bitfield(tid, pytables)
    if kind == h5t.STRING:
        return _string(tid, pytables)
    if kind == h5t.ENUM:
        return _enum(tid, pytables)
    if kind == h5t.TIME:
        return _time(tid)
    if kind == h5t.ARRAY:
        return _array(tid, pytables)
    if kind == h5t.COMPOUND:
        return _compound(tid, pytables)
    if kind == h5t.OPAQUE:
        found = ElementType(_h5py_dtype(tid), tid.get_size())
        if found.dtype.hasobject or found.dtype.itemsize != found.size_bytes:
            raise Unsupported(f"opaque ({found.dtype})")
        return found
    if kind == h5t.VLEN:
        raise Unsupported("variable-length")
    if kind == h5t.REFERENCE:
        raise Unsupported("reference")
    return _compared(tid)  # e.g. HDF5 2's native complex numbers


def _h5py_dtype(tid: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = tid.dtype
    except (TypeError, ValueError, KeyError) as error:
        raise Unsupported(str(error) or type(tid).__name__) from None
    if dtype.hasobject:
        raise Unsupported("object")
    return dtype


def _same_as_memory(tid: Any, dtype: DTypeLike) -> bool:
    from h5py import h5t

    try:
        return bool(tid.equal(h5t.py_create(dtype)))
    except (TypeError, ValueError):
        return False


def _compared(tid: Any) -> ElementType:
    from h5py import h5t

    dtype = _h5py_dtype(tid)
    if tid.get_class() == h5t.INTEGER and tid.get_size() == 1:
        tid = tid.copy()
        tid.set_order(h5t.ORDER_LE)  # one byte has no order, though files name one
    if _same_as_memory(tid, dtype):
        return ElementType(dtype, tid.get_size())
    reason = f"a number format that NumPy does not have (read as {dtype})"
    return ElementType(dtype, tid.get_size(), False, reason)


def _bitfield(tid: Any, pytables: bool) -> ElementType:
    size = tid.get_size()
    if pytables and size == 1:
        return ElementType(np.dtype(np.bool_), 1, own=True)
    from h5py import h5t

    dtype = _h5py_dtype(tid)
    standard = [getattr(h5t, f"STD_B{8 * size}{order}", None) for order in ("LE", "BE")]
    if any(kind is not None and tid.equal(kind) for kind in standard):
        return ElementType(dtype, size)
    return ElementType(dtype, size, False, "a bitfield with unused bits")


def _string(tid: Any, pytables: bool) -> ElementType:
    if tid.is_variable_str():
        raise Unsupported("variable-length string")
    size, padding = tid.get_size(), tid.get_strpad()
    fixes: tuple[StringFix, ...] = ()
    if padding != PADDING_NULLPAD and not pytables:
        fixes = (StringFix(0, size, 1, padding),)
    return ElementType(_h5py_dtype(tid), size, fixes=fixes)


def _enum(tid: Any, pytables: bool) -> ElementType:
    if _same_as_memory(tid, np.bool_):
        return ElementType(np.dtype(np.bool_), 1)
    base = element_type(tid.get_super(), pytables)
    return replace(base, dtype=_h5py_dtype(tid))  # h5py keeps the names as metadata


def _time(tid: Any) -> ElementType:
    from h5py import h5t

    # h5py does not tell the byte order of a time.
    order = ">" if tid.equal(h5t.UNIX_D32BE) or tid.equal(h5t.UNIX_D64BE) else "<"
    if tid.get_size() == 4:
        return ElementType(np.dtype(order + "i4"), 4, library="tables", own=True)
    if tid.get_size() == 8:
        reason = "Time64, whose stored form only PyTables knows"
        return ElementType(np.dtype(order + "f8"), 8, False, reason, "tables", own=True)
    raise Unsupported("time")


def _array(tid: Any, pytables: bool) -> ElementType:
    base, dims = element_type(tid.get_super(), pytables), tuple(tid.get_array_dims())
    count = int(np.prod(dims, dtype=np.int64))
    found = replace(base, dtype=np.dtype((base.dtype, dims)), size_bytes=tid.get_size())
    if not base.fixes:
        return found
    first = base.fixes[0]
    if len(base.fixes) == 1 and first.size * first.count == base.size_bytes:
        return replace(found, fixes=(replace(first, count=first.count * count),))
    if len(base.fixes) * count > MAX_STRING_FIXES:
        return replace(found, fixes=(), direct=False, reason="very many strings in one element")
    starts = range(0, count * base.size_bytes, base.size_bytes)
    return replace(
        found, fixes=tuple(replace(f, offset=f.offset + at) for at in starts for f in base.fixes)
    )


def _members(tid: Any) -> Iterator[tuple[str, int, Any]]:
    for position in range(tid.get_nmembers()):
        name = tid.get_member_name(position).decode("utf-8", "surrogateescape")
        yield name, tid.get_member_offset(position), tid.get_member_type(position)


def _compound(tid: Any, pytables: bool) -> ElementType:
    size = tid.get_size()
    seen: np.dtype[Any] | None = None
    with contextlib.suppress(TypeError, ValueError, KeyError):  # h5py has none for some member
        seen = tid.dtype
    if seen is not None and seen.kind == "c":
        return _compared(tid)
    names, offsets, members = [], [], []
    for name, offset, member in _members(tid):
        try:
            members.append(element_type(member, pytables))
        except Unsupported as error:
            raise Unsupported(f"{error}, field {name!r}") from None
        names.append(name)
        offsets.append(offset)
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
    if len(fixes) > MAX_STRING_FIXES:
        fixes, reason = (), reason or "very many strings in one element"
    return ElementType(dtype, size, not reason, reason, library, fixes, own)


def _parts(tid: Any) -> Iterator[Any]:
    """Yield a type and every type that it is made of."""
    from h5py import h5t

    yield tid
    if tid.get_class() == h5t.COMPOUND:
        for _, _, member in _members(tid):
            yield from _parts(member)
    elif tid.get_class() == h5t.ARRAY:
        yield from _parts(tid.get_super())


def _of_other_size(tid: Any) -> bool:
    """Whether a type has another size in the file than in memory."""
    from h5py import h5t

    if tid.get_class() == h5t.STRING:
        return bool(tid.is_variable_str())
    return tid.get_class() in (h5t.VLEN, h5t.REFERENCE)


@dataclass(frozen=True)
class FieldType:
    """The part of an element that reaches the user."""

    element: ElementType  # of the field, or of the whole element; its dtype is `flat`
    offset: int  # bytes into the stored element
    leading_dims: tuple[int, ...] = ()  # of arrays of compounds that hold the field


def field_type(tid: Any, field: str | None, pytables: bool) -> FieldType:
    """Describe one field of a dataset's type, or the whole type; ``"a/b"`` is ``b`` in ``a``.

    Raises
    ------
    KeyError
        No such field; the arguments are the missing name and the names there are.
    Unsupported
        As `element_type`.
    """
    from h5py import h5t

    # Such members have another size in memory, and what follows them another offset.
    beside = any(map(_of_other_size, _parts(tid)))
    # h5py reads no field of a compound that has a time anywhere in it.
    times = any(part.get_class() == h5t.TIME for part in _parts(tid))
    offset, leading, inside_array = 0, (), False
    rest = field or ""
    while rest:
        while tid.get_class() == h5t.ARRAY:
            leading, inside_array = (*leading, *tid.get_array_dims()), True
            tid = tid.get_super()
        found = {}
        if tid.get_class() == h5t.COMPOUND:
            found = {name: (at, member) for name, at, member in _members(tid)}
        name, _, after = rest.partition("/")
        if rest in found:  # a name may itself hold a slash
            name, after = rest, ""
        if name not in found:
            raise KeyError(rest, list(found))
        at, tid = found[name]
        offset, rest = offset + at, after
    element = element_type(tid, pytables)
    if inside_array or beside:
        reason = "a field inside an array of compounds"
        if beside:
            reason = "a field beside variable-length ones or references"
        element = replace(element, direct=False, reason=element.reason or reason, fixes=())
    if times:
        element = replace(element, library="tables")
    return FieldType(replace(element, dtype=flat(element.dtype)), offset, leading)
