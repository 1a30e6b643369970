"""One iteration over a collection: its items, the requests ahead of the user, and its position.

Law
---
1. Items come in the order of their epoch, each once. What counts as delivered was handed out.
2. Requests run ahead of the user, so that readers have work: at least one item more than there are
   readers, and `AHEAD_BYTES`. Only a request for the next item waits for memory. Where the user's
   own thread reads, none runs ahead: its memory would be cold when the user takes the item.
3. Small items of a store share a request, because a reader waits for the network once for each
   request. Each request has twice as many items as the last, so that the first item comes early.
4. However an iteration ends, its readers end or go back to where they came from.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from _multitables import _core
from _multitables.parent.batches.batch_iterator import Bookmark, Progress
from _multitables.parent.collection.item import Item
from _multitables.parent.collection.item_reader import Asked, ItemReader
from _multitables.parent.random.service import AnyReaders, Service
from _multitables.parent.readers.request_threads import RequestThreads
from _multitables.plan.checkpoint import Position

#: Bytes of items that are asked for ahead, and how many items at most.
AHEAD_BYTES = 32 << 20
#: The same where threads copy them, which need no more than one item ahead of the user.
COPIED_AHEAD_BYTES = 4 << 20
MAX_AHEAD = 64
#: Bytes of the items of a store that share a request.
JOINED_BYTES = 8 << 20


@dataclass(frozen=True)
class Step:
    """An item to come, and where the iteration stands behind it."""

    item: int
    behind: Position
    is_last: bool


class ItemIterator(Iterator[Item]):
    """One iteration of a `Collection`: yields items, and ends its readers when it is left."""

    def __init__(
        self,
        title: str,
        reader: ItemReader,
        service: Service,
        give_back: Callable[[AnyReaders, bool], None],
        steps: Iterator[Step],
        bookmark: Bookmark,
        ring_bytes: int,
    ) -> None:
        assert bookmark.progress is not None
        self._title = title
        self._reader, self._service = reader, service
        self._steps = steps
        self._bookmark = bookmark
        self._progress: Progress = bookmark.progress
        self._asked: deque[tuple[Asked, Step]] = deque()
        self._unsent: deque[Asked] = deque()
        self._ahead_bytes = 0
        self._least_ahead, self._least_bytes = service.n_readers + 1, AHEAD_BYTES
        if isinstance(service.readers, RequestThreads):
            is_ahead = service.readers.is_started
            self._least_ahead, self._least_bytes = int(is_ahead), COPIED_AHEAD_BYTES * is_ahead
        self._n_joined = 1
        self._joined_bytes = min(JOINED_BYTES, ring_bytes // 8) if reader.is_remote else 0
        self._finalizer = weakref.finalize(self, service.leave, give_back, True)
        # It has come to its end, and its user was told so.
        self.is_over = False

    def __repr__(self) -> str:
        state = "open" if self._finalizer.alive else "closed"
        return f"<ItemIterator of {self._title}, {self._progress}, {state}>"

    def __next__(self) -> Item:
        if not self._finalizer.alive:
            raise StopIteration
        if not self._service.mine:
            raise self._service.closed_error()
        try:
            self._go_on(waits=True)
            if not self._asked:
                self._end()
                raise StopIteration
            asked, step = self._asked[0]
            item = self._reader.item(asked)
            self._asked.popleft()
            if self._unsent and self._unsent[0] is asked:  # `item` sent its request
                self._unsent.popleft()
            self._ahead_bytes -= asked.n_bytes
            self._count(step)
            self._go_on(waits=False)
        except (StopIteration, KeyboardInterrupt):
            raise
        except BaseException:
            if not self._finalizer.alive:  # another thread has closed it
                raise StopIteration from None
            self._finalizer.detach()
            self._service.leave(_no_readers, False)
            raise
        return item

    def _go_on(self, *, waits: bool) -> None:
        """Request the next items while there is memory; the first one may wait for it."""
        least = max(self._least_ahead, waits)
        try:
            while True:
                while self._unsent:
                    first = self._unsent[0]
                    is_next = waits and first is self._asked[0][0]
                    self._reader.ask(first, None if is_next else 0)
                    self._unsent.popleft()
                n_items = len(self._asked)
                is_enough = n_items >= least and self._ahead_bytes >= self._least_bytes
                if n_items >= MAX_AHEAD or is_enough or not (steps := self._joined()):
                    return
                begun = self._reader.begin([step.item for step in steps])
                self._asked += zip(begun, steps, strict=True)
                self._unsent += begun
                self._ahead_bytes += sum(asked.n_bytes for asked in begun)
        except _core.Exhausted:
            pass  # the user takes an earlier item first, which gives memory back

    def _joined(self) -> list[Step]:
        """Return the next steps, whose items share a request; it has each item once."""
        steps: list[Step] = []
        n_bytes = 0
        for step in self._steps:
            steps.append(step)
            n_bytes += self._reader.n_bytes(step.item)
            is_enough = len(steps) == self._n_joined or n_bytes >= self._joined_bytes
            if is_enough or not step.behind.batches:  # the next epoch has the same items
                break
        most = max(1, MAX_AHEAD // (self._service.n_readers + 1))
        self._n_joined = min(2 * self._n_joined, most)
        return steps

    def _count(self, step: Step) -> None:
        """Stand behind an item; behind the last one of the last epoch, the iteration is through."""
        progress = self._progress
        progress.at = step.behind, 0
        progress.is_through = step.is_last
        if step.is_last:
            self._bookmark.epoch = step.behind.epoch + 1
        if progress is self._bookmark.progress:
            self._bookmark.resumed = None

    def _end(self) -> None:
        self.is_over = True
        self._tell()
        self._finalizer()

    def _tell(self) -> None:
        self._bookmark.told = self._reader.statistics()

    def statistics(self) -> dict[str, object]:
        """Tell what this iteration has done; see `Reader.statistics`."""
        return self._reader.statistics() if self._finalizer.alive else self._bookmark.told

    def close(self) -> None:
        """End this iteration. Items that are held stay valid. May be called again."""
        if self._finalizer.alive:
            self._tell()
        self._finalizer()
        self._asked.clear()
        self._unsent.clear()


def _no_readers(readers: AnyReaders, sound: bool) -> None:
    readers.stop()
