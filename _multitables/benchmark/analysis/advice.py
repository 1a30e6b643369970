"""What bounds a stream, and what to do about it, as pure arithmetic over measured rates.

Law
---
1. It takes numbers and returns values: it touches no file, process or clock, and writes no text.
2. The bound is the smallest of the limits; nothing is advised that was not measured.
3. Rates are MB/s of decoded data, 10**6 bytes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

#: A rate this close to the best counts as equal, because rounds differ by as much.
TOLERANCE = 0.05
#: Smaller blocks cost the program's loop more than they save.
MIN_BLOCK_BYTES = 256 * 2**10
#: Smaller chunks (decoded) are tiny: each costs a claim, a lookup and the start of a filter.
SMALL_CHUNK_BYTES = 16 * 2**10

#: Where chunks hold parts of rows: with fewer decoded bytes per row of chunks, rows are soon whole.
ACROSS_BYTES = 2**20
#: A chunk of whole rows that suits streams and rows chosen at random.
WHOLE_ROWS_BYTES = 256 * 2**10


@dataclass(frozen=True)
class Growing:
    """A limit that grows with the processes, measured with one and on all cores."""

    one: float
    all_cores: float
    cores: int

    def on(self, n_procs: int) -> float:
        """The limit of `n_procs` processes; between the two that were measured, at most linear."""
        if n_procs >= self.cores:
            return self.all_cores
        if n_procs == 1:
            return self.one
        return min(n_procs * self.one, max(self.one, self.all_cores))


@dataclass(frozen=True)
class Bounds:
    """What a stream cannot exceed, by name: the same for any number of processes, or growing."""

    fixed: Mapping[str, float] = field(default_factory=dict)
    growing: Mapping[str, Growing] = field(default_factory=dict)

    def on(self, n_procs: int) -> dict[str, float]:
        """All limits of a stream of `n_procs` processes."""
        return {
            **self.fixed,
            **{name: limit.on(n_procs) for name, limit in self.growing.items()},
        }


@dataclass(frozen=True)
class Verdict:
    """What bounds a stream.

    Attributes
    ----------
    n_procs : int
        Advised: the fewest readers that are about as fast as the best number of them.
    rate : float
        What they deliver.
    bound : str
        The name of the smallest limit for `n_procs`.
    limit : float
        That limit.
    enough : int or None
        With this many readers the bound would reach the limits that do not grow; None when it
        is one of these itself, or when there are none.
    """

    n_procs: int
    rate: float
    bound: str
    limit: float
    enough: int | None

    @property
    def share(self) -> float:
        """The part of the limit that is reached; above 1 by as much as rounds differ."""
        return self.rate / self.limit


def fewest(rates: Mapping[int, float], tolerance: float = TOLERANCE) -> int:
    """The smallest key whose rate lies within `tolerance` of the best."""
    best = max(rates.values())
    return min(number for number, rate in rates.items() if rate >= (1 - tolerance) * best)


def judge(bounds: Bounds, rates: Mapping[int, float]) -> Verdict:
    """What bounds the stream whose `rates` were measured for these numbers of processes.

    There must be a limit and a rate, and all must be above 0.
    """
    n_procs = fewest(rates)
    found = bounds.on(n_procs)
    bound = min(found, key=lambda name: found[name])
    enough = None
    if bound in bounds.growing and bounds.fixed:
        enough = math.ceil(min(bounds.fixed.values()) / bounds.growing[bound].one)
    return Verdict(n_procs, rates[n_procs], bound, found[bound], enough)


@dataclass(frozen=True)
class Shape:
    """What matters of a dataset for the size of blocks.

    Attributes
    ----------
    rows, row_bytes : int
        Decoded.
    chunk_rows : int
        Outer length of a chunk; 1 for data without chunks.
    chunk_bytes : int
        Decoded bytes of one chunk; those of a row for data without chunks.
    """

    rows: int
    row_bytes: int
    chunk_rows: int
    chunk_bytes: int


def block_rows(shape: Shape) -> int:
    """Rows of a block: whole rows of chunks, and at least `MIN_BLOCK_BYTES` if there are."""
    step_bytes = shape.chunk_rows * shape.row_bytes
    steps = max(1, -(-MIN_BLOCK_BYTES // step_bytes))
    return max(1, min(shape.rows, steps * shape.chunk_rows))


def ring_bytes(shape: Shape, rows: int, n_procs: int) -> int:
    """What a ring of blocks of `rows` holds at least, by default: ``2 * n_procs + 1`` of them."""
    return (2 * n_procs + 1) * rows * shape.row_bytes


def rechunk(shape: Shape, chunked: bool) -> bool:
    """Whether the chunks are so small that writing the file anew is the cure."""
    return chunked and shape.chunk_bytes < SMALL_CHUNK_BYTES < shape.rows * shape.row_bytes


def across_bytes(shape: Shape) -> int:
    """What is decoded before a row is whole."""
    return min(shape.chunk_rows, shape.rows) * shape.row_bytes


def are_narrow(shape: Shape, chunked: bool) -> bool:
    """Whether chunks hold parts of rows, and of more rows than `ACROSS_BYTES` allows."""
    parts = shape.chunk_bytes < shape.chunk_rows * shape.row_bytes
    return chunked and parts and across_bytes(shape) > ACROSS_BYTES


def whole_rows(shape: Shape) -> int:
    """Rows of a chunk in the file that is written anew."""
    return max(1, min(shape.rows, WHOLE_ROWS_BYTES // max(1, shape.row_bytes)))
