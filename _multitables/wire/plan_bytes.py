"""A read plan as bytes, for the readers and the ring.

Law
---
1. The layout is numbered here and in core/src/tables/plan.rs, word by word; a change touches both
   and the magic word.
2. All numbers are little-endian words of 8 bytes; tables follow each other without gaps.
3. Nothing is pickled: texts are UTF-8, file names the bytes that the operating system knows.
4. Pure: bytes out, no shared memory here.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping, Sequence

import numpy as np

from _multitables.index.chunk_index import ChunkIndex
from _multitables.plan.dataset_table import Member, Records
from _multitables.plan.stream_plan import ReadPlan
from _multitables.select.fallback_call import ALL, LibraryCall
from _multitables.select.selection import DatasetInfo
from _multitables.wire.request_bytes import encode_rows

MAGIC = int.from_bytes(b"MTPLAN03", "little")
FLAG_DIRECT, FLAG_CLIPPED, FLAG_TURNSTILE, FLAG_KEPT, FLAG_LIBRARY = 1, 2, 4, 8, 16
_HEADER = struct.Struct("<24Q")
_MEMBER = struct.Struct("<28Q")


class _Tables:
    """Words and bytes that records point into."""

    def __init__(self) -> None:
        self.words: list[int] = []
        self.blob = bytearray()

    def add_words(self, words: Sequence[int]) -> int:
        at = len(self.words)
        self.words.extend(words)
        return at

    def add_bytes(self, data: bytes) -> tuple[int, int]:
        at = len(self.blob)
        self.blob += data
        return at, len(data)


def encode_plan(
    plan: ReadPlan,
    control_bytes: int,
    open_options: Mapping[str, object],
    fields: Sequence[str],
    turnstile: bool = False,
) -> bytes:
    """Lay `plan` out as the core reads it.

    Parameters
    ----------
    control_bytes : int
        Bytes of the ring's control header, a multiple of the page size.
    open_options : mapping
        How a library opens the file; values are JSON's.
    fields : sequence of str
        Each member's field, or "".
    turnstile : bool
        Readers hand their requests to the disk one at a time, in the order of the tape.

    Returns
    -------
    bytes
    """
    tables = _Tables()
    records = []
    tape_at = control_bytes
    for member, field in zip(plan.members, fields, strict=True):
        records.append(_encode_member(member, tape_at, tables, open_options, field, turnstile))
        tape_at += member.tape_bytes
    order, listed = plan.order, np.zeros(0, "<u8")
    order_at = len(tables.words)
    if order is not None:
        tables.add_words(order.words)
        if order.listed is not None:
            listed = order.listed.astype("<u8", copy=False)
    n_order = len(tables.words) - order_at
    words = np.array(tables.words, dtype="<u8")
    arrays = (plan.tasks, plan.chunks, listed, words)
    parts: list[bytes | memoryview] = [*records, *map(_bytes, arrays), bytes(tables.blob)]
    header = _HEADER.pack(
        MAGIC,
        _HEADER.size + sum(map(len, parts)),
        len(plan.members),
        len(plan.tasks),
        len(plan.chunks),
        len(tables.words),
        len(tables.blob),
        plan.n_readers,
        plan.n_slots,
        plan.first_row,
        plan.lap_rows,
        plan.end_row,
        plan.capacity_rows,
        plan.block_rows,
        control_bytes,
        tape_at,
        len(listed),
        order_at,
        n_order,
        plan.lap_blocks,
        plan.keep_bytes,
        *(0, 0, 0),
    )
    return b"".join([header, *parts])


def _bytes(array: Records) -> memoryview:
    """Return a table's bytes where they lie: there may be a word for each row of a dataset."""
    return np.ascontiguousarray(array).view(np.uint8).data


def _encode_member(
    member: Member,
    tape_at: int,
    tables: _Tables,
    open_options: Mapping[str, object],
    field: str,
    turnstile: bool,
) -> bytes:
    index = member.index
    element = (index.element_bytes, index.field_offset, index.field_bytes)
    if member.reason:
        # The library delivers elements as the user sees them.
        size = index.row_bytes // max(1, math.prod(index.dims[1:])) or 1
        element = (size, 0, size)
    dims_at = tables.add_words(index.dims)
    chunk_dims_at = tables.add_words([max(1, dim) for dim in member.chunk_dims])
    pipeline = () if member.reason else index.pipeline
    filters_at = len(tables.words)
    for spec in pipeline:
        tables.add_words([spec.id, spec.flags, len(spec.values), *spec.values])
    fixes_at = len(tables.words)
    fixes = () if member.reason else index.string_fixes
    for fix in fixes:
        tables.add_words([fix.offset, fix.size, fix.count, fix.padding])
    fill_at, _ = tables.add_bytes(index.fill_value.ljust(element[0], b"\0"))
    file_at, file_len = tables.add_bytes(os.fsencode(index.filename))
    call = encode_rows(rows_call(index, field, open_options))
    library_at, library_len = tables.add_bytes(call)
    inline_at, inline_len = tables.add_bytes(b"" if member.reason else index.inline)
    flags = (
        FLAG_DIRECT * member.direct
        | FLAG_CLIPPED * member.clipped
        | FLAG_TURNSTILE * turnstile
        | FLAG_KEPT * member.kept
        | FLAG_LIBRARY * bool(member.reason)
    )
    return _MEMBER.pack(
        index.row_bytes,
        tape_at,
        member.tape_bytes,
        *element,
        len(index.dims),
        dims_at,
        chunk_dims_at,
        filters_at,
        len(pipeline),
        fill_at,
        fixes_at,
        len(fixes),
        file_at,
        file_len,
        index.fingerprint.device,
        index.fingerprint.inode,
        index.fingerprint.size_bytes,
        index.fingerprint.mtime_ns & (2**64 - 1),  # before 1970 it is negative
        flags,
        library_at,
        library_len,
        member.chunks_at,
        member.n_chunks,
        inline_at,
        inline_len,
        0,
    )


def rows_call(index: ChunkIndex, field: str, open_options: Mapping[str, object]) -> LibraryCall:
    """Return how a library serves rows of a stream; the key, a slice of them, comes later."""
    info = DatasetInfo(
        filename=index.filename,
        path=index.path,
        kind="array",
        shape=index.shape,
        dtype=index.dtype,
        n_dims=len(index.dims),
        library=index.library,
        open_options=open_options,
    )
    fields = (field,) if field else ()
    arguments = {"fields": fields, "key": ALL, "shape": index.shape, "n_dims": info.n_dims}
    return LibraryCall(info, "getitem", arguments, (), index.dtype)
