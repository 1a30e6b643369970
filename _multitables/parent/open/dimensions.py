"""The axes of a dataset, and the dimension scales that are attached to them.

Law
---
1. HDF5 keeps them in attributes (DIMENSION_LABELS, DIMENSION_LIST, and NAME of a scale), which are
   read when they are needed, the list of scales once for all axes.
2. A scale is found by its place in the list, or by its name.
3. A reference that leads to no dataset is a scale that is missing: it is left out of the list, and
   `missing` says why. It makes nothing else unreadable.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from _multitables.errors import CorruptFileError, MultitablesError, UnsupportedDatasetError
from _multitables.index.types import hdf5_errors
from _multitables.index.types.references import Reference
from _multitables.parent.open.kept import kept
from _multitables.parent.open.read_only import writes


class Scaled(Protocol):
    """What is asked of a dataset."""

    @property
    def attrs(self) -> Any: ...
    @property
    def file(self) -> Any: ...
    @property
    def name(self) -> Any: ...
    @property
    def ndim(self) -> int: ...


@writes("attach_scale", "detach_scale", "label")
class Dimension:
    """One axis: a mapping from the names of its scales to datasets."""

    def __init__(self, dimensions: Dimensions, axis: int) -> None:
        self._dimensions, self._axis = dimensions, axis
        self._dataset = dimensions.dataset

    @property
    def label(self) -> str:
        """What the axis is called, "" if it has no name."""
        labels = self._dataset.attrs.get("DIMENSION_LABELS")
        is_named = labels is not None and self._axis < len(labels)  # h5py's may be fewer
        return _text(labels[self._axis]) if is_named else ""

    def values(self) -> list[Any]:
        """Return the attached scales, which are datasets."""
        return [one for one in self._attached() if not isinstance(one, MultitablesError)]

    @property
    def missing(self) -> list[MultitablesError]:
        """Why scales are missing, an error for each: deleted, or references to other objects."""
        return [one for one in self._attached() if isinstance(one, MultitablesError)]

    def _attached(self) -> list[Any]:
        self._dataset.file  # noqa: B018 - which is an error once the file is closed
        return self._dimensions.attached[self._axis]

    def keys(self) -> list[str]:
        """Return the names of the scales."""
        return [_text(scale.attrs.get("NAME", "")) for scale in self.values()]

    def items(self) -> list[tuple[str, Any]]:
        """Return the names of the scales, and the scales."""
        return list(zip(self.keys(), self.values(), strict=True))

    def __len__(self) -> int:
        return len(self.values())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __getitem__(self, item: int | str) -> Any:
        """Return a scale.

        Raises
        ------
        IndexError, KeyError
            There is no such scale.
        """
        if isinstance(item, int):
            return self.values()[item]
        for name, scale in self.items():
            if name == item:
                return scale
        raise KeyError(item)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Dimension):
            return NotImplemented
        return (self._dataset, self._axis) == (other._dataset, other._axis)

    def __hash__(self) -> int:
        return hash((Dimension, self._dataset, self._axis))

    def __repr__(self) -> str:
        return f"<{self.label!r} dimension {self._axis} of {self._dataset!r}>"


@writes("create_scale")
class Dimensions:
    """The axes of a dataset: ``dataset.dims[0].label``."""

    def __init__(self, dataset: Scaled) -> None:
        self.dataset = dataset

    @kept
    def attached(self) -> list[list[Any]]:
        """Of each axis its scales, and an error in place of each that is missing."""
        axes = range(len(self))
        try:
            listed = self.dataset.attrs.get("DIMENSION_LIST")
        except (CorruptFileError, UnsupportedDatasetError) as error:
            return [
                [self._lost(axis, f"the list of scales cannot be read: {error}")] for axis in axes
            ]
        if listed is None:
            return [[] for _ in axes]
        if not isinstance(listed, np.ndarray) or listed.ndim != 1 or len(listed) > len(axes):
            return [[self._lost(axis, f"the list of scales is {listed!r}")] for axis in axes]
        each = [np.atleast_1d(found) for found in listed]
        each += [np.empty(0, object)] * (len(axes) - len(each))  # the last may not be listed
        return [
            [self._scale(axis, reference) for reference in references]
            for axis, references in enumerate(each)
        ]

    def _scale(self, axis: int, reference: Any) -> Any:
        if not isinstance(reference, Reference) or not reference:
            return self._lost(axis, f"its reference is {reference!r}")
        try:
            found = self.dataset.file[reference]
        except (CorruptFileError, UnsupportedDatasetError, TypeError):
            return self._lost(axis, f"nothing is at offset {reference.offset}, as after a deletion")
        if isinstance(found, type(self.dataset)):
            return found
        kind = type(found).__name__.lower()
        return self._lost(axis, f"its reference leads to the {kind} {found.name!r}")

    def _lost(self, axis: int, why: str) -> MultitablesError:
        dataset = self.dataset
        return hdf5_errors.lost_scale(dataset.file.filename, dataset.name, axis, why)

    def __getitem__(self, axis: int) -> Dimension:
        if not 0 <= axis < len(self):
            raise IndexError(f"axis out of range (expected less than {len(self)}, got {axis})")
        return Dimension(self, axis)

    def __len__(self) -> int:
        return self.dataset.ndim

    def __iter__(self) -> Iterator[Dimension]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        return f"<Dimensions of {self.dataset!r}>"


def _text(name: Any) -> str:
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)
