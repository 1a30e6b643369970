"""Samples that are boxes: where they begin on a grid, the elements to read, and the padding.

Law
---
1. Pure, as sample_rows.py. A grid is numbered cell by cell, and each cell row by row: cells are
   some neighbouring chunks, so that patches which follow each other have most chunks in common.
2. The box to read always lies inside the data and has one shape; padding is made from it.
3. No box reaches over the end of a segment.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import sizes
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.options import wrong
from _multitables.plan.row_order import FULL, WINDOW, OrderWords, chunk_rows
from _multitables.plan.samples import Patches
from _multitables.plan.taken import Extents, TakenBoxes

I64 = npt.NDArray[np.int64]
Array = npt.NDArray[Any]
#: How often a window may decode each of its chunks, about: the next one decodes those on its edge.
GOOD_RATIO = 1.5
#: Starts of a grid that are looked at together.
PIECE_STARTS = 1 << 20


@dataclass(frozen=True, eq=False)
class Segments:
    """Ranges along an axis, here of rows, and the samples that begin in each."""

    begins: I64
    ends: I64
    #: Where the first sample of each begins, and how many there are before it.
    firsts: I64
    counts: I64
    every: int

    @classmethod
    def of(cls, begins: I64, ends: I64, before: int, span: int, every: int) -> Segments:
        """Return segments of samples of `span` + 1 elements, `before` ahead of the start."""
        room = np.maximum(ends - begins - span, 0)
        counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(-(-room // every))])
        return cls(begins, ends, begins + before, counts, every)

    def __len__(self) -> int:
        return int(self.counts[-1])

    def starts(self, numbers: I64) -> tuple[I64, I64, I64]:
        """Return where samples begin, and where their segments begin and end."""
        at = np.searchsorted(self.counts, numbers, side="right") - 1
        starts = self.firsts[at] + (numbers - self.counts[at]) * self.every
        return starts, self.begins[at], self.ends[at]


@dataclass(frozen=True, eq=False)
class Grid:
    """Where patches begin."""

    axes: tuple[Segments, ...]
    #: How many begin in a cell, along each axis, and bytes of the chunks that those have.
    cell: tuple[int, ...]
    cell_bytes: int
    data_bytes: int
    #: How often each chunk is decoded, about, where each window is one cell.
    decoded: float
    #: The numbers of the patches that the mask selects; None: all.
    listed: I64 | None = None

    def __len__(self) -> int:
        return self.n_all if self.listed is None else len(self.listed)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many begin along each axis."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def n_all(self) -> int:
        """How many the whole grid has."""
        return math.prod(self.shape)

    @property
    def in_cell(self) -> int:
        """The number of selected patches in a cell, about."""
        return max(1, math.prod(self.cell) * len(self) // max(1, self.n_all))

    @property
    def window(self) -> int:
        """Patches of a window whose chunks readers keep."""
        cells = sizes.MAX_WINDOW_BYTES // max(1, self.cell_bytes)
        return min(max(cells, 1), sizes.WINDOW_CHUNKS) * self.in_cell

    def kept_bytes(self, order: OrderWords) -> int:
        """Return how many bytes of chunks are kept, so that few are decoded twice."""
        # Readers have unequal parts, and chunks of one window leave while those of the next come. A
        # full shuffle comes back to every chunk with each request.
        all_of_it = 2 * self.data_bytes
        if order.shuffle == FULL or self.data_bytes <= sizes.MAX_WINDOW_BYTES:
            return all_of_it
        cells = -(-order.window_rows // self.in_cell) if order.shuffle == WINDOW else 1
        return min(4 * cells * self.cell_bytes, all_of_it)

    def places(self, numbers: I64) -> list[I64]:
        """Return which start each patch has along each axis."""
        rest, cells, widths = numbers, list[I64](), list[I64]()
        band = self.n_all
        for n, width in zip(self.shape, self.cell, strict=True):
            band //= max(1, n)
            of_one = np.full(1, band, np.int64)
            for done in widths:
                of_one = of_one * done
            at = rest // np.maximum(of_one * width, 1)
            rest = rest - at * of_one * width
            cells.append(at * width)
            widths.append(np.minimum(width, n - at * width))
        found: list[I64] = []
        for begin, wide in zip(reversed(cells), reversed(widths), strict=True):
            found.append(begin + rest % wide)
            rest = rest // wide
        return found[::-1]

    def starts(self, numbers: I64) -> tuple[I64, I64, I64]:
        """Return where patches begin, and where their segments begin and end, along each axis."""
        chosen = numbers if self.listed is None else self.listed[numbers]
        along = zip(self.axes, self.places(chosen), strict=True)
        each = [axis.starts(places) for axis, places in along]
        starts, lows, highs = (np.stack(one, axis=1) for one in zip(*each, strict=True))
        return starts, lows, highs

    def only(self, mask: Array) -> Grid:
        """Return the grid of the patches at which `mask` is true.

        Raises
        ------
        OptionsError
            It has another shape than the grid.
        """
        if mask.shape != self.shape or mask.dtype.kind not in "biu":
            got = f"{mask.dtype} of shape {mask.shape}"
            expected = f"bool of shape {self.shape}"
            raise OptionsError(
                f"where does not fit the grid of patches (expected {expected}, got {got})",
                advice="Give a bool for each patch of the grid",
                option="where",
                expected=self.shape,
                got=mask.shape,
            )
        found = [np.zeros(0, np.int64)]
        for begin in range(0, self.n_all, PIECE_STARTS):
            numbers = np.arange(begin, min(begin + PIECE_STARTS, self.n_all), dtype=np.int64)
            found.append(numbers[mask[tuple(self.places(numbers))] != 0])
        return replace(self, listed=np.concatenate(found))


def grid_of(of: Patches, index: ChunkIndex, begins: I64, ends: I64) -> tuple[Grid, Extents]:
    """Return the grid of patches of a dataset, whose rows lie in these segments, and their shape.

    Raises
    ------
    OptionsError
        The dataset has fewer axes, or no patch fits into it.
    """
    dims = index.dims
    if len(of.shape) > len(dims):
        advice = "Give a number for each axis, or for the first ones"
        raise wrong("shape", f"must have at most {len(dims)} axes", of.shape, advice)
    if of.shape[0] is None and len(begins) > 1:
        advice = "Rows belong to files, so give the number of rows of a patch"
        raise wrong("shape", "must have a number along the first axis", of.shape, advice)
    extents = tuple(dim if one is None else one for one, dim in zip(of.shape, dims, strict=False))
    axes = []
    for axis, (extent, stride) in enumerate(zip(extents, of.stride, strict=True)):
        low, high = (begins, ends) if axis == 0 else (np.zeros(1, np.int64), np.array([dims[axis]]))
        inside = of.pad is None or of.shape[axis] is None
        every = extent if of.shape[axis] is None else stride
        axes.append(Segments.of(low, high, 0, extent - 1 if inside else 0, max(1, every)))
        if inside and not len(axes[-1]) and dims[axis] and len(low):
            longest = int((high - low).max())
            raise OptionsError(
                f"no patch fits into axis {axis} (expected {extent} elements, got {longest})",
                advice="Take a smaller shape, or give pad",
                option="shape",
                expected=extent,
                got=longest,
            )
    return _with_cells(of, index, tuple(axes), extents), extents


def _with_cells(
    of: Patches, index: ChunkIndex, axes: tuple[Segments, ...], extents: Extents
) -> Grid:
    """Choose cells so large that few chunks are on the edge of two."""
    k = len(axes)
    chunk = list(index.chunk_dims or (chunk_rows(index), *index.dims[1:]))
    for axis, extent in enumerate(of.shape):
        if extent is None:  # each patch has all chunks along it
            chunk[axis] = index.dims[axis]
    n_chunks = [max(1, -(-dim // max(1, one))) for dim, one in zip(index.dims, chunk, strict=True)]
    # Of the axes behind a patch has all chunks.
    chunk_bytes = math.prod(chunk[:k]) * math.prod(index.dims[k:]) * index.kind.element_bytes
    tails = []
    for extent, stride, jitter, one in zip(extents, of.stride, of.jitter, chunk, strict=False):
        aligned = stride if one % stride == 0 else 1
        tails.append(-(-max(0, extent - aligned + 2 * jitter) // max(1, one)))

    def sized(n: int) -> tuple[int, float]:
        """Return bytes of the chunks of a cell of n chunks along each axis; how often each is."""
        reach, decoded = chunk_bytes, 1.0
        for most, tail in zip(n_chunks, tails, strict=False):
            reach *= min(n + tail, most)
            edges = -(-most // n) - 1
            decoded *= (most + edges * tail) / max(1, most)
        return reach, decoded

    n, most = 1, max(1, *n_chunks[:k])
    data_bytes = math.prod(n_chunks[:k]) * chunk_bytes
    if data_bytes > sizes.MAX_WINDOW_BYTES:
        while n < most and sized(n)[1] > GOOD_RATIO:
            n += 1
        while n > 1 and sized(n)[0] > sizes.MAX_WINDOW_BYTES:
            n -= 1
        cell_bytes, decoded = sized(n)
    else:
        cell_bytes, decoded = chunk_bytes, 1.0  # readers keep all chunks
    if not index.kind.pipeline:
        decoded = 1.0  # and nothing is
    cell = tuple(
        min(max(1, n * one // max(1, axis.every)), max(1, len(axis)))
        for one, axis in zip(chunk, axes, strict=False)
    )
    return Grid(axes, cell, cell_bytes, data_bytes, decoded)


def taken_listed(starts: Array, dims: Sequence[int], extents: Extents, numbers: I64) -> TakenBoxes:
    """Return boxes at the starts that the user gave.

    Raises
    ------
    OptionsError
        One lies outside the dataset.
    """
    begins = starts.astype(np.int64)
    most = np.array(dims[: len(extents)]) - extents
    bad = ((begins < 0) | (begins > most)).any(axis=1)
    if bad.any():
        at = int(np.argmax(bad))
        shape = tuple(dims[: len(extents)])
        raise OptionsError(
            f"sample {int(numbers[at])} lies outside the dataset (expected a box of {extents} in "
            f"{shape}, got one at {tuple(begins[at].tolist())})",
            advice="Leave it out of starts, or give Patches with pad",
            option="starts",
            expected=shape,
            got=tuple(begins[at].tolist()),
        )
    return TakenBoxes(begins, extents, extents)


def taken_patches(
    of: Patches, starts: I64, lows: I64, highs: I64, dims: Sequence[int], extents: Extents
) -> TakenBoxes:
    """Return patches that begin here, in segments that begin and end there."""
    size = np.array(extents)
    if of.pad is None:
        return TakenBoxes(np.clip(starts, lows, highs - size), extents, extents)
    starts = np.clip(starts, lows - size + 1, highs - 1)
    read = np.minimum(size, dims[: len(extents)])
    begins = np.clip(starts, lows, np.maximum(lows, highs - size))
    begins = np.minimum(begins, dims[: len(extents)] - read)
    if ((starts >= lows) & (starts + size <= highs)).all():
        return TakenBoxes(begins, extents, extents)
    sources = []
    for axis, extent in enumerate(extents):
        low, high = lows[:, axis, None], highs[:, axis, None]
        places = starts[:, axis, None] + np.arange(extent)
        inside = (places >= low) & (places < high)
        if of.pad == "reflect":
            period = np.maximum(2 * (high - low - 1), 1)
            places = (places - low) % period
            places = low + np.where(places >= high - low, period - places, places)
        places = np.clip(places, low, high - 1) - begins[:, axis, None]
        sources.append((places, inside))
    return TakenBoxes(begins, tuple(read.tolist()), extents, sources, of.pad)
