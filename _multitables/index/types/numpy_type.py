"""A type of an HDF5 file -> the NumPy dtype of its elements, the same however they are read.

Law
---
1. One kind, one function; `DTYPES` is all of them. A type is a `_core.Datatype`.
2. A dtype is what h5py gives. Where h5py gives none, it is the smallest of NumPy's that holds every
   value; a type without one is `NoDtypeError`.
3. Sizes and offsets are those of HDF5's memory, where what is of variable length is a pointer.
   Members that become longer in NumPy, and those behind them, are moved as far as they need.
4. PyTables' own types are kinds of their own (`Datatype.as_pytables`): no type says who wrote it.

This file must never know datasets, attributes or files.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from _multitables import _core
from _multitables._core import Datatype
from _multitables.index.types.references import Reference, RegionReference

Dtype = np.dtype[Any]

#: Bytes of a `char *` and of an `hvl_t`, in HDF5's memory.
POINTER_BYTES = {"variable_string": 8, "sequence": 16}
#: Bytes of the longest integer of NumPy.
MAX_INTEGER_BYTES = 8
#: How strings are padded; PyTables delivers theirs with all bytes, as those of the second kind.
PADDING_NULLTERM, PADDING_NULLPAD, PADDING_SPACEPAD = PADDINGS = 0, 1, 2
#: By the number of a reference's kind. HDF5 1.12 has one kind for every target, of which h5py
#: reads none, and of which objects alone are read here.
REFERENCES = {0: Reference, 1: RegionReference, 2: Reference}
CHARSETS = {0: ("ascii", bytes), 1: ("utf-8", str)}


class Unsupported(Exception):  # noqa: N818 - internal, turned into UnsupportedDatasetError
    """The text names the kind of type."""


class NoDtypeError(Unsupported, TypeError):
    """NumPy has no dtype for a type, which its text names."""


@lru_cache(maxsize=1024)
def datatype_of(body: bytes) -> Datatype:
    """Return a type as a file stores it.

    A file has few types, and very many datasets and attributes of each.
    """
    return _core.datatype(body)


@lru_cache(maxsize=1024)
def dtype_of(body: bytes) -> Dtype:
    """Return the dtype of a type as a file stores it; see `numpy_dtype`."""
    return numpy_dtype(datatype_of(body))


def numpy_dtype(datatype: Datatype) -> Dtype:
    """Return the dtype of a type, with h5py's metadata where it has some.

    Raises
    ------
    NoDtypeError
        NumPy has none.
    """
    try:
        return DTYPES[datatype.kind](datatype)
    except Unsupported:
        raise
    except (TypeError, ValueError) as error:  # e.g. two fields of one name
        raise NoDtypeError(str(error)) from None


def readable(datatype: Datatype) -> Datatype:
    """Return a type without the members that have no dtype; a compound has gaps there."""
    if datatype.kind != "compound":
        return datatype
    fields = []
    for name, at, member in datatype.fields:
        with contextlib.suppress(Unsupported):
            numpy_dtype(member)
            fields.append((name, at, member))
    return Datatype.compound(datatype.size, fields)


def memory_bytes(datatype: Datatype) -> int:
    """Return the size of one element in HDF5's memory, where h5py reads it."""
    if datatype.kind == "array":
        return math.prod(datatype.dims) * memory_bytes(datatype.base)
    if datatype.kind == "compound":
        return datatype.size + sum(_growth(member) for _, _, member in datatype.fields)
    return POINTER_BYTES.get(datatype.kind, datatype.size)


def _growth(member: Datatype) -> int:
    return memory_bytes(member) - member.size


def _order(datatype: Datatype) -> Literal["<", ">"]:
    return "<" if datatype.order == "<" else ">"  # also for VAX's order, which is converted


def _integer(datatype: Datatype) -> Dtype:
    """Return the integer dtype of this size, or the next longer one."""
    size = 1 << (datatype.size - 1).bit_length()
    if size > MAX_INTEGER_BYTES:
        raise NoDtypeError(f"{datatype.kind} of {datatype.size} bytes")
    return np.dtype(f"{_order(datatype)}{'i' if datatype.signed else 'u'}{size}")


def _float(datatype: Datatype) -> Dtype:
    """Return the smallest of NumPy's that holds the values, as h5py chooses it."""
    _, (_, bits), (_, mantissa_bits), bias, _ = datatype.float_format
    is_odd = datatype.order == "vax" and datatype.size % 2
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        dtype, info = np.dtype(kind), np.finfo(kind)
        # The first bit of x87's mantissa is stored, so the 80-bit format has one more.
        mantissa = info.nmant + (info.nmant == 63)
        if (
            dtype.itemsize >= datatype.size
            and mantissa_bits <= mantissa
            and 2**bits - bias - 1 <= info.maxexp
            and 1 - bias >= info.minexp
            and not is_odd
        ):
            return dtype.newbyteorder(_order(datatype))
    raise NoDtypeError(
        f"a float of {datatype.size} bytes with {bits} bits of exponent "
        f"and {mantissa_bits} of mantissa"
    )


def _string(datatype: Datatype) -> Dtype:
    encoding = CHARSETS.get(datatype.charset, CHARSETS[0])[0]
    return np.dtype(f"S{datatype.size}", metadata={"h5py_encoding": encoding})


def _variable_string(datatype: Datatype) -> Dtype:
    kind = CHARSETS.get(datatype.charset, CHARSETS[0])[1]
    return np.dtype("O", metadata={"vlen": kind})


def _opaque(datatype: Datatype) -> Dtype:
    if datatype.tag.startswith(b"NUMPY:"):
        return np.dtype(datatype.tag[6:].decode("latin-1"), metadata={"h5py_opaque": True})
    return np.dtype(f"V{datatype.size}")


def _reference(datatype: Datatype) -> Dtype:
    if datatype.reference not in REFERENCES:
        raise NoDtypeError("a reference of an unknown kind")
    return np.dtype("O", metadata={"ref": REFERENCES[datatype.reference]})


def enum_values(datatype: Datatype) -> dict[str, int]:
    """Return the names of an enum's values, and the values."""
    base = datatype.base
    if base.kind != "integer":
        raise NoDtypeError(f"an enum of a {base.kind}")
    order: Literal["little", "big"] = "little" if base.order == "<" else "big"
    signed = base.signed
    return {name: int.from_bytes(value, order, signed=signed) for name, value in datatype.values}


def _enum(datatype: Datatype) -> Dtype:
    values = enum_values(datatype)
    if values == {"FALSE": 0, "TRUE": 1}:
        return np.dtype(np.bool_)
    return np.dtype(numpy_dtype(datatype.base), metadata={"enum": values})


def _complex(datatype: Datatype) -> Dtype:
    """Return the complex dtype of two floats; NumPy has none of two halves."""
    base = numpy_dtype(datatype.base)
    if base.kind != "f":
        raise NoDtypeError(f"complex numbers of a {datatype.base.kind}")
    return np.dtype(f"{_order(datatype.base)}c{max(8, 2 * base.itemsize)}")


def _time(datatype: Datatype) -> Dtype:
    """Return the dtype of whole seconds."""
    if datatype.size not in (4, 8):
        raise NoDtypeError(f"a time of {datatype.size} bytes")
    return np.dtype(f"{_order(datatype)}i{datatype.size}")


def _compound(datatype: Datatype) -> Dtype:
    names, formats, offsets, growth, end = [], [], [], 0, 0
    members = {}
    for name, offset, member in sorted(datatype.fields, key=lambda field: field[1]):
        try:
            dtype, n_bytes = numpy_dtype(member), memory_bytes(member)
        except NoDtypeError as error:
            raise NoDtypeError(f"{error}, field {name!r}") from None
        at = max(offset + growth, end)
        if dtype.itemsize > n_bytes or at > offset + growth:
            end = at + dtype.itemsize
        members[name] = dtype, at
        growth += _growth(member)
    for name, _, _ in datatype.fields:
        dtype, offset = members[name]
        names.append(name)
        formats.append(dtype)
        offsets.append(offset)
    # NumPy has no complex number of two halves.
    is_float = formats[:1] == formats[1:] and formats[0].kind == "f" and formats[0].itemsize > 2
    if names == ["r", "i"] and is_float:
        return np.dtype(f"{formats[0].str[0]}c{2 * formats[0].itemsize}")
    return np.dtype(
        {
            "names": names,
            "formats": formats,
            "offsets": offsets,
            "itemsize": max(datatype.size + growth, end),
        }
    )


DTYPES: dict[str, Callable[[Datatype], Dtype]] = {
    "integer": _integer,
    "float": _float,
    "bitfield": _integer,
    "truth": lambda _: np.dtype(np.bool_),
    "time": _time,
    "time64": lambda datatype: np.dtype(f"{_order(datatype)}f8"),
    "string": _string,
    "variable_string": _variable_string,
    "opaque": _opaque,
    "reference": _reference,
    "enum": _enum,
    "sequence": lambda datatype: np.dtype("O", metadata={"vlen": numpy_dtype(datatype.base)}),
    "array": lambda datatype: np.dtype((numpy_dtype(datatype.base), datatype.dims)),
    "complex": _complex,
    "compound": _compound,
}
