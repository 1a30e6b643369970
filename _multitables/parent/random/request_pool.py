"""Requests in order, from one thread to another.

Law
---
1. First in, first out; taking waits while the pool is empty.
2. Knows nothing of what it keeps.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Any

from _multitables.errors import public


@public
class RequestPool:
    """Requests in the order in which they were added, for one thread to make and another to take.

    Examples
    --------
    >>> pool = multitables.RequestPool()  # doctest: +SKIP
    >>> pool.add(reader.request(dataset[0:10], stages))  # doctest: +SKIP
    >>> rows = pool.next().get()  # doctest: +SKIP
    """

    def __init__(self) -> None:
        self._requests: deque[Any] = deque()
        self._changed = threading.Condition()

    def add(self, req: Any) -> None:
        """Add a request at the end."""
        with self._changed:
            self._requests.append(req)
            self._changed.notify()

    def next(self) -> Any:
        """Take the oldest request; wait for one while the pool is empty."""
        with self._changed:
            while not self._requests:
                self._changed.wait()
            return self._requests.popleft()

    def __len__(self) -> int:
        return len(self._requests)
