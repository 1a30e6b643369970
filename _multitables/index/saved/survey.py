"""The survey of a file's objects, saved as columns of its index.

``common`` says which of the index's kinds a dataset has, or that the object is `ALONE` or
`NO_DATASET`; the kinds are one text of JSON. ``dims_end`` and ``scale_end`` say where the dims and
the scales of an object end, which begin where those of the one before it end.

Law
---
1. What is told has the types and ranges that the core's answer has, or the index is damaged. Of
   chunks it is as in the core's: readers check each before they fetch it.
2. Saved batch by batch: chunks of all datasets need not fit into memory.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.index.chunk_index import CHUNK, U32, U64, chunks_of
from _multitables.index.metadata import Metadata
from _multitables.index.saved.format import (
    DATASET,
    I64,
    NO_NUMBER,
    DamagedIndexError,
    SavedIndex,
)
from _multitables.index.saved.objects import KIND, MAX_RANK, load_kind

ALONE, NO_DATASET = _core.SURVEY_ALONE, _core.SURVEY_NO_DATASET
#: Objects that are described at once when they are saved.
BATCH = 1 << 12
#: What is surveyed of each object, or of each dim or scale of one.
SURVEYED = ("common", "rank", "dims", "chunk_dims", "n_scales", "scale_axis", "scale_target")
#: Larger datasets, and chunks, are alone.
MAX_BYTES = 1 << 62


class Kinds:
    """The kinds of all datasets that are saved, by number."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    @property
    def encoded(self) -> npt.NDArray[np.uint8]:
        """As the index has them."""
        return np.frombuffer(f"[{','.join(self._numbers)}]".encode(), np.uint8)

    def number(self, kind: _core.StoredKind) -> int:
        """The number of a kind."""
        text = json.dumps([save(getattr(kind, of)) for of, (save, _) in KIND.items()])
        return self._numbers.setdefault(text, len(self._numbers))


def surveyed(metadata: Metadata, offsets: U64, kinds: Kinds) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the objects of a file."""
    columns: dict[str, list[Any]] = {name: [np.zeros(0, np.uint64)] for name in SURVEYED}
    for begin in range(0, len(offsets), BATCH):
        one = metadata.survey(offsets[begin : begin + BATCH], True, [])
        common, of_kind = one.kind, [kinds.number(kind) for kind in one.kinds]
        is_one = common < NO_DATASET
        common[is_one] = np.array(of_kind, np.uint32)[common[is_one]]
        objects, axes, targets = one.scales.T
        n_scales = np.bincount(objects.astype(np.int64), minlength=len(one))
        found = common, one.ranks, one.dims, one.chunk_dims, n_scales, axes, targets
        for column, part in zip(columns.values(), found, strict=True):
            column.append(part)
    return {name: np.concatenate(parts).astype(np.uint64) for name, parts in columns.items()}


def told(index: SavedIndex, rows: I64, with_scales: bool, file: U32 | None = None) -> _core.Survey:
    """Answer as the file does for these objects, without attributes; or as each of many files."""
    every, common = _kinds(index), index.common[rows]
    is_one = common < len(every)
    used = np.flatnonzero(np.bincount(common[is_one]))
    kinds = [load_kind(every[number]) for number in used.tolist()]
    which = np.where(is_one, np.searchsorted(used, common), len(kinds))
    is_chunked, is_contiguous, is_compact = (
        np.array([*(kind.layout == layout for kind in kinds), False])[which]
        for layout in ("chunked", "contiguous", "compact")
    )
    element_bytes = np.array([*(kind.element_bytes for kind in kinds), 1], np.uint64)[which]
    rank, at = _parts_of(index.dims_end, rows)
    dims, chunk_dims = index.dims[at], index.chunk_dims[at]
    n_bytes, fits = _sizes(dims, rank, element_bytes)
    chunk_bytes, chunk_fits = _sizes(chunk_dims, rank, element_bytes)
    first, second = index.first[rows], index.second[rows]
    n_scales, at = _parts_of(index.scale_end, rows if with_scales else rows[:0])
    scales = np.repeat(np.arange(len(n_scales), dtype=np.uint64), n_scales)
    axes, targets = index.scale_axis[at], index.scale_target[at]
    for what, is_right in (
        ("kinds", is_one | (common >= NO_DATASET)),
        ("kinds", (common == NO_DATASET) == (index.kind[rows] != DATASET)),
        ("dims", (rank <= MAX_RANK) & (fits | ~is_one)),
        ("dims of chunks", (chunk_fits & (chunk_bytes > 0)) | ~is_chunked),
        ("elements", (second >= n_bytes) | ~is_compact),
        ("axes", axes <= MAX_RANK),
    ):
        if not np.all(is_right):
            raise DamagedIndexError(f"{what} of datasets contradict one another")
    tables = index.chunks(rows[is_chunked])  # checks how many there are
    has_one = (n_bytes > 0) & (is_compact | (is_contiguous & (first != NO_NUMBER)))
    n_chunks = np.where(is_chunked, second, has_one)
    of_table = np.repeat(is_chunked, n_chunks.astype(np.int64))
    is_inline = is_compact & has_one
    inline_bytes = n_bytes[is_inline]
    first[is_inline] = np.cumsum(inline_bytes) - inline_bytes
    chunks = np.empty(len(of_table), CHUNK)
    chunks[of_table] = tables
    chunks[~of_table] = chunks_of(np.zeros_like(n_bytes), first, n_bytes)[has_one]
    elements = zip(index.elements(rows[is_inline]), inline_bytes.tolist(), strict=True)
    whole = _core.Survey.of_columns(
        kinds=kinds,
        file=np.zeros(len(rows), np.uint32) if file is None else file,
        offset=index.header_offset[rows],
        kind=np.where(is_one, which, common).astype(np.uint32),
        ranks=rank.astype(np.uint32),
        n_chunks=n_chunks.astype(np.uint64),
        dims=dims,
        chunk_dims=chunk_dims,
        chunks=chunks,
        inline=b"".join(stored[:n_bytes] for stored, n_bytes in elements),
        scales=list(zip(*(of.tolist() for of in (scales, axes, targets)), strict=True)),
    )
    if whole is None:
        raise DamagedIndexError("columns of datasets contradict one another")
    return whole


def _kinds(index: SavedIndex) -> list[Any]:
    try:
        kinds = json.loads(index.kinds.tobytes())
    except (ValueError, RecursionError) as error:
        raise DamagedIndexError("the kinds of datasets are not JSON") from error
    if not isinstance(kinds, list):
        raise DamagedIndexError("the kinds of datasets are no list")
    return kinds


def _parts_of(ends: U64, rows: I64) -> tuple[I64, I64]:
    """Count the entries of each object, and number them all."""
    behind = ends[rows].astype(np.int64)
    counts = behind - np.where(rows > 0, ends[rows - 1], 0).astype(np.int64)
    last = np.cumsum(counts)
    return counts, np.arange(counts.sum()) + np.repeat(behind - last, counts)


def _sizes(dims: U64, rank: I64, element_bytes: U64) -> tuple[U64, npt.NDArray[np.bool_]]:
    """Multiply the dims of each dataset; also tell whether the bytes are few enough."""
    if not len(rank):
        return element_bytes, np.zeros(0, bool)
    begins = np.cumsum(rank + 1) - (rank + 1)
    factors = np.empty(len(dims) + len(rank), np.uint64)
    is_dim = np.ones(len(factors), bool)
    is_dim[begins] = False
    factors[begins], factors[is_dim] = element_bytes, dims
    with np.errstate(all="ignore"):
        about = np.multiply.reduceat(factors.astype(np.float64), begins)
    return np.multiply.reduceat(factors, begins), about <= MAX_BYTES
