"""A dataset of several files, one behind the other: one index of all their chunks, or parts.

Law
---
1. Pure: the indexes of the files' datasets in, an index out.
2. Rows are of one type and shape. How a file stores them, and how many, is its own matter.
3. Chunks that decode alike are one table, in which each file begins with a new chunk. If that is
   all and has no gaps, it is the index; otherwise the index shows parts of such tables and of
   whole datasets. Contiguous rows are chunks, too, unless they are many.
4. There is no file that has the whole, so no library reads it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from _multitables import sizes
from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import (
    I64,
    ChunkIndex,
    Joined,
    Members,
    Records,
    Stored,
    Virtual,
    changed,
    chunks_of,
    grid_of,
)
from _multitables.index.datasets.heap import Heap
from _multitables.index.types.element_type import stored_type
from _multitables.index.virtual.chunks import readable_chunk_dims

#: Pieces in which contiguous rows of a file are joined with those of others, at most.
MAX_PIECES = 16


def joined(indexes: Sequence[ChunkIndex], filters: Container[int]) -> ChunkIndex:
    """Join the indexes of the files into one.

    Parameters
    ----------
    filters : container of int
        The filters that readers decode.

    Raises
    ------
    UnsupportedDatasetError
        Rows of one differ from those of the first in type or shape, or a library reads one.
    """
    for index in indexes:
        _check_alike(index, indexes[0])
    if isinstance(indexes[0], Heap):
        return _joined_heaps(indexes[0], indexes, filters)
    whole = _whole(indexes[0], _members(indexes))
    kinds: dict[Hashable, list[int]] = {}
    filled = [index for index in indexes if 0 not in index.shape]
    for number, index in enumerate(filled):
        _check_native(index, filters)
        kind: Hashable = number
        if index.is_chunked and not index.inline:
            kind = index.chunk_dims, index.kind.pipeline, index.kind.fill_value
        elif _is_short(index):
            kind = index.kind.fill_value
        kinds.setdefault(kind, []).append(number)
    if not kinds:
        return whole
    tables = [_table(whole, [filled[number] for number in some]) for some in kinds.values()]
    lies = np.zeros((2, len(filled)), np.int64)
    for number, (some, table) in enumerate(zip(kinds.values(), tables, strict=True)):
        lies[0, some] = number
        lies[1, some] = table.begins if isinstance(table, Joined) else 0
    return _shown(whole, filled[0], tables, _members(filled).rows, *lies)


def _joined_heaps(
    first: Heap, indexes: Sequence[ChunkIndex], filters: Container[int]
) -> ChunkIndex:
    """Join datasets of rows of any length."""
    if len(indexes) == 1:
        return first
    stored = joined([one.descriptors for one in indexes if isinstance(one, Heap)], filters)
    files = tuple(dict.fromkeys(one.files[0] for one in indexes))
    of = replace(first, files=files, dims=stored.dims, descriptors=stored)
    return replace(of, members=_members(indexes))


def joined_alike(
    first: Stored,
    members: Members,
    chunks: Records,
    counts: I64,
    filters: Container[int],
) -> ChunkIndex | None:
    """Join datasets that are stored as the first one is; None: they have to be joined one by one.

    Parameters
    ----------
    chunks : ndarray of `CHUNK`
        Those of all, one dataset behind the other, each in its own grid; their sources are the
        files of `first`.
    counts : ndarray of int64
        How many of them each dataset has.
    """
    _check_native(first, filters)
    whole, filled = _whole(first, members), np.flatnonzero(members.rows)
    if not len(filled):
        return whole
    longest = changed(first, dims=(int(members.rows.max()), *first.dims[1:]))
    if not first.is_chunked and not _is_short(longest):
        return None
    some = members
    if len(filled) < len(members):
        some = members.chosen(filled)
    table = _placed(whole, first, some, chunks, counts[filled])
    table = replace(table, files=first.files)
    nowhere = np.zeros(len(filled), np.int64)
    return _shown(whole, first, [table], some.rows, nowhere, table.begins)


def _members(indexes: Sequence[ChunkIndex]) -> Members:
    rows = np.array([index.n_rows for index in indexes], np.int64)
    return Members(rows, tuple(indexes))


def _whole(first: ChunkIndex, members: Members) -> Joined:
    """Return an index of all rows that lists no chunks."""
    n_rows = int(members.rows.sum())
    kind, dims = replace(first.kind, pipeline=()), (n_rows, *first.dims[1:])
    return Joined((first.files[0],), first.path, kind, dims, None, members=members)


def _is_short(index: ChunkIndex) -> bool:
    """Whether contiguous rows are few enough to be joined as pieces, each with a record."""
    n_bytes = math.prod(index.dims) * index.kind.element_bytes
    return (
        isinstance(index, Stored)
        and not index.is_chunked
        and not index.inline
        and n_bytes <= sizes.PIECE_BYTES * MAX_PIECES
    )


def _table(whole: Joined, indexes: Sequence[ChunkIndex]) -> ChunkIndex:
    """Join the chunks of datasets of a kind into one table. One that is alone stays as it is."""
    first = indexes[0]
    if first.inline or not (first.is_chunked or _is_short(first)):
        return first
    files = {whole.files[0]: 0}
    counts = np.array([len(index.chunks) for index in indexes], np.int64)
    chunks = np.concatenate([index.chunks for index in indexes])
    sources = [[files.setdefault(file, len(files)) for file in index.files] for index in indexes]
    begins = np.cumsum([0, *map(len, sources[:-1])])
    flat = np.fromiter(chain.from_iterable(sources), np.uint32)
    chunks["source"] = flat[np.repeat(begins, counts) + chunks["source"]]
    table = _placed(whole, first, _members(indexes), chunks, counts)
    return replace(table, files=tuple(files))


def _placed(
    whole: Joined, first: ChunkIndex, members: Members, chunks: Records, counts: I64
) -> Joined:
    """Return a table of datasets that are stored as the first one is, with these chunks of each."""
    extents, rows = first.chunk_dims, members.rows
    if extents is None or not first.is_chunked:
        row_bytes = math.prod(whole.dims[1:]) * whole.kind.element_bytes
        extent = min(int(rows.max()), max(1, sizes.PIECE_BYTES // row_bytes))
        extents = (extent, *whole.dims[1:])
        chunks, counts = _in_pieces(chunks, counts, rows, extent, row_bytes)
    begins = members.begins(extents[0])
    n_rows = int(begins[-1] + rows[-1])
    beside = math.prod(grid_of(whole.dims[1:], extents[1:]))
    chunks["grid_index"] += np.repeat(begins // extents[0] * beside, counts).astype(np.uint64)
    dims = n_rows, *whole.dims[1:]
    of = whole.files, whole.path, first.kind, dims, extents
    return Joined(*of, chunks=chunks, members=members)


def _in_pieces(
    chunks: Records, counts: I64, rows: I64, extent: int, row_bytes: int
) -> tuple[Records, I64]:
    """Return the pieces of contiguous rows, of which each dataset has one record or none."""
    n_pieces = np.where(counts > 0, -(-rows // extent), 0)
    own = np.repeat(np.arange(len(chunks)), n_pieces[counts > 0])
    number = np.arange(len(own)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    left = np.repeat(rows, n_pieces) - number * extent
    return chunks_of(
        number,
        chunks["byte_offset"][own] + (number * extent * row_bytes).astype(np.uint64),
        np.minimum(left, extent) * row_bytes,
        source=chunks["source"][own],
    ), n_pieces


def _shown(
    whole: Joined,
    first: ChunkIndex,
    tables: Sequence[ChunkIndex],
    rows: I64,
    number: I64,
    begins: I64,
) -> ChunkIndex:
    """Return an index of the rows of each dataset, as they lie in its table from a row on."""
    if len(tables) == 1 and tables[0].dims == whole.dims and first.is_chunked:
        return Joined(**{**vars(tables[0]), "members": whole.members})
    inner, n_axes = whole.dims[1:], len(whole.dims)
    parts = np.zeros((len(rows), 2 + 6 * n_axes), np.uint64)
    parts[:, 0], parts[:, 1] = number, np.arange(len(rows))
    parts[:, 2], parts[:, 3], parts[:, 4] = np.cumsum(rows) - rows, 1, rows
    parts[:, 5 : 2 + 3 * n_axes] = [word for dim in inner for word in (0, 1, dim)]
    parts[:, 2 + 3 * n_axes], parts[:, 3 + 3 * n_axes] = begins, 1
    named = [word for axis in range(len(inner)) for word in (0, 1, axis + 1)]
    parts[:, 5 + 3 * n_axes :] = named
    pairs = [(axis, axis) for axis in range(n_axes)]
    chunk_dims = readable_chunk_dims(whole, first, pairs)
    return Virtual(
        *(whole.files, whole.path, whole.kind, whole.dims, chunk_dims),
        shown=tuple(map(_as_stored, tables)),
        parts=np.append(np.uint64(n_axes), parts.ravel()),
        members=whole.members,
    )


def _as_stored(index: ChunkIndex) -> ChunkIndex:
    """Return the index of a dataset's elements as bytes."""
    kind = index.kind
    return replace(index, kind=replace(kind, part=stored_type(kind.element_bytes)))


def _check_alike(index: ChunkIndex, first: ChunkIndex) -> None:
    for what, expected, got in (
        ("dtype", *(getattr(of, "atom", of.dtype) for of in (first, index))),
        ("shape of a row", first.row_shape, index.row_shape),
        ("layout of an element", _element(first), _element(index)),
        ("format of numbers or texts", *(of.kind.part.element.changes for of in (first, index))),
    ):
        if expected != got:
            raise UnsupportedDatasetError(
                f"{index.path!r} in {index.filename!r} cannot follow that in {first.filename!r}: "
                f"its {what} differs (expected {expected}, got {got})",
                advice="Stream files whose rows are of one type together, others on their own",
                path=index.path,
                filename=index.filename,
                expected=expected,
                got=got,
            )


def _element(index: ChunkIndex) -> str:
    begin, kind = index.kind.part.offset, index.kind
    end = begin + kind.part.element.size_bytes
    return f"bytes {begin}:{end} of {kind.element_bytes} in {index.dims[1:]}"


def _check_native(index: ChunkIndex, filters: Container[int]) -> None:
    if reason := index.why_library(filters):
        raise UnsupportedDatasetError(
            f"{index.path!r} in {index.filename!r} cannot be streamed with other files, as an "
            f"HDF5 library would have to read it: {reason}",
            advice="Stream the files one by one",
            path=index.path,
            filename=index.filename,
        )
