"""A dataset of several files, one behind the other: one index of all their chunks, or parts.

Law
---
1. Pure: the indexes of the files' datasets in, an index out.
2. Rows are of one type and shape. How a file stores them, and how many, is its own matter.
3. Chunks that decode alike are one table, in which each file begins with a new chunk. If that is
   all and has no gaps, it is the index; otherwise the index shows parts of such tables and of
   whole datasets.
4. There is no file that has the whole, so no library reads it.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import ChunkIndex, Records, SourceFile, grid_of
from _multitables.index.virtual_parts import readable_chunk_dims


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
    whole = _whole(indexes)
    kinds: dict[Hashable, list[int]] = {}
    filled = [index for index in indexes if 0 not in index.shape]
    for number, index in enumerate(filled):
        _check_native(index, filters)
        is_chunked = index.layout == "chunked" and not index.inline
        kind = (index.chunk_dims, index.pipeline, index.fill_value) if is_chunked else number
        kinds.setdefault(kind, []).append(number)
    if not kinds:
        return whole
    tables = [_table(whole, [filled[number] for number in kind]) for kind in kinds.values()]
    if len(tables) == 1 and tables[0].dims == whole.dims and tables[0].layout == "chunked":
        return replace(tables[0], joined=whole.joined)
    return _parts(whole, filled, list(kinds.values()), tables)


def _whole(indexes: Sequence[ChunkIndex]) -> ChunkIndex:
    """Return an index of all rows that lists no chunks."""
    first, n_rows = indexes[0], sum(index.n_rows for index in indexes)
    return ChunkIndex(
        filename=first.filename,
        path=first.path,
        fingerprint=first.fingerprint,
        dtype=first.dtype,
        shape=(n_rows, *first.shape[1:]),
        dims=(n_rows, *first.dims[1:]),
        chunk_dims=None,
        element_bytes=first.element_bytes,
        field_offset=first.field_offset,
        field_bytes=first.field_bytes,
        layout="contiguous",
        joined=tuple(indexes),
        fill_value=first.fill_value,
        conversions=first.conversions,
        converted_bytes=first.converted_bytes,
        library=first.library,
    )


def _table(whole: ChunkIndex, indexes: Sequence[ChunkIndex]) -> ChunkIndex:
    """Join the chunks of datasets into one table. A dataset without chunks stays as it is."""
    first = indexes[0]
    if first.layout != "chunked" or first.inline or first.chunk_dims is None:
        return first
    table = replace(
        whole,
        layout="chunked",
        chunk_dims=first.chunk_dims,
        pipeline=first.pipeline,
        fill_value=first.fill_value,
        joined=tuple(indexes),
    )
    begins = table.joined_at
    n_rows = int(begins[-1]) + indexes[-1].n_rows
    beside = math.prod(grid_of(whole.dims[1:], first.chunk_dims[1:]))
    numbers = begins // first.chunk_dims[0] * beside
    files = {SourceFile(whole.filename, whole.fingerprint): 0}
    each = zip(indexes, numbers, strict=True)
    return replace(
        table,
        shape=(n_rows, *whole.shape[1:]),
        dims=(n_rows, *whole.dims[1:]),
        chunks=np.concatenate([_placed(index, at, files) for index, at in each]),
        others=tuple(files)[1:],
    )


def _placed(index: ChunkIndex, at: int, files: dict[SourceFile, int]) -> Records:
    """Return chunks as they are from this one of the table on; add new files to `files`."""
    numbers = np.array([files.setdefault(file, len(files)) for file in index.files], np.uint32)
    chunks = index.chunks.copy()
    chunks["grid_index"] += np.uint64(at)
    chunks["source"] = numbers[chunks["source"]]
    return chunks


def _parts(
    whole: ChunkIndex,
    filled: Sequence[ChunkIndex],
    kinds: Sequence[Sequence[int]],
    tables: Sequence[ChunkIndex],
) -> ChunkIndex:
    """Return an index that shows the rows of each dataset, as they lie in its table."""
    lies = np.zeros((len(filled), 2), np.int64)
    for number, (kind, table) in enumerate(zip(kinds, tables, strict=True)):
        lies[kind, 0], lies[kind, 1] = number, table.joined_at
    rows, at, inner = [], 0, whole.dims[1:]
    for order, (index, (number, begin)) in enumerate(zip(filled, lies.tolist(), strict=True)):
        shown = [at, 1, index.n_rows, *(word for dim in inner for word in (0, 1, dim))]
        named = [begin, 1, 0, *(word for axis in range(len(inner)) for word in (0, 1, axis + 1))]
        rows.append([number, order, *shown, *named])
        at += index.n_rows
    pairs = [(axis, axis) for axis in range(len(whole.dims))]
    return replace(
        whole,
        layout="parts",
        chunk_dims=readable_chunk_dims(whole, tables[0], pairs),
        shown=tuple(map(_as_stored, tables)),
        parts=np.append(np.uint64(len(whole.dims)), np.array(rows, np.uint64)),
    )


def _as_stored(index: ChunkIndex) -> ChunkIndex:
    """Return the index of a dataset's elements as bytes."""
    return replace(
        index,
        dtype=np.dtype(f"V{index.element_bytes}"),
        shape=index.dims,
        field_offset=0,
        field_bytes=index.element_bytes,
        conversions=(),
        converted_bytes=0,
    )


def _check_alike(index: ChunkIndex, first: ChunkIndex) -> None:
    for what, expected, got in (
        ("dtype", first.dtype, index.dtype),
        ("shape of a row", first.row_shape, index.row_shape),
        ("layout of an element", _element(first), _element(index)),
        ("format of numbers or texts", first.conversions, index.conversions),
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
    begin, end = index.field_offset, index.field_offset + index.field_bytes
    return f"bytes {begin}:{end} of {index.element_bytes} in {index.dims[1:]}"


def _check_native(index: ChunkIndex, filters: Container[int]) -> None:
    for reason in _reasons(index, filters):
        raise UnsupportedDatasetError(
            f"{index.path!r} in {index.filename!r} cannot be streamed with other files, as an "
            f"HDF5 library would have to read it: {reason}",
            advice="Stream the files one by one",
            path=index.path,
            filename=index.filename,
        )


def _reasons(index: ChunkIndex, filters: Container[int]) -> Iterator[str]:
    """Yield why readers do not read a dataset themselves."""
    if index.layout == "library":
        yield index.reason
    for spec in index.pipeline:
        if spec.id not in filters:
            yield f"filter {spec.id} ({spec.name or 'unnamed'}) is not native"
    for shown in index.shown:
        yield from _reasons(shown, filters)
