"""Readers that rest between two streams of one owner.

Law
---
1. Readers serve one stream at a time. When it ends or is left they rest here, if the owner keeps
   them; after an error they end.
2. Readers that rest end when the owner is closed or dropped.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from _multitables.parent.readers.request_threads import RequestThreads
from _multitables.parent.readers.supervisor import Readers
from _multitables.parent.readers.threads import Threads

if TYPE_CHECKING:
    from _multitables.plan.reader_options import ReaderCount


class ReaderPool:
    """The readers of one `Streamer` or `Batches`."""

    def __init__(self, keep: bool, library_timeout_seconds: float | None) -> None:
        #: Readers rest after a stream instead of ending.
        self.keep = keep
        self.library_timeout_seconds = library_timeout_seconds
        self._lock = threading.Lock()
        self._resting: list[Readers] = []
        self._finalizer = weakref.finalize(self, _stop_all, self._resting)

    def take(self, count: int) -> Readers:
        """Return `count` readers: rested ones, or new ones."""
        with self._lock:
            for at, readers in enumerate(self._resting):
                if len(readers) == count and readers.mine:
                    return self._resting.pop(at)
        return Readers(count, self.library_timeout_seconds)

    def keeping(self) -> tuple[ReaderPool, ReaderPool | None]:
        """Return a pool that keeps readers between streams, and the same again if it is new."""
        if self.keep:
            return self, None
        pool = ReaderPool(True, self.library_timeout_seconds)
        return pool, pool

    @contextmanager
    def starting(self, wanted: ReaderCount) -> Iterator[Readers | None]:
        """Start processes that are needed in any case, and end them if what follows fails.

        They start while the file is indexed. None: it is not known yet who reads.
        """
        readers = self.take(wanted.count) if wanted.threads is False else None
        try:
            yield readers
        except BaseException:
            if readers is not None:
                readers.stop()
            raise

    def give_back(self) -> Callable[[Readers | Threads | RequestThreads, bool], None]:
        """Return what a stream does with its readers at its end, without holding the pool."""
        itself = weakref.ref(self)

        def give_back(readers: Readers | Threads | RequestThreads, sound: bool) -> None:
            reader_pool, rests = itself(), False
            try:
                rests = reader_pool is not None and reader_pool.keep and sound and readers.rest()
            finally:  # Ctrl-C may come while we wait for them
                if not rests:
                    readers.stop()
            if reader_pool is not None and rests and isinstance(readers, Readers):
                with reader_pool._lock:
                    reader_pool._resting.append(readers)

        return give_back

    def close(self) -> None:
        """End all who rest, now and from now on."""
        self.keep = False
        _stop_all(self._resting)


def _stop_all(resting: list[Readers]) -> None:
    while resting:
        resting.pop().stop()
