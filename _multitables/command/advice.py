"""Advice that lets a dataset be read faster, from how it is stored.

Law
---
1. Pure: numbers in, sentences out. `explain` says the rest, by measuring it.
2. Each sentence says what was found, what it costs and what to do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from _multitables.parent.titles import size

#: Smaller chunks (decoded) cost more to find and to begin than to decode.
SMALL_CHUNK_BYTES = 16 << 10
#: Of chunks that cut rows: what may be decoded before a row is whole.
ACROSS_BYTES = 1 << 20
#: A chunk, and a block, that suits streams and rows chosen at random.
GOOD_BYTES = 256 << 10
#: Smaller blocks cost a loop more than they give it.
SMALL_BLOCK_BYTES = 16 << 10
#: Less data is read at once, however it is stored.
LITTLE_BYTES = 1 << 20
#: A compression that saves less than this part is not worth its decoding.
SAVED = 0.05
#: A compression is advised if it saves this part.
WORTH = 0.2


@dataclass(frozen=True)
class Storage:
    """How a dataset is stored; bytes are decoded, but for `stored_bytes`."""

    path: str
    shape: tuple[int, ...]
    chunks: tuple[int, ...] | None
    item_bytes: int
    is_compressed: bool
    stored_bytes: int
    #: Rows of a block of a stream by default.
    block_rows: int
    #: The bytes that zlib makes of a sample, as a part of it; None: not tried.
    compressed: float | None = None

    @property
    def row_bytes(self) -> int:
        """Of one row."""
        return self.n_bytes // max(1, self.shape[0])

    @property
    def n_bytes(self) -> int:
        """Of all rows."""
        return math.prod(self.shape) * self.item_bytes

    @property
    def chunk_bytes(self) -> int:
        """Of one chunk."""
        return math.prod(self.chunks or ()) * self.item_bytes

    @property
    def rows_of_good_size(self) -> int:
        """Rows that are a good chunk together."""
        return max(1, min(self.shape[0], GOOD_BYTES // max(1, self.row_bytes)))


def advice(stored: Storage) -> Iterator[str]:
    """Yield what to do, the most important first."""
    if stored.n_bytes < LITTLE_BYTES:
        return
    if stored.chunks:
        yield from _about_chunks(stored, stored.chunks)
    if stored.is_compressed and stored.stored_bytes > (1 - SAVED) * stored.n_bytes:
        yield (
            f"The compression saves little: {size(stored.stored_bytes)} are stored of "
            f"{size(stored.n_bytes)}. Without it nothing has to be decoded: "
            f"h5repack -f {stored.path}:NONE OLD NEW."
        )
    if stored.compressed is not None and stored.compressed < 1 - WORTH:
        yield (
            f"Nothing is compressed, and zlib makes {stored.compressed:.0%} of the bytes of the "
            "first rows. From a slow device or a store smaller data is read faster: write it with "
            "lz4 or zstd of blosc2 (hdf5plugin.Blosc2), which decode fastest."
        )
    block_bytes = stored.block_rows * stored.row_bytes
    if block_bytes < SMALL_BLOCK_BYTES:
        yield (
            f"A block of a stream is {_rows(stored.block_rows)} by default, {size(block_bytes)}, "
            f"and each costs the loop the same: give block_size={_block_rows(stored)}."
        )


def _about_chunks(stored: Storage, chunks: tuple[int, ...]) -> Iterator[str]:
    whole = (stored.rows_of_good_size, *stored.shape[1:])
    extents = "x".join(map(str, whole))
    cure = f"Write the file anew: h5repack -l {stored.path}:CHUNK={extents} OLD NEW."
    parts = math.prod(
        -(-dim // chunk) for dim, chunk in zip(stored.shape[1:], chunks[1:], strict=True)
    )
    across = min(chunks[0], stored.shape[0]) * stored.row_bytes
    if stored.chunk_bytes < SMALL_CHUNK_BYTES:
        yield (
            f"The chunks are small: {size(stored.chunk_bytes)} each. To find one and to begin to "
            f"decode it costs more than its bytes. {cure}"
        )
    elif parts > 1 and across > ACROSS_BYTES:
        yield (
            f"Rows are cut: each lies in {parts} chunks, which have parts of {_rows(chunks[0])}. "
            f"{size(across)} are decoded before one row is whole. {cure}"
        )


def _block_rows(stored: Storage) -> int:
    """Return whole rows of chunks that make a good block."""
    step = stored.block_rows
    return step * -(-GOOD_BYTES // (step * max(1, stored.row_bytes)))


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"
