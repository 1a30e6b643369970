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
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from _multitables.index.chunk_index import ChunkIndex, grid_of
from _multitables.parent.stream.ring_blocks import RingBlocks
from _multitables.parent.titles import count
from _multitables.plan.shared_chunks import SharedChunks


class VersionBlocks(RingBlocks):
    """Blocks of several versions of a dataset; `parts` make them from a ring of its chunks."""

    takes_turns = True

    def __init__(self, shared: SharedChunks, names: Sequence[str], *parts: Any) -> None:
        super().__init__(*parts)
        self._shared, self._names = shared, names
        bands: Iterator[int] = iter(range(len(shared.counts)))
        self._bands = itertools.cycle(bands) if self.endless else bands
        self._band = next(self._bands, None)
        self._received: list[Any] = []

    def take(self, deadline: float) -> Any:
        """Return the guard of the next block, or None at the end."""
        if self._band is None:
            return None
        while len(self._received) < self._shared.counts[self._band]:
            guard = super().take(deadline)
            if guard is None:
                return None
            self._received.append(guard)
        block = VersionsGuard(self._shared, self._names, self._band, self._received)
        self._received, self._band = [], next(self._bands, None)
        return block

    def title(self) -> tuple[str, int]:
        """Return the title of the data, and the number of readers."""
        of, n_readers = super().title()
        return f"{count(len(self._names), 'version')} of {of}", n_readers


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
