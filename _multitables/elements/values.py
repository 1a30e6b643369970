"""Elements as they are stored -> the arrays that h5py gives.

Law
---
1. One kind of type, one function; `DECODERS` is all of them, and `numpy_dtype` says the dtype.
2. What is of variable length is read for all elements at once, level by level.
3. What contradicts HDF5's specification is `_core.Corrupt`; callers know whose it is, and say so.

This file must never know datasets, attributes or paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from _multitables import _core
from _multitables.elements import numbers
from _multitables.index.numpy_type import numpy_dtype
from _multitables.index.references import Reference, RegionReference

Datatype = dict[str, Any]
Raw = NDArray[np.uint8]  # (n, bytes of an element)

#: Kinds whose elements are in the global heap, or are objects.
OBJECTS = {"variable_string", "sequence", "reference"}
#: Bytes that a descriptor may name beyond those of the file, as fill values are shared. Sequences
#: of sequences may not: what they name names more.
SHARED_BYTES = 1024
NULL_TERMINATED, NULL_PADDED, SPACE_PADDED = 0, 1, 2
ADDRESS_BYTES = 8  # at most
#: How a reference of HDF5 1.12 begins that is to an object of the same file.
OBJECT_HERE = bytes([2, 0])


class HasMetadata(Protocol):
    """A file, as far as elements need it."""

    @property
    def metadata(self) -> _core.MetadataFile: ...


def decode(stored: NDArray[Any], datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    """Return what h5py gives for elements of a file.

    Parameters
    ----------
    stored : ndarray
        The elements, each as wide as the type in the file (``dtype="V16"``), of any shape.
    datatype : dict
        The type, as `_core.datatype` tells it.
    file : OpenFile
        The file, for what is of variable length.

    Returns
    -------
    ndarray
        Of the dtype of `numpy_dtype`, and writable; an array type adds its dims to the shape.

    Raises
    ------
    TypeError
        NumPy or h5py has no dtype for the type.
    _core.Corrupt
        A descriptor names what is not there.
    """
    raw = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
    found = _decoded(raw.reshape(stored.size, datatype["size"]), datatype, file)
    found = found.reshape(stored.shape + found.shape[1:])
    return found if found.flags.writeable else found.copy()


def is_plain(datatype: Datatype) -> bool:
    """Whether elements are stored as they are delivered, byte by byte."""
    kind = datatype["kind"]
    if kind in ("integer", "bitfield", "float"):
        return numbers.is_plain(datatype)
    if kind == "string":
        return bool(datatype["padding"] == NULL_PADDED)
    if kind == "compound":
        return all(is_plain(member) for _, _, member in datatype["fields"])
    if kind == "enum":
        return is_plain(datatype["base"]) and numpy_dtype(datatype).itemsize == datatype["size"]
    if kind in ("array", "complex"):
        return is_plain(datatype["base"])
    return bool(kind == "opaque")


def _decoded(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    """Decode (n, size) bytes to (n, *dims of an array type)."""
    if datatype["kind"] not in OBJECTS and is_plain(datatype):
        return _viewed(raw, numpy_dtype(datatype))
    return DECODERS[datatype["kind"]](raw, datatype, file)


def _viewed(raw: Raw, dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.itemsize != raw.shape[1]:
        raise TypeError(f"{dtype} for {raw.shape[1]} bytes")
    whole = np.ascontiguousarray(raw)
    return np.ndarray(len(raw), dtype, whole.data)  # which makes dims of an array type's


def _integer(raw: Raw, datatype: Datatype, _: HasMetadata) -> NDArray[Any]:
    return numbers.integers(raw, datatype, numpy_dtype(datatype))


def _float(raw: Raw, datatype: Datatype, _: HasMetadata) -> NDArray[Any]:
    return numbers.floats(raw, datatype, numpy_dtype(datatype))


def _string(raw: Raw, datatype: Datatype, _: HasMetadata) -> NDArray[Any]:
    """Replace the padding by NULs, as HDF5 does."""
    if datatype["padding"] == NULL_TERMINATED:
        is_padding = np.logical_or.accumulate(raw == 0, axis=1)
    else:
        is_padding = np.logical_and.accumulate(raw[:, ::-1] == ord(" "), axis=1)[:, ::-1]
    return _viewed(np.where(is_padding, np.uint8(0), raw), numpy_dtype(datatype))


def _variable_string(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    found = np.empty(len(raw), numpy_dtype(datatype))
    found[:] = file.metadata.strings(raw.tobytes(), SHARED_BYTES)
    return found


def _sequence(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    base = datatype["base"]
    each = 0 if _names_more(base) else SHARED_BYTES
    stored, ends = file.metadata.sequences(raw.tobytes(), base["size"], each)
    elements = _decoded(stored.reshape(-1, base["size"]), base, file)
    if elements.dtype.kind in "biufcO":  # as h5py has them: in the machine's order, no metadata
        plain = np.dtype(elements.dtype.str)
        elements = elements.view(plain).astype(plain.newbyteorder("="), copy=False)
    found = np.empty(len(raw), numpy_dtype(datatype))
    begin = 0
    for number, end in enumerate((ends // np.uint64(base["size"])).tolist()):
        found[number] = elements[begin:end]
        begin = end
    return found


def _names_more(datatype: Datatype) -> bool:
    parts = [member for _, _, member in datatype.get("fields", ())]
    parts += [datatype["base"]] if "base" in datatype else []
    return datatype["kind"] in OBJECTS or any(map(_names_more, parts))


def _reference(raw: Raw, datatype: Datatype, _: HasMetadata) -> NDArray[Any]:
    dtype = numpy_dtype(datatype)
    found = np.empty(len(raw), dtype)
    for number, stored in enumerate(raw):
        found[number] = REFERENCES[datatype["reference"]](stored.tobytes())
    return found


def _object(stored: bytes) -> Reference:
    return Reference(int.from_bytes(stored[:ADDRESS_BYTES], "little"))


def _region(stored: bytes) -> RegionReference:
    heap, number = stored[:-4][:ADDRESS_BYTES], stored[-4:]
    return RegionReference(int.from_bytes(heap, "little"), int.from_bytes(number, "little"))


def _of_any_kind(stored: bytes) -> Reference:
    """Return a reference in the format of HDF5 1.12: kind, flags, and of an object its address."""
    if not any(stored):
        return Reference(0)
    if stored[:2] != OBJECT_HERE:
        raise TypeError("a reference of HDF5 1.12 to something else than an object of the file")
    return Reference(int.from_bytes(stored[3 : 3 + min(stored[2], ADDRESS_BYTES)], "little"))


REFERENCES: dict[int, Callable[[bytes], Reference | RegionReference]] = {
    0: _object,
    1: _region,
    2: _of_any_kind,
}


def _enum(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    values, dtype = _decoded(raw, datatype["base"], file), numpy_dtype(datatype)
    return values != 0 if dtype == np.bool_ else values.view(dtype)


def _array(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    base, dims = datatype["base"], datatype["dims"]
    inner = _decoded(raw.reshape(-1, base["size"]), base, file)
    return inner.reshape(len(raw), *dims, *inner.shape[1:])


def _compound(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    dtype = numpy_dtype(datatype)
    found = np.zeros(len(raw), dtype)
    fields = datatype["fields"]
    # Two floats called r and i are a complex number.
    parts = (found.real, found.imag) if dtype.kind == "c" else (found[n] for n in dtype.names or ())
    for part, (_, at, member) in zip(parts, fields, strict=True):
        part[...] = _decoded(raw[:, at : at + member["size"]], member, file)
    return found


def _complex(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    base, found = datatype["base"], np.zeros(len(raw), numpy_dtype(datatype))
    found.real = _decoded(raw[:, : base["size"]], base, file)
    found.imag = _decoded(raw[:, base["size"] :], base, file)
    return found


DECODERS: dict[str, Callable[[Raw, Datatype, HasMetadata], NDArray[Any]]] = {
    "integer": _integer,
    "bitfield": _integer,
    "float": _float,
    "string": _string,
    "variable_string": _variable_string,
    "sequence": _sequence,
    "reference": _reference,
    "enum": _enum,
    "array": _array,
    "compound": _compound,
    "complex": _complex,
}
