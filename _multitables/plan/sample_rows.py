"""Samples and datasets -> the rows of each sample.

Law
---
1. Pure: what the user says of samples and how many rows there are in, rows out. Samples have
   numbers, in the order in which they begin; orders, ranks and states know these alone.
2. Draws are a function of seed, epoch and number, the same on every machine. Rows are made
   for the samples that are named, never for all.
3. No clip reaches over the end of a segment.
"""

from __future__ import annotations

import zlib
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
from _multitables.plan.samples import At, Clips
from _multitables.plan.weights import CHOICES, STRIDES, Chances, below, chances, hashed

I64 = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Segments:
    """Ranges of rows, and the clips that begin in each."""

    begins: I64
    ends: I64
    #: Where the first clip of each begins, and how many clips there are before it.
    firsts: I64
    counts: I64
    every: int

    def __len__(self) -> int:
        return int(self.counts[-1])

    def starts(self, numbers: I64) -> tuple[I64, I64, I64]:
        """Return where clips begin, and where their segments begin and end."""
        at = np.searchsorted(self.counts, numbers, side="right") - 1
        starts = self.firsts[at] + (numbers - self.counts[at]) * self.every
        return starts, self.begins[at], self.ends[at]


@dataclass(frozen=True, eq=False)
class Samples:
    """The samples of all epochs, of datasets of `n_rows` rows."""

    of: At | Clips
    n_rows: int
    seed: int
    #: Of clips.
    segments: Segments | None = None
    #: The core's, for what is drawn without repetition.
    order_rows: OrderRows | None = None
    #: How likely each is, where these are drawn with replacement; and how many an epoch has.
    chances: Chances | None = None
    draws: int | None = None
    #: Each is one row, and delivered as such.
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
    def is_drawn(self) -> bool:
        """Whether each epoch has others."""
        drawn = isinstance(self.of, Clips) and self.of.starts is not None
        return drawn or self.chances is not None

    @property
    def begins(self) -> I64:
        """The row at which each that there is begins."""
        numbers = np.arange(self.n_all, dtype=np.int64)
        if self.segments is not None:
            return self.segments.starts(numbers)[0]
        return self._listed(numbers, np.zeros(1, np.int64))[:, 0]

    @property
    def pad(self) -> Any:
        """The value in the place of rows outside a segment; None: clips have no such rows."""
        return self.of.pad if isinstance(self.of, Clips) else None

    def rows(
        self, numbers: I64, epoch: int, offsets: I64
    ) -> tuple[I64, npt.NDArray[np.bool_] | None]:
        """Return the rows of samples, and which of them are not padding; None: all.

        Raises
        ------
        OptionsError
            A sample lies outside the datasets.
        """
        which = _drawn(self, epoch)[numbers] if self.is_drawn else numbers
        if self.segments is None:
            return self._listed(which, offsets), None
        assert isinstance(self.of, Clips)
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

    def _listed(self, numbers: I64, offsets: I64) -> I64:
        assert isinstance(self.of, At)
        starts = np.asarray(self.of.starts[numbers])
        if starts.shape != numbers.shape or starts.dtype.kind not in "iu":
            got = f"{starts.dtype} of shape {starts.shape}"
            advice = f"starts[...] of {len(numbers)} indices must give as many whole numbers"
            raise wrong("starts", "gave something else than rows", got, advice)
        rows: I64 = starts.astype(np.int64)[:, None] + offsets
        bad = (rows < 0) | (rows >= self.n_rows)
        if bad.any():
            at = int(np.argmax(bad.any(axis=1)))
            raise OptionsError(
                f"sample {int(numbers[at])} lies outside the dataset (expected rows of "
                f"0:{self.n_rows}, got {int(rows[at].min())} to {int(rows[at].max())})",
                advice="Leave it out of starts, or give Clips with pad",
                option="starts",
                expected=self.n_rows,
                got=int(rows[at].max()),
            )
        return rows

    def as_rows(self, index: ChunkIndex, offsets: I64) -> ChunkIndex:
        """Return an index that stands for samples where an order is made."""
        n_bytes = max(1, index.row_bytes * len(offsets))
        # Those that begin in a chunk; fewer where a window of them would take too much memory.
        in_chunk = chunk_rows(index) * len(self) // max(1, self.n_rows)
        most = sizes.MAX_WINDOW_BYTES // sizes.MIN_WINDOW_CHUNKS // n_bytes
        return replace(
            index,
            kind=replace(index.kind, part=stored_type(n_bytes), element_bytes=n_bytes),
            dims=(len(self),),
            chunk_dims=(max(1, min(in_chunk, most)),),
        )

    @property
    def identity(self) -> list[int]:
        """What orders depend on, as numbers."""
        of_user = self.chances is not None and getattr(self.of, "starts", None) != "segments"
        weighed = [self.chances.identity] if self.chances and of_user else []
        if self.segments is None:
            starts = self.of.starts
            made = starts if isinstance(starts, np.ndarray) else np.zeros(0, np.int64)
            return [len(self), zlib.crc32(made.astype("<i8").tobytes()), *weighed]
        assert isinstance(self.of, Clips)
        of, grid = self.of, (self.segments.firsts, self.segments.counts)
        crc = zlib.crc32(b"".join(one.astype("<i8").tobytes() for one in grid))
        return [
            len(self),
            crc,
            of.steps,
            of.before,
            of.every,
            *of.strides,
            int(of.replace),
            *weighed,
        ]


def listed(of: At, n_rows: int, seed: int, takes: list[I64]) -> Samples:
    """Return the samples that begin where the user says.

    Raises
    ------
    OptionsError
        One of them lies outside the datasets.
    """
    samples = Samples(of, n_rows, seed)
    if isinstance(of.starts, np.ndarray) and len(of.starts):
        ends = np.array([np.argmin(of.starts), np.argmax(of.starts)])
        for offsets in takes:
            samples.rows(ends, 0, offsets)
    return samples


def clips(
    of: Clips,
    n_rows: int,
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
    room = np.maximum(ends - begins - (high - low), 0)
    counts = np.concatenate([np.zeros(1, np.int64), np.cumsum(-(-room // of.every))])
    grid = Segments(begins, ends, begins - low, counts, of.every)
    samples = Samples(of, n_rows, seed, grid, order_rows, draws=of.draws)
    if not samples.n_all and len(begins) and n_rows:
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
        return replace(samples, chances=chances(np.ones(len(begins)), counts))
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
