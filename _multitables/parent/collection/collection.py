"""Collections: items of many datasets, their epochs, ranks and states.

Law
---
1. Says where an iteration begins; `ItemIterator` goes through it.
2. A state records which items were delivered. An item counts as a batch of one row.
"""

from __future__ import annotations

import mmap
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from _multitables import _core, machine, options
from _multitables.errors import ClosedError, MultitablesError, OptionsError
from _multitables.index.chunk_index import I64
from _multitables.options import check_number
from _multitables.parent.batches.batch_iterator import Bookmark, Progress
from _multitables.parent.collection.dask_bag import bag_of
from _multitables.parent.collection.item import Item
from _multitables.parent.collection.item_batches import ItemBatches
from _multitables.parent.collection.item_iterator import ItemIterator, Step
from _multitables.parent.collection.item_reader import ItemReader
from _multitables.parent.collection.item_spec import ItemSpec
from _multitables.parent.collection.open_items import OpenedItems, open_items
from _multitables.parent.dependents import Dependents
from _multitables.parent.node.place import NodePlace
from _multitables.parent.node.shared_readers import SharedReaders
from _multitables.parent.random.service import AnyReaders, Service
from _multitables.parent.random.stage import made
from _multitables.parent.readers.reader_choice import who_answers_items
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.request_threads import Answers, RequestThreads
from _multitables.parent.titles import count, file_title, title
from _multitables.plan.checkpoint import Position, position_of, state_of
from _multitables.plan.collection import in_file_order, order_words
from _multitables.plan.reader_options import (
    CollectionOptions,
    ItemBatchOptions,
    ReaderCount,
    ReaderOptions,
)
from _multitables.plan.sharding import Shard, length, shard_of

#: Scales that items share are kept in one part in this many of the memory that is available: then
#: each is decoded once, in any order of items.
KEPT_SHARE = 8
#: Bytes that an item may take more than its datasets: whole pages.
SPARE_BYTES = 64 << 10
#: Items of the largest size that the ring holds, if it is left to the library.
ITEMS_HELD = 4


class Collection:
    """Items of many datasets; made by `Streamer.get_collection`.

    Iterating goes through `epochs` epochs, from `epoch` on, and yields an `Item` for each key; the
    next iteration goes on after them. Breaking out of a loop leaves `epoch` where it was.

    Examples
    --------
    >>> shots = streamer.get_collection("/shots/*/signals/*")  # doctest: +SKIP
    >>> for shot in shots:  # doctest: +SKIP
    ...     train(shot.key, shot["ip"], shot["ne"])
    """

    def __init__(
        self, spec: ItemSpec, wanted: CollectionOptions, pool: ReaderPool, owns_pool: bool
    ) -> None:
        self._spec, self._wanted = spec, wanted
        self._shard = Shard(1, wanted.rank, wanted.world_size)
        self._bookmark = Bookmark(wanted.start_epoch)
        self._closed = False
        self._pool = pool
        self._own_pool = pool if owns_pool else None
        self._opened: OpenedItems = open_items(spec)
        share = machine.available_bytes() // KEPT_SHARE
        self._kept_bytes = min(self._opened.shared_bytes, share)
        self._ring_bytes = _ring_bytes(self._opened, wanted, self._kept_bytes)
        self._file_order: I64 | None = None
        self._shared: SharedReaders | None = None
        #: Scales that ranks of this node have in common, when they were read.
        self._scales: mmap.mmap | None = None
        self._asked_scales = False
        if wanted.share:
            place = NodePlace.of(wanted.rank, wanted.world_size)
            purpose = f"{spec.path!r} by {spec.by!r} in {spec.file.filename!r}"
            self._shared = SharedReaders(place, purpose, pool.library_timeout_seconds)
        self._latest: Callable[[], ItemIterator | None] = lambda: None
        self._iterators = Dependents[ItemIterator]()

    def __reduce__(self) -> tuple[Any, ...]:
        """Make it again elsewhere, where it begins as this one began."""
        return _again, (self._spec, self._wanted, self._pool.library_timeout_seconds)

    def _sharded(self, rank: int, world_size: int, part: tuple[int, int] | None) -> Collection:
        """Return a collection of the same items for a rank, or for a part of what a rank has."""
        wanted = replace(self._wanted, rank=rank, world_size=world_size)
        if part is not None:
            wanted = replace(wanted, n_procs=ReaderCount(1, threads=False))
        made = _again(self._spec, wanted, self._pool.library_timeout_seconds)
        if part is not None:
            number, parts = part
            made._shard = Shard(1, rank * parts + number, world_size * parts, parts=parts)
        return made

    @property
    def _rank(self) -> tuple[int, int]:
        return self._wanted.rank, self._wanted.world_size

    # ---- what there is

    def __repr__(self) -> str:
        state = "closed" if self._closed else "open"
        start = self._bookmark.resumed or Position(self._bookmark.epoch, None, ())
        progress = self._bookmark.progress or Progress((start, 0))
        return f"<Collection of {self._title()}, {progress}, {state}>"

    def _title(self) -> str:
        opened, wanted = self._opened, self._wanted
        of = title(opened.filename, [(opened.path, None)])
        items, readers = count(len(opened.items), "item"), count(wanted.n_procs.count, "reader")
        return f"{of}: {items}, order={wanted.order!r}, {readers}"

    @property
    def missing_files(self) -> dict[str, MultitablesError]:
        """Of several files, those that are left out with ``skip_missing=True``, and why."""
        return dict(self._opened.missing_files)

    @property
    def keys(self) -> list[str]:
        """The keys of all items, of all ranks; numbers in them are sorted as numbers."""
        return list(self._opened.items.keys)

    def names(self, key: str) -> list[str]:
        """Return the names of the datasets of an item.

        Raises
        ------
        KeyError
            There is no item of this key.
        """
        items = self._opened.items
        found = {key: item for item, key in enumerate(items.keys)}[key]
        return list(items.members(found).objects)

    @property
    def epochs(self) -> int | None:
        """Passes over the items in one iteration; None for no end."""
        return self._wanted.epochs

    @property
    def epoch(self) -> int:
        """The epoch with which the next iteration begins."""
        mark = self._bookmark
        return mark.epoch if mark.resumed is None else mark.resumed.epoch

    def set_epoch(self, epoch: int) -> None:
        """Let the next iteration begin with `epoch`; see `Batches.set_epoch`."""
        epoch = check_number("epoch", epoch)
        mark = self._bookmark
        if mark.resumed is None or mark.resumed.epoch != epoch:
            mark.epoch, mark.resumed, mark.progress = epoch, None, None

    def __len__(self) -> int:
        """Count the items of the next iteration, of this rank."""
        start = self._start()
        if start.stop is None:
            raise TypeError("items without end have no length: epochs is None")
        first = length(shard_of(start.ranges, self._shard)) - start.batches
        each = length(shard_of(self._everything(), self._shard))
        return first + each * (start.stop - start.epoch - 1)

    def order(self, epoch: int | None = None) -> list[str]:
        """Return the keys of an epoch in the order in which this rank delivers them.

        Parameters
        ----------
        epoch : int, optional
            The default is the one with which the next iteration begins.
        """
        wanted = self._bookmark.epoch if epoch is None else check_number("epoch", epoch)
        items = self._items(wanted, shard_of(self._everything(), self._shard))
        return [self._opened.items.keys[item] for item in items.tolist()]

    # ---- states

    def state_dict(self) -> dict[str, Any]:
        """Return a state of the latest iteration, to be saved.

        Returns
        -------
        dict
            Of JSON's types; see `Batches.state_dict`.
        """
        progress, latest = self._bookmark.progress, self._latest()
        if progress is not None and progress.is_through and (latest is None or latest.is_over):
            return state_of(self._start(), self._shard, self._identity())
        return self._state_of_pass()

    def _state_of_pass(self) -> dict[str, Any]:
        """Return the state of the latest iteration, also when it was left at its end."""
        progress = self._bookmark.progress
        position = self._start() if progress is None else progress.position
        return state_of(position, self._shard, self._identity())

    def load_state_dict(self, state: Any) -> None:
        """Let the next iteration go on where a state was taken, up to the end that it had.

        Parameters
        ----------
        state : dict, or list of dict
            As in `Batches.load_state_dict`: of this rank, of one rank, or of all.

        Raises
        ------
        OptionsError
            Not a state, or one of other items or another order.
        """
        position = position_of(state, self._shard, self._identity())
        mark = self._bookmark
        mark.epoch, mark.resumed, mark.progress = position.epoch, position, None

    def _identity(self) -> dict[str, Any]:
        return {
            "rows": len(self._opened.items),
            "order": self._wanted.order,
            "seed": self._wanted.seed,
            "keys": self._opened.checksum,
        }

    # ---- iterating

    def __iter__(self) -> ItemIterator:
        if self._closed:
            raise ClosedError(
                f"the collection of {file_title(self._spec.file.filename)} is closed",
                advice="Make a new one with get_collection",
            )
        start = self._start()
        self._bookmark.progress = Progress((start, 0))
        iterator = self._iterator(start)
        self._latest = weakref.ref(iterator)
        return self._iterators.add(iterator)

    def _iterator(self, start: Position) -> ItemIterator:
        wanted, opened = self._wanted, self._opened
        reader_options = options.checked(
            ReaderOptions,
            n_procs=wanted.n_procs.count,
            memory_limit_bytes=self._ring_bytes,
            cache_limit_bytes=None,
            library_timeout_seconds=None,  # the pool's readers have it
            trusted=True,  # so is what is indexed
        )
        readers = self._readers()
        try:
            service = Service(opened.filename, reader_options, None, readers)
            table = opened.table.core
            core = made(lambda: _core.SharedTable(service.queue, table), table.n_bytes)
            reader = ItemReader(
                service,
                self._spec.file,
                opened,
                core,
                skip_damaged=wanted.skip_damaged,
                kept_bytes=min(self._kept_bytes, self._ring_bytes // 2),
            )
            if self._shared is not None and not self._asked_scales and opened.shared:
                self._scales = self._shared.memory(reader.read_shared, reader.n_shared_bytes)
                self._asked_scales = True
            if self._scales is not None:
                reader.keep_shared(self._scales)
            steps = self._steps(start)
            give_back = self._pool.give_back()
            return ItemIterator(
                self._title(), reader, service, give_back, steps, self._bookmark, self._ring_bytes
            )
        except BaseException:
            readers.stop()
            raise

    def _readers(self) -> AnyReaders:
        opened, n_procs = self._opened, self._wanted.n_procs
        who = who_answers_items(opened.survey, opened.item_bytes, opened.direct, n_procs)
        if who is Answers.PROCESSES or self._wanted.share is not None:
            return self._pool.take(n_procs.count)
        return RequestThreads(n_procs.count, self._pool.library_timeout_seconds, who)

    def _steps(self, start: Position) -> Iterator[Step]:
        """Yield items of this rank, and where an iteration stands behind each."""
        position = start
        while position.stop is None or position.epoch < position.stop:
            items = self._items(position.epoch, shard_of(position.ranges, self._shard)).tolist()
            behind = Position(position.epoch + 1, position.stop, self._everything())
            for number in range(position.batches, len(items)):
                at = Position(position.epoch, position.stop, position.ranges, number + 1)
                ends_epoch = number + 1 == len(items)
                is_last = ends_epoch and behind.epoch == behind.stop
                yield Step(items[number], behind if ends_epoch and not is_last else at, is_last)
            if not items and position.stop is None:
                return
            position = behind

    def _items(self, epoch: int, ranges: Any) -> I64:
        """Return the items at some positions of an epoch."""
        wanted, n_items = self._wanted, len(self._opened.items)
        words = order_words(n_items, wanted.order, wanted.seed, epoch).words
        found = [_core.order_rows(words, b"", begin, end) for begin, end in ranges]
        items: I64 = np.concatenate([np.zeros(0, np.int64), *found])
        if wanted.order != "file":
            return items
        if self._file_order is None:
            self._file_order = in_file_order(self._opened.first_bytes)
        return self._file_order[items]

    def _everything(self) -> tuple[tuple[int, int], ...]:
        return ((0, len(self._opened.items)),)

    def _start(self) -> Position:
        mark, epochs = self._bookmark, self._wanted.epochs
        if mark.resumed is not None:
            return mark.resumed
        stop = None if epochs is None else mark.epoch + epochs
        return Position(mark.epoch, stop, self._everything())

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
        items = self._opened.items
        every = [items.members(item).objects for item in range(len(items))]
        if names is None:
            common = set.intersection(*map(set, every))
            names = [name for name in every[0] if name in common]
        known = set().union(*every)
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            raise OptionsError(
                f"no item of {self._opened.path!r} has {unknown[0]!r}"
                if unknown
                else f"there is no dataset that all items of {self._opened.path!r} have",
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
        opened = self._opened
        sizes = dict(zip(opened.items.keys, opened.item_bytes, strict=True))
        keys = self.order(self._bookmark.epoch)
        wanted = replace(
            self._wanted,
            epochs=1,
            n_procs=ReaderCount(1, threads=False),
            rank=0,
            world_size=1,
            share=None,
        )
        read = partial(_items_of, self._spec, wanted, self._pool.library_timeout_seconds)
        return bag_of(read, keys, [sizes[key] for key in keys])

    def statistics(self) -> dict[str, Any]:
        """Tell what the latest iteration has done; see `Reader.statistics`."""
        latest = self._latest()
        return self._bookmark.told if latest is None else latest.statistics()

    def close(self) -> None:
        """End all iterations and readers. Items that are held stay valid."""
        self._closed = True
        self._iterators.close()
        if self._shared is not None:
            self._shared.close()
        if self._own_pool is not None:
            self._own_pool.close()

    def __enter__(self) -> Collection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _again(spec: ItemSpec, wanted: CollectionOptions, timeout: float | None) -> Collection:
    alone = replace(wanted, share=None)
    return Collection(spec, alone, ReaderPool(True, timeout), owns_pool=True)


def _items_of(
    spec: ItemSpec, wanted: CollectionOptions, timeout: float | None, keys: Sequence[str]
) -> list[Item]:
    """Read the items of some keys, as copies."""
    pool, found = ReaderPool(True, timeout), []
    try:
        for key in keys:
            one = spec.only(key)
            items = Collection(one, wanted, pool, owns_pool=False)
            found += [item.copy() for item in items if item.key == key]
            items.close()
    finally:
        pool.close()
    return found


def _ring_bytes(opened: OpenedItems, wanted: CollectionOptions, kept_bytes: int) -> int:
    """Return the memory of items, and of scales that are kept, if it is enough for each item."""
    sizes = opened.item_bytes
    largest = max(range(len(sizes)), key=sizes.__getitem__)
    needed = 2 * (sizes[largest] + SPARE_BYTES)  # the one that is held, and the next
    ring_bytes = wanted.ring_bytes
    if ring_bytes is None:
        ring_bytes = max(options.REQUEST_BYTES, ITEMS_HELD * sizes[largest])
        ring_bytes = max(ring_bytes + kept_bytes, 2 * kept_bytes)
        ring_bytes = min(ring_bytes, machine.memory_limit_bytes())
    if ring_bytes < needed:
        raise OptionsError(
            f"item {opened.items.keys[largest]!r} of {opened.path!r} in {opened.filename!r} has "
            f"{sizes[largest]} bytes: expected ring_bytes of at least {needed}, as one item is "
            f"held while the next is read, got {ring_bytes}",
            advice="Give ring_bytes, or name fewer datasets in the path",
            option="ring_bytes",
            expected=needed,
            got=ring_bytes,
        )
    return ring_bytes
