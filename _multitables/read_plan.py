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

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import options
from _multitables.chunk_index import ChunkIndex
from _multitables.errors import OptionsError

#: Rows on the tape of a stream without end, and the byte offset of a chunk never stored.
ENDLESS = 2**64 - 1
UNALLOCATED = 2**64 - 1
#: HDF5's id of the filter whose chunks are decoded side by side.
DEFLATE = 1
#: `kind` of a task.
KIND_CHUNKS, KIND_LIBRARY, KIND_SHARE = 0, 1, 2

#: One task; the layout is that of `Task` in core/src/plan.rs.
TASK = np.dtype(
    [
        ("member", "<u4"),
        ("kind", "<u4"),
        ("row_begin", "<u8"),
        ("row_end", "<u8"),
        ("first_chunk", "<u8"),
        ("n_chunks", "<u8"),
    ]
)
#: One stored chunk; the layout is that of `Chunk` in core/src/plan.rs.
CHUNK = np.dtype(
    [
        ("grid_index", "<u8"),
        ("byte_offset", "<u8"),
        ("stored_size", "<u8"),
        ("filter_mask", "<u4"),
        ("reserved", "<u4"),
    ]
)

Records = npt.NDArray[Any]


@dataclass(frozen=True)
class Member:
    """One dataset of the stream as the readers shall read it."""

    index: ChunkIndex
    #: Extent of what one chunk record stands for: a stored chunk, or a piece of contiguous rows.
    chunk_dims: tuple[int, ...]
    #: Pieces end with the dataset's last row.
    clipped: bool
    direct: bool
    #: Why the library reads it, or "".
    reason: str
    tape_bytes: int = 0
    #: Where the plan's chunks begin with this member's whole grid (for shares).
    grid_at: int = 0
    #: Readers keep its decoded chunks, of which others want the rest.
    kept: bool = False


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
    """
    row_bytes = sum(index.row_bytes for index in indexes)
    check_memory("a block", block_rows, row_bytes, memory_limit_bytes, "block_size")
    rows = (indexes[0].n_rows if end_row is None else end_row) - first_row
    lap_rows = rows if cyclic or remainder else rows // block_rows * block_rows
    if cyclic:
        epochs = None
    if not cyclic:
        block_rows = min(block_rows, max(lap_rows, 1))
    members = tuple(member_of(index, direct, native_filters) for index in indexes)
    tables = [
        _tasks(member, number, first_row, lap_rows, n_readers)
        for number, member in enumerate(members)
    ]
    tasks, chunks = _merge(tables)
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
        n_slots=n_slots(tasks["row_begin"], lap_rows, capacity, tape_rows > lap_rows),
        tasks=tasks,
        chunks=chunks,
        lap_blocks=lap_blocks,
    )


def check_memory(what: str, rows: int, row_bytes: int, limit: int, option: str) -> None:
    # A row without bytes is counted as one: rows are numbers of 64 bits.
    if rows * max(1, row_bytes) > limit:
        raise OptionsError(
            f"{what} does not fit into memory: {rows} rows of {row_bytes} bytes "
            f"(expected at most {limit} bytes, got {rows * row_bytes})",
            advice=f"Choose a smaller {option}",
            option=option,
            expected=limit,
            got=rows * row_bytes,
        )


def member_of(index: ChunkIndex, direct: bool, native_filters: Container[int]) -> Member:
    """Return how readers shall read one dataset; the tape is not planned yet."""
    reason = index.reason
    if index.layout == "library":
        reason = reason or "its storage is not chunked or contiguous"
    elif unknown := [spec for spec in index.pipeline if spec.id not in native_filters]:
        reason = f"filter {unknown[0].id} ({unknown[0].name or 'unnamed'}) is not native"
    else:
        reason = ""
    stored_row_bytes = max(1, math.prod(index.dims[1:]) * index.element_bytes)
    if reason:
        outer = index.chunk_dims[0] if index.chunk_dims else 1
        rows = max(1, options.DIRECT_TASK_BYTES // stored_row_bytes)
        return Member(index, (_round_up(rows, outer), *index.dims[1:]), False, False, reason)
    if index.layout == "chunked" and index.chunk_dims is not None:
        return Member(index, index.chunk_dims, False, direct, "")
    piece_bytes = options.DIRECT_TASK_BYTES if direct else options.PIECE_BYTES
    piece = max(1, piece_bytes // stored_row_bytes)
    return Member(index, (piece, *index.dims[1:]), True, direct, "")


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step


def _tasks(
    member: Member, number: int, first_row: int, lap_rows: int, n_readers: int
) -> tuple[Records, Records]:
    """Tasks and chunks of one member; `first_chunk` counts this member's chunks."""
    index = member.index
    if lap_rows == 0 or index.row_bytes == 0:
        return np.zeros(0, TASK), np.zeros(0, CHUNK)
    outer = member.chunk_dims[0]
    begin_row, end_row = first_row // outer, -(-(first_row + lap_rows) // outer)
    inner = math.prod(
        -(-dim // chunk) for dim, chunk in zip(index.dims[1:], member.chunk_dims[1:], strict=True)
    )
    if member.reason:
        per_task, n_chunks = 1, 0
        chunks = np.zeros(0, CHUNK)
        inner = 1
    else:
        chunks = grid_chunks(member, begin_row * inner, end_row * inner)
        n_chunks = len(chunks)
        per_task = _chunks_per_task(member, n_chunks, n_readers)
    # Cut a chunk row into several tasks, or join several chunk rows into one, never both: so the
    # first rows of consecutive tasks never go back.
    chunk_rows = np.arange(begin_row, end_row, max(1, per_task // inner), dtype=np.uint64)
    if per_task >= inner:
        ends = np.append(chunk_rows[1:], np.uint64(end_row))
        first = (chunk_rows - np.uint64(begin_row)) * np.uint64(inner)
        last = (ends - np.uint64(begin_row)) * np.uint64(inner)
    else:
        starts = np.arange(0, inner, per_task, dtype=np.uint64)
        stops = np.append(starts[1:], np.uint64(inner))
        row_base = (chunk_rows - np.uint64(begin_row)) * np.uint64(inner)
        first = (row_base[:, None] + starts).reshape(-1)
        last = (row_base[:, None] + stops).reshape(-1)
        chunk_rows = np.repeat(chunk_rows, len(starts))
        ends = chunk_rows + np.uint64(1)
    tasks = np.zeros(len(chunk_rows), TASK)
    tasks["member"] = number
    tasks["kind"] = KIND_LIBRARY if member.reason else KIND_CHUNKS
    low, high = np.uint64(first_row), np.uint64(first_row + lap_rows)
    tasks["row_begin"] = np.maximum(chunk_rows * np.uint64(outer), low) - low
    tasks["row_end"] = np.minimum(ends * np.uint64(outer), high) - low
    if n_chunks:
        tasks["first_chunk"] = first
        tasks["n_chunks"] = last - first
    return tasks, chunks


def grid_chunks(member: Member, begin: int, end: int) -> Records:
    """Records of the grid's chunks `[begin, end)`, stored or not."""
    index = member.index
    chunks = np.zeros(end - begin, CHUNK)
    chunks["grid_index"] = np.arange(begin, end, dtype=np.uint64)
    chunks["byte_offset"] = UNALLOCATED
    if index.layout == "chunked":
        low, high = np.searchsorted(index.grid_index, [begin, end])
        at = (index.grid_index[low:high] - np.uint64(begin)).astype(np.intp)
        for name in ("byte_offset", "stored_size", "filter_mask"):
            chunks[name][at] = getattr(index, name)[low:high]
    elif len(index.byte_offset):
        row_bytes = math.prod(index.dims[1:]) * index.element_bytes
        rows = np.arange(begin, end, dtype=np.uint64) * np.uint64(member.chunk_dims[0])
        left = np.uint64(index.dims[0]) - rows
        chunks["byte_offset"] = index.byte_offset[0] + rows * np.uint64(row_bytes)
        chunks["stored_size"] = np.minimum(left, np.uint64(member.chunk_dims[0])) * np.uint64(
            row_bytes
        )
    return chunks


def bytes_per_task(member: Member) -> int:
    """Decoded bytes that make a task worth its claim."""
    if member.direct:
        return options.DIRECT_TASK_BYTES
    together = member.index.field_bytes
    for dim, chunk in zip(member.index.dims[:0:-1], member.chunk_dims[:0:-1], strict=True):
        together *= chunk
        if chunk != dim:
            little = together < options.LITTLE_BYTES
            return options.BESIDE_TASK_BYTES if little else options.TASK_BYTES
    return options.TASK_BYTES


def _chunks_per_task(member: Member, n_chunks: int, n_readers: int) -> int:
    """Small chunks share a task, but there stay tasks enough for every reader."""
    chunk_bytes = max(1, math.prod(member.chunk_dims) * member.index.element_bytes)
    task_bytes = bytes_per_task(member)
    abreast = any(spec.id == DEFLATE for spec in member.index.pipeline)
    least = 2 if abreast and chunk_bytes <= options.ABREAST_BYTES else 1
    fair = max(1, n_chunks // (4 * n_readers))
    return min(max(task_bytes // chunk_bytes, least), fair)


def _merge(tables: Sequence[tuple[Records, Records]]) -> tuple[Records, Records]:
    before = 0
    for tasks, chunks in tables:
        tasks["first_chunk"] += np.uint64(before)
        before += len(chunks)
    tasks = np.concatenate([tasks for tasks, _ in tables])
    chunks = np.concatenate([chunks for _, chunks in tables])
    if len(tables) > 1:
        tasks = tasks[np.argsort(tasks["row_begin"], kind="stable")]
    return tasks, chunks


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
        wanted = max((2 * n_readers + 1) * block_rows, ring_bytes // row_bytes)
    capacity = max(wanted, 2 * block_rows + 2 * span)
    if stream_rows is not None:
        capacity = min(capacity, max(stream_rows, block_rows))
    return capacity


def with_tape(member: Member, capacity_rows: int, page_bytes: int) -> Member:
    """Return `member` with a tape of so many rows."""
    tape_bytes = max(page_bytes, _round_up(capacity_rows * member.index.row_bytes, page_bytes))
    return replace(member, tape_bytes=tape_bytes)


def n_slots(row_begin: npt.NDArray[np.uint64], lap_rows: int, capacity: int, endless: bool) -> int:
    """A power of two, above the number of tasks that can begin within the ring's capacity."""
    n = len(row_begin)
    if n == 0:
        return 1
    laps, rest = divmod(capacity, lap_rows) if endless else (0, min(capacity, lap_rows))
    tape = row_begin
    if endless:
        tape = np.concatenate([row_begin, row_begin + np.uint64(lap_rows)])
    ends = np.searchsorted(tape, row_begin + np.uint64(rest), side="left")
    within = int((ends - np.arange(n)).max())
    return 1 << (laps * n + within + 1).bit_length()
