"""Elements as they are stored -> the arrays that h5py gives.

Law
---
1. The core converts what has a fixed size, as it does for chunks. Of the others one kind of type is
   one function; `DECODERS` is all of them, and `numpy_dtype` says the dtype.
2. What is of variable length is read for all elements at once, level by level.
3. What contradicts HDF5's specification is `_core.Corrupt`; callers know whose it is, and say so.

This file must never know datasets, attributes or paths.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from _multitables import _core
from _multitables._core import Datatype
from _multitables.index.types.element_type import element_type
from _multitables.index.types.numpy_type import NoDtypeError, numpy_dtype
from _multitables.index.types.references import Reference, RegionReference

if TYPE_CHECKING:
    from _multitables.index.metadata import Metadata

Raw = NDArray[np.uint8]  # (n, bytes of an element)

#: Kinds whose elements are in the global heap, or are objects.
OBJECTS = ("variable_string", "sequence", "reference")
#: Bytes that a descriptor may name beyond those of the file, as fill values are shared. Sequences
#: of sequences may not: what they name names more.
SHARED_BYTES = 1024
ADDRESS_BYTES = 8  # at most
#: The first bytes of a reference of HDF5 1.12 to an object of the same file.
OBJECT_HERE = bytes([2, 0])


class HasMetadata(Protocol):
    """A file, as far as elements need it."""

    @property
    def metadata(self) -> Metadata: ...


def decode(stored: NDArray[Any], datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    """Return what h5py gives for elements of a file.

    Parameters
    ----------
    stored : ndarray
        The elements, each as wide as the type in the file (``dtype="V16"``), of any shape.
    datatype : Datatype
        The type.
    file : OpenFile
        The file, for what is of variable length.

    Returns
    -------
    ndarray
        Of the dtype of `numpy_dtype`, and writable; an array type adds its dims to the shape.

    Raises
    ------
    NoDtypeError
        NumPy has no dtype for the type.
    _core.Corrupt
        A descriptor names what is not there.
    """
    raw = np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
    found = _decoded(raw.reshape(stored.size, datatype.size), datatype, file)
    found = found.reshape(stored.shape + found.shape[1:])
    return found if found.flags.writeable else found.copy()


def _decoded(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    """Decode (n, size) bytes to (n, *dims of an array type)."""
    if datatype.has(*OBJECTS):
        if datatype.kind not in DECODERS:
            raise NoDtypeError(f"{datatype.kind} of what has no fixed size")
        return DECODERS[datatype.kind](raw, datatype, file)
    element = element_type(datatype, False)
    made: NDArray[Any] = raw
    if element.changes:
        words = [word for one in element.conversions for word in one.words]
        size, delivered = element.size_bytes, element.delivered_bytes
        made = _core.converted(raw.tobytes(), size, delivered, words)
    # NumPy makes dims of an array type's.
    return np.ndarray(len(raw), element.dtype, np.ascontiguousarray(made).data)


def _variable_string(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    found = np.empty(len(raw), numpy_dtype(datatype))
    found[:] = file.metadata.strings(raw.tobytes(), SHARED_BYTES)
    return found


def _sequence(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    base = datatype.base
    each = 0 if base.has(*OBJECTS) else SHARED_BYTES
    stored, ends = file.metadata.sequences(raw.tobytes(), base.size, each)
    elements = _decoded(stored.reshape(-1, base.size), base, file)
    if elements.dtype.kind in "biufcO":  # as h5py has them: in the machine's order, no metadata
        plain = np.dtype(elements.dtype.str)
        elements = elements.view(plain).astype(plain.newbyteorder("="), copy=False)
    found = np.empty(len(raw), numpy_dtype(datatype))
    begin = 0
    for number, end in enumerate((ends // np.uint64(base.size)).tolist()):
        found[number] = elements[begin:end]
        begin = end
    return found


def _reference(raw: Raw, datatype: Datatype, _: HasMetadata) -> NDArray[Any]:
    dtype = numpy_dtype(datatype)
    found = np.empty(len(raw), dtype)
    for number, stored in enumerate(raw):
        found[number] = REFERENCES[datatype.reference](stored.tobytes())
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
        raise NoDtypeError("a reference of HDF5 1.12 to something else than an object of the file")
    return Reference(int.from_bytes(stored[3 : 3 + min(stored[2], ADDRESS_BYTES)], "little"))


REFERENCES: dict[int, Callable[[bytes], Reference | RegionReference]] = {
    0: _object,
    1: _region,
    2: _of_any_kind,
}


def _array(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    base, dims = datatype.base, datatype.dims
    inner = _decoded(raw.reshape(-1, base.size), base, file)
    return inner.reshape(len(raw), *dims, *inner.shape[1:])


def _compound(raw: Raw, datatype: Datatype, file: HasMetadata) -> NDArray[Any]:
    dtype = numpy_dtype(datatype)
    found = np.zeros(len(raw), dtype)
    for name, (_, at, member) in zip(dtype.names or (), datatype.fields, strict=True):
        found[name] = _decoded(raw[:, at : at + member.size], member, file)
    return found


DECODERS: dict[str, Callable[[Raw, Datatype, HasMetadata], NDArray[Any]]] = {
    "variable_string": _variable_string,
    "sequence": _sequence,
    "reference": _reference,
    "array": _array,
    "compound": _compound,
}
