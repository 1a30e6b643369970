"""What ends with an object that has given it out: queues of a `Streamer`, iterations of `Batches`.

Law
---
1. What comes after the end is ended at once, so `close` in one thread leaves nothing of what
   another one starts at the same moment.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar


class _Ends(Protocol):
    def close(self) -> None: ...


T = TypeVar("T", bound=_Ends)


class Dependents(Generic[T]):
    """Objects that are not held, and end together."""

    def __init__(self) -> None:
        # Garbage is collected in the middle of a call, and may call again.
        self._lock = threading.RLock()
        self._all: weakref.WeakSet[T] = weakref.WeakSet()
        self._closed = False

    def add(self, one: T) -> T:
        """Have one more, and return it."""
        with self._lock:
            self._all.add(one)
            closed = self._closed
        if closed:
            one.close()
        return one

    def __iter__(self) -> Iterator[T]:
        with self._lock:
            return iter(list(self._all))

    def close(self) -> None:
        """End all of them, now and from now on."""
        self._closed = True
        for one in self:
            one.close()
