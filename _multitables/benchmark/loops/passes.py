"""A pass over arrays, as most recipes give it: its digest, and its time.

Law
---
1. The clock runs over the second pass: libraries are imported by then, memory was touched, and
   readers run where a library keeps them.
2. It runs beside any loop: standard library and NumPy only.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import stream_loop

#: Begins a pass over arrays, rows first.
Pass = Callable[[], Iterator[Any]]


def check(arrays: Pass, _request: Any) -> dict[str, Any]:
    """The digest of the rows of a pass."""
    return stream_loop.digest_of(arrays())


def time_second(arrays: Pass, _request: Any) -> dict[str, Any]:
    """The result of `timed` for a second pass."""
    for array in arrays():
        del array
    return timed(arrays())


def timed(arrays: Iterable[Any]) -> dict[str, Any]:
    """Seconds, those until the first array, and how many arrays and bytes came."""
    n = n_bytes = 0
    first_seconds = 0.0
    start = time.perf_counter()
    for array in arrays:
        first_seconds = first_seconds or time.perf_counter() - start
        n += 1
        n_bytes += array.nbytes
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "first_seconds": first_seconds, "n": n, "n_bytes": n_bytes}


def ahead(requests: Iterable[Any], n: int) -> Iterator[Any]:
    """The requests in their order; the next `n` are on their way meanwhile."""
    pending: deque[Any] = deque()
    for request in requests:
        pending.append(request)
        if len(pending) == n:
            yield pending.popleft()
    while pending:
        yield pending.popleft()


class Rows:
    """Rows that were read: their bytes or, where they are checked, the hash of each."""

    def __init__(self, checks: bool) -> None:
        self._digest = stream_loop.Digest() if checks else None
        self._n_bytes = 0

    def see(self, block: Any) -> None:
        """Take in a block."""
        self._n_bytes += block.nbytes
        if self._digest:
            self._digest.see(block)

    def result(self) -> Any:
        """The hashes, or how many bytes."""
        return self._digest.hashes() if self._digest else self._n_bytes


VERBS = {"check": check, "time": time_second}
