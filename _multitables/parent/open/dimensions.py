"""The axes of a dataset, and the dimension scales that are attached to them.

Law
---
1. HDF5 keeps them in attributes (DIMENSION_LABELS, DIMENSION_LIST, and NAME of a scale), which are
   read when they are asked for.
2. A scale is found by its place in the list, or by its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol


class Scaled(Protocol):
    """What is asked of a dataset."""

    @property
    def attrs(self) -> Any: ...
    @property
    def file(self) -> Any: ...
    @property
    def ndim(self) -> int: ...


class Dimension:
    """One axis: a mapping from the names of its scales to datasets."""

    def __init__(self, dataset: Scaled, axis: int) -> None:
        self._dataset, self._axis = dataset, axis

    @property
    def label(self) -> str:
        """What the axis is called, "" if it has no name."""
        labels = self._dataset.attrs.get("DIMENSION_LABELS")
        return "" if labels is None else _text(labels[self._axis])

    def values(self) -> list[Any]:
        """Return the attached scales, which are datasets."""
        attached = self._dataset.attrs.get("DIMENSION_LIST")
        if attached is None:
            return []
        file = self._dataset.file
        return [file[reference] for reference in attached[self._axis]]

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


class Dimensions:
    """The axes of a dataset: ``dataset.dims[0].label``."""

    def __init__(self, dataset: Scaled) -> None:
        self._dataset = dataset

    def __getitem__(self, axis: int) -> Dimension:
        if not 0 <= axis < len(self):
            raise IndexError(f"axis out of range (expected less than {len(self)}, got {axis})")
        return Dimension(self._dataset, axis)

    def __len__(self) -> int:
        return self._dataset.ndim

    def __iter__(self) -> Iterator[Dimension]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        return f"<Dimensions of {self._dataset!r}>"


def _text(name: Any) -> str:
    return name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name)
