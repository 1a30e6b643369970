"""A read plan as bytes, for the readers and the ring.

Law
---
1. The layout is numbered here and in core/src/tables, word by word; a change touches both and the
   magic word.
2. All numbers are little-endian words of 8 bytes; tables follow each other without gaps.
3. Nothing is pickled: texts are UTF-8, file names the bytes that the operating system knows.
4. Pure: bytes out, no shared memory here.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from _multitables import _core
from _multitables.index.chunk_index import ChunkIndex, SourceFile
from _multitables.plan.dataset_table import Dataset, DatasetTable, Records

if TYPE_CHECKING:
    from _multitables.plan.stream_plan import ReadPlan
    from _multitables.select.fallback_call import LibraryCall

#: Not the core's: they tell a core of another layout.
PLAN_MAGIC = int.from_bytes(b"MTPLAN05", "little")
TABLE_MAGIC = int.from_bytes(b"MTDATA04", "little")
_PLAN_HEADER = struct.Struct("<19Q")
_TAPE = struct.Struct("<5Q")
TABLE_HEADER = struct.Struct("<8Q")
SOURCE = struct.Struct("<11Q")
DATASET = struct.Struct("<21Q")


class _Tables:
    """Words and bytes that records point into."""

    def __init__(self) -> None:
        self.words = bytearray()
        self.blob = bytearray()
        self._known: dict[bytes, int] = {}

    def add_words(self, words: Sequence[int] | Records) -> int:
        at = self.n_words
        if isinstance(words, np.ndarray):
            self.words += words.astype("<u8", copy=False).tobytes()
        else:
            self.words += struct.pack(f"<{len(words)}Q", *words)
        return at

    @property
    def n_words(self) -> int:
        return len(self.words) // 8

    def add_bytes(self, data: bytes) -> tuple[int, int]:
        """Return where the bytes are; equal ones are there once."""
        at = self._known.setdefault(data, len(self.blob))
        if at == len(self.blob):
            self.blob += data
        return at, len(data)


def encode_plan(
    plan: ReadPlan,
    control_bytes: int,
    open_options: Mapping[str, object],
    fields: Sequence[str],
    turnstile: bool = False,
    grows: bool = False,
) -> bytes:
    """Lay `plan` out as the core reads it.

    Parameters
    ----------
    control_bytes : int
        Of the ring's control header, a multiple of the page size.
    open_options : mapping
        How a library opens the file; the values are of JSON's types.
    fields : sequence of str
        Each dataset's field, or "".
    turnstile : bool
        Readers hand their requests to the disk one at a time, in the order of the tape.
    grows : bool
        Others write the file meanwhile.
    """
    from _multitables.wire.request_bytes import encode_rows

    tapes, tape_at = [], control_bytes
    for tape in plan.tapes:
        tapes.append(_TAPE.pack(tape.dataset, tape_at, tape.n_bytes, tape.caches, tape.ends))
        tape_at += tape.n_bytes
    order, words, listed = plan.order, np.zeros(0, "<u8"), np.zeros(0, "<u8")
    if order is not None:
        words = np.array(order.words, "<u8")
        if order.listed is not None:
            listed = order.listed.astype("<u8", copy=False)
    calls = [
        encode_rows(rows_call(dataset.index, field, open_options))
        for dataset, field in zip(plan.table.datasets, fields, strict=True)
    ]
    table = encode_datasets(plan.table, calls, turnstile, grows)
    arrays = (plan.tasks, words, listed, *(one.astype("<u8", copy=False) for one in plan.ends))
    parts: list[bytes | memoryview] = [*tapes, *map(_bytes, arrays), table]
    header = _PLAN_HEADER.pack(
        PLAN_MAGIC,
        _PLAN_HEADER.size + sum(map(len, parts)),
        len(plan.tapes),
        len(plan.tasks),
        len(words),
        len(listed),
        plan.n_readers,
        plan.n_slots,
        plan.first_row,
        plan.lap_rows,
        plan.end_row,
        plan.capacity_rows,
        plan.block_rows,
        control_bytes,
        tape_at,
        plan.lap_blocks,
        plan.cache_bytes,
        len(plan.ends),
        plan.n_consumers,
    )
    return b"".join([header, *parts])


def encode_datasets(
    table: DatasetTable,
    calls: Sequence[bytes] = (),
    turnstile: bool = False,
    grows: bool = False,
) -> bytes:
    """Lay a dataset table out. `calls`: how a library serves rows of each, if one is asked for."""
    tables = _Tables()
    flags = _core.SOURCE_TURNSTILE * turnstile | _core.SOURCE_GROWS * grows
    sources: dict[bytes, int] = {}
    records = []
    chunks = table.chunks
    datasets = (*table.datasets, *table.shown)
    calls = [*calls, *[b""] * (len(datasets) - len(calls))]
    for dataset, call in zip(datasets, calls, strict=True):
        files = dataset.index.files if dataset.n_chunks else dataset.index.files[:1]
        inline = (b"" if dataset.reason else dataset.index.inline, *[b""] * (len(files) - 1))
        encoded = [
            _encode_source(dataset, file, tables, flags, bytes_)
            for file, bytes_ in zip(files, inline, strict=True)
        ]
        numbers = [sources.setdefault(what, len(sources)) for what in encoded]
        records.append(_encode_dataset(dataset, numbers[0], tables, call))
        if numbers != list(range(len(numbers))):
            chunks = chunks.copy() if chunks is table.chunks else chunks
            own = chunks[dataset.chunks_at : dataset.chunks_at + dataset.n_chunks]
            own["source"] = np.array(numbers, np.uint32)[own["source"]]
    listed = (_bytes(chunks), tables.words, tables.blob)
    parts: list[bytes | bytearray | memoryview] = [*sources, *records, *listed]
    header = TABLE_HEADER.pack(
        TABLE_MAGIC,
        TABLE_HEADER.size + sum(map(len, parts)),
        len(sources),
        len(records),
        len(chunks),
        tables.n_words,
        len(tables.blob),
        0,
    )
    return b"".join([header, *parts])


def _bytes(array: Records) -> memoryview:
    """Return a table's bytes where they lie: there may be a word for each row of a dataset."""
    return np.ascontiguousarray(array).view(np.uint8).data


def _encode_source(
    dataset: Dataset, file: SourceFile, tables: _Tables, flags: int, inline: bytes
) -> bytes:
    """Return the record of a file of a dataset; equal ones are one source."""
    fingerprint = file.fingerprint
    return SOURCE.pack(
        *tables.add_bytes(os.fsencode(file.filename)),
        fingerprint.device,
        fingerprint.inode,
        fingerprint.size_bytes,
        fingerprint.mtime_ns & (2**64 - 1),  # before 1970 it is negative
        *tables.add_bytes(inline),
        _core.SOURCE_DIRECT * dataset.direct | flags,
        *tables.add_bytes(fingerprint.access.encoded if fingerprint.access else b""),
    )


def _encode_dataset(dataset: Dataset, source: int, tables: _Tables, call: bytes) -> bytes:
    index = dataset.index
    element = (index.element_bytes, index.field_offset, index.field_bytes)
    if dataset.reason:
        # The library delivers elements as the user sees them.
        size = index.row_bytes // max(1, math.prod(dataset.dims[1:])) or 1
        element = (size, 0, size)
    dims_at = tables.add_words(dataset.dims)
    for window in dataset.windows:
        tables.add_words([window.start, window.step & (2**64 - 1), window.count])
    joined = index.joined if index.layout == "chunked" else ()
    if joined:
        ends = index.joined_at + [one.n_rows for one in joined]
        tables.add_words([len(ends), *ends.tolist()])
    chunk_dims_at = tables.add_words([max(1, dim) for dim in dataset.chunk_dims])
    pipeline = () if dataset.reason else index.pipeline
    filters_at = tables.n_words
    for spec in pipeline:
        tables.add_words([spec.id, spec.flags, len(spec.values), *spec.values])
    conversions_at = tables.n_words
    conversions = () if dataset.reason else index.conversions
    for conversion in conversions:
        tables.add_words(conversion.words)
    parts = index.parts.copy() if dataset.shown else index.parts[:0]
    if len(parts):  # the first word is how many axes their datasets have
        length = 2 + 3 * (len(index.dims) + int(parts[0]))
        parts[1::length] += np.uint64(dataset.shown_at)
    fill_at, _ = tables.add_bytes(index.fill_value.ljust(element[0], b"\0"))
    library_at, library_len = tables.add_bytes(call)
    return DATASET.pack(
        source,
        index.row_bytes,
        *element,
        len(dataset.dims),
        dims_at,
        chunk_dims_at,
        filters_at,
        len(pipeline),
        fill_at,
        conversions_at,
        len(conversions),
        _core.DATASET_CLIPPED * dataset.clipped
        | _core.DATASET_LIBRARY * bool(dataset.reason)
        | _core.DATASET_WINDOWS * bool(dataset.windows)
        | _core.DATASET_JOINED * bool(joined),
        library_at,
        library_len,
        dataset.chunks_at,
        dataset.n_chunks,
        tables.add_words(parts),
        len(parts),
        0 if dataset.reason else index.converted_bytes,
    )


def rows_call(index: ChunkIndex, field: str, open_options: Mapping[str, object]) -> LibraryCall:
    """Return how a library serves rows of a stream; the slice of them comes later."""
    from _multitables.select.fallback_call import ALL, LibraryCall
    from _multitables.select.selection import DatasetInfo

    info = DatasetInfo(
        filename=index.filename,
        path=index.path,
        kind="array",
        shape=index.shape,
        dtype=index.dtype,
        n_dims=len(index.dims),
        library=index.library,
        open_options=index.fingerprint.for_library(open_options),
        conversion=index.conversion,
    )
    key = (ALL, *(window.key for window in index.windows))
    arguments = {
        "fields": (field,) if field else (),
        "key": key,
        "shape": index.shape,
        "n_dims": info.n_dims,
        "n_converted": int(bool(field)),  # the conversion gives the field
    }
    return LibraryCall(info, "getitem", arguments, (), index.dtype)
