"""Batches of items: arrays of different lengths, padded to one.

Law
---
1. A batch is a copy: padding needs room that items do not have. So are items that wait for others,
   as the ring would not hold all of them.
2. Items that lack a dataset are left out: each array of a batch has a row for each of its items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import OptionsError, UnsupportedDatasetError, public
from _multitables.parent.batches.iteration import Iteration
from _multitables.parent.batches.loader import Changed, Loader
from _multitables.parent.collection.item import Item
from _multitables.parent.collection.item_unit import ItemUnit
from _multitables.parent.notebook import InNotebooks
from _multitables.plan.checkpoint import Position
from _multitables.plan.item_batches import bucketed
from _multitables.plan.reader_options import ItemBatchOptions
from _multitables.tree import NamedArrays


@public
class ItemBatch(NamedArrays, InNotebooks):
    """Several items as one array for each dataset; made by `Collection.to_batches`.

    A mapping from names to arrays of shape (items, longest, ...), padded behind each item's rows.

    Attributes
    ----------
    keys_of_items : list of str
        The keys of the items, in their order.
    lengths : dict of str to numpy.ndarray of int64
        Of each dataset the rows of each item.
    """

    __slots__ = ("keys_of_items", "lengths")

    def __init__(self, items: Sequence[Item], names: Sequence[str], pad: Any) -> None:
        self.keys_of_items = [item.key for item in items]
        self.lengths: dict[str, npt.NDArray[np.int64]] = {}
        padded = {}
        for name in names:
            arrays = [item[name] for item in items]
            self.lengths[name] = np.array([len(array) for array in arrays], np.int64)
            padded[name] = _padded(arrays, name, pad)
        super().__init__(padded)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name!r}: {array.shape}" for name, array in self._arrays.items())
        return f"<ItemBatch of {len(self.keys_of_items)}: {shapes}>"


@public
class ItemBatches(Changed):
    """Padded batches of a collection; made by `Collection.to_batches`.

    An iteration iterates the collection, and shares its epoch and state; a state counts the items
    that were taken.
    """

    _unit: ItemUnit

    def __init__(self, items: Loader, names: Sequence[str], wanted: ItemBatchOptions) -> None:
        super().__init__(items, names, wanted)
        self._names, self._wanted = names, wanted

    def __repr__(self) -> str:
        return f"<ItemBatches of {self._wanted.batch_size}, of {self._of!r}>"

    def __iter__(self) -> Iterator[ItemBatch]:
        return self._gathered(self._iterate())

    def _gathered(self, items: Iteration) -> Iterator[ItemBatch]:
        wanted, names = self._wanted, self._names
        measured = _with_lengths(items, names)
        for batch in bucketed(measured, wanted.buckets, wanted.batch_size, wanted.drop_last):
            yield ItemBatch(batch, names, wanted.pad)
        next(items, None)  # the collection is through only after the last batch

    def _length(self, start: Position) -> int:
        """Count the batches by the items' lengths."""
        unit, wanted = self._unit, self._wanted
        lengths = np.array(unit.opened.lengths(self._names))
        buckets = np.searchsorted(wanted.buckets, lengths)
        filled = np.zeros(len(wanted.buckets) + 1, np.int64)
        for run in unit.runs(start):
            for epoch in range(run.first_epoch, run.first_epoch + run.epochs):
                items = unit.items(epoch, run.ranges)
                filled += np.bincount(buckets[items[lengths[items] >= 0]], minlength=len(filled))
        whole, rest = np.divmod(filled, wanted.batch_size)
        return int(whole.sum() + (0 if wanted.drop_last else np.count_nonzero(rest)))


def _with_lengths(items: Iteration, names: Sequence[str]) -> Iterator[tuple[int, Item]]:
    """Yield copies of items that have all names, and the lengths of the longest datasets."""
    for item in items:
        if all(name in item for name in names):
            rows = {name: _rows_of(item, name) for name in names}
            yield max(map(len, rows.values())), Item(item.key, rows, {}, {}, {})
        if items.is_through:
            return


def _rows_of(item: Item, name: str) -> npt.NDArray[Any]:
    """Return a copy of a dataset of an item, if it has rows."""
    array = item[name]
    if not isinstance(array, np.ndarray) or not array.ndim:
        raise UnsupportedDatasetError(
            f"{name!r} of item {item.key!r} has no rows to be padded (expected an array of at "
            f"least one dimension, got {type(array).__name__})",
            advice="Name the other datasets with names=, or leave it out with exclude= of "
            "get_collection",
        )
    return np.array(array)


def _padded(arrays: Sequence[Any], name: str, pad: Any) -> npt.NDArray[Any]:
    shapes = {array.shape[1:] for array in arrays}
    if len(shapes) > 1:
        raise UnsupportedDatasetError(
            f"{name!r} differs between items in more than its length: rows of {sorted(shapes)}",
            advice="Name other datasets with names=, or batch the items in your own loop",
        )
    longest = max(len(array) for array in arrays)
    try:
        dtype = np.result_type(*(array.dtype for array in arrays))
        padded = np.full((len(arrays), longest, *shapes.pop()), pad, dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise OptionsError(
            f"{name!r} cannot be padded with {pad!r}: {error}", option="pad", got=pad
        ) from None
    for row, array in zip(padded, arrays, strict=True):
        row[: len(array)] = array
    return padded
