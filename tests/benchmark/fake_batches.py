"""A library in the place of ours at training batches, over rows in memory: it may be faulty.

Law
---
1. It offers what the recipes for training batches use of the library's face, and no more.
2. It shuffles in its own manner: what is asked of an order holds of any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tables
from faulty_libraries import FakeQueue

from _multitables.benchmark.data import workloads

Lie = Callable[[Any, int], Any]
N_ROWS, BATCH_ROWS = 4100, 256


def truth(batch: Any, _at: int) -> Any:
    return batch


def rows_of_file(filename: str) -> Any:
    with tables.open_file(filename) as file:
        return file.get_node(workloads.PATH)[:]


@dataclass
class FakeLibrary:
    """`lie` gets each batch and its number in the epoch; `lied_order` each order."""

    lie: Lie = truth
    lied_order: Callable[[Any], Any] = lambda order: order

    def Streamer(self, filename: str) -> FakeBatchStreamer:  # noqa: N802  the face's name
        return FakeBatchStreamer(self, rows_of_file(filename))


@dataclass
class FakeBatchStreamer:
    library: FakeLibrary
    rows: Any

    def get_batches(
        self, _path: str, batch_size: int, *, seed: int, epochs: int = 1, **options: Any
    ) -> FakeBatches:
        shuffle = options.get("shuffle")
        return FakeBatches(self.library, self.rows, batch_size, seed, epochs, shuffle)

    def get_queue(self, _path: str, block_size: int, cyclic: bool, **_options: Any) -> FakeQueue:
        batches = FakeBatches(self.library, self.rows, block_size, 0, 10**6 if cyclic else 1, None)
        return FakeQueue(iter(batches))


@dataclass
class FakeBatches:
    library: FakeLibrary
    rows: Any
    batch_size: int
    seed: int
    epochs: int
    shuffle: Any
    closed: bool = field(default=False)

    def _order(self, epoch: int) -> Any:
        if not self.shuffle:
            return np.arange(len(self.rows))
        return np.random.default_rng([self.seed, epoch]).permutation(len(self.rows))

    def order(self, epoch: int) -> Any:
        return self.library.lied_order(self._order(epoch))

    def __iter__(self) -> Iterator[Any]:
        for epoch in range(self.epochs):
            order = self._order(epoch)
            for at, start in enumerate(range(0, len(order), self.batch_size)):
                wanted = order[start : start + self.batch_size]
                yield self.library.lie(self.rows[wanted], at)

    def statistics(self) -> dict[str, Any]:
        return {"read_amplification": 1.5, "others": {}}

    def __enter__(self) -> FakeBatches:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.closed = True
