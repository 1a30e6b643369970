"""Faulty libraries: what the data check must find.

Law
---
1. A faulty library takes the place of a contender, and offers the library's face over rows in
   memory.
2. Each lie is one fault that a broken reader would make.
3. Many children import it: what it needs of the benchmark is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from _multitables.benchmark.contenders.streams import Stream
    from _multitables.benchmark.contract import Source
    from _multitables.benchmark.studies.sweep.lines import MakeContender


def _one_bit(block: Any, at: int) -> Any:
    block = block.copy()
    if at == 0:
        block.view(np.uint8).flat[7] ^= 1
    return block


# what a contender may do to its blocks: (block, number of the block) -> block
LIES: dict[str, Callable[[Any, int], Any]] = {
    "one bit": _one_bit,
    "zeros": lambda block, at: np.zeros_like(block),
    "a row less": lambda block, at: block[at == 0 :],
    "a row twice": lambda block, at: np.concatenate([block[:1], block]) if at == 0 else block,
    "rows swapped": lambda block, at: block[::-1] if at == 0 else block,
    "a row for another": lambda block, at: np.concatenate([block[1:2], block[1:]]),
    "bytes swapped": lambda block, at: block.byteswap(),
}


@dataclass
class FakeStreamer:
    """What the library's face offers, over rows in memory, with a lie in the blocks."""

    rows: Any
    lie: Callable[[Any, int], Any]

    def blocks(self) -> Iterator[Any]:
        for at, start in enumerate(range(0, len(self.rows), 64)):
            yield self.lie(self.rows[start : start + 64], at)

    def get_queue(self, path: str, **options: Any) -> FakeQueue:
        return FakeQueue(self.blocks(), options)

    def get_batches(self, path: str, batch_size: int, **options: Any) -> FakeBatches:
        return FakeBatches(self)

    def get_generator(self, path: str, **options: Any) -> Iterator[Any]:
        for block in self.blocks():
            yield from block


@dataclass
class FakeBatches:
    streamer: FakeStreamer

    def __iter__(self) -> Iterator[Any]:
        return self.streamer.blocks()

    def __enter__(self) -> FakeBatches:
        return self

    def __exit__(self, *_exception: object) -> None:
        pass


@dataclass
class FakeQueue:
    blocks: Iterator[Any]
    options: dict[str, Any] = field(default_factory=dict)

    def iter(self) -> Iterator[FakeGuard]:
        return (FakeGuard(block) for block in self.blocks)

    def close(self) -> None:
        pass


@dataclass
class FakeGuard:
    block: Any

    def __enter__(self) -> Any:
        return self.block

    def __exit__(self, *_exception: object) -> None:
        pass


def fake_stream(
    lie: Callable[[Any, int], Any], only: tuple[str, int] | None = None
) -> MakeContender:
    """`Stream` over a library that lies, in every cell or only in one."""
    import tables

    from _multitables.benchmark.contenders.streams import Stream

    def make(
        source: Source, access: str, n_procs: int, options: Any, _cold: bool = False
    ) -> Stream:
        if only not in (None, (access, n_procs)):
            return Stream(source, access, n_procs, options)

        def open_streamer(filename: str, **_options: Any) -> FakeStreamer:
            with tables.open_file(filename) as file:
                return FakeStreamer(file.get_node(source.path)[:], lie)

        return Stream(source, access, n_procs, open_streamer=open_streamer)

    return make
