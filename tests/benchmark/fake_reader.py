"""A reader in the place of the library's, over rows in memory: it may be faulty, and it counts.

Law
---
1. It offers what the loop of random access uses of 2.x's API, and no more.
2. It is strict: a request needs a free stage, and a stage is free when its view was given back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Lie = Callable[[Any, int], Any]


def truth(rows: Any, _at: int) -> Any:
    return rows


@dataclass
class FakeReader:
    """`lie` gets the rows of each request, and its number."""

    rows: Any
    lie: Lie = truth
    requested: list[Any] = field(default_factory=list)
    pending: int = 0
    most_pending: int = 0
    stopped: bool = False

    def get_dataset(self, _path: str) -> FakeReader:
        return self

    def create_stage_pool(self, n_rows: int, num_stages: int) -> FakePool:
        return FakePool(n_rows, num_stages)

    def __getitem__(self, key: Any) -> Any:
        return key

    def request(self, key: Any, pool: FakePool | None = None) -> FakeRequest:
        rows = self.rows[key]
        self.requested.append(key)
        self.pending += 1
        self.most_pending = max(self.pending, self.most_pending)
        if pool is not None:
            assert rows.ndim < self.rows.ndim or len(rows) <= pool.n_rows
            pool.free -= 1
            assert pool.free >= 0
        return FakeRequest(self, self.lie(rows, len(self.requested) - 1), pool)

    def stop(self) -> None:
        self.stopped = True


@dataclass
class FakePool:
    n_rows: int
    free: int


@dataclass
class FakeRequest:
    reader: FakeReader
    rows: Any
    pool: FakePool | None

    def get(self) -> Any:
        with self.get_unsafe() as rows:
            return rows.copy()

    @contextlib.contextmanager
    def get_unsafe(self) -> Iterator[Any]:
        yield self.rows
        self.reader.pending -= 1
        if self.pool is not None:
            self.pool.free += 1
