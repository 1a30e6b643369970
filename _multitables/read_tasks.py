"""From members to tasks: which rows, and which chunks, a reader claims at once.

Law
---
1. Pure, as read_plan.py.
2. Rows are counted from the start of a lap; tasks are sorted by their first row.
3. Small chunks share a task; a chunk is in several tasks only where other members of the stream
   have much shorter ones, and only if little is decoded again for it.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import options
from _multitables.chunk_index import ChunkIndex

#: The byte offset of a chunk never stored.
UNALLOCATED = 2**64 - 1
#: HDF5's id of the filter whose chunks are decoded side by side.
DEFLATE = 1
#: A part of all bytes that may be decoded again, so that the ring need not be long.
AGAIN_SHARE = 8
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
        return Member(index, (-(-rows // outer) * outer, *index.dims[1:]), False, False, reason)
    if index.layout == "chunked" and index.chunk_dims is not None:
        return Member(index, index.chunk_dims, False, direct, "")
    piece_bytes = options.DIRECT_TASK_BYTES if direct else options.PIECE_BYTES
    piece = max(1, piece_bytes // stored_row_bytes)
    return Member(index, (piece, *index.dims[1:]), True, direct, "")


def lead_of(indexes: Sequence[ChunkIndex]) -> int:
    """Return which dataset leads: the one with the longest rows, on which the others wait."""
    return max(range(len(indexes)), key=lambda at: (indexes[at].row_bytes, -at))


def plan_tasks(
    members: Sequence[Member], first_row: int, lap_rows: int, n_readers: int
) -> tuple[tuple[Member, ...], Records, Records]:
    """Cut a lap into tasks.

    Returns
    -------
    members : tuple of Member
        Maybe with shorter pieces, where these can have any length.
    tasks, chunks : numpy.ndarray of TASK and of CHUNK
        Of all members.
    """
    most = sys.maxsize
    if len(members) > 1 and any(member.index.row_bytes for member in members):
        most = _most_rows(members, n_readers, lap_rows)
        members = [_in_pieces(member, most) for member in members]
    tables = [
        _tasks(member, number, first_row, lap_rows, n_readers, most)
        for number, member in enumerate(members)
    ]
    return tuple(members), *_merge(tables)


def _most_rows(members: Sequence[Member], n_readers: int, lap_rows: int) -> int:
    """Return how many rows a task may have, of several members.

    The ring holds two of the longest tasks, with the rows of all members: a chunk of 8192 labels
    would make it hold 16384 images. Long chunks are cut, then, as far as little is decoded again
    for it.
    """
    row_bytes = [member.index.row_bytes for member in members]
    lead = members[lead_of([member.index for member in members])]
    n_chunks = -(-lap_rows // lead.chunk_dims[0]) * _inner_chunks(lead)
    joined = max(1, _chunks_per_task(lead, n_chunks, n_readers) // _inner_chunks(lead))
    wanted = options.RING_BYTES // max(1, sum(row_bytes)) // 4
    most = max(1, wanted, joined * lead.chunk_dims[0])
    allowed = sum(map(_decoded_row_bytes, members)) // AGAIN_SHARE
    while sum(_decoded_again(member, most) for member in members) > allowed:
        most *= 2
    return most


def _decoded_again(member: Member, most: int) -> int:
    """Bytes a row that cutting a member's chunks into tasks of `most` rows costs."""
    parts = -(-_whole_rows(member) // most)
    return (parts - 1) * _decoded_row_bytes(member)


def _decoded_row_bytes(member: Member) -> int:
    """Bytes of a row with all its columns, of which one may be delivered."""
    return math.prod(member.index.dims[1:]) * member.index.element_bytes


def _whole_rows(member: Member) -> int:
    """Rows that are decoded together, whatever is wanted of them."""
    return member.index.chunk_dims[0] if member.index.chunk_dims else 1


def _in_pieces(member: Member, most: int) -> Member:
    """Return `member` with pieces of about so many rows, if these can have any length."""
    if not (member.clipped or member.reason):
        return member
    whole = _whole_rows(member)
    rows = min(member.chunk_dims[0], max(1, most // whole) * whole)
    return replace(member, chunk_dims=(rows, *member.chunk_dims[1:]))


def _inner_chunks(member: Member) -> int:
    """Chunks that lie beside each other in the same rows."""
    dims = zip(member.index.dims[1:], member.chunk_dims[1:], strict=True)
    return math.prod(-(-dim // chunk) for dim, chunk in dims)


def _tasks(
    member: Member, number: int, first_row: int, lap_rows: int, n_readers: int, most: int
) -> tuple[Records, Records]:
    """Tasks, of at most `most` rows, and chunks of one member; `first_chunk` counts these."""
    index = member.index
    if lap_rows == 0 or index.row_bytes == 0:
        return np.zeros(0, TASK), np.zeros(0, CHUNK)
    outer = member.chunk_dims[0]
    begin_row, end_row = first_row // outer, -(-(first_row + lap_rows) // outer)
    inner = _inner_chunks(member)
    if member.reason:
        per_task, n_chunks = 1, 0
        chunks = np.zeros(0, CHUNK)
        inner = 1
    else:
        chunks = grid_chunks(member, begin_row * inner, end_row * inner)
        n_chunks = len(chunks)
        per_task = _chunks_per_task(member, n_chunks, n_readers)
        per_task = min(per_task, max(1, most // outer) * inner)
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
    return _cut(tasks, most), chunks


def _cut(tasks: Records, most: int) -> Records:
    """Cut tasks of more than `most` rows; each part decodes their chunks for itself."""
    rows = (tasks["row_end"] - tasks["row_begin"]).astype(np.int64)
    if not len(tasks) or rows.max() <= most:
        return tasks
    parts = -(-rows // most)
    cut = np.repeat(tasks, parts)
    part = np.arange(len(cut)) - np.repeat(np.cumsum(parts) - parts, parts)
    cut["row_begin"] += (part * most).astype(np.uint64)
    cut["row_end"] = np.minimum(cut["row_end"], cut["row_begin"] + np.uint64(most))
    return cut


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
    fair = max(1, n_chunks // (4 * n_readers))
    return min(max(task_bytes // chunk_bytes, abreast(member, chunk_bytes)), fair)


def abreast(member: Member, chunk_bytes: int) -> int:
    """How many chunks are decoded side by side."""
    if all(spec.id != DEFLATE for spec in member.index.pipeline):
        return 1
    return min(max(options.ABREAST_BYTES // chunk_bytes, 1), options.ABREAST)


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
