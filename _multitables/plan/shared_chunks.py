"""Several versions of a dataset as one dataset of the chunks that any of them has.

Law
---
1. Pure: indexes in, an index and its bands out. Each chunk is listed once, however many versions
   have it.
2. A band has the rows of one chunk. Bands come one after the other, each with its chunks in the
   order of the file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import U64, ChunkIndex, Stored, grid_of

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Chosen(Stored):
    """Some chunks of a dataset, in another order."""

    #: The dataset, and the numbers of the chunks in its grid.
    chosen_from: tuple[ChunkIndex, U64] = field(repr=False)


@dataclass(frozen=True)
class SharedChunks:
    """The chunks of several versions, and which of them make up each version."""

    #: Of the chunks of all bands, one behind the other.
    index: Chosen
    #: Chunks of each band.
    counts: list[int]
    versions: tuple[ChunkIndex, ...]
    #: For each version, by band and by place beside each other: which chunk of its band, -1: none.
    maps: tuple[I64, ...]

    @property
    def chunk_dims(self) -> tuple[int, ...]:
        """The extent of a chunk."""
        assert self.index.chunk_dims is not None
        return self.index.chunk_dims


def shared_chunks(stored: ChunkIndex, versions: Sequence[ChunkIndex]) -> SharedChunks:
    """Find the chunks of versions in the dataset in which they are stored, one behind the other.

    Raises
    ------
    UnsupportedDatasetError
        A version has other chunks.
    """
    chunk_dims = stored.chunk_dims or ()
    order = np.argsort(stored.byte_offset, kind="stable")
    offsets = stored.byte_offset[order]
    numbers = []  # of the version's chunks in `stored`, by band and beside each other
    for version in versions:
        at = np.searchsorted(offsets, version.byte_offset)
        at[at == len(offsets)] = 0
        has_chunks = len(version.byte_offset) > 0
        if not isinstance(version, Stored) or (
            has_chunks
            and not (
                version.chunk_dims == chunk_dims
                and stored.dims[1:] == chunk_dims[1:]
                and len(offsets)
                and np.array_equal(offsets[at], version.byte_offset)
            )
        ):
            raise _unsupported(version, stored)
        grid = grid_of(version.dims, chunk_dims)
        chunks = np.full(math.prod(grid), -1, np.int64)
        if has_chunks:
            chunks[version.grid_index.astype(np.int64)] = order[at]
        numbers.append(chunks.reshape(grid[0], math.prod(grid[1:])))
    n_bands = max(len(table) for table in numbers)
    maps = [np.full(table.shape, -1, np.int64) for table in numbers]
    counts: list[int] = []
    chosen: list[I64] = [np.zeros(0, np.int64)]
    for band in range(n_bands):
        rows = [table[band] for table in numbers if band < len(table)]
        distinct = np.unique(np.concatenate(rows))
        distinct = distinct[distinct >= 0]
        for table, of_band in zip(numbers, maps, strict=True):
            if band < len(table):
                found = np.searchsorted(distinct, table[band])
                of_band[band] = np.where(table[band] >= 0, found, -1)
        counts.append(len(distinct))
        chosen.append(distinct)
    return SharedChunks(
        _chosen(stored, np.concatenate(chosen)), counts, tuple(versions), tuple(maps)
    )


def _chosen(stored: ChunkIndex, chunks: I64) -> Chosen:
    """Return the index of these of its chunks, one behind the other."""
    rows = len(chunks) * (stored.chunk_dims or (1,))[0]
    chosen = stored.chunks[chunks]
    chosen["grid_index"] = np.arange(len(chunks))
    fields = {"dims": (rows, *stored.dims[1:]), "chunks": chosen}
    return Chosen(**{**vars(stored), **fields}, chosen_from=(stored, stored.grid_index[chunks]))


def _unsupported(version: ChunkIndex, stored: ChunkIndex) -> UnsupportedDatasetError:
    return UnsupportedDatasetError(
        f"{version.path!r} in {version.filename!r} cannot be streamed with other versions: "
        f"{version.reason or f'its chunks are not those of {stored.path!r}'}",
        advice="Stream one version after the other",
        path=version.path,
        filename=version.filename,
    )
