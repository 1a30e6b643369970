"""What loops over objects have in common: marks in the proxy's log, and what they tell.

Law
---
1. A mark is a request of its own, outside the clock.
2. A checked pass answers with hashes, a timed one with counts; all loops do the same.
3. It is imported by its neighbours: standard library and NumPy.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
from typing import Any, Protocol

import numpy as np

if __package__:
    from _benchmark.loops import stream_loop
else:  # run as a program
    import stream_loop  # type: ignore[import-not-found,no-redef]

PATH = "/clock"


def mark(endpoint: str) -> None:
    """Leave a mark in the log of the proxy, if there is one."""
    if not endpoint:
        return
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=60)
    with contextlib.closing(connection):
        connection.request("HEAD", PATH)
        connection.getresponse().read()


def hashed(*what: Any) -> Any:
    """A hash of names, shapes, types and bytes."""
    whole = hashlib.sha256()
    for one in what:
        whole.update(one if isinstance(one, (bytes, memoryview)) else repr(one).encode())
    return np.frombuffer(whole.digest(), np.uint64)[0]


class Sees(Protocol):
    """Takes in datasets."""

    def see(self, name: str, values: Any) -> None: ...


class Seen:
    """Datasets that were read: how many and how many bytes and, where that is checked, hashes."""

    def __init__(self, checks: bool) -> None:
        self._checks = checks
        self._hashes: list[Any] = []
        self._counts = [0, 0]

    def see(self, name: str, values: Any) -> None:
        """Take in one dataset."""
        self._counts[0] += 1
        self._counts[1] += values.nbytes
        if self._checks:
            shape, kind = tuple(map(int, values.shape)), values.dtype.str
            self._hashes.append(hashed(name, shape, kind, np.ascontiguousarray(values).tobytes()))

    def result(self) -> Any:
        """The hashes, or how many datasets and bytes."""
        return np.array(self._hashes, np.uint64) if self._checks else self._counts


def told(task: str, verb: str, found: list[Any], seconds: float) -> Any:
    """What a loop answers of the parts that were read."""
    if verb == "check":
        return stream_loop.summed_up(np.concatenate(found))
    if task == "batches":
        digest = stream_loop.digest_of(iter(found))
        return {"seconds": seconds, "n_keys": len(found), "digest": digest}
    if task == "structure":
        return {"seconds": seconds, "n": sum(map(len, found))}
    return {"seconds": seconds, "n": np.sum(found, axis=0).tolist()}
