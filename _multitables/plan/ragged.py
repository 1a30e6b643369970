"""Ragged rows as streams deliver them: which rows come together, and where their elements lie.

Law
---
1. Pure: orders, batches and shards are those of rows of one size; only what is asked for a row
   differs. Which rows are asked for at once never changes what is delivered.
2. Rows that follow each other are one span of elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from _multitables import sizes
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.types.element_type import stored_type
from _multitables.plan.row_order import FILE_ORDER, WINDOW, OrderWords
from _multitables.plan.row_spans import RowSpans
from _multitables.plan.sharding import Part, Ranges, between, length
from _multitables.select.selection import Spans

I64 = npt.NDArray[np.int64]
#: The core's: words of an order, listed rows, and positions from begin to end -> rows.
OrderRows = Callable[..., I64]
#: Rows of the order that are made at once, about.
PIECE_ROWS = 1 << 20


def as_rows(
    index: ChunkIndex, spans: RowSpans, element_bytes: int, chunk: int | None
) -> ChunkIndex:
    """Return an index that stands for ragged rows where an order is made.

    Its chunks have as many rows as `chunk` elements are on average; None: as a piece of data
    without chunks has.
    """
    n_rows = len(spans)
    mean = max(1, spans.n_elements // max(1, n_rows))
    elements = chunk or sizes.PIECE_BYTES // max(1, element_bytes)
    n_bytes = max(1, mean * element_bytes)
    return replace(
        index,
        kind=replace(index.kind, part=stored_type(n_bytes), element_bytes=n_bytes),
        dims=(n_rows,),
        chunk_dims=(max(1, elements // mean),),
    )


@dataclass(frozen=True)
class Fetch:
    """Rows that are asked for at once, and where their batches end."""

    #: In the order of delivery; a range of rows that follow each other.
    rows: range | I64
    batch_ends: list[int]
    #: Of the first row, on the stream.
    position: int

    def spans(self, all_rows: RowSpans) -> tuple[Spans, I64]:
        """Return where elements of the rows lie, and where rows begin and end among these."""
        rows = self.rows
        chosen = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
        begins, ends = all_rows.begins[chosen], all_rows.ends[chosen]
        if isinstance(rows, range) and all_rows.in_line:
            offsets = np.concatenate([begins[:1], ends]) - begins[0]
            begins, lengths = begins[:1], offsets[-1:]
        else:
            lengths = ends - begins
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
            begins, lengths, *_ = Spans(begins, lengths).joined()
        some = lengths > 0
        return Spans(begins[some], lengths[some]), offsets

    def row_spans(self) -> Spans:
        """Return the rows themselves as spans."""
        if isinstance(self.rows, range):
            begins = np.array([self.rows.start])
            return Spans(begins, np.array([len(self.rows)]))
        return Spans.of(self.rows)

    @property
    def numbers(self) -> I64:
        """The rows, one by one."""
        return np.asarray(self.rows, np.int64)


@dataclass(frozen=True)
class RaggedPlan:
    """The batches of a stream of ragged rows, lap after lap."""

    #: Of epoch `order.first_epoch`; each lap has the next one.
    order: OrderWords
    ranges: Ranges
    batch_size: int
    #: Laps; None: without end.
    laps: int | None
    #: A batch may go on in the next lap.
    crosses: bool
    #: Of every `count` batches of a lap, which one is delivered here; ranks of a node take turns.
    turn: Part
    #: Bytes of a row of datasets with rows of one size; and the spans of ragged rows
    #: with the bytes of one element.
    fixed_bytes: int
    spans: Sequence[tuple[RowSpans, int]]
    #: Bytes that are asked for at once, and how often before the first are delivered.
    fetch_bytes: int
    depth: int
    #: Of what is asked for at once.
    max_batches: int

    @property
    def lap_rows(self) -> int:
        """Rows of one lap."""
        (number, count), size = self.turn, self.batch_size
        whole, rest = divmod(length(self.ranges), size)
        mine = max(0, -(-(whole - number) // count)) * size
        return mine + (rest if whole % count == number else 0)

    def _places(self, own: I64) -> I64:
        """Return positions in the ranges of a lap, of positions in the rows that are its own."""
        (number, count), size = self.turn, self.batch_size
        return own if count == 1 else (own // size * count + number) * size + own % size

    def epoch_of(self, fetch: Fetch) -> int:
        """Return the epoch of a fetch, of laps that batches do not cross."""
        return self.order.first_epoch + fetch.position // self.lap_rows

    @property
    def n_batches(self) -> int | None:
        """Batches of all laps; None: without end."""
        if self.laps is None:
            return None if self.lap_rows else 0
        return self.laps * -(-self.lap_rows // self.batch_size)

    @property
    def longest_bytes(self) -> int:
        """Bytes that no batch exceeds."""
        longest = sum(
            int(spans.lengths.max(initial=0)) * element_bytes for spans, element_bytes in self.spans
        )
        rows = self.batch_size if self.crosses else min(self.batch_size, max(1, self.lap_rows))
        return rows * (self.fixed_bytes + longest)

    def fetches(self, order_rows: OrderRows) -> Iterator[Fetch]:
        """Yield what is to be asked for, in the order of delivery."""
        if not self.lap_rows:
            return
        order_at = partial(order_rows, listed=self.order.listed_bytes)
        for begin, end in self._pieces():
            yield from self._cut(self._rows(begin, end, order_at), begin)

    def _pieces(self) -> Iterator[tuple[int, int]]:
        """Yield whole batches, of one lap where they do not cross its end."""
        lap_rows, size = self.lap_rows, self.batch_size
        step = max(1, PIECE_ROWS // size) * size
        for lap in itertools.count() if self.laps is None else range(self.laps):
            at, end = lap * lap_rows, (lap + 1) * lap_rows
            if self.crosses:
                at = -(-at // size) * size  # where the last lap's batches ended
                whole = at + max(0, end - at) // size * size
                yield from [(low, min(low + step, whole)) for low in range(at, whole, step)]
                if whole < end:
                    yield whole, whole + size
            else:
                yield from [(low, min(low + step, end)) for low in range(at, end, step)]

    def _rows(self, begin: int, end: int, order_at: Callable[..., I64]) -> range | I64:
        """Return rows of the stream, by their numbers in the datasets."""
        order, found = self.order, list[range | I64]()
        while begin < end:
            lap, at = divmod(begin, self.lap_rows)
            stop = min(self.lap_rows, at + end - begin)
            begin += stop - at
            if self.turn[1] > 1:
                found.append(self._own_rows(lap, np.arange(at, stop), order_at))
                continue
            if order.shuffle == FILE_ORDER and order.step == 1:
                ranges = between(self.ranges, at, stop)
                found += [range(order.start + low, order.start + high) for low, high in ranges]
                continue
            found += self._ordered(lap, at, stop, order_at)
        if len(found) == 1:
            return found[0]
        return np.concatenate([np.asarray(rows, np.int64) for rows in found])

    def _ordered(self, lap: int, at: int, stop: int, order_at: Callable[..., I64]) -> list[I64]:
        """Return the rows at positions in the ranges of a lap."""
        words = replace(self.order, first_epoch=self.order.first_epoch + lap).words
        ranges = between(self.ranges, at, stop)
        return [order_at(words, begin=low, end=high) for low, high in ranges]

    def _own_rows(self, lap: int, own: I64, order_at: Callable[..., I64]) -> I64:
        """Return the rows at positions in the rows of a lap that are its own."""
        places = self._places(own)
        first, end = int(places[0]), int(places[-1]) + 1
        return np.concatenate(self._ordered(lap, first, end, order_at))[places - first]

    def _windows(self, position: int, cuts: I64) -> I64:
        """Return the batches that are the first to begin in a window of a shuffle, and their end.

        A window whose batches are requested together is read once, but for the last one.
        """
        ends = np.array([0, len(cuts)])
        if self.order.shuffle != WINDOW:
            return ends
        lap, own = np.divmod(position + np.append(0, cuts[:-1]), self.lap_rows)
        places = self._places(own)
        begins, lengths = np.array(self.ranges).T[0], np.array([b - a for a, b in self.ranges])
        before = np.cumsum(lengths) - lengths
        at = np.searchsorted(before, places, side="right") - 1
        numbers = (begins[at] + places - before[at]) // self.order.window_rows
        is_first = (np.diff(numbers) != 0) | (np.diff(lap) != 0)
        return np.union1d(np.flatnonzero(is_first) + 1, ends)

    def _cut(self, rows: range | I64, position: int) -> Iterator[Fetch]:
        """Cut rows between batches, so that each part has the bytes of a fetch, or one batch."""
        cuts = np.append(np.arange(self.batch_size, len(rows), self.batch_size), len(rows))
        n_bytes = self.fixed_bytes * cuts
        chosen = slice(rows.start, rows.stop) if isinstance(rows, range) else rows
        for spans, element_bytes in self.spans:
            begins, ends = spans.begins[chosen], spans.ends[chosen]
            if isinstance(rows, range) and spans.in_line:
                elements = ends[cuts - 1] - begins[0]
            else:
                elements = np.cumsum(ends - begins)[cuts - 1]
            n_bytes = n_bytes + elements * element_bytes
        windows = self._windows(position, cuts)
        first, begin, done = 0, 0, 0
        while first < len(cuts):
            last = int(np.searchsorted(n_bytes, done + self.fetch_bytes, side="right"))
            last = max(first + 1, min(last, first + self.max_batches))
            whole = windows[np.searchsorted(windows, last, side="right") - 1]
            last = whole if whole > first else last
            end, done = int(cuts[last - 1]), int(n_bytes[last - 1])
            yield Fetch(rows[begin:end], (cuts[first:last] - begin).tolist(), position + begin)
            first, begin = last, end
