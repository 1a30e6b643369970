"""A type of an HDF5 file -> the NumPy dtype that h5py gives for it.

Law
---
1. One kind, one function; `DTYPES` is all of them. A type is what `_core.datatype` tells.
2. What h5py has no dtype for is a `TypeError`.
3. Sizes and offsets are those of HDF5's memory, where what is of variable length is a pointer.

This file must never know datasets, attributes or files.
"""

from __future__ import annotations

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
#: By the number of a reference's kind. HDF5 1.12 has one for whatever is referred to, of which h5py
#: reads none, and of which objects alone are read here.
REFERENCES = {0: Reference, 1: RegionReference, 2: Reference}
CHARSETS = {0: ("ascii", bytes), 1: ("utf-8", str)}


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


def numpy_dtype(datatype: Datatype) -> Dtype:
    """Return the dtype of a type, with h5py's metadata where it has some.

    Raises
    ------
    TypeError
        NumPy or h5py has none.
    """
    try:
        return DTYPES[datatype["kind"]](datatype)
    except ValueError as error:  # e.g. a float in a compound that leaves no room for NumPy's
        raise TypeError(str(error)) from None


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
    return np.dtype(f"{_order(datatype)}{'i' if datatype['signed'] else 'u'}{datatype['size']}")


def _float(datatype: Datatype) -> Dtype:
    """Return the smallest of NumPy's that holds the values, as h5py chooses it."""
    bits, bias = datatype["exponent"][1], datatype["exponent_bias"]
    for kind in (np.float16, np.float32, np.float64, np.longdouble):
        dtype, info = np.dtype(kind), np.finfo(kind)
        # The first bit of x87's mantissa is stored, so the 80-bit format has one more.
        mantissa = info.nmant + (info.nmant == 63)
        if (
            dtype.itemsize >= datatype["size"]
            and datatype["mantissa"][1] <= mantissa
            and 2**bits - bias - 1 <= info.maxexp
            and 1 - bias >= info.minexp
        ):
            return dtype.newbyteorder(_order(datatype))
    raise TypeError(f"a float of {bits} bits of exponent and {datatype['mantissa'][1]} of mantissa")


def _bitfield(datatype: Datatype) -> Dtype:
    return np.dtype(f"{_order(datatype)}u{datatype['size']}")


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
        raise TypeError("a reference of an unknown kind")
    return np.dtype("O", metadata={"ref": REFERENCES[datatype["reference"]]})


def enum_values(datatype: Datatype) -> dict[str, int]:
    """Return the names of an enum's values, and the values."""
    base = datatype["base"]
    if base["kind"] != "integer":
        raise TypeError(f"an enum of a {base['kind']}")
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
    base = numpy_dtype(datatype["base"])
    return np.dtype(f"{base.str[0]}c{2 * base.itemsize}")


def _compound(datatype: Datatype) -> Dtype:
    names, formats, offsets, growth = [], [], [], 0
    members = {}
    for name, offset, member in sorted(datatype["fields"], key=lambda field: field[1]):
        members[name] = numpy_dtype(member), offset + growth
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
            "itemsize": datatype["size"] + growth,
        }
    )


DTYPES: dict[str, Callable[[Datatype], Dtype]] = {
    "integer": _integer,
    "float": _float,
    "bitfield": _bitfield,
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


def _time(datatype: Datatype) -> Dtype:
    raise TypeError("a time")


DTYPES["time"] = _time
