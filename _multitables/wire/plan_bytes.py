"""A read plan as bytes, for the readers and the ring, and its datasets as a table of the core.

Law
---
1. The layout of a plan is numbered here and in the core's tables, word by word; a change touches
   both and the magic word. That of a table is the core's alone, which is given values.
2. All numbers are little-endian words of 8 bytes; tables follow each other without gaps.
3. Nothing is pickled: texts are UTF-8, file names the bytes that the operating system knows.
4. Pure: bytes out, no shared memory here.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.errors import OptionsError
from _multitables.index.chunk_index import ChunkIndex, Joined, ManyFiles, Records, Virtual
from _multitables.plan.dataset_table import Dataset, DatasetTable

if TYPE_CHECKING:
    from _multitables.plan.stream_plan import ReadPlan
    from _multitables.select.fallback_call import LibraryCall

#: Written here too, so that a core of another layout refuses the bytes.
PLAN_MAGIC = int.from_bytes(b"MTPLAN05", "little")
_PLAN_HEADER = struct.Struct("<19Q")
_TAPE = struct.Struct("<5Q")


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
        if dataset.reason or dataset.index.kind.pipeline or dataset.shown
        else b""  # no library is needed for what has no filter
        for dataset, field in zip(plan.table.datasets, fields, strict=True)
    ]
    table = made_table(plan.table, calls, turnstile, grows).encoded
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


def made_table(
    table: DatasetTable,
    calls: Sequence[bytes] = (),
    turnstile: bool = False,
    grows: bool = False,
) -> _core.Table:
    """Make the core's table. `calls`: how a library serves rows of each dataset."""
    builder = _core.TableBuilder()
    flags = _core.SOURCE_TURNSTILE * turnstile | _core.SOURCE_GROWS * grows
    datasets = (*table.datasets, *table.shown)
    calls = [*calls, *[b""] * (len(datasets) - len(calls))]
    for dataset, call in zip(datasets, calls, strict=True):
        index = dataset.index
        ends = None
        if isinstance(index, Joined) and index.is_chunked:
            ends = (index.begins + index.members.rows).astype(np.uint64)
        builder.add(
            files=_files(dataset, flags),
            kind=_kind(dataset),
            row_bytes=index.row_bytes,
            dims=dataset.dims,
            chunk_dims=dataset.chunk_dims,
            chunks=table.chunks[dataset.chunks_at : dataset.chunks_at + dataset.n_chunks],
            windows=[(one.start, one.step, one.count) for one in dataset.windows],
            ends=ends,
            cast=_cast(dataset),
            parts=_parts(dataset),
            clipped=dataset.clipped,
            by_library=bool(dataset.reason),
            library=call,
        )
    return builder.table()


def _bytes(array: Records) -> memoryview:
    """Return a table's bytes where they lie: there may be a word for each row of a dataset."""
    return np.ascontiguousarray(array).view(np.uint8).data


def _files(dataset: Dataset, flags: int) -> Sequence[_core.Source] | _core.FileColumns:
    """Return a dataset's files, the first with stored bytes that lie in its metadata."""
    index, flags = dataset.index, _core.SOURCE_DIRECT * dataset.direct | flags
    flags |= _core.SOURCE_LISTED * bool(index.members)
    if isinstance(index.files, ManyFiles) and dataset.n_chunks:
        return index.files.for_table(flags)
    is_named = dataset.n_chunks or index.descriptors is not None
    files = index.files if is_named else [index.files[0]]
    inline = (b"" if dataset.reason else index.inline, *[b""] * (len(files) - 1))
    return [file.for_table(bytes_, flags) for file, bytes_ in zip(files, inline, strict=True)]


def _kind(dataset: Dataset) -> _core.Kind:
    """Return what a dataset's elements are, and how they are stored."""
    index = dataset.index
    if dataset.reason:  # the library delivers elements as the user sees them
        row_bytes = math.prod(index.row_shape) * index.kind.uncast.dtype.itemsize
        size = row_bytes // max(1, math.prod(dataset.dims[1:])) or 1
        return (size, 0, size, 0), (), (), index.kind.fill_value
    return index.kind.for_table


def _cast(dataset: Dataset) -> Sequence[int]:
    """Return the words of a dataset's cast; (): there is no cast."""
    index, kind = dataset.index, dataset.index.kind
    if kind.cast is None:
        return ()
    from _multitables.index.types.cast import Axis

    dims, extents = dataset.dims[1:], dataset.chunk_dims[1:]
    keys = [one.key for one in dataset.windows] or [slice(None)] * len(dims)
    drops = [one.is_dropped for one in index.windows] or [False] * len(dims)
    axes = [Axis(*axis) for axis in zip(dims, extents, keys, drops, strict=True)]
    words = kind.cast.words(kind.uncast.dtype, index.shape[len(index.dims) :], axes)
    if words is None:
        raise OptionsError(
            f"scale has very many numbers for {index.path!r} in {index.filename!r}, whose chunks "
            f"have the shape {index.chunk_dims}",
            advice="Give means and deviations of fewer axes, or scale the batches",
            path=index.path,
            filename=index.filename,
            option="scale",
        )
    return words


def _parts(dataset: Dataset) -> npt.NDArray[np.uint64] | None:
    """Return the parts that a virtual dataset shows, by numbers of datasets in the table."""
    index = dataset.index
    if not isinstance(index, Virtual) or not len(index.parts):
        return None
    parts = index.parts.copy()
    # the first word is how many axes their datasets have
    length = 2 + 3 * (len(index.dims) + int(parts[0]))
    parts[1::length] += np.uint64(dataset.shown_at)
    return parts


def rows_call(index: ChunkIndex, field: str, open_options: Mapping[str, object]) -> LibraryCall:
    """Return how a library serves rows of a stream; the slice of them comes later."""
    from _multitables.select.fallback_call import ALL, LibraryCall
    from _multitables.select.selection import DatasetInfo

    dtype = index.dtype if index.kind.cast is None else index.kind.uncast.dtype
    info = DatasetInfo(
        filename=index.filename,
        path=index.path,
        kind="array",
        shape=index.shape,
        dtype=dtype,
        n_dims=len(index.dims),
        library=index.kind.library,
        open_options=index.fingerprint.for_library(open_options),
        conversion=index.kind.conversion,
    )
    key = (ALL, *(window.key for window in index.windows))
    arguments = {
        "fields": (field,) if field else (),
        "key": key,
        "shape": index.shape,
        "n_dims": info.n_dims,
        "n_converted": int(bool(field)),  # the conversion gives the field
    }
    return LibraryCall(info, "getitem", arguments, (), dtype)
