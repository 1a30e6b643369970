"""A type of an HDF5 file -> the NumPy dtype of its elements, the same however they are read.

Law
---
1. One kind, one function; `DTYPES` is all of them. A type is what `_core.datatype` tells.
2. A dtype is what h5py gives. Where h5py gives none, it is the smallest of NumPy's that holds every
   value; a type without one is `NoDtypeError`.
3. Sizes and offsets are those of HDF5's memory, where what is of variable length is a pointer.
   Members that become longer in NumPy, and those behind them, are moved as far as they need.
4. PyTables' own types are marked by `as_pytables`: nothing else in a type says who wrote it.

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
from _multitables.index.references import Reference, RegionReference

Datatype = dict[str, Any]
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
    """Return what the core tells of a type as a file stores it; nobody may change that.

    A file has few types, and very many datasets and attributes of each.
    """
    return _core.datatype(body)


@lru_cache(maxsize=1024)
def dtype_of(body: bytes) -> Dtype:
    """Return the dtype of a type as a file stores it; see `numpy_dtype`."""
    return numpy_dtype(datatype_of(body))


@lru_cache(maxsize=1024)
def has_own_types(body: bytes) -> bool:
    """Whether a type, as a file stores it, is another one if PyTables wrote it (`as_pytables`)."""
    return has_kind(datatype_of(body), "bitfield", "time")


def numpy_dtype(datatype: Datatype) -> Dtype:
    """Return the dtype of a type, with h5py's metadata where it has some.

    Raises
    ------
    NoDtypeError
        NumPy has none.
    """
    try:
        return DTYPES[datatype["kind"]](datatype)
    except Unsupported:
        raise
    except (TypeError, ValueError) as error:  # e.g. two fields of one name
        raise NoDtypeError(str(error)) from None


def as_pytables(datatype: Datatype, *, strings: bool = True) -> Datatype:
    """Return a type of a dataset that PyTables wrote: its truth values and times are marked.

    With `strings`, strings are delivered with all their bytes, as PyTables delivers them.
    """
    kind = datatype["kind"]
    if kind == "bitfield" and datatype["size"] == 1:
        return {**datatype, "kind": "truth"}
    if kind == "time":
        return {**datatype, "pytables": True}
    if kind == "string" and strings:
        return {**datatype, "padding": PADDING_NULLPAD}
    if "base" in datatype:
        return {**datatype, "base": as_pytables(datatype["base"], strings=strings)}
    if kind == "compound":
        fields = [
            (name, at, as_pytables(member, strings=strings))
            for name, at, member in datatype["fields"]
        ]
        return {**datatype, "fields": fields}
    return datatype


def has_kind(datatype: Datatype, *kinds: str) -> bool:
    """Whether a type, or one in it, is of one of these kinds."""
    parts = [member for _, _, member in datatype.get("fields", ())]
    parts += [datatype["base"]] if "base" in datatype else []
    return datatype["kind"] in kinds or any(has_kind(part, *kinds) for part in parts)


def readable(datatype: Datatype) -> Datatype:
    """Return a type without the members that have no dtype; a compound has gaps there."""
    if datatype["kind"] != "compound":
        return datatype
    fields = []
    for name, at, member in datatype["fields"]:
        with contextlib.suppress(Unsupported):
            numpy_dtype(member)
            fields.append((name, at, member))
    return {**datatype, "fields": fields}


def memory_bytes(datatype: Datatype) -> int:
    """Return the size of one element in HDF5's memory, where h5py reads it."""
    kind = datatype["kind"]
    if kind == "array":
        return math.prod(datatype["dims"]) * memory_bytes(datatype["base"])
    if kind == "compound":
        return int(datatype["size"]) + sum(_growth(member) for _, _, member in datatype["fields"])
    return POINTER_BYTES.get(kind) or int(datatype["size"])


def _growth(member: Datatype) -> int:
    return memory_bytes(member) - int(member["size"])


def _name(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _order(datatype: Datatype) -> Literal["<", ">"]:
    return "<" if datatype["order"] == "<" else ">"  # also for VAX's order, which is converted


def _integer(datatype: Datatype) -> Dtype:
    """Return the integer dtype of this size, or the next longer one."""
    size = 1 << (datatype["size"] - 1).bit_length()
    if size > MAX_INTEGER_BYTES:
        raise NoDtypeError(f"{datatype['kind']} of {datatype['size']} bytes")
    return np.dtype(f"{_order(datatype)}{'i' if datatype.get('signed') else 'u'}{size}")


def _float(datatype: Datatype) -> Dtype:
    """Return the smallest of NumPy's that holds the values, as h5py chooses it."""
    bits, bias = datatype["exponent"][1], datatype["exponent_bias"]
    is_odd = datatype["order"] == "vax" and datatype["size"] % 2
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        dtype, info = np.dtype(kind), np.finfo(kind)
        # The first bit of x87's mantissa is stored, so the 80-bit format has one more.
        mantissa = info.nmant + (info.nmant == 63)
        if (
            dtype.itemsize >= datatype["size"]
            and datatype["mantissa"][1] <= mantissa
            and 2**bits - bias - 1 <= info.maxexp
            and 1 - bias >= info.minexp
            and not is_odd
        ):
            return dtype.newbyteorder(_order(datatype))
    raise NoDtypeError(
        f"a float of {datatype['size']} bytes with {bits} bits of exponent "
        f"and {datatype['mantissa'][1]} of mantissa"
    )


def _string(datatype: Datatype) -> Dtype:
    encoding = CHARSETS.get(datatype["charset"], CHARSETS[0])[0]
    return np.dtype(f"S{datatype['size']}", metadata={"h5py_encoding": encoding})


def _variable_string(datatype: Datatype) -> Dtype:
    kind = CHARSETS.get(datatype["charset"], CHARSETS[0])[1]
    return np.dtype("O", metadata={"vlen": kind})


def _opaque(datatype: Datatype) -> Dtype:
    tag: bytes = datatype["tag"]
    if tag.startswith(b"NUMPY:"):
        return np.dtype(tag[6:].decode("latin-1"), metadata={"h5py_opaque": True})
    return np.dtype(f"V{datatype['size']}")


def _reference(datatype: Datatype) -> Dtype:
    if datatype["reference"] not in REFERENCES:
        raise NoDtypeError("a reference of an unknown kind")
    return np.dtype("O", metadata={"ref": REFERENCES[datatype["reference"]]})


def enum_values(datatype: Datatype) -> dict[str, int]:
    """Return the names of an enum's values, and the values."""
    base = datatype["base"]
    if base["kind"] != "integer":
        raise NoDtypeError(f"an enum of a {base['kind']}")
    order = "little" if base["order"] == "<" else "big"
    return {
        _name(name): int.from_bytes(value, order, signed=base["signed"])  # type: ignore[arg-type]
        for name, value in datatype["values"]
    }


def _enum(datatype: Datatype) -> Dtype:
    values = enum_values(datatype)
    if values == {"FALSE": 0, "TRUE": 1}:
        return np.dtype(np.bool_)
    return np.dtype(numpy_dtype(datatype["base"]), metadata={"enum": values})


def _sequence(datatype: Datatype) -> Dtype:
    return np.dtype("O", metadata={"vlen": numpy_dtype(datatype["base"])})


def _array(datatype: Datatype) -> Dtype:
    return np.dtype((numpy_dtype(datatype["base"]), datatype["dims"]))


def _complex(datatype: Datatype) -> Dtype:
    """Return the complex dtype of two floats; NumPy has none of two halves."""
    base = numpy_dtype(datatype["base"])
    if base.kind != "f":
        raise NoDtypeError(f"complex numbers of a {datatype['base']['kind']}")
    return np.dtype(f"{_order(datatype['base'])}c{max(8, 2 * base.itemsize)}")


def _truth(datatype: Datatype) -> Dtype:
    return np.dtype(np.bool_)


def _time(datatype: Datatype) -> Dtype:
    """Return the dtype of seconds: integers, or floats for PyTables' Time64."""
    size = datatype["size"]
    if size not in (4, 8):
        raise NoDtypeError(f"a time of {size} bytes")
    kind = "f" if size == 8 and datatype.get("pytables") else "i"
    return np.dtype(f"{_order(datatype)}{kind}{size}")


def _compound(datatype: Datatype) -> Dtype:
    names, formats, offsets, growth, end = [], [], [], 0, 0
    members = {}
    for name, offset, member in sorted(datatype["fields"], key=lambda field: field[1]):
        try:
            dtype, n_bytes = numpy_dtype(member), memory_bytes(member)
        except NoDtypeError as error:
            raise NoDtypeError(f"{error}, field {_name(name)!r}") from None
        at = max(offset + growth, end)
        if dtype.itemsize > n_bytes or at > offset + growth:
            end = at + dtype.itemsize
        members[name] = dtype, at
        growth += _growth(member)
    for name, _, _ in datatype["fields"]:
        dtype, offset = members[name]
        names.append(_name(name))
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
            "itemsize": max(datatype["size"] + growth, end),
        }
    )


DTYPES: dict[str, Callable[[Datatype], Dtype]] = {
    "integer": _integer,
    "float": _float,
    "bitfield": _integer,
    "truth": _truth,
    "time": _time,
    "string": _string,
    "variable_string": _variable_string,
    "opaque": _opaque,
    "reference": _reference,
    "enum": _enum,
    "sequence": _sequence,
    "array": _array,
    "complex": _complex,
    "compound": _compound,
}
