"""From chunk indexes and options to a read plan: which task reads what, and where it goes.

Law
---
1. Pure: no file, process, clock or shared memory; equal arguments give equal plans.
2. Rows are counted on the tape, from the start of a lap; tasks are sorted by their first row.
3. Every wanted row is covered by tasks, and no task reaches past the lap.
4. The ring holds at least two blocks and two of the largest tasks, so that the oldest block that
   is not released can always be completed.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from _multitables import options
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import ChunkIndex
from _multitables.read_tasks import Member, Records, member_of, plan_tasks

#: Rows on the tape of a stream without end.
ENDLESS = 2**64 - 1


@dataclass(frozen=True)
class OrderWords:
    """An order as the core knows it; see core/src/order.rs.

    Rows that take part are ``start + i * step``, or those listed (then `step` is 0).
    """

    shuffle: int
    seed: int
    first_epoch: int
    n_rows: int
    chunk_rows: int
    window_rows: int
    start: int = 0
    step: int = 1
    listed: npt.NDArray[np.uint64] | None = field(default=None, repr=False)

    @property
    def words(self) -> tuple[int, int, int, int, int, int, int, int]:
        """The numbers, as `Order::from_words` in core/src/order.rs takes them."""
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


@dataclass(frozen=True)
class ReadPlan:
    """A table of tasks, the chunks they fetch, and the ring they fill."""

    members: tuple[Member, ...]
    first_row: int
    lap_rows: int
    end_row: int
    block_rows: int
    capacity_rows: int
    n_readers: int
    n_slots: int
    tasks: Records = field(repr=False)
    chunks: Records = field(repr=False)
    #: Blocks end with the lap; the last one of each may be shorter.
    lap_blocks: bool = False
    #: Of a stream whose rows go where an order says.
    order: OrderWords | None = None
    #: Bytes of decoded chunks that a reader may keep.
    keep_bytes: int = 0

    @property
    def ring_payload_bytes(self) -> int:
        """Bytes of all tapes."""
        return sum(member.tape_bytes for member in self.members)

    @property
    def lap_tasks(self) -> int:
        """Tasks of one lap."""
        return int(self.tasks["repeat"].sum())


def plan_reads(
    indexes: Sequence[ChunkIndex],
    *,
    block_rows: int,
    n_readers: int,
    read_ahead: int | None = None,
    cyclic: bool = False,
    remainder: bool = False,
    first_row: int = 0,
    end_row: int | None = None,
    epochs: int | None = 1,
    lap_blocks: bool = False,
    direct: bool = False,
    native_filters: Container[int] = (),
    page_bytes: int = 4096,
    memory_limit_bytes: int = 1 << 46,
) -> ReadPlan:
    """Plan the stream of `indexes`, datasets of equal outer length, in lock-step.

    Parameters
    ----------
    block_rows : int
        Rows of a block.
    first_row : int
        Row of the datasets at which a lap begins.
    end_row : int, optional
        Row before which a lap ends; the default is the end of the datasets.
    epochs : int, optional
        Laps of the stream; None for no end. (`cyclic` is that with blocks across the end.)
    lap_blocks : bool
        Blocks end with their lap.
    native_filters : container of int
        Ids that the core decodes; a dataset with any other goes through the library.
    memory_limit_bytes : int
        What a block, and the ring, may need.

    Returns
    -------
    ReadPlan

    Raises
    ------
    OptionsError
        A block or the ring does not fit into memory.
    UnsupportedDatasetError
        The plan does not.
    """
    row_bytes = sum(index.row_bytes for index in indexes)
    check_memory("a block", block_rows, row_bytes, memory_limit_bytes, "block_size")
    rows = (indexes[0].n_rows if end_row is None else end_row) - first_row
    lap_rows = rows if cyclic or remainder else rows // block_rows * block_rows
    if cyclic:
        epochs = None
    if not cyclic:
        block_rows = min(block_rows, max(lap_rows, 1))
    members, tasks, chunks = plan_tasks(
        [member_of(index, direct, native_filters) for index in indexes],
        first_row,
        lap_rows,
        n_readers,
        memory_limit_bytes,
    )
    tape_rows = ENDLESS if epochs is None and rows > 0 else lap_rows * (epochs or 1)
    span = int((tasks["row_end"] - tasks["row_begin"]).max()) if len(tasks) else 1
    capacity = _capacity_rows(
        members,
        block_rows,
        span,
        n_readers,
        read_ahead,
        direct,
        None if epochs is None else tape_rows,
    )
    check_memory("the ring", capacity, row_bytes, memory_limit_bytes, "block_size or read_ahead")
    members = tuple(with_tape(member, capacity, page_bytes) for member in members)
    return ReadPlan(
        members=members,
        first_row=first_row,
        lap_rows=lap_rows,
        end_row=tape_rows,
        block_rows=block_rows,
        capacity_rows=capacity,
        n_readers=n_readers,
        n_slots=n_slots(tasks, lap_rows, capacity, tape_rows > lap_rows),
        tasks=tasks,
        chunks=chunks,
        lap_blocks=lap_blocks,
    )


def check_memory(what: str, rows: int, row_bytes: int, limit: int, option: str) -> None:
    # A row without bytes is counted as one: rows are numbers of 64 bits.
    if rows * max(1, row_bytes) > limit:
        advice = f"Choose a smaller {option}"
        if row_bytes > limit:
            advice = "One row is larger than memory: read parts of rows, with multitables.Reader"
        raise OptionsError(
            f"{what} does not fit into memory: {rows} rows of {row_bytes} bytes "
            f"(expected at most {limit} bytes, got {rows * row_bytes})",
            advice=advice,
            option=option,
            expected=limit,
            got=rows * row_bytes,
        )


def _capacity_rows(
    members: Sequence[Member],
    block_rows: int,
    span: int,
    n_readers: int,
    read_ahead: int | None,
    direct: bool,
    stream_rows: int | None,
) -> int:
    if read_ahead is not None:
        wanted = read_ahead * block_rows
    else:
        row_bytes = max(1, sum(member.index.row_bytes for member in members))
        ring_bytes = options.DIRECT_READER_BYTES * n_readers if direct else options.RING_BYTES
        for_tasks = min((n_readers + 2) * span, options.MOST_RING_BYTES // row_bytes)
        wanted = max((2 * n_readers + 1) * block_rows, ring_bytes // row_bytes, for_tasks)
    capacity = max(wanted, 2 * block_rows + 2 * span)
    if stream_rows is not None:
        capacity = min(capacity, max(stream_rows, block_rows))
    return capacity


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def with_tape(member: Member, capacity_rows: int, page_bytes: int) -> Member:
    """Return `member` with a tape of so many rows."""
    tape_bytes = max(page_bytes, _round_up(capacity_rows * member.index.row_bytes, page_bytes))
    return replace(member, tape_bytes=tape_bytes)


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
        # Of each member as many as the capacity has, and one more where such a task begins or ends.
        each = int((repeated["row_end"] - repeated["row_begin"]).min())
        within = 2 * within + len(set(repeated["member"].tolist())) * (rest // each + 1)
        n = int(tasks["repeat"].sum())
    return 1 << (laps * n + within + 1).bit_length()
