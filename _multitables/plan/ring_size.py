"""How many rows and slots the ring has, and what of it fits into memory.

Law
---
1. Pure: equal arguments give equal sizes.
2. The ring holds at least two blocks of each consumer and two of the largest tasks, so that the
   oldest block that is not released can always be completed.
3. What does not fit into memory is an `OptionsError` that names the option.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from _multitables import _core, sizes
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import Records
from _multitables.plan.dataset_table import Dataset


@dataclass(frozen=True)
class Tape:
    """Where the rows of a dataset go: its bytes of the ring."""

    dataset: int
    n_bytes: int
    #: Readers keep decoded chunks, of which others want the rest.
    caches: bool = False
    #: The number of its table among the plan's `ends`.
    ends: int = 0


def check_memory(what: str, rows: int, row_bytes: int, limit: int, option: str) -> None:
    """Raise if these rows need more memory than a plan may have."""
    # A row without bytes is counted as one: rows are numbers of 64 bits.
    if rows * max(1, row_bytes) > limit:
        advice = f"Choose a smaller {option}"
        if row_bytes > limit:
            advice = "One row is larger than memory: stream parts of rows, with inner"
        raise OptionsError(
            f"{what} does not fit into memory: {rows} rows of {row_bytes} bytes "
            f"(expected at most {limit} bytes, got {rows * row_bytes})",
            advice=advice,
            option=option,
            expected=limit,
            got=rows * row_bytes,
        )


def capacity_of(
    row_bytes: int,
    block_rows: int,
    span: int,
    n_readers: int,
    read_ahead: int | None,
    reader_bytes: int,
    stream_rows: int | None,
    n_consumers: int = 1,
) -> int:
    """Return how many rows of all datasets the ring holds; `span` is the longest task.

    With `reader_bytes`, it has this much for each reader.
    """
    if read_ahead is not None:
        wanted = read_ahead * block_rows
    else:
        row_bytes = max(1, row_bytes)
        ring_bytes = reader_bytes * n_readers or sizes.RING_BYTES
        for_tasks = min((n_readers + 2) * span, sizes.MAX_RING_BYTES // row_bytes)
        wanted = max((2 * n_readers + 1) * block_rows, ring_bytes // row_bytes, for_tasks)
    capacity = max(wanted, 2 * n_consumers * block_rows + 2 * span)
    if stream_rows is not None:
        capacity = min(capacity, max(stream_rows, block_rows))
    return capacity


def tapes_of(
    datasets: Sequence[Dataset], capacity_rows: int, kept: Container[int] = ()
) -> tuple[Tape, ...]:
    """Return a tape of whole pages for each dataset; `kept` are those whose chunks are kept."""
    return tuple(
        Tape(number, whole_pages(capacity_rows * dataset.index.row_bytes), number in kept)
        for number, dataset in enumerate(datasets)
    )


def whole_pages(n_bytes: int) -> int:
    """Return the bytes of the pages that hold these bytes: one at least."""
    return max(1, -(-n_bytes // _core.PAGE_BYTES)) * _core.PAGE_BYTES


def n_slots(tasks: Records, lap_rows: int, capacity: int, endless: bool) -> int:
    """A power of two, above the number of tasks that can begin within the ring's capacity."""
    n, row_begin = len(tasks), tasks["row_begin"]
    if n == 0:
        return 1
    laps, rest = divmod(capacity, lap_rows) if endless else (0, min(capacity, lap_rows))
    tape = row_begin
    if endless:
        tape = np.concatenate([row_begin, row_begin + np.uint64(lap_rows)])
    ends = np.searchsorted(tape, row_begin + np.uint64(rest), side="left")
    within = int((ends - np.arange(n)).max())
    repeated = tasks[tasks["repeat"] > 1]
    if len(repeated):
        # Of each tape as many as the capacity has, and one more where such a task begins or ends.
        each = int((repeated["row_end"] - repeated["row_begin"]).min())
        within = 2 * within + len(set(repeated["tape"].tolist())) * (rest // each + 1)
        n = int(tasks["repeat"].sum())
    return 1 << (laps * n + within + 1).bit_length()
