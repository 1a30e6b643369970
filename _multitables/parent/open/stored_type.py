"""The element type of a dataset: its dtype, and the part of it that NumPy has a dtype for.

Law
---
1. Nothing is read before it is needed. Attributes are read only where they change a type: those
   of datasets that PyTables wrote (`Datatype.as_pytables`).
2. Fields that NumPy has types for can be read, also beside fields that it lacks.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from _multitables._core import Datatype
from _multitables.errors import UnsupportedDatasetError
from _multitables.index.opened.open_files import UNKNOWN, Place
from _multitables.index.types.element_type import FieldType, field_type
from _multitables.index.types.hdf5_metadata import is_pytables
from _multitables.index.types.numpy_type import (
    NoDtypeError,
    datatype_of,
    dtype_of,
    numpy_dtype,
    readable,
)
from _multitables.parent.open.kept import kept

if TYPE_CHECKING:
    from _multitables.select.h5py_grammar import Names


@lru_cache(maxsize=1024)
def _is_of_its_writer(body: bytes) -> bool:
    """Whether the type may mean something else where PyTables wrote it."""
    return datatype_of(body).has("bitfield", "time")


class StoredType:
    """A type as a file stores it (`body`), of the dataset at a place."""

    def __init__(self, place: Place, body: bytes) -> None:
        self._place, self._body = place, body

    @kept
    def datatype(self) -> Datatype:
        """The core's description of the type."""
        place, datatype = self._place, datatype_of(self._body)
        if not _is_of_its_writer(self._body) or place.offset == UNKNOWN:
            return datatype
        attributes = place.call(place.file.metadata.attributes, place.offset)
        return datatype.as_pytables(strings=False) if is_pytables(attributes) else datatype

    @kept
    def dtype(self) -> np.dtype[Any]:
        """The dtype of all of it, or an `UnsupportedDatasetError`."""
        if self.datatype is datatype_of(self._body):
            return self._place.call(dtype_of, self._body)
        return self._place.call(numpy_dtype, self.datatype)

    @kept
    def readable(self) -> tuple[Datatype, np.dtype[Any]]:
        """The type and its dtype, without the fields that NumPy has no type for."""
        try:
            return self.datatype, self.dtype
        except UnsupportedDatasetError:
            datatype = readable(self.datatype)
            return datatype, self._place.call(numpy_dtype, datatype)

    def part(self, field: str | None) -> FieldType:
        """Return what one field is, or all of it that is readable; see `field_type` for errors."""
        return field_type(self.readable[0], field, pytables=False)

    @property
    def is_readable(self) -> bool:
        """Whether NumPy has types for all of it."""
        return self.readable[0] is self.datatype

    def dtype_for(self, names: Names) -> np.dtype[Any]:
        """Return the dtype in which these fields are looked up; None: all of it is read."""
        if names is None or self.is_readable:
            return self.dtype
        dtype, known = self.readable[1], {name for name, *_ in self.datatype.fields}
        for name in (names,) if isinstance(names, str) else names:
            if name not in (dtype.names or ()) and name in known:
                return self.dtype  # which says why
        return dtype

    def __str__(self) -> str:
        try:
            return numpy_dtype(self.datatype).str
        except NoDtypeError as error:
            return str(error)
