"""Samples and datasets -> the rows, or the box, of each sample.

Law
---
1. Pure: what the user says of samples and how many rows there are in, rows out. Samples have
   numbers, in the order in which they begin; orders, ranks and states know these alone.
2. Draws are a function of seed, epoch and number, the same on every machine. Rows are made
   for the samples that are named, never for all.
3. No clip reaches over the end of a segment.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import sizes
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.types.element_type import stored_type
from _multitables.options import wrong
from _multitables.plan.ragged import OrderRows
from _multitables.plan.row_order import FULL, OrderWords, chunk_rows
from _multitables.plan.sample_boxes import Grid, Segments, taken_listed, taken_patches
from _multitables.plan.samples import At, Clips, Patches
from _multitables.plan.taken import (
    Extents,
    Taken,
    TakenAlong,
    TakenBoxes,
    TakenRows,
    Windows,
)
from _multitables.plan.weights import (
    CHOICES,
    JITTER,
    STRIDES,
    Chances,
    below,
    chances,
    hashed,
)

I64 = npt.NDArray[np.int64]


#: Neighbours that are shuffled together begin in this multiple of the rows of a chunk and of those
#: that one reaches over.
TAILS = 2
#: Offsets of a sample's rows from where it begins, or the extents of its box.
Take = I64 | Extents


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of all epochs, of datasets of `n_rows` rows."""

    of: At | Clips | Patches
    #: Extents of the dataset as the user selected it; the first counts rows.
    dims: tuple[int, ...]
    seed: int
    #: Of clips, and of patches.
    segments: Segments | Grid | None = None
    #: The core's, for what is drawn without repetition.
    order_rows: OrderRows | None = None
    #: Their weights where they are drawn with replacement, and the draws of an epoch.
    chances: Chances | None = None
    draws: int | None = None
    #: Each is one row, without an axis of steps.
    are_rows: bool = False

    def __len__(self) -> int:
        """Samples of an epoch."""
        return self.n_all if self.draws is None else self.draws

    @property
    def n_all(self) -> int:
        """How many there are to draw from."""
        if self.segments is not None:
            return len(self.segments)
        assert isinstance(self.of, At)
        return len(self.of.starts)

    @property
    def n_rows(self) -> int:
        """Rows of the datasets."""
        return self.dims[0]

    @property
    def is_drawn(self) -> bool:
        """Whether each epoch draws its samples anew."""
        drawn = isinstance(self.of, Clips) and self.of.starts is not None
        return drawn or self.chances is not None

    @property
    def axis(self) -> int:
        """The axis along which clips have their steps."""
        return self.of.axis if isinstance(self.of, Clips) else 0

    @property
    def begins(self) -> I64:
        """The row at which each sample begins."""
        numbers = np.arange(self.n_all, dtype=np.int64)
        if self.segments is not None:
            begins = self.segments.starts(numbers)[0].reshape(len(numbers), -1)[:, 0]
            return begins // self.dims[self.axis] if self.axis else begins
        assert isinstance(self.of, At)
        starts = self._starts(self.of, numbers, None)
        return starts.astype(np.int64).reshape(len(numbers), -1)[:, 0]

    @property
    def pad(self) -> Any:
        """The value in the place of rows outside a segment; None: clips have no such rows."""
        return self.of.pad if isinstance(self.of, Clips) else None

    def shape_of(self, take: Take, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of a sample of a dataset of this shape."""
        if isinstance(take, tuple):
            return (*take, *shape[len(take) :])
        steps, axis = (len(take),), self.axis
        return (*shape[1:axis], *steps, *shape[axis + 1 :])

    def taken(self, numbers: I64, epoch: int, take: Take, windows: Windows = ()) -> Taken:
        """Return what samples take of the `windows` that the user selected of a dataset.

        Raises
        ------
        OptionsError
            A sample lies outside the dataset.
        """
        if not isinstance(take, tuple):
            rows = *self.rows(numbers, epoch, take), self.pad
            if self.axis:
                dims = self.dims[: self.axis + 1]
                return TakenAlong(*rows, axis=self.axis, dims=dims, windows=windows)
            return TakenRows(*rows, self.are_rows, windows)
        taken = self._boxes(numbers, epoch, take)
        return replace(taken, windows=windows) if windows else taken

    def _boxes(self, numbers: I64, epoch: int, take: Extents) -> TakenBoxes:
        which = _drawn(self, epoch)[numbers] if self.is_drawn else numbers
        if isinstance(self.of, At):
            starts = self._starts(self.of, which, (len(take),))
            return taken_listed(starts, self.dims, take, which)
        assert isinstance(self.of, Patches)
        assert isinstance(self.segments, Grid)
        starts, lows, highs = self.segments.starts(which)
        for axis, jitter in enumerate(self.of.jitter):
            if jitter:
                words = hashed(self.seed, epoch, JITTER + axis, numbers)
                starts[:, axis] += below(words, 2 * jitter + 1) - jitter
        return taken_patches(self.of, starts, lows, highs, self.dims, take)

    def rows(
        self, numbers: I64, epoch: int, offsets: I64
    ) -> tuple[I64, npt.NDArray[np.bool_] | None]:
        """Return the rows of samples, or places along their axis, and which are not padding.

        Raises
        ------
        OptionsError
            A sample lies outside the datasets.
        """
        which = _drawn(self, epoch)[numbers] if self.is_drawn else numbers
        if self.segments is None:
            return self._listed(which, offsets), None
        assert isinstance(self.of, Clips)
        assert isinstance(self.segments, Segments)
        starts, low, high = self.segments.starts(which)
        stride: Any = self.of.strides[0]
        if self.of.strides[1] > stride:
            words = hashed(self.seed, epoch, STRIDES, numbers)
            stride = (stride + below(words, self.of.strides[1] - stride + 1))[:, None]
        rows = starts[:, None] + offsets * stride
        if self.pad is None:
            return rows, None
        inside = (rows >= low[:, None]) & (rows < high[:, None])
        return np.clip(rows, low[:, None], high[:, None] - 1), inside

    def _starts(self, of: At, numbers: I64, axes: tuple[int, ...] | None) -> npt.NDArray[Any]:
        """Return where listed samples begin, in one number or several; None: in either."""
        starts = np.asarray(of.starts[numbers])
        shape = (len(numbers), *(starts.shape[1:2] if axes is None else axes))
        if starts.shape != shape or starts.dtype.kind not in "iu":
            got = f"{starts.dtype} of shape {starts.shape}"
            advice = f"starts[...] of {len(numbers)} indices must give as many whole numbers"
            raise wrong("starts", "gave something else than rows", got, advice)
        return starts

    def _listed(self, numbers: I64, offsets: I64) -> I64:
        assert isinstance(self.of, At)
        starts = self._starts(self.of, numbers, ()).astype(np.int64)
        bad = (starts + offsets.min() < 0) | (starts + offsets.max() >= self.n_rows)
        rows: I64 = starts[:, None] + offsets
        if bad.any():
            at = int(np.argmax(bad))
            raise OptionsError(
                f"sample {int(numbers[at])} lies outside the dataset (expected rows of "
                f"0:{self.n_rows}, got {int(rows[at].min())} to {int(rows[at].max())})",
                advice="Leave it out of starts, or give Clips with pad",
                option="starts",
                expected=self.n_rows,
                got=int(rows[at].max()),
            )
        return rows

    def as_rows(self, index: ChunkIndex, take: Take) -> ChunkIndex:
        """Return an index that stands for samples where an order is made.

        `index` is that of the dataset as the user selected it.
        """
        n_bytes = math.prod(self.shape_of(take, index.shape)) * index.dtype.itemsize
        if isinstance(self.segments, Grid):
            # Readers keep the chunks of a cell, and not its samples.
            in_chunk = self.segments.in_cell
            n_bytes = self.segments.cell_bytes // in_chunk
        else:
            # Samples that begin in a chunk; fewer where a window would take too much memory.
            in_chunk, of = chunk_rows(index), max(1, self.n_rows)
            along = self.axis and in_chunk == 1
            if along and index.chunk_dims:
                in_chunk, of = index.chunk_dims[self.axis], of * self.dims[self.axis]
            if isinstance(self.of, Clips) and (along or not self.axis) and index.kind.pipeline:
                # What the last ones reach into is decoded for the next group again.
                offsets = np.asarray(take)
                reach = int(offsets.max() - offsets.min()) * self.of.strides[1]
                in_chunk = in_chunk if reach == 0 else (in_chunk + reach) * TAILS
            in_chunk = in_chunk * len(self) // of
            most = sizes.MAX_WINDOW_BYTES // sizes.MIN_WINDOW_CHUNKS // max(1, n_bytes)
            in_chunk = max(1, min(in_chunk, most))
        n_bytes = max(1, n_bytes)
        return replace(
            index,
            kind=replace(index.kind, part=stored_type(n_bytes), element_bytes=n_bytes),
            dims=(len(self),),
            chunk_dims=(in_chunk,),
        )

    @property
    def identity(self) -> list[int]:
        """What orders depend on, as numbers."""
        of, numbers, words = self.of, list[I64](), list[int]()
        if isinstance(of, At):
            numbers = [of.starts] if isinstance(of.starts, np.ndarray) else []
        elif isinstance(of, Patches) and isinstance(self.segments, Grid):
            grid = self.segments
            numbers = [one for axis in grid.axes for one in (axis.firsts, axis.counts)]
            numbers += [] if grid.listed is None else [grid.listed]
            words = [*grid.cell, *(axis.every for axis in grid.axes), *of.jitter]
        elif isinstance(of, Clips) and isinstance(self.segments, Segments):
            numbers = [self.segments.firsts, self.segments.counts]
            words = [of.steps, of.before, of.every, *of.strides, int(of.replace)]
            words += [of.axis] if of.axis else []
        crc = zlib.crc32(b"".join(one.astype("<i8").tobytes() for one in numbers))
        of_user = not isinstance(of, Clips) or of.starts != "segments"
        weighed = [self.chances.identity] if self.chances is not None and of_user else []
        return [len(self), crc, *words, *weighed]


def listed(of: At, dims: tuple[int, ...], seed: int, takes: Sequence[Take]) -> Samples:
    """Return the samples that begin where the user says.

    Raises
    ------
    OptionsError
        One of them lies outside the datasets.
    """
    samples = Samples(of, dims, seed)
    if isinstance(of.starts, np.ndarray) and len(of.starts):
        ends = np.unique([np.argmin(of.starts, axis=0), np.argmax(of.starts, axis=0)])
        for take in takes:
            samples.taken(ends, 0, take)
    return samples


def clips(
    of: Clips,
    dims: tuple[int, ...],
    seed: int,
    takes: list[I64],
    begins: I64,
    ends: I64,
    order_rows: OrderRows,
) -> Samples:
    """Return the clips of segments.

    Raises
    ------
    OptionsError
        The data has no clip, or fewer than are drawn.
    """
    low = min(0, *(int(one.min()) for one in takes)) * of.strides[1]
    high = max(0, *(int(one.max()) for one in takes)) * of.strides[1]
    if of.pad is not None:
        low = high = 0
    grid = Segments.of(begins, ends, -low, high - low, of.every)
    samples = Samples(of, dims, seed, grid, order_rows, draws=of.draws)
    if not samples.n_all and len(begins) and dims[0]:
        longest = int((ends - begins).max())
        raise OptionsError(
            f"no clip fits into a segment (expected {high - low + 1} rows, got {longest} in the "
            "longest)",
            advice="Take fewer steps, a smaller stride, or give pad",
            option="steps",
            expected=high - low + 1,
            got=longest,
        )
    if of.starts == "uniform" and not of.replace and len(samples) > samples.n_all:
        raise OptionsError(
            f"draws exceeds the clips that there are (expected at most {samples.n_all}, got "
            f"{of.draws})",
            advice="Draw fewer, or give replace=True",
            option="draws",
            expected=samples.n_all,
            got=of.draws,
        )
    if of.starts == "segments" and samples.n_all:
        return replace(samples, chances=chances(np.ones(len(begins)), grid.counts))
    return samples


def segments_within(begins: I64, ends: I64, parts: I64) -> tuple[I64, I64]:
    """Cut segments where datasets that are joined follow each other; `parts` are their rows."""
    if len(parts) < 2:
        return begins, ends
    cuts = np.unique(np.concatenate([begins, ends, np.cumsum(parts)]))
    low, high = cuts[:-1], cuts[1:]
    at = np.searchsorted(begins, low, side="right") - 1
    inside = (at >= 0) & (high <= ends[np.maximum(at, 0)])
    return low[inside], high[inside]


@lru_cache(maxsize=4)
def _drawn(samples: Samples, epoch: int) -> I64:
    """Return which clips an epoch has, in their order."""
    n, seed = len(samples), samples.seed
    if samples.chances is not None:
        return samples.chances.draw(seed, epoch, n)
    assert isinstance(samples.of, Clips)
    if samples.of.replace:
        numbers = np.arange(n, dtype=np.int64)
        return np.sort(below(hashed(seed, epoch, CHOICES, numbers), samples.n_all))
    order = OrderWords(
        n_rows=samples.n_all,
        shuffle=FULL,
        seed=seed,
        first_epoch=epoch,
        chunk_rows=1,
        window_rows=samples.n_all,
    )
    assert samples.order_rows is not None
    return np.sort(samples.order_rows(order.words, b"", 0, n).astype(np.int64))
