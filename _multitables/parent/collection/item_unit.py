"""Items as the unit of a loader: their order, and the stream of an epoch's items.

Law
---
1. An item counts as a batch of one row.
2. Damage is noted once for all iterations: what does not decode is not requested again.
"""

from __future__ import annotations

import itertools
import mmap
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from _multitables import _core, machine, options
from _multitables.errors import CorruptChunkError, MultitablesError, OptionsError
from _multitables.index.chunk_index import I64
from _multitables.parent.batches.unit import EpochRun, FileUnit
from _multitables.parent.collection.item import Item
from _multitables.parent.collection.item_blocks import ItemBlocks
from _multitables.parent.collection.item_reader import ItemReader
from _multitables.parent.collection.item_spec import ItemSpec
from _multitables.parent.collection.open_items import OpenedItems, open_items
from _multitables.parent.random.service import AnyReaders, Service
from _multitables.parent.random.stage import made
from _multitables.parent.readers.reader_choice import who_answers_items
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.readers.request_threads import Answers, RequestThreads
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count, title
from _multitables.plan.collection import in_file_order, order_words
from _multitables.plan.reader_options import CollectionOptions, ReaderOptions
from _multitables.plan.sharding import Ranges

#: Scales that items share are kept in one part in this many of the memory that is available: then
#: each is decoded once, in any order of items.
KEPT_SHARE = 8
#: Bytes that an item may take more than its datasets: whole pages.
SPARE_BYTES = 64 << 10
#: Items of the largest size that the ring holds, if it is left to the library.
ITEMS_HELD = 4


class ItemUnit(FileUnit):
    """Items of many datasets."""

    noun, maker = "item", "get_collection"
    spec: ItemSpec
    wanted: CollectionOptions

    def __init__(self, spec: ItemSpec, wanted: CollectionOptions, pool: ReaderPool) -> None:
        self.opened: OpenedItems = open_items(spec)
        share = machine.available_bytes() // KEPT_SHARE
        self._kept_bytes = min(self.opened.shared_bytes, share)
        self._ring_bytes = _ring_bytes(self.opened, wanted, self._kept_bytes)
        self._file_order: I64 | None = None
        self._damaged: dict[int, CorruptChunkError] = {}
        #: Scales that ranks of this node have in common, when they were read.
        self._scales: mmap.mmap | None = None
        self._asked_scales = False
        #: The service and reader of single items, and their finalizer.
        self._single: tuple[Service, ItemReader, weakref.finalize[Any, Any]] | None = None
        self._lock = threading.Lock()
        purpose = f"{spec.path!r} by {spec.by!r} in {spec.file.filename!r}"
        super().__init__(spec, wanted, pool, purpose)

    @property
    def elsewhere(self) -> CollectionOptions:
        """The options of the same items in another process, which reads all scales itself."""
        return replace(self.wanted, share=None)

    def title(self) -> str:
        """Describe the items for messages."""
        opened, wanted = self.opened, self.wanted
        of = title(opened.filename, [(opened.path, None)])
        items, readers = count(len(opened.items), "item"), count(wanted.n_procs.count, "reader")
        return f"{of}: {items}, order={wanted.order!r}, {readers}"

    @property
    def missing_files(self) -> Mapping[str, MultitablesError]:
        """Of several files, those that are left out, and why."""
        return self.opened.missing_files

    @property
    def damage(self) -> list[CorruptChunkError]:
        """The damage of the datasets that were left out so far."""
        return list(self._damaged.values())

    def identity(self) -> dict[str, Any]:
        """Return all that an order depends on."""
        return {
            "rows": len(self.opened.items),
            "order": self.wanted.order,
            "seed": self.wanted.seed,
            "keys": self.opened.checksum,
        }

    def items(self, epoch: int, ranges: Ranges) -> I64:
        """Return the items at some positions of an epoch."""
        wanted, n_items = self.wanted, len(self.opened.items)
        words = order_words(n_items, wanted.order, wanted.seed, epoch).words
        found = [_core.order_rows(words, b"", begin, end) for begin, end in ranges]
        items: I64 = np.concatenate([np.zeros(0, np.int64), *found])
        if wanted.order != "file":
            return items
        if self._file_order is None:
            self._file_order = in_file_order(self.opened.first_bytes)
        return self._file_order[items]

    def start(self, run: EpochRun) -> StreamQueue | None:
        """Return the stream of a run, if this rank gets an item of it."""
        if not run.batches:
            return None
        last = None if run.epochs is None else run.first_epoch + run.epochs
        epochs = itertools.count(run.first_epoch) if last is None else range(run.first_epoch, last)
        items: Iterator[list[int]] = (self.items(n, run.ranges).tolist() for n in epochs)
        service, reader = self._started()
        blocks = ItemBlocks(reader, service, self.pool.give_back(), items, self._ring_bytes)
        return StreamQueue(blocks)

    def item(self, number: int) -> Item:
        """Read one item."""
        with self._lock:
            if self._single is None or not self._single[0].mine:
                service, reader = self._started()
                give_back = self.pool.give_back()
                end = weakref.finalize(self, service.leave, give_back, True)
                self._single = service, reader, end
            service, reader, end = self._single
            try:
                return reader.item(reader.begin([number])[0])
            except BaseException:
                self._single = None
                end()
                raise

    def _started(self) -> tuple[Service, ItemReader]:
        """Return a started service, and a reader of items that requests from it."""
        wanted, opened = self.wanted, self.opened
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
                self.spec.file,
                opened,
                core,
                skip_damaged=wanted.skip_damaged,
                damaged=self._damaged,
                kept_bytes=min(self._kept_bytes, self._ring_bytes // 2),
            )
            if self._shared is not None and not self._asked_scales and opened.shared:
                self._scales = self._shared.memory(reader.read_shared, reader.n_shared_bytes)
                self._asked_scales = True
            if self._scales is not None:
                reader.keep_shared(self._scales)
            return service, reader
        except BaseException:
            readers.stop()
            raise

    def _readers(self) -> AnyReaders:
        opened, n_procs = self.opened, self.wanted.n_procs
        who = who_answers_items(opened.survey, opened.item_bytes, opened.direct, n_procs)
        if who is Answers.PROCESSES or self.wanted.share is not None:
            return self.pool.take(n_procs.count)
        return RequestThreads(n_procs.count, self.pool.library_timeout_seconds, who)

    def close(self) -> None:
        """Leave the readers of single items, and those that ranks share."""
        single, self._single = self._single, None
        if single is not None:
            single[2]()
        super().close()


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
