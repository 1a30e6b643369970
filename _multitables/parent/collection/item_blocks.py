"""The items of a collection as a source of blocks: the requests ahead of the user.

Law
---
1. Items come in the given order, each once.
2. Requests run ahead of the user, so that readers have work: at least one item more than there are
   readers, and `AHEAD_BYTES`. Only a request for the next item waits for memory. Where the user's
   own thread reads, none runs ahead: its memory would be cold when the user takes the item.
3. Small items of a store share a request, because a reader waits for the network once for each
   request. Requests double in size, so that the first item comes early.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from _multitables import _core
from _multitables.parent.collection.item_reader import Asked, ItemReader
from _multitables.parent.random.service import AnyReaders, Service
from _multitables.parent.readers.request_threads import RequestThreads
from _multitables.parent.stream.block_source import BlockSource

#: Bytes of items that are asked for ahead, and how many items at most.
AHEAD_BYTES = 32 << 20
#: The same where threads copy them, which need no more than one item ahead of the user.
COPIED_AHEAD_BYTES = 4 << 20
MAX_AHEAD = 64
#: Bytes of the items of a store that share a request.
JOINED_BYTES = 8 << 20


class ItemBlocks(BlockSource):
    """Items as blocks, each of one row."""

    def __init__(
        self,
        reader: ItemReader,
        service: Service,
        give_back: Callable[[AnyReaders, bool], None],
        items: Iterator[list[int]],
        ring_bytes: int,
    ) -> None:
        self.missing_files = {}
        self._reader, self.service, self._give_back = reader, service, give_back
        #: The items of each epoch, and those of the current one that were not requested yet.
        self._epochs, self._items = items, deque[int]()
        self._asked: deque[Asked] = deque()
        self._unsent: deque[Asked] = deque()
        self._ahead_bytes = 0
        self._least_ahead, self._least_bytes = service.n_readers + 1, AHEAD_BYTES
        if isinstance(service.readers, RequestThreads):
            is_ahead = service.readers.is_started
            self._least_ahead, self._least_bytes = int(is_ahead), COPIED_AHEAD_BYTES * is_ahead
        self._n_joined = 1
        self._joined_bytes = min(JOINED_BYTES, ring_bytes // 8) if reader.is_remote else 0

    def take(self, deadline: float) -> Any:
        """Return the guard of the next item; only iterations take them, which have no deadline."""
        self._go_on(waits=True)
        if not self._asked:
            return None
        asked = self._asked[0]
        item = self._reader.item(asked)
        self._asked.popleft()
        if self._unsent and self._unsent[0] is asked:  # `item` sent its request
            self._unsent.popleft()
        self._ahead_bytes -= asked.n_bytes
        self._go_on(waits=False)
        return self.guard(item)

    def _go_on(self, *, waits: bool) -> None:
        """Request the next items while there is memory; the first one may wait for it."""
        least = max(self._least_ahead, waits)
        try:
            while True:
                while self._unsent:
                    first = self._unsent[0]
                    is_next = waits and first is self._asked[0]
                    self._reader.ask(first, None if is_next else 0)
                    self._unsent.popleft()
                n_items = len(self._asked)
                is_enough = n_items >= least and self._ahead_bytes >= self._least_bytes
                if n_items >= MAX_AHEAD or is_enough or not (items := self._joined()):
                    return
                begun = self._reader.begin(items)
                self._asked += begun
                self._unsent += begun
                self._ahead_bytes += sum(asked.n_bytes for asked in begun)
        except _core.Exhausted:
            pass  # the user takes an earlier item first, which gives memory back

    def _joined(self) -> list[int]:
        """Return the next items, which share a request; it has each item once."""
        if not self._items:  # the next epoch has the same items
            self._items.extend(next(self._epochs, ()))
        items: list[int] = []
        n_bytes = 0
        while self._items:
            items.append(self._items.popleft())
            n_bytes += self._reader.n_bytes(items[-1])
            if len(items) == self._n_joined or n_bytes >= self._joined_bytes:
                break
        most = max(1, MAX_AHEAD // (self.service.n_readers + 1))
        self._n_joined = min(2 * self._n_joined, most)
        return items

    def ready(self) -> int:
        """Count the items that need not be waited for."""
        return sum(1 for _ in itertools.takewhile(self._reader.done, list(self._asked)))

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the requests, as `Reader.statistics` does."""
        return self._reader.statistics()

    def end(self, sound: bool) -> None:
        """End the requests, and give the readers back."""
        self.service.leave(self._give_back, sound)
        self._asked.clear()
        self._unsent.clear()
