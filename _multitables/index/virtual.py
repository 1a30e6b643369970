"""A virtual dataset whose mappings fit the chunks of their sources: a table of their chunks.

Law
---
1. Pure: mappings and the indexes of their sources in, an index out.
2. A chunk of the virtual dataset is one chunk of a source, whole, or as far as the virtual dataset
   goes. What does not fit is not for this file.
3. A table of chunks grows with those that are stored, and its length is known before it is made.
4. Where two mappings show one chunk, the later one does. A chunk of no mapping is the fill value.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.index.chunk_index import (
    CHUNK,
    NO_CHUNKS,
    ChunkIndex,
    Records,
    SourceFile,
    changed,
    grid_of,
)

I64 = npt.NDArray[np.int64]
#: A count or a block without an end.
UNLIMITED = 2**64 - 1
#: Kinds of selections, as the core numbers them.
NONE, ALL, POINTS, REGULAR, BLOCKS = range(5)


#: Chunks that mappings show beside four for each that a source stores.
FREE_CHUNKS = 1 << 20


class UnfitError(Exception):
    """Why only a library reads a virtual dataset."""


@dataclass(frozen=True)
class Selections:
    """Elements of dataspaces: one selection for each mapping."""

    kinds: npt.NDArray[np.uint8]
    #: Where the numbers of each end.
    ends: npt.NDArray[np.uint64]
    numbers: npt.NDArray[np.uint64]

    def of(self, number: int) -> npt.NDArray[np.uint64]:
        """Return the numbers of one selection."""
        begin = int(self.ends[number - 1]) if number else 0
        return self.numbers[begin : int(self.ends[number])]

    def regular(self, numbers: I64, dims: tuple[int, ...]) -> I64 | None:
        """Return start, stride, count and block along each axis, if all of these are regular."""
        rank, kinds = len(dims), self.kinds[numbers]
        ends = self.ends[numbers].astype(np.int64)
        begins = np.concatenate([[0], self.ends[:-1]]).astype(np.int64)[numbers]
        axes = np.zeros((len(numbers), rank, 4), np.uint64)
        axes[:, :, 1:3], axes[:, :, 3] = 1, dims
        listed, boxed = kinds == REGULAR, (kinds == BLOCKS) & (ends - begins == 2 * rank)
        if listed.any():
            if np.any(ends[listed] - begins[listed] != 4 * rank):
                return None
            known = self.numbers[begins[listed, None] + np.arange(4 * rank)]
            axes[listed] = known.reshape(-1, rank, 4)
        if boxed.any():
            bounds = self.numbers[begins[boxed, None] + np.arange(2 * rank)].reshape(-1, 2, rank)
            axes[boxed, :, 0], axes[boxed, :, 3] = bounds[:, 0], bounds[:, 1] - bounds[:, 0] + 1
        for at in (~listed & ~boxed & (kinds != ALL)).nonzero()[0]:
            found = self.kinds[numbers[at]] == BLOCKS and _of_blocks(self.of(numbers[at]), rank)
            if not isinstance(found, np.ndarray):
                return None
            axes[at] = found
        if axes.max(initial=0) >= 2**31:  # of smaller numbers no product is too large
            start, stride, count, block = axes.astype(np.float64).transpose(2, 0, 1)
            reach = np.maximum(start + stride * (count - 1) + block, count * block)
            if np.any(axes >= 2**62) or np.any(reach >= 2**62):
                return None
        return axes.astype(np.int64)

    def boxes(self, numbers: I64, dims: tuple[int, ...]) -> tuple[I64, I64] | None:
        """Return the first element and the lengths along each axis, if all of these are boxes."""
        axes = self.regular(numbers, dims)
        if axes is None:
            return None
        start, stride, count, block = axes.transpose(2, 0, 1)
        length = count * block
        if not ((count == 1) | (stride == block)).all() or (start + length > dims).any():
            return None
        return start, length


@dataclass(frozen=True)
class Mappings:
    """Which parts of which sources a virtual dataset shows, and where."""

    #: File and path of each source.
    names: list[tuple[bytes, bytes]]
    #: Which of these each mapping shows.
    source: npt.NDArray[np.uint32]
    in_source: Selections
    in_virtual: Selections

    @classmethod
    def of(cls, told: tuple[Any, ...]) -> Mappings:
        """Take what the core tells."""
        names, source, in_source, in_virtual = told
        return cls(names, source, Selections(*in_source), Selections(*in_virtual))

    @property
    def n_blocks(self) -> int:
        """Blocks of all regular hyperslabs."""
        counts = [
            math.prod(of.of(number)[2::4].tolist())
            for of in (self.in_source, self.in_virtual)
            for number in np.flatnonzero(of.kinds == REGULAR).tolist()
        ]
        return sum(counts)

    @functools.cached_property
    def grow(self) -> bool:
        """Whether the virtual dataset is as long as its sources are by now."""
        return UNLIMITED in self.in_virtual.numbers


def as_chunks(
    index: ChunkIndex, mappings: Mappings, sources: Sequence[ChunkIndex | None]
) -> ChunkIndex | None:
    """Return the index of a virtual dataset with the chunks of its sources; None: they do not fit.

    Parameters
    ----------
    index : ChunkIndex
        Of the virtual dataset, without chunks.
    sources : sequence of ChunkIndex or None
        One for each name; None where there is no such file or dataset.
    """
    present = [source for source in sources if source is not None]
    if not present or not all(_alike(source, present[0]) for source in present):
        return None
    shown = np.array([source is not None for source in sources])[mappings.source]
    shown &= (mappings.in_virtual.kinds != NONE) & (mappings.in_source.kinds != NONE)
    numbers = np.flatnonzero(shown)
    numbers = numbers[np.argsort(mappings.source[numbers], kind="stable")]
    found = _boxes(index, mappings, sources, numbers)
    if found is None:
        return None
    (virtual_start, length), (source_start, source_length) = found
    source_chunk = present[0].chunk_dims
    pairs = paired_axes(length, source_length)
    if pairs is None or source_chunk is None:
        return None
    chunk_dims = [1] * len(index.dims)
    for axis, source_axis in pairs:
        chunk_dims[axis] = source_chunk[source_axis]
    beside = set(range(len(source_chunk))) - {axis for _, axis in pairs}
    end = virtual_start + length
    fits = (
        all(source_chunk[axis] == 1 for axis in beside)
        and np.all(virtual_start % chunk_dims == 0)
        and np.all(source_start % source_chunk == 0)
        and np.all((end % chunk_dims == 0) | (end == index.dims))
    )
    if not fits:
        return None
    # The chunks of all mappings, one behind the other, by their numbers in the grids.
    count = -(-length // chunk_dims)
    n_stored = sum(len(source.chunks) for source in present)
    if np.prod(count, axis=1, dtype=np.float64).sum() > FREE_CHUNKS + 4 * n_stored:
        return None
    row, steps = _unravelled(count)
    source = mappings.source[numbers][row]
    grid = _strides(index.dims, chunk_dims)
    grids = [_strides(one.dims if one else source_chunk, source_chunk) for one in sources]
    source_grid = np.array(grids, np.int64)[source]
    at_virtual = ((virtual_start // chunk_dims)[row] + steps) @ np.array(grid, np.int64)
    at_source = (source_start // source_chunk)[row]
    for axis, source_axis in pairs:
        at_source[:, source_axis] += steps[:, axis]
    at_source = np.sum(at_source * source_grid, axis=1)
    return _joined(index, sources, tuple(chunk_dims), source, numbers[row], at_virtual, at_source)


def _unravelled(count: I64) -> tuple[I64, I64]:
    """Return the places in grids of these lengths: in which grid, and how far along each axis."""
    totals = np.prod(count, axis=1)
    row = np.repeat(np.arange(len(count)), totals)
    rest = np.arange(len(row)) - np.repeat(np.cumsum(totals) - totals, totals)
    steps = np.zeros((len(row), count.shape[1]), np.int64)
    for axis in reversed(range(count.shape[1])):
        rest, steps[:, axis] = np.divmod(rest, count[row, axis])
    return row, steps


def _of_blocks(bounds: npt.NDArray[np.uint64], rank: int) -> I64 | None:
    """Return start, stride, count and block along each axis, if blocks lie regularly."""
    if not len(bounds) or len(bounds) % (2 * rank):
        return None
    first, last = np.moveaxis(bounds.astype(np.int64).reshape(-1, 2, rank), 1, 0)
    axes = np.ones((rank, 4), np.int64)
    for axis in range(rank):
        starts, steps = np.unique(first[:, axis]), np.unique(last[:, axis] - first[:, axis])
        strides = np.unique(np.diff(starts))
        if len(steps) != 1 or len(strides) > 1:
            return None
        axes[axis] = starts[0], strides[0] if len(strides) else 1, len(starts), steps[0] + 1
    n_blocks = len(np.unique(first, axis=0))
    return axes if n_blocks == len(first) == np.prod(axes[:, 2]) else None


def _alike(source: ChunkIndex, other: ChunkIndex) -> bool:
    """Whether chunks of two datasets may lie in one table."""
    return (
        source.layout == "chunked"
        and not source.inline
        and source.chunk_dims == other.chunk_dims
        and source.pipeline == other.pipeline
    )


def _boxes(
    index: ChunkIndex, mappings: Mappings, sources: Sequence[ChunkIndex | None], numbers: I64
) -> tuple[tuple[I64, I64], tuple[I64, I64]] | None:
    """Return the boxes of mappings, which are sorted by their sources, in these and where shown."""
    shown = mappings.in_virtual.boxes(numbers, index.dims)
    cuts = np.flatnonzero(np.diff(mappings.source[numbers])) + 1
    parts = []
    for part in np.split(numbers, cuts) if shown is not None else ():
        source = sources[mappings.source[part[0]]] if len(part) else None
        box = mappings.in_source.boxes(part, source.dims) if source else None
        if box is None:
            return None
        parts.append(box)
    if shown is None or not parts:
        return None
    start, length = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return shown, (start, length)


def paired_axes(length: I64, source_length: I64) -> list[tuple[int, int]] | None:
    """Pair axes along which boxes are equally long; others are one element long."""
    ranks = length.shape[1], source_length.shape[1]
    if np.array_equal(length, source_length):
        return [(axis, axis) for axis in range(ranks[0])]
    is_longer = ranks[0] >= ranks[1]
    more, less = (length, source_length) if is_longer else (source_length, length)
    pairs, number = [], 0
    # An axis that could be paired with a later one, too, is one element long: the first will do.
    for axis in range(more.shape[1]):
        if number < less.shape[1] and np.array_equal(more[:, axis], less[:, number]):
            pairs.append((axis, number) if is_longer else (number, axis))
            number += 1
        elif not np.all(more[:, axis] == 1):
            return None
    return pairs if number == less.shape[1] else None


def _strides(dims: Sequence[int], chunk_dims: Sequence[int]) -> list[int]:
    """Return how far apart in a grid's numbers neighbours along each axis are."""
    grid = grid_of(tuple(dims), tuple(chunk_dims))
    return [math.prod(grid[axis + 1 :]) for axis in range(len(grid))]


def _joined(
    index: ChunkIndex,
    sources: Sequence[ChunkIndex | None],
    chunk_dims: tuple[int, ...],
    source: npt.NDArray[np.uint32],
    order: I64,
    at_virtual: I64,
    at_source: I64,
) -> ChunkIndex | None:
    """Look the chunks up in their sources; `source` ascends."""
    own = SourceFile(index.filename, index.fingerprint)
    files = {own: 0}
    found: list[Records] = [NO_CHUNKS]
    are_stored = [np.zeros(0, bool)]
    cuts = np.flatnonzero(np.diff(source)) + 1
    for begin, end in itertools.pairwise([0, *cuts.tolist(), len(source)]):
        of = sources[source[begin]]
        assert of is not None
        wanted = at_source[begin:end].astype(np.uint64)
        at = np.searchsorted(of.grid_index, wanted)
        at[at == len(of.chunks)] = 0
        stored = of.grid_index[at] == wanted if len(of.chunks) else np.zeros(len(at), bool)
        if not np.all(stored) and of.fill_value != index.fill_value:
            return None
        numbers = [files.setdefault(file, len(files)) for file in of.files]
        chunks = of.chunks[at[stored]]
        chunks["source"] = np.array(numbers, np.uint32)[chunks["source"]]
        are_stored.append(stored)
        found.append(np.zeros(end - begin, CHUNK))
        found[-1][stored] = chunks
    # Of equal chunks the last one stays, if it is stored.
    sort = np.lexsort((order, at_virtual))
    at_virtual = at_virtual[sort]
    kept = np.append(at_virtual[1:] != at_virtual[:-1], True)
    kept &= np.concatenate(are_stored)[sort]
    chunks = np.concatenate(found)[sort][kept]
    chunks["grid_index"] = at_virtual[kept]
    return changed(
        index,
        layout="chunked",
        chunk_dims=chunk_dims,
        pipeline=next(one for one in sources if one is not None).pipeline,
        chunks=chunks,
        others=tuple(files)[1:],
    )
