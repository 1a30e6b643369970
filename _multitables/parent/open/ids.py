"""h5py's low-level view of what is not a dataset, as programs that read use it: ``file.id.valid``.

Law
---
1. Names and values are h5py's: numbers stand for its constants.
2. These are no identifiers of HDF5's library, whose functions refuse them with a `TypeError`.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from _multitables._core import Datatype
from _multitables.index.opened.open_files import Place
from _multitables.index.types.numpy_type import datatype_of, memory_bytes, numpy_dtype
from _multitables.parent.open.mapping import encoded

UNLIMITED = (1 << 64) - 1
SCALAR, SIMPLE, NULL = 0, 1, 2
#: h5py's number of what the core calls the kind of a type.
CLASSES = {
    "integer": 0, "float": 1, "time": 2, "string": 3, "variable_string": 3, "bitfield": 4,
    "opaque": 5, "compound": 6, "reference": 7, "enum": 8, "sequence": 9, "array": 10,
    "complex": 11,
}  # fmt: skip
NO_ORDER = 4
ORDERS = {"<": 0, ">": 1, "vax": 2}


class ObjectId:
    """Which object of a file it is: equal for equal objects."""

    def __init__(self, of: Any) -> None:
        self._of = of  # the object

    @property
    def valid(self) -> bool:
        """Whether the file is open."""
        return bool(self._of)

    def __bool__(self) -> bool:
        return self.valid

    def __eq__(self, other: object) -> bool:
        return self._of == other._of if isinstance(other, ObjectId) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._of)


class GroupId(ObjectId):
    """Which group it is: ``group.id``."""

    def get_num_objs(self) -> int:
        """Return how many links the group has."""
        return len(self)

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, name: object) -> bool:
        return name in self._of

    def __bool__(self) -> bool:
        return self.valid


class FileId(GroupId):
    """Which file it is, and its root: ``file.id``."""

    @property
    def name(self) -> bytes:
        """The name that the file was opened by."""
        return os.fsencode(self._of)

    def get_filesize(self) -> int:
        """Return how many bytes the file has."""
        return int(self._of._place.file.fingerprint.size_bytes)

    def get_intent(self) -> int:
        """Return 0: it is only read."""
        return 0

    def close(self) -> None:
        """Close the file."""
        self._of.close()


class SpaceId:
    """The extents of a dataset or an attribute: ``dataset.id.get_space()``; all is selected."""

    def __init__(self, shape: Any, maxshape: Any) -> None:
        #: Extents; () of a scalar, None of a null dataspace.
        self.shape: Any = shape
        self._maxshape = maxshape
        self._type = NULL if shape is None else SIMPLE if shape else SCALAR

    def get_simple_extent_type(self) -> int:
        """Return 0 for a scalar, 1 for extents, 2 for a null dataspace."""
        return self._type

    def is_simple(self) -> bool:
        """Return whether there are elements: not of a null dataspace."""
        return self._type != NULL

    def get_simple_extent_ndims(self) -> int:
        """Return the number of axes."""
        return len(self.shape or ())

    def get_simple_extent_dims(self, maxdims: bool = False) -> Any:
        """Return the extents, or those that it may grow to; without a limit, 2**64 - 1."""
        if not maxdims or self._maxshape is None:
            return self.shape
        return tuple(UNLIMITED if most is None else most for most in self._maxshape)

    def get_simple_extent_npoints(self) -> int:
        """Return how many elements there are."""
        return 0 if self._type == NULL else math.prod(self.shape)

    def get_select_npoints(self) -> int:
        """Return how many elements there are."""
        return self.get_simple_extent_npoints()


class AttributeId:
    """How an attribute is stored: ``object.attrs.get_id(name)``."""

    def __init__(self, place: Place, name: bytes, body: bytes, dims: Any, stored: bytes) -> None:
        self._place, self._body, self._stored = place, body, stored
        self.name = name
        #: Extents; () of a scalar, None of a null dataspace.
        self.shape = dims

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an element; see `TypeId.dtype`."""
        return self.get_type().dtype

    def get_type(self) -> TypeId:
        """Return what elements are."""
        return TypeId(self._place, self._body)

    def get_space(self) -> SpaceId:
        """Return the extents."""
        return SpaceId(self.shape, self.shape)

    def get_storage_size(self) -> int:
        """Return how many bytes are stored."""
        return len(self._stored)


class TypeId:
    """What elements are, as the file stores them: ``dataset.id.get_type()``."""

    def __init__(self, place: Place, stored: Datatype | bytes, *, is_named: bool = False) -> None:
        self._place, self._is_named = place, is_named
        self._type = datatype_of(stored) if isinstance(stored, bytes) else stored

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an element, as h5py has it.

        Raises
        ------
        UnsupportedDatasetError
            NumPy has no such type.
        """
        return self._place.call(numpy_dtype, self._type)

    def py_dtype(self) -> np.dtype[Any]:
        """Return the dtype of an element."""
        return self.dtype

    def __eq__(self, other: object) -> bool:
        return self._type == other._type if isinstance(other, TypeId) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._type)

    def equal(self, other: TypeId) -> bool:
        """Return whether both are the same type."""
        return self == other

    def committed(self) -> bool:
        """Return whether it is a named type of the file."""
        return self._is_named

    def get_class(self) -> int:
        """Return the number of its class, as ``h5py.h5t`` has them."""
        return CLASSES[self._type.kind]

    def get_size(self) -> int:
        """Return the bytes of one element in HDF5's memory."""
        return memory_bytes(self._type)

    def get_order(self) -> int:
        """Return 0 for little-endian, 1 for big-endian, 4 where there is no order."""
        return ORDERS.get(self._type.order, NO_ORDER)

    def get_sign(self) -> int:
        """Return 1 for a signed integer, 0 for an unsigned one."""
        return int(self._type.signed)

    def get_precision(self) -> int:
        """Return how many bits count."""
        return self._type.bits[1]

    def get_offset(self) -> int:
        """Return the first bit that counts."""
        return self._type.bits[0]

    def is_variable_str(self) -> bool:
        """Return whether it is a string of any length."""
        return self._type.kind == "variable_string"

    def get_cset(self) -> int:
        """Return 0 for ASCII, 1 for UTF-8."""
        return self._type.charset

    def get_strpad(self) -> int:
        """Return 0 for strings that end with a NUL, 1 for padding with NULs, 2 with spaces."""
        return self._type.padding

    def get_tag(self) -> bytes:
        """Return the tag of an opaque type."""
        return self._type.tag

    def get_array_dims(self) -> tuple[int, ...]:
        """Return the extents of an array type."""
        return self._type.dims

    def get_array_ndims(self) -> int:
        """Return how many axes an array type has."""
        return len(self._type.dims)

    def get_super(self) -> TypeId:
        """Return the type that an array, an enum or a sequence is made of.

        Raises
        ------
        TypeError
            It is made of no other.
        """
        if self._type.kind not in ("array", "enum", "sequence"):
            raise TypeError(f"Not an array, enum or sequence type (it is {self._type.kind})")
        return TypeId(self._place, self._type.base)

    def get_nmembers(self) -> int:
        """Return how many fields a compound, or values an enum has."""
        return len(self._members())

    def get_member_name(self, index: int) -> bytes:
        """Return the name of a field, or of a value."""
        return encoded(self._member(index)[0])

    def get_member_index(self, name: bytes) -> int:
        """Return the number of a field, or of a value."""
        names = [encoded(member[0]) for member in self._members()]
        if name not in names:
            raise ValueError(f"no member {name!r} (expected {names})")
        return names.index(name)

    def get_member_offset(self, index: int) -> int:
        """Return where a field begins in an element in HDF5's memory."""
        start: int = self._field(index)[1]
        before = [kind for _, at, kind in self._type.fields if at < start]
        return start + sum(memory_bytes(kind) - kind.size for kind in before)

    def get_member_type(self, index: int) -> TypeId:
        """Return the type of a field."""
        return TypeId(self._place, self._field(index)[2])

    def _members(self) -> list[Any]:
        return [*self._type.fields, *self._type.values]

    def _member(self, index: int) -> Any:
        members = self._members()
        if not 0 <= index < len(members):
            raise ValueError(f"Invalid member index (expected < {len(members)}, got {index})")
        return members[index]

    def _field(self, index: int) -> Any:
        if self._type.kind != "compound":
            raise TypeError(f"Not a compound type (it is {self._type.kind})")
        return self._member(index)
