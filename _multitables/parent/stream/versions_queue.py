"""Blocks of several versions in lock-step, put together from a stream of their chunks.

Law
---
1. Each chunk is decoded once, and lies in the ring once: versions that have it get the same view.
   Only where several chunks lie beside each other, rows are copied, once for equal ones.
2. A block is complete or does not come: what was received of it is kept until the rest is there.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from _multitables.errors import QueueClosed
from _multitables.index.chunk_index import ChunkIndex, grid_of
from _multitables.parent.stream.stream_queue import StreamQueue
from _multitables.parent.titles import count
from _multitables.plan.shared_chunks import SharedChunks


class VersionsQueue(StreamQueue):
    """Blocks of several versions of a dataset; made by `Streamer.get_queue`.

    A block is a dict from the names of the versions to the same rows of each. Where a version has
    fewer rows, its array is shorter, or has none. Versions whose rows are stored in the same chunks
    have the same array: ``block["r1"] is block["r2"]``. What a `StreamQueue` counts as blocks are
    the chunks here.

    Attributes
    ----------
    block_size : int
        Rows of a block: those of a chunk.
    """

    def arrange(self, shared: SharedChunks, names: Sequence[str]) -> VersionsQueue:
        """Take the chunks of the stream for those of these versions; returns itself."""
        self._shared, self._names = shared, names
        bands: Iterator[int] = iter(range(len(shared.counts)))
        self._bands = itertools.cycle(bands) if self.endless else bands
        self._band = next(self._bands, None)
        self._received: list[Any] = []
        self._taking = threading.Lock()
        return self

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Take the next block; see `StreamQueue.get`."""
        with self._taking:
            if self._band is None:
                self.close()
                return QueueClosed
            while len(self._received) < self._shared.counts[self._band]:
                guard = super().get(block, timeout)
                if guard is QueueClosed:
                    return guard
                self._received.append(guard)
            guard = VersionsGuard(self._shared, self._names, self._band, self._received)
            self._received, self._band = [], next(self._bands, None)
            return guard

    def iter(self) -> Iterator[Any]:
        """Yield guards until the stream is over."""
        return iter(self.get, QueueClosed)

    def __repr__(self) -> str:
        return f"<VersionsQueue of {count(len(self._names), 'version')}, by {super().__repr__()}>"


class VersionsGuard:
    """A block until it is released; a context manager."""

    def __init__(
        self, shared: SharedChunks, names: Sequence[str], band: int, chunks: list[Any]
    ) -> None:
        self._shared, self._names, self._band, self._chunks = shared, names, band, chunks

    @property
    def rows(self) -> tuple[int, int]:
        """First row of the block, and the one behind its last in the longest version."""
        size = self._shared.chunk_dims[0]
        longest = max(version.n_rows for version in self._shared.versions)
        return self._band * size, min((self._band + 1) * size, longest)

    def __enter__(self) -> dict[str, Any]:
        arrays = [guard.__enter__() for guard in self._chunks]
        known: dict[Any, Any] = {}
        block = {}
        for name, version, chunks in zip(
            self._names, self._shared.versions, self._shared.maps, strict=True
        ):
            begin = self._band * self._shared.chunk_dims[0]
            rows = max(0, min(version.n_rows - begin, self._shared.chunk_dims[0]))
            numbers = tuple(chunks[self._band].tolist()) if rows else ()
            key = numbers, rows, version.row_shape
            if key not in known:
                known[key] = self._put_together(version, rows, numbers, arrays)
            block[name] = known[key]
        return block

    def __exit__(self, *error: object) -> None:
        for guard in self._chunks:
            guard.__exit__(*error)

    def _put_together(
        self, version: ChunkIndex, rows: int, numbers: tuple[int, ...], arrays: list[Any]
    ) -> Any:
        """Return rows of a version, of which these are the chunks beside each other."""
        chunk_dims, dims = self._shared.chunk_dims, version.dims
        if len(numbers) == 1 and numbers[0] >= 0:
            return arrays[numbers[0]][(slice(rows), *map(slice, dims[1:]))]
        made = np.empty((rows, *version.row_shape), version.dtype)
        made[...] = fill_of(version)
        grid = grid_of(dims[1:], chunk_dims[1:])
        for number, cell in zip(numbers, itertools.product(*map(range, grid)), strict=False):
            if number >= 0:
                starts = [at * chunk for at, chunk in zip(cell, chunk_dims[1:], strict=True)]
                here = tuple(
                    slice(start, start + chunk)
                    for start, chunk in zip(starts, chunk_dims[1:], strict=True)
                )
                part = made[(slice(None), *here)]
                part[...] = arrays[number][tuple(map(slice, part.shape[: len(dims)]))]
        return made


def fill_of(index: ChunkIndex) -> Any:
    """Return what an element is that was never stored."""
    shape = index.shape[len(index.dims) :]
    stored = index.kind.fill_value[index.kind.part.offset :]
    return np.frombuffer(stored, index.dtype, math.prod(shape)).reshape(shape)
