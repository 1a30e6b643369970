"""What loops over objects have in common: marks in the proxy's log, and what they tell.

Law
---
1. A mark is a request of its own, outside the clock.
2. A checked pass answers with hashes, a timed one with counts; all loops do the same.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np

from . import stream_loop
from .shell import Clock

PATH = "/clock"


def mark(endpoint: str) -> None:
    """Leave a mark in the log of the proxy, if there is one."""
    if not endpoint:
        return
    connection = http.client.HTTPConnection(endpoint.removeprefix("http://"), timeout=60)
    with contextlib.closing(connection):
        connection.request("HEAD", PATH)
        connection.getresponse().read()


@contextlib.contextmanager
def marked(endpoint: str) -> Iterator[Clock]:
    """A clock that runs between two marks."""
    mark(endpoint)
    with Clock() as clock:
        yield clock
    mark(endpoint)


def hashed(*what: Any) -> Any:
    """A hash of names, shapes, types and bytes."""
    whole = hashlib.sha256()
    for one in what:
        whole.update(one if isinstance(one, (bytes, memoryview)) else repr(one).encode())
    return np.frombuffer(whole.digest(), np.uint64)[0]


def structure(file: Any, checks: bool, look: Callable[[Any], None] = lambda _dataset: None) -> Any:
    """A hash of path, shape and type of every dataset, after a look at it; zeros unchecked."""
    found: list[Any] = []

    def visit(name: str, one: Any) -> None:
        if hasattr(one, "shape"):
            look(one)
            facts = f"/{name}", tuple(map(int, one.shape)), one.dtype.str
            found.append(hashed(*facts) if checks else 0)

    file.visititems(visit)
    return np.array(found, np.uint64)


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


def answer(task: str, verb: str, found: list[Any], seconds: float) -> Any:
    """What a loop answers of the parts that were read."""
    if verb == "check":
        return stream_loop.summed_up(np.concatenate(found))
    if task == "batches":
        digest = stream_loop.digest_of(iter(found))
        return {"seconds": seconds, "n_keys": len(found), "digest": digest}
    if task == "structure":
        return {"seconds": seconds, "n": sum(map(len, found))}
    return {"seconds": seconds, "n": np.sum(found, axis=0).tolist()}
