"""The public `Collection`: items of many datasets.

Law
---
1. It adds the keys and names of items to a loader, and batches and bags of items.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from _multitables import options
from _multitables.errors import MissingDatasetError, OptionsError, public
from _multitables.options import check_number
from _multitables.parent.batches.iteration import ItemIterator
from _multitables.parent.batches.loader import Loader
from _multitables.parent.collection.dask_bag import bag_of
from _multitables.parent.collection.item import Item
from _multitables.parent.collection.item_batches import ItemBatches
from _multitables.parent.collection.item_spec import ItemSpec
from _multitables.parent.collection.item_unit import ItemUnit
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.plan.reader_options import CollectionOptions, ItemBatchOptions, ReaderCount
from _multitables.plan.sharding import shard_of


@public
class Collection(Loader):
    """Items of many datasets; made by `Streamer.get_collection`.

    Iterating goes through `epochs` epochs, from `epoch` on, and yields an `Item` for each key; the
    next iteration goes on after them. Breaking out of a loop leaves `epoch` where it was.

    Examples
    --------
    >>> shots = streamer.get_collection("/shots/*/signals/*")  # doctest: +SKIP
    >>> for shot in shots:  # doctest: +SKIP
    ...     train(shot.key, shot["ip"], shot["ne"])
    """

    _unit: ItemUnit
    iteration = ItemIterator

    def __iter__(self) -> ItemIterator:
        return self._iterate()  # type: ignore[return-value]

    @property
    def keys(self) -> list[str]:
        """The keys of all items, of all ranks; numbers in them are sorted as numbers."""
        return list(self._unit.opened.items.keys)

    def names(self, key: str) -> list[str]:
        """Return the names of the datasets of an item.

        Raises
        ------
        MissingDatasetError
            There is no item of this key (a `KeyError`).
        """
        return list(self._unit.opened.items.members(self._number(key)).objects)

    def __getitem__(self, key: int | str) -> Item:
        """Read one item, of any rank, without an iteration.

        Parameters
        ----------
        key : int or str
            Its number in `keys`, or its key.

        Raises
        ------
        IndexError
            There is no item of this number.
        MissingDatasetError
            There is no item of this key (a `KeyError`).
        """
        if self._bookmark.is_closed:
            raise self._closed_error()
        return self._unit.item(self._number(key))

    def _number(self, key: Any) -> int:
        items = self._unit.opened.items
        if isinstance(key, str):
            if key not in items.numbered:
                close = difflib.get_close_matches(key, items.keys, 3, 0.5)
                raise MissingDatasetError(
                    f"there is no item {key!r} of {self._unit.spec.path!r}",
                    advice=f"Did you mean {close[0]!r}?" if close else "Look at keys",
                    path=key,
                    close_matches=close,
                )
            return items.numbered[key]
        number = operator.index(key)
        if not -len(items) <= number < len(items):
            raise IndexError(f"there is no item {number} (expected 0 to {len(items) - 1})")
        return number % len(items)

    def order(self, epoch: int | None = None) -> list[str]:
        """Return the keys of an epoch in the order in which this rank delivers them.

        Parameters
        ----------
        epoch : int, optional
            The default is the one with which the next iteration begins.
        """
        wanted = self._bookmark.epoch if epoch is None else check_number("epoch", epoch)
        unit = self._unit
        items = unit.items(wanted, shard_of(unit.everything(), unit.shard))
        return [unit.opened.items.keys[item] for item in items.tolist()]

    def to_batches(
        self,
        batch_size: int,
        names: Sequence[str] | None = None,
        *,
        pad: Any = 0,
        buckets: Sequence[int] | None = None,
        drop_last: bool = False,
    ) -> ItemBatches:
        """Put items together, for loops that want arrays of one shape.

        Parameters
        ----------
        batch_size : int
            Items of a batch.
        names : sequence of str, optional
            Datasets of a batch. Items that lack one are left out. Default: what all items have.
        pad : number, optional
            What stands behind the rows of an item that is shorter than the longest of its batch.
        buckets : sequence of int, optional
            Lengths, ascending: items of up to the first of them come together, those of up to the
            second, and so on. The length is that of an item's longest dataset. An item waits until
            there are enough of its length; a state that is taken meanwhile counts it as delivered.
        drop_last : bool, optional
            Leave out the items that do not fill a batch at the end.

        Returns
        -------
        iterable of ItemBatch

        Raises
        ------
        OptionsError
            An option that cannot work, or no dataset that all items have (a `ValueError`).
        UnsupportedDatasetError
            When it is iterated: a scalar, a null dataspace, or rows of different shapes.

        Examples
        --------
        >>> for batch in shots.to_batches(32, ["ip", "ne"]):  # doctest: +SKIP
        ...     train(batch["ip"], batch.lengths["ip"])
        """
        wanted = options.checked(
            ItemBatchOptions, batch_size=batch_size, pad=pad, buckets=buckets, drop_last=drop_last
        )
        items = self._unit.opened.items
        every = [items.members(item).objects for item in range(len(items))]
        if names is None:
            common = set.intersection(*map(set, every))
            names = [name for name in every[0] if name in common]
        known = set().union(*every)
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise OptionsError(
                f"no item of {self._unit.opened.path!r} has {unknown[0]!r}"
                if unknown
                else f"there is no dataset that all items of {self._unit.opened.path!r} have",
                advice="Name datasets that many items have; items that lack one are left out",
                option="names",
                got=names,
            )
        return ItemBatches(self, list(names), wanted)

    def to_dask_bag(self) -> Any:
        """Give the items as a bag of Dask, whose tasks read them where they run.

        Returns
        -------
        dask.bag.Bag of Item
            In the order of the first epoch, of this rank; in partitions of about 64 MiB. Items are
            copies. A task starts a reader process for its items.

        Raises
        ------
        MissingLibraryError
            Dask is not installed (an `ImportError`).

        Examples
        --------
        >>> bag = streamer.get_collection("/shots/*/signals/*").to_dask_bag()  # doctest: +SKIP
        >>> bag.map(lambda shot: shot["ip"].max()).compute()  # doctest: +SKIP
        """
        opened = self._unit.opened
        sizes = dict(zip(opened.items.keys, opened.item_bytes, strict=True))
        keys = self.order(self._bookmark.epoch)
        wanted = replace(
            self._unit.wanted,
            epochs=1,
            n_procs=ReaderCount(1, threads=False),
            rank=0,
            world_size=1,
            share=None,
        )
        read = partial(_items_of, self._unit.spec, wanted, self._unit.pool.library_timeout_seconds)
        return bag_of(read, keys, [sizes[key] for key in keys])


def _items_of(
    spec: ItemSpec, wanted: CollectionOptions, timeout: float | None, keys: Sequence[str]
) -> list[Item]:
    """Read the items of some keys, as copies."""
    pool, found = ReaderPool(True, timeout), []
    try:
        for key in keys:
            one = spec.only(key)
            items = Collection(ItemUnit(one, wanted, pool))
            found.append(items[key].copy())
            items.close()
    finally:
        pool.close()
    return found
