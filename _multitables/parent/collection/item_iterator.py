"""One iteration over a collection: its items, the requests ahead of the user, and its position.

Law
---
1. Items come in the order of their epoch, each once. What counts as delivered was handed out.
2. Requests run ahead of the user, so that readers have work: at least one item more than there are
   readers, and `AHEAD_BYTES`. Only a request for the next item waits for memory.
3. However an iteration ends, its readers end or go back to where they came from.
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
from _multitables.parent.random.service import Service
from _multitables.parent.readers.supervisor import Readers
from _multitables.plan.checkpoint import Position

#: Bytes of items that are asked for ahead, and how many items at most.
AHEAD_BYTES = 32 << 20
MAX_AHEAD = 64


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
        give_back: Callable[[Readers, bool], None],
        steps: Iterator[Step],
        bookmark: Bookmark,
    ) -> None:
        assert bookmark.progress is not None
        self._title = title
        self._reader, self._service = reader, service
        self._steps = steps
        self._bookmark = bookmark
        self._progress: Progress = bookmark.progress
        self._asked: deque[tuple[Asked, Step]] = deque()
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
            self._count(step)
            self._go_on(waits=False)
        except (StopIteration, KeyboardInterrupt):
            raise
        except BaseException:
            self._finalizer.detach()
            self._service.leave(_no_readers, False)
            raise
        return item

    def _go_on(self, *, waits: bool) -> None:
        """Request the next items while there is memory; the first one may wait for it."""
        try:
            while True:
                if self._asked and (last := self._asked[-1][0]).todo:
                    self._reader.ask(last, None if waits and len(self._asked) == 1 else 0)
                n_bytes = sum(asked.n_bytes for asked, _ in self._asked)
                n_items, least = len(self._asked), self._service.n_readers + 1
                if n_items >= MAX_AHEAD or (n_items >= least and n_bytes >= AHEAD_BYTES):
                    return
                step = next(self._steps, None)
                if step is None:
                    return
                self._asked.append((self._reader.begin(step.item), step))
        except _core.Exhausted:
            pass  # the user takes an earlier item first, which gives memory back

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


def _no_readers(readers: Readers, sound: bool) -> None:
    readers.stop()
