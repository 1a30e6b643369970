"""References, as HDF5 files store them: to an object, or to a part of a dataset.

Law
---
1. A reference is a value: it says where its object lies in the file, and holds no file.

This file must never know of files, groups or datasets.
"""

from __future__ import annotations

from dataclasses import dataclass

from _multitables.errors import public
from _multitables.index.types.as_h5py import Value


@public
@dataclass(frozen=True, eq=False, slots=True)
class Reference(Value):
    """A reference to an object; false if it refers to nothing.

    ``file[reference]`` is the object.
    """

    _as_h5py = "Reference"

    #: Of the object's header, counted from the superblock; 0: a null reference.
    offset: int

    def __bool__(self) -> bool:
        return self.offset != 0

    def __repr__(self) -> str:
        return f"<HDF5 object reference{'' if self else ' (null)'}>"


@public
@dataclass(frozen=True, eq=False, slots=True)
class RegionReference(Value):
    """A reference to a selection of a dataset; false if it refers to nothing.

    ``file[reference]`` is the dataset, ``dataset[reference]`` is what is selected.
    """

    _as_h5py = "RegionReference"

    #: The object of the global heap that tells the dataset and the selection; heap 0: null.
    heap: int
    number: int

    def __bool__(self) -> bool:
        return self.heap != 0

    def __repr__(self) -> str:
        return f"<HDF5 region reference{'' if self else ' (null)'}>"
