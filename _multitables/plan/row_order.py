"""The order of rows that are shuffled, as the core knows it.

Law
---
1. Pure: equal arguments give equal orders.
2. What an order depends on (chunk length, window) comes from the datasets and the options alone,
   never from the machine, the driver or the number of readers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from _multitables import _core, options, sizes
from _multitables.index.chunk_index import ByLibrary, ChunkIndex
from _multitables.plan import reader_options
from _multitables.plan.dataset_table import lead_of
from _multitables.plan.row_subset import Subset, subset_of


@dataclass(frozen=True, kw_only=True)
class OrderWords(Subset):
    """An order of the rows that take part, as the core's tables/shuffle/order.rs knows it."""

    shuffle: int
    seed: int
    first_epoch: int
    chunk_rows: int
    window_rows: int

    @property
    def words(self) -> tuple[int, int, int, int, int, int, int, int]:
        """The numbers, as `Order::from_words` in the core's tables/shuffle/order.rs takes them."""
        return (
            self.shuffle,
            self.seed,
            self.first_epoch,
            self.n_rows,
            self.chunk_rows,
            self.window_rows,
            self.start,
            self.step,
        )

    @property
    def listed_bytes(self) -> bytes:
        """The listed rows as little-endian words."""
        return b"" if self.listed is None else self.listed.astype("<u8", copy=False).tobytes()


#: Numbers of `options.SHUFFLES`.
FILE_ORDER, CHUNKS, WINDOW, FULL = range(4)


#: Rows of a window at most, about: places in it are numbers of 32 bits.
MAX_WINDOW_ROWS = 1 << 31


def chunk_rows(index: ChunkIndex) -> int:
    """Rows of a chunk; of data without chunks, of a piece that is shuffled like one."""
    if index.chunk_dims is not None:
        return index.chunk_dims[0]
    stored = max(1, math.prod(index.dims[1:]) * index.kind.element_bytes)
    # To ask a library takes long, so it is asked for as much as in the order of the file.
    by_library = isinstance(index, ByLibrary)
    piece_bytes = sizes.DIRECT_TASK_BYTES if by_library else sizes.PIECE_BYTES
    return max(1, piece_bytes // stored)


def order_of(
    indexes: Sequence[ChunkIndex], subset: Subset, wanted: reader_options.BatchOptions
) -> OrderWords:
    """Return the order of epoch 0; others differ in `first_epoch` only."""
    kind = options.SHUFFLES.index(wanted.shuffle)
    lead = indexes[lead_of(indexes)]
    outer = chunk_rows(lead)
    row_bytes = max(1, sum(index.row_bytes for index in indexes))
    if kind == FULL:
        # Only where windows are cut: what stands at a position does not depend on it.
        most = min(max(1, subset.n_rows), MAX_WINDOW_ROWS)
        window = min(wanted.memory_limit_bytes // 2 // row_bytes, most)
        if not goes_by_rows(subset.n_rows, window, len(indexes)):
            counted = max(row_bytes, sizes.PLACE_BYTES)
            window = min(wanted.memory_limit_bytes // 2 // counted, most)
        window = min(max(1, window, wanted.batch_size), most)
    else:
        window = _whole_chunks(indexes, kind, wanted.window_rows)
    return OrderWords(
        **vars(subset),
        shuffle=kind,
        seed=wanted.seed,
        first_epoch=0,
        chunk_rows=outer,
        window_rows=window,
    )


def file_order(indexes: Sequence[ChunkIndex], subset: Subset) -> OrderWords:
    """Return the order of a stream of these rows that is not shuffled."""
    return OrderWords(
        **vars(subset),
        shuffle=FILE_ORDER,
        seed=0,
        first_epoch=0,
        chunk_rows=chunk_rows(indexes[lead_of(indexes)]),
        window_rows=_whole_chunks(indexes, FILE_ORDER, None),
    )


def laps_in_order(
    indexes: Sequence[ChunkIndex],
    wanted: reader_options.StreamOptions,
    size: int,
    tail_only: bool = False,
) -> tuple[OrderWords, list[tuple[int, int]], int | None]:
    """Return the order of a stream in blocks of a size, what is delivered of it, and how often.

    With `tail_only`, what is delivered are the rows that fill no block.
    """
    subset = subset_of(wanted.rows, indexes[lead_of(indexes)].n_rows)
    whole = subset.n_rows // size * size
    begin = whole if tail_only else 0
    end = subset.n_rows if wanted.cyclic or wanted.remainder else whole
    ranges = [(begin, end)] if begin < end else []
    return file_order(indexes, subset), ranges, None if wanted.cyclic else 1


def _whole_chunks(indexes: Sequence[ChunkIndex], kind: int, wanted_rows: int | None) -> int:
    """Return the rows of a window that is made chunk by chunk."""
    outer = chunk_rows(indexes[lead_of(indexes)])
    row_bytes = max(1, sum(index.row_bytes for index in indexes))
    size, chunks = sizes.WINDOW_BYTES, sizes.MAX_WINDOW_BYTES // (outer * row_bytes)
    chunks = min(max(chunks, sizes.MIN_WINDOW_CHUNKS), sizes.WINDOW_CHUNKS)
    if kind == CHUNKS:
        # What stands at a position does not depend on it, either. A chunk on the edge of two
        # windows is decoded twice, so that these are not short; but where it is not, two are as
        # short as a ring that stays in the caches.
        plain = not any(index.kind.pipeline for index in indexes)
        alike = all(chunk_rows(index) == outer for index in indexes)
        size = sizes.CHUNKS_BYTES if plain or alike else size
        chunks = 1 if plain else chunks
    rows = wanted_rows or max(size // row_bytes, chunks * outer)
    return -(-min(rows, MAX_WINDOW_ROWS) // outer) * outer


def goes_by_rows(n_rows: int, positions: int, n_datasets: int) -> bool:
    """Whether readers make a full shuffle's window by the rows, for which they hold nothing."""
    return n_rows // _core.ORDER_BY_ROWS * n_datasets <= positions
