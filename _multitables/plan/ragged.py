"""Ragged rows as streams deliver them: which rows come together, and where their elements lie.

Law
---
1. Pure: orders, batches and shards are those of rows of one size; only what is asked for a row
   differs. Which rows are asked for at once never changes what is delivered.
2. Rows that follow each other are one span of elements.
3. Offsets are checked once, before anything is read by them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from _multitables import sizes
from _multitables.errors import CorruptFileError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.plan.row_order import FILE_ORDER, OrderWords
from _multitables.plan.sharding import Ranges, between, length
from _multitables.select.selection import Spans

I64 = npt.NDArray[np.int64]
#: The core's: words of an order, listed rows, and positions from begin to end -> rows.
OrderRows = Callable[..., I64]
#: Rows of the order that are made at once, about.
PIECE_ROWS = 1 << 20


def checked_offsets(index: ChunkIndex, offsets: npt.NDArray[np.generic], n_elements: int) -> I64:
    """Return the offsets of a dataset as numbers of 64 bits, if rows can be told from them.

    Raises
    ------
    CorruptFileError
        They decrease, or lie outside the elements.
    """
    ends: I64 = offsets.astype(np.int64)
    bad = "is negative" if len(ends) and ends[0] < 0 else ""
    at, expected = 0, "at least 0"
    decreases = ends[1:] < ends[:-1]  # a difference might be too large a number
    if not bad and decreases.any():
        at = int(np.argmax(decreases)) + 1
        bad, expected = "is less than the one before it", f"at least {ends[at - 1]}"
    elif not bad and len(ends) and ends[-1] > n_elements:
        at = int(np.argmax(ends > n_elements))
        bad, expected = "lies beyond the elements", f"at most {n_elements}"
    elif not bad and not len(ends):
        raise CorruptFileError(
            f"there are no offsets in {index.path!r} of {index.filename!r} (expected at least 1)",
            advice="Name the dataset that says where rows begin and end",
            path=index.path,
            filename=index.filename,
        )
    if bad:
        raise CorruptFileError(
            f"offset {at} of {index.path!r} in {index.filename!r} {bad} "
            f"(expected {expected}, got {ends[at]})",
            good="Nothing was read by these offsets",
            advice="Check that they belong to these values; if so, the file is damaged",
            path=index.path,
            filename=index.filename,
            expected=expected,
            got=int(ends[at]),
        )
    return ends


def as_rows(index: ChunkIndex, ends: I64, element_bytes: int, chunk: int | None) -> ChunkIndex:
    """Return an index that stands for ragged rows where an order is made.

    Its chunks have as many rows as `chunk` elements are on average; None: as a piece of data
    without chunks has.
    """
    n_rows = len(ends) - 1
    mean = max(1, int(ends[-1] - ends[0]) // max(1, n_rows))
    elements = chunk or sizes.PIECE_BYTES // max(1, element_bytes)
    n_bytes = max(1, mean * element_bytes)
    return replace(
        index,
        dtype=np.dtype((np.void, n_bytes)),
        shape=(n_rows,),
        dims=(n_rows,),
        chunk_dims=(max(1, elements // mean),),
        element_bytes=n_bytes,
        field_offset=0,
        field_bytes=n_bytes,
    )


@dataclass(frozen=True)
class Fetch:
    """Rows that are asked for at once, and where their batches end."""

    #: In the order of delivery; a range of rows that follow each other.
    rows: range | I64
    batch_ends: list[int]
    #: Of the first row, on the stream.
    position: int

    def spans(self, ends: I64) -> tuple[Spans, I64]:
        """Return where elements of the rows lie, and where rows begin and end among these."""
        if isinstance(self.rows, range):
            cut = ends[self.rows.start : self.rows.stop + 1]
            begins, lengths, offsets = cut[:1], cut[-1:] - cut[:1], cut - cut[0]
        else:
            begins, lengths = ends[self.rows], ends[self.rows + 1] - ends[self.rows]
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            begins, lengths = _joined(begins, lengths)
        some = lengths > 0
        return Spans(begins[some], lengths[some]), offsets

    def row_spans(self) -> Spans:
        """Return the rows themselves as spans."""
        if isinstance(self.rows, range):
            begins = np.array([self.rows.start])
            return Spans(begins, np.array([len(self.rows)]))
        return Spans(*_joined(self.rows, np.ones(len(self.rows), np.int64)))


def _joined(begins: I64, lengths: I64) -> tuple[I64, I64]:
    """Join spans that follow each other."""
    if len(begins) < 2:
        return begins, lengths
    first = np.flatnonzero(np.concatenate([[True], begins[1:] != begins[:-1] + lengths[:-1]]))
    return begins[first], np.add.reduceat(lengths, first)


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
    #: Bytes of each row, for what has no offsets, and offsets of what has some with the bytes of
    #: one element.
    fixed_bytes: int
    ends: Sequence[tuple[I64, int]]
    #: Bytes that are asked for at once, and how often before the first are delivered.
    fetch_bytes: int
    depth: int
    #: Of what is asked for at once.
    max_batches: int

    @property
    def lap_rows(self) -> int:
        """Rows of one lap."""
        return length(self.ranges)

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
            int(np.diff(ends).max(initial=0)) * element_bytes for ends, element_bytes in self.ends
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
            if order.shuffle == FILE_ORDER and order.step == 1:
                ranges = between(self.ranges, at, stop)
                found += [range(order.start + low, order.start + high) for low, high in ranges]
                continue
            words = replace(order, first_epoch=order.first_epoch + lap).words
            for low, high in between(self.ranges, at, stop):
                found.append(order_at(words, begin=low, end=high))
        if len(found) == 1:
            return found[0]
        return np.concatenate([np.asarray(rows, np.int64) for rows in found])

    def _cut(self, rows: range | I64, position: int) -> Iterator[Fetch]:
        """Cut rows between batches, so that each part has the bytes of a fetch, or one batch."""
        cuts = np.append(np.arange(self.batch_size, len(rows), self.batch_size), len(rows))
        n_bytes = self.fixed_bytes * cuts
        for ends, element_bytes in self.ends:
            if isinstance(rows, range):
                elements = ends[rows.start + cuts] - ends[rows.start]
            else:
                elements = np.cumsum(ends[rows + 1] - ends[rows])[cuts - 1]
            n_bytes = n_bytes + elements * element_bytes
        first, begin, done = 0, 0, 0
        while first < len(cuts):
            last = int(np.searchsorted(n_bytes, done + self.fetch_bytes, side="right"))
            last = max(first + 1, min(last, first + self.max_batches))
            end, done = int(cuts[last - 1]), int(n_bytes[last - 1])
            yield Fetch(rows[begin:end], (cuts[first:last] - begin).tolist(), position + begin)
            first, begin = last, end
