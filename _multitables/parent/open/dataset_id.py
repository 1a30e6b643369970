"""How a dataset is stored, as h5py's ``dataset.id`` says it: its chunks, and their bytes.

Law
---
1. Names, meanings and values are h5py's. Chunks are those that are stored, by their place in the
   dataset.
2. Nothing is decoded here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from _multitables._core import StoredDataset
from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import Records, grid_of
from _multitables.index.opened.open_files import Place
from _multitables.parent.open.ids import ObjectId, SpaceId, TypeId
from _multitables.parent.open.properties import Properties
from _multitables.parent.open.read_only import writes

ALL = 0  # the number of h5py.h5s.ALL


class StoreInfo(NamedTuple):
    """Where a chunk is stored; None and 0 for one that is not."""

    chunk_offset: tuple[int, ...] | None
    filter_mask: int
    byte_offset: int | None
    size: int


@writes("set_extent", "write", "write_direct_chunk")
class DatasetId(ObjectId):
    """How a dataset is stored: ``dataset.id.get_chunk_info(0)``."""

    def __init__(self, dataset: Any, place: Place, stored: StoredDataset) -> None:
        super().__init__(dataset)
        self._place, self._stored = place, stored

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of an element."""
        found: np.dtype[Any] = self._of.dtype
        return found

    @property
    def shape(self) -> Any:
        """Extents."""
        return self._of.shape

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self._of.shape or ())

    def get_space(self) -> SpaceId:
        """Return the extents."""
        return SpaceId(self._of.shape, self._of.maxshape)

    def get_type(self) -> TypeId:
        """Return what elements are, as they are stored."""
        return TypeId(self._place, self._stored.datatype)

    def get_create_plist(self) -> Properties:
        """Return what it was created with: layout, filters, fill value."""
        return Properties(self._of, self._stored)

    def read(self, mspace: Any, fspace: Any, arr: npt.NDArray[Any], mtype: Any = None) -> None:
        """Read all elements into an array; the spaces are ``h5py.h5s.ALL``.

        Parameters
        ----------
        mspace, fspace : SpaceID
            All of the array, and of the dataset.
        arr : ndarray
            Receives the elements, converted to its dtype as HDF5 converts them.
        mtype : TypeID, optional
            The type of the array.

        Raises
        ------
        UnsupportedDatasetError
            Other spaces, or another type than the array's.
        """
        if any(getattr(space, "id", None) != ALL for space in (mspace, fspace)):
            raise self._refused("so that parts are read by indexing: dataset.read_direct")
        if mtype is not None and mtype.dtype != arr.dtype:
            raise self._refused(f"so that it is not read as {mtype.dtype} into {arr.dtype}")
        self._of.read_direct(arr)

    def get_num_chunks(self, space: object = None) -> int:
        """Return how many chunks are stored.

        Raises
        ------
        UnsupportedDatasetError
            The dataset has no chunks.
        """
        return len(self._chunks())

    def get_chunk_info(self, index: int, space: object = None) -> StoreInfo:
        """Return where a chunk is stored, by its number among the stored ones."""
        table = self._chunks()
        if not 0 <= index < len(table):
            raise ValueError(f"chunk index out of range (expected < {len(table)}, got {index})")
        return self._info(table, index)

    def get_chunk_info_by_coord(self, offset: Sequence[int], space: object = None) -> StoreInfo:
        """Return where the chunk that has an element is stored, with the element's place."""
        table = self._chunks()
        index = self._number(table, offset)
        if index is None:
            return StoreInfo(None, 0, None, 0)
        return StoreInfo(tuple(offset), *self._info(table, index)[1:])

    def chunk_iter(self, func: Callable[[StoreInfo], Any]) -> Any:
        """Call a function with each chunk, until it returns something; return that."""
        table = self._chunks()
        answers = (func(self._info(table, index)) for index in range(len(table)))
        return next((answer for answer in answers if answer is not None), None)

    def get_offset(self) -> int | None:
        """Return where the elements begin in the file; None if they are not together there."""
        return self._stored.byte_offset

    def get_storage_size(self) -> int:
        """Return how many bytes are stored."""
        stored = self._stored
        if stored.layout == "chunked":
            return int(self._chunks()["stored_size"].sum())
        if stored.byte_offset is not None or stored.external_files:
            return int(np.prod(stored.dims, dtype=np.uint64)) * stored.element_bytes
        return len(stored.elements)

    def read_direct_chunk(
        self, offsets: Sequence[int], out: Any = None
    ) -> tuple[int, bytes | memoryview]:
        """Read a chunk as it is stored, with its filter mask.

        Parameters
        ----------
        offsets : sequence of int
            The chunk's first element.
        out : buffer, optional
            Receives the bytes.

        Raises
        ------
        UnsupportedDatasetError
            The dataset has no chunks, or they are not in a file of this machine.
        ValueError
            No chunk begins there, none is stored there, or `out` is too small.
        FileChangedError
            The file changed after it was opened.
        """
        table, place = self._chunks(), self._place
        index = self._number(table, offsets)
        found = None if index is None else self._info(table, index)
        if found is None or found.byte_offset is None or found.chunk_offset != tuple(offsets):
            raise ValueError(f"no stored chunk begins at {tuple(offsets)}")
        file = place.file
        opened, is_own = file.fingerprint.opened, file.opened_by == file.filename
        descriptor = opened.descriptor if opened and is_own else None
        if descriptor is None:
            raise self._refused("in no file of this machine that is open")
        if out is not None and memoryview(out).nbytes < found.size:
            raise ValueError(f"out has {memoryview(out).nbytes} bytes, the chunk {found.size}")
        data = os.pread(descriptor, found.size, found.byte_offset)
        file.check_unchanged()
        if out is None:
            return found.filter_mask, data
        view = memoryview(out).cast("B")[: found.size]
        view[:] = data
        return found.filter_mask, view

    def _chunks(self) -> Records:
        place = self._place
        if self._stored.layout != "chunked":
            raise self._refused("not in chunks")
        return place.call(place.file.metadata.chunks, place.offset)

    def _refused(self, how: str) -> UnsupportedDatasetError:
        path, filename = self._place.path, self._place.file.filename
        return UnsupportedDatasetError(
            f"{path!r} in {filename!r} is stored {how}", path=path, filename=filename
        )

    @property
    def _extents(self) -> tuple[int, ...]:
        return self._stored.chunk_dims or ()

    def _grid(self) -> tuple[int, ...]:
        return grid_of(self._stored.dims, self._extents)

    def _info(self, table: Records, index: int) -> StoreInfo:
        numbers, byte_offset, size, mask, _ = table[index].tolist()
        at = np.unravel_index(numbers, self._grid())
        place = tuple(
            int(number) * extent for number, extent in zip(at, self._extents, strict=True)
        )
        return StoreInfo(place, mask, byte_offset, size)

    def _number(self, table: Records, offset: Sequence[int]) -> int | None:
        """Return which of the stored chunks has an element; None: it is not stored."""
        grid, extents = self._grid(), self._extents
        if len(offset) != len(extents):
            raise TypeError(f"expected {len(extents)} coordinates, got {len(offset)}")
        at = [int(number) // extent for number, extent in zip(offset, extents, strict=True)]
        if not all(0 <= number < count for number, count in zip(at, grid, strict=True)):
            return None
        wanted = int(np.ravel_multi_index(at, grid))
        numbers = table["grid_index"]
        found = int(np.searchsorted(numbers, np.uint64(wanted)))
        return found if found < len(table) and int(numbers[found]) == wanted else None
