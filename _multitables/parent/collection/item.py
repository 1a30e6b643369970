"""One item of a collection: its datasets by name.

Law
---
1. A value; its arrays are views of shared memory that stays as it is while any of them is held.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from _multitables.errors import CorruptChunkError, MultitablesError, public
from _multitables.parent.notebook import InNotebooks
from _multitables.parent.ragged.ragged_block import RaggedBlock
from _multitables.parent.titles import count
from _multitables.tree import NamedArrays


class Scales(dict[str, Any]):
    """The dimension scales of one axis by name, and in `missing` why others are not among them."""

    missing: dict[str, MultitablesError]

    def __init__(
        self, arrays: Mapping[str, Any], missing: dict[str, MultitablesError] | None = None
    ) -> None:
        super().__init__(arrays)
        self.missing = missing or {}

    def mapped(self, change: Callable[[Any], Any]) -> Scales:
        """Return the scales with a function applied to each array."""
        return Scales({name: change(array) for name, array in self.items()}, self.missing)

    def __reduce__(self) -> tuple[Any, ...]:
        return Scales, (dict(self), self.missing)


@public
class Item(NamedArrays, InNotebooks):
    """One item of a `Collection`: a mapping from names to the arrays of its datasets.

    Arrays are views of shared memory: valid and unchanged as long as any of them is held. Each
    begins at a multiple of 64 bytes. Rows of any length, such as texts, are a `RaggedBlock`; arrays
    and scalars of objects, such as a string of any length, what `multitables.open` gives, and a
    null dataspace is an `Empty`.

    Attributes
    ----------
    key : str
        What the wildcard stands for that tells items apart.
    scales : mapping of str to tuple of dict
        Of each dataset, for each of its axes, the dimension scales by name; with ``scales=True``.
        One that was deleted, is a group, or cannot be read is not among them: ``missing`` of the
        axis has an error by its name, which says why.
    attrs : mapping of str to dict
        For each dataset, its chosen attributes.
    group_attrs : dict of str to dict
        For each group in which its datasets lie that has any of these attributes, from the root
        group on: by path, its chosen attributes.
    damaged : dict of str to CorruptChunkError
        With ``skip_damaged=True``, the datasets that are missing because they do not decode.

    Examples
    --------
    >>> for shot in streamer.get_collection("/shots/*/signals/*"):  # doctest: +SKIP
    ...     current, time = shot["ip"], shot.scales["ip"][0]["time"]
    """

    __slots__ = ("attrs", "damaged", "group_attrs", "key", "scales")

    def __init__(
        self,
        key: str,
        arrays: dict[str, Any],
        scales: Mapping[str, tuple[Scales, ...]],
        attrs: Mapping[str, dict[str, Any]],
        damaged: dict[str, CorruptChunkError],
        group_attrs: Mapping[str, dict[str, Any]] = MappingProxyType({}),
    ) -> None:
        super().__init__(arrays)
        self.key = key
        self.scales = scales
        self.attrs = attrs
        self.damaged = damaged
        self.group_attrs = dict(group_attrs)

    def copy(self) -> Item:
        """Return an item with copies of all arrays, which outlive the stream's memory."""
        arrays = {name: _copied(array) for name, array in self._arrays.items()}
        scales = {
            name: tuple(axis.mapped(_copied) for axis in axes) for name, axes in self.scales.items()
        }
        return Item(self.key, arrays, scales, self.attrs, self.damaged, self.group_attrs)

    def __repr__(self) -> str:
        n_bytes = sum(getattr(array, "nbytes", 0) for array in self._arrays.values())
        return f"<Item {self.key!r}: {count(len(self), 'dataset')}, {n_bytes} bytes>"


def _copied(array: Any) -> Any:
    return array.copy() if isinstance(array, np.ndarray | RaggedBlock) else array
