"""What a dataset was created with, as h5py's property lists say it.

Law
---
1. Names and values are those of h5py's ``PropDCID``: numbers stand for its constants.
2. What a file does not say is not there: when space is allocated, and when fill values are written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy.typing as npt

from _multitables._core import StoredDataset

if TYPE_CHECKING:
    from _multitables.parent.open.filters import Filter
    from _multitables.parent.open.regions import Part, VDSmap

LAYOUTS = {"compact": 0, "contiguous": 1, "chunked": 2, "virtual": 3}
UNDEFINED, DEFAULT, USER_DEFINED = 0, 1, 2
_T = TypeVar("_T")


class Properties:
    """What a dataset was created with: ``dataset.id.get_create_plist()``."""

    def __init__(self, dataset: Any, stored: StoredDataset) -> None:
        self._dataset, self._stored = dataset, stored

    def get_layout(self) -> int:
        """Return 0 for compact, 1 for contiguous, 2 for chunked, 3 for virtual."""
        return LAYOUTS[self._stored.layout]

    def get_chunk(self) -> tuple[int, ...]:
        """Return the extents of a chunk.

        Raises
        ------
        ValueError
            The dataset has no chunks.
        """
        if self._stored.chunk_dims is None:
            raise ValueError("Not a chunked storage layout")
        return self._stored.chunk_dims

    def get_nfilters(self) -> int:
        """Return the number of filters."""
        return len(self._stored.filters)

    def get_filter(self, filter_idx: int) -> Filter:
        """Return number, flags, values and name of one filter, in the order of writing.

        Raises
        ------
        ValueError
            There is no such filter.
        """
        return _numbered(self._stored.filters, filter_idx)

    def get_filter_by_id(self, filter_code: int) -> tuple[int, tuple[int, ...], bytes] | None:
        """Return flags, values and name of the filter of this number, or None."""
        found = (one[1:] for one in self._stored.filters if one[0] == filter_code)
        return next(found, None)

    def fill_value_defined(self) -> int:
        """Return 0 if there is no fill value, 1 for the default, 2 for one that was chosen."""
        fill = self._stored.fill_value
        return UNDEFINED if fill is None else USER_DEFINED if fill else DEFAULT

    def get_fill_value(self, value: npt.NDArray[Any]) -> None:
        """Set the elements of an array to the fill value, converted to its dtype."""
        value[...] = self._dataset.fillvalue

    def get_external_count(self) -> int:
        """Return how many files the elements lie in, if these are other files."""
        return len(self._stored.external_files)

    def get_external(self, idx: int = 0) -> tuple[bytes, int, int]:
        """Return name, offset and size of one of these files."""
        return _numbered(self._stored.external_files, idx)

    def get_virtual_count(self) -> int:
        """Return how many mappings a virtual dataset has."""
        return len(self._mappings())

    def get_virtual_filename(self, index: int = 0) -> str:
        """Return the file that a mapping names."""
        return _numbered(self._mappings(), index).file_name

    def get_virtual_dsetname(self, index: int = 0) -> str:
        """Return the dataset that a mapping names."""
        return _numbered(self._mappings(), index).dset_name

    def get_virtual_vspace(self, index: int = 0) -> Part:
        """Return the part of the dataset that a mapping fills."""
        return _numbered(self._mappings(), index).vspace

    def get_virtual_srcspace(self, index: int = 0) -> Part | None:
        """Return the part of its source that a mapping shows; None: all of it."""
        return _numbered(self._mappings(), index).src_space

    def _mappings(self) -> list[VDSmap]:
        found: list[VDSmap] = self._dataset.virtual_sources()
        return found


def _numbered(found: Sequence[_T], number: int) -> _T:
    if not 0 <= number < len(found):
        raise ValueError(f"the number is out of range (expected < {len(found)}, got {number})")
    return found[number]
