"""Datasets that are indexed without being read: each index makes a description for a request.

Law
---
1. Indexing costs no call into NumPy, HDF5 or the core, and never fails for what is in the file.
2. A dataset knows where its chunks lie (a catalogue for it, and one for each column that was
   asked for); it holds neither its reader nor the file.
3. The names are those of 2.x, and so are their meanings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from _multitables.errors import public
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.random.stage import Stage, StagePool, shape_elements
from _multitables.plan.sampled import Sampled
from _multitables.plan.samples import Sample
from _multitables.select.selection import DatasetInfo, Selection


class SampleKeys(Protocol):
    """Samples of a dataset, by their numbers."""

    @property
    def shape(self) -> tuple[int, ...]:
        """That of all samples together."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the dataset."""

    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> Selection: ...


_KEPT_AS_IS = frozenset({int, slice, str})


class Dataset(InNotebooks):
    """What all datasets of a `Reader` have; made by `Reader.get_dataset`."""

    def __init__(
        self,
        info: DatasetInfo,
        whole: Selection,
        make_samples: Callable[[Sample], SampleKeys] | None = None,
    ) -> None:
        self._info = info
        self._whole = whole
        self._make_samples = make_samples

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of one element; of ragged data, of one atom."""
        info = self._info
        return np.dtype((info.dtype, info.atom_shape)) if info.atom_shape else info.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents when the dataset was indexed."""
        return self._info.shape

    def __getitem__(self, key: Any) -> Selection:
        """Describe an index; nothing is read.

        Parameters
        ----------
        key : int, slice, list, array, str, ``...`` or a tuple of them
            What NumPy takes. Lists and arrays are copied.

        Returns
        -------
        selection
            For `Reader.request`; it can be indexed further, as NumPy's result could. A bare
            ``dataset[...]`` cannot (an `IndexError`).
        """
        if type(key) in _KEPT_AS_IS:
            return Selection(self._info, (key,))
        return self._whole[key]

    def __len__(self) -> int:
        return self._info.shape[0]

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} is a description, not data: request its parts")

    def __repr__(self) -> str:
        info = self._info
        return f"<{type(self).__name__} {info.path!r}: shape {info.shape}, dtype {info.dtype}>"

    def create_stage_natoms(self, size_natoms: int) -> Stage:
        """Make a stage for a number of elements.

        Parameters
        ----------
        size_natoms : int
            Elements of the largest result; of ragged data, atoms.

        Returns
        -------
        Stage
        """
        return Stage(shape_elements(size_natoms, ()) * self.dtype.itemsize)


class _Shaped(Dataset, Sampled[SampleKeys]):
    """A dataset of one shape."""

    def create_stage(self, shape: Any) -> Stage:
        """Make a stage for results up to a shape.

        Parameters
        ----------
        shape : int or tuple of int
            Rows, or extents. Dims that are left out, None and -1 are the dataset's.

        Returns
        -------
        Stage

        Raises
        ------
        SharedMemoryError
            The memory is not available.
        """
        return Stage(self._stage_bytes(shape))

    def create_stage_pool(self, shape: Any, num_stages: int) -> StagePool:
        """Make several stages, of which a request takes the next free one.

        Parameters
        ----------
        shape : int or tuple of int
            As in `create_stage`.
        num_stages : int
            How many.

        Returns
        -------
        StagePool
        """
        return StagePool(self._stage_bytes(shape), shape_elements(num_stages, ()))

    def _samples(self, sample: Sample) -> SampleKeys:
        assert self._make_samples is not None
        return self._make_samples(sample)

    def _stage_bytes(self, shape: Any) -> int:
        return shape_elements(shape, self._info.shape) * self._info.dtype.itemsize


@public
class TableDataset(_Shaped):
    """A table: rows with columns. Made by `Reader.get_dataset`.

    Examples
    --------
    >>> events["energy"][30:35]  # doctest: +SKIP
    >>> events[[3, 1, 4]]["time"]  # doctest: +SKIP
    >>> events.where("energy > limit", {"limit": 30.0})  # doctest: +SKIP
    """

    def col(self, name: str) -> Selection:
        """Describe a column; ``"a/b"`` is column ``b`` of column ``a``. Index it further."""
        return self._whole.col(name)

    def read(
        self, start: Any = None, stop: Any = None, step: Any = None, field: str | None = None
    ) -> Selection:
        """Describe a range of rows, as PyTables' ``Table.read`` takes it."""
        return self._whole.read(start, stop, step, field)

    def read_coordinates(self, coords: Any, field: str | None = None) -> Selection:
        """Describe rows by their numbers, in any order and as often as named."""
        return self._whole.read_coordinates(coords, field)

    def read_sorted(
        self,
        sortby: str,
        checkCSI: bool = False,  # noqa: N803 - PyTables' name
        field: str | None = None,
        start: Any = None,
        stop: Any = None,
        step: Any = None,
    ) -> Selection:
        """Describe rows in the order of a column that has a completely sorted index (PyTables')."""
        return self._whole.read_sorted(sortby, checkCSI, field, start, stop, step)

    def where(
        self,
        condition: str,
        condvars: Mapping[str, Any] | None = None,
        start: Any = None,
        stop: Any = None,
        step: Any = None,
    ) -> Selection:
        """Describe the rows that fulfil a condition, as PyTables' ``Table.read_where`` takes it.

        Parameters
        ----------
        condition : str
            An expression of columns, numbers and the names in `condvars`.
        condvars : mapping, optional
            Name -> number or array.
        start, stop, step : int, optional
            Look at these rows only.
        """
        return self._whole.where(condition, condvars, start, stop, step)


@public
class ArrayDataset(_Shaped):
    """An array of any number of dimensions. Made by `Reader.get_dataset`.

    Examples
    --------
    >>> images[4:16:2, ...]  # doctest: +SKIP
    >>> images[:][:, mask]  # doctest: +SKIP
    """

    def read(self, start: Any = None, stop: Any = None, step: Any = None) -> Selection:
        """Describe a range of rows, as PyTables' ``Array.read`` takes it."""
        return self._whole.read(start, stop, step)


@public
class VLArrayDataset(Dataset):
    """Ragged data: each row is an array of its own length. Made by `Reader.get_dataset`.

    The result of a request for one row is an array, for several a list of arrays.
    """

    def read(self, start: Any = None, stop: Any = None, step: Any = None) -> Selection:
        """Describe a range of rows, as PyTables' ``VLArray.read`` takes it."""
        return self._whole.read(start, stop, step)
