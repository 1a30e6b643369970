"""The damage that a training run goes on behind, and the rows of each epoch that it took.

Law
---
1. A damaged chunk is left out of the indexes, so that no stream to come fetches it.
2. Positions stay as they are. A batch that lacks rows is a shorter copy; one of which nothing is
   left does not come.
3. The places of lost rows in an epoch are computed once for each chunk. Lost samples are looked for
   among those of some batches at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from _multitables import _core
from _multitables.errors import CorruptChunkError, ImageError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.heap import Heap
from _multitables.parent.ragged.open_rows import OpenedRows
from _multitables.plan.damaged_chunks import I64, Rows, places, without, without_rows
from _multitables.plan.row_order import OrderWords
from _multitables.plan.sharding import Ranges, between, length
from _multitables.plan.taken import Box

#: Samples that are looked at together.
PART_SAMPLES = 1 << 14


class Damage:
    """The chunks that were left out so far."""

    def __init__(self) -> None:
        self.errors: list[CorruptChunkError] = []
        #: The number of an index, and which of its elements were lost.
        self.boxes: list[tuple[int, Box]] = []
        self._rows: list[Rows] = []
        self._chunks: set[tuple[str, str, tuple[int, ...]]] = set()
        #: An epoch, and where in it the first of these rows stand.
        self._found: tuple[int, list[I64]] = (-1, [])

    def leave_out(
        self, error: CorruptChunkError, indexes: Sequence[ChunkIndex]
    ) -> tuple[list[ChunkIndex], list[Rows]]:
        """Return the indexes without a chunk, and its rows; none: it was left out before.

        Raises
        ------
        CorruptChunkError
            It is not known what is damaged, or this was left out before and came again.
        """
        place = error.chunk_offset or _row_of(error, indexes)
        if place is None:
            raise error
        chunk = error.filename, error.path, place
        each = [without(index, *chunk) for index in indexes]
        boxes = [(at, box) for at, (_, lost) in enumerate(each) for box in lost]
        rows = sorted({box[0] for _, box in boxes})
        if rows:
            self.boxes += boxes
            self._rows += rows
            self._chunks.add(chunk)
            self.errors.append(error.with_traceback(None))  # whose frames hold batches
        elif chunk not in self._chunks:
            raise error  # it would come again
        return [index for index, _ in each], rows

    def positions(self, order: OrderWords) -> I64:
        """Return the positions of the order's first epoch that lack rows, ascending."""
        if self._found[0] != order.first_epoch:
            self._found = order.first_epoch, []
        found, listed = self._found[1], order.listed_bytes
        for begin, end in self._rows[len(found) :]:
            found.append(_core.order_positions(order.words, listed, begin, end))
        return np.unique(np.concatenate(found))


def _row_of(error: CorruptChunkError, indexes: Sequence[ChunkIndex]) -> tuple[int] | None:
    """Return the row of a picture that lies by itself, in a global heap."""
    heaps = [one for one in indexes if isinstance(one, Heap)]
    is_there = any(part.path == error.path for one in heaps for part in one.parts)
    if not is_there or not isinstance(error, ImageError) or error.row is None:
        return None
    return (error.row,)


class EpochDamage:
    """What of one epoch's batches was lost."""

    def __init__(
        self, damage: Damage, order: OrderWords, ranges: Ranges, samples: OpenedRows | None = None
    ) -> None:
        self.known = len(damage.errors), order.first_epoch, ranges
        self._rows = length(ranges)
        self._of = damage, order, ranges, samples
        #: The places of lost rows, or of the samples up to the end of a part of the epoch.
        self._part = range(0)
        self._lost: I64 = np.zeros(0, np.int64)
        if samples is None:
            self._part = range(self._rows)
            self._lost = places(damage.positions(order), ranges)

    def _look_at(self, first: int, size: int) -> None:
        """Find the samples that are lost in some batches from this place on."""
        damage, order, ranges, samples = self._of
        assert samples is not None
        end = min(self._rows, first + max(1, PART_SAMPLES // size) * size)
        each = between(ranges, first, end)
        rows = [_core.order_rows(order.words, order.listed_bytes, *one) for one in each]
        numbers = np.concatenate(rows)
        lost = samples.touched(numbers, order.first_epoch, damage.boxes)
        self._part, self._lost = range(first, end), first + np.flatnonzero(lost)

    def without_lost(self, batch: Any, number: int, size: int) -> Any:
        """Return the batch of this number without rows that were lost; None: nothing is left."""
        if number * size not in self._part:
            self._look_at(number * size, size)
        low, high = np.searchsorted(self._lost, (number * size, (number + 1) * size))
        if low == high:
            return batch
        if high - low == min(size, self._rows - number * size):
            return None
        return without_rows(batch, self._lost[low:high] - number * size)
