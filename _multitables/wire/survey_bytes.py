"""The datasets of a survey as a table for the readers.

Law
---
1. The layout is that of `plan_bytes.encode_datasets`, whose records are written here by the column.
2. Datasets without elements and those that are alone are not in the table.
3. Pure: bytes out, no shared memory here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core, sizes
from _multitables.index.survey import I64, NO_DATASET, Kind, Survey
from _multitables.plan.dataset_table import CHUNK
from _multitables.wire.plan_bytes import DATASET, SOURCE, TABLE_HEADER, TABLE_MAGIC

U64 = npt.NDArray[np.uint64]
DATASET_WORDS = DATASET.size // 8


@dataclass(frozen=True)
class SurveyTable:
    """A table, and where the objects of a survey are in it."""

    encoded: bytes
    #: Of each object its number in the table, or -1.
    number: I64
    #: Of each dataset of the table its object, its rows (1 of a scalar), bytes, and first chunk.
    objects: I64
    n_rows: I64
    n_bytes: I64
    chunks_at: I64

    def object_of(self, chunk: int) -> int:
        """Return the object that has a chunk of the table."""
        at = int(np.searchsorted(self.chunks_at, chunk, side="right")) - 1
        return int(self.objects[at])


def encode_survey(survey: Survey, direct: bool, turnstile: bool = False) -> SurveyTable:
    """Lay the datasets of a survey out.

    Parameters
    ----------
    direct : bool
        Readers bypass the page cache.
    turnstile : bool
        Readers hand their requests to the disk one at a time, in the order of the tasks.
    """
    n_elements = _n_elements(survey)
    objects = np.flatnonzero((survey.kind < NO_DATASET) & (n_elements > 0))
    number = np.full(len(survey), -1, np.int64)
    number[objects] = np.arange(len(objects))
    kind, rank = survey.kind[objects], survey.rank[objects]
    words = _Words(survey.kinds, 2 * int(np.maximum(rank, 1).sum()))
    element_bytes = np.array([one.element_bytes for one in survey.kinds], np.int64)[kind]
    stored = np.array([one.layout == "chunked" for one in survey.kinds], bool)[kind]
    compact = np.array([one.layout == "compact" for one in survey.kinds], bool)[kind]
    columns = np.zeros((len(objects), DATASET_WORDS), np.uint64)
    extents = np.zeros(words.n_extents, np.uint64)
    width = np.maximum(rank, 1)
    extents_at = np.cumsum(2 * width) - 2 * width
    n_rows, n_bytes = np.ones(len(objects), np.int64), n_elements[objects] * element_bytes
    piece_bytes = sizes.DIRECT_TASK_BYTES if direct else sizes.PIECE_BYTES
    for axes in np.unique(rank).tolist():
        rows = np.flatnonzero(rank == axes)
        at = survey.dims_at[objects[rows]][:, None] + np.arange(axes)
        dims = survey.dims[at] if axes else np.ones((len(rows), 1), np.uint64)
        chunk_dims = survey.chunk_dims[at] if axes else np.ones_like(dims)
        n_rows[rows] = dims[:, 0]
        row_bytes = np.maximum(n_bytes[rows] // n_rows[rows], 1)
        pieces = dims.copy()
        pieces[:, 0] = np.maximum(piece_bytes // row_bytes, 1)
        chunk_dims = np.where(stored[rows][:, None], chunk_dims, pieces)
        to = extents_at[rows][:, None] + np.arange(max(axes, 1))
        extents[to], extents[to + max(axes, 1)] = dims, chunk_dims
    n_files = len(survey.files)
    columns[:, 0] = survey.file[objects] + np.where(compact, n_files, 0)
    columns[:, 1] = n_bytes // n_rows
    columns[:, 2] = columns[:, 4] = element_bytes
    columns[:, 5], columns[:, 6], columns[:, 7] = width, extents_at, extents_at + width
    for word, of_kind in words.of_kinds.items():
        columns[:, word] = np.array(of_kind, np.uint64)[kind]
    columns[:, 13] = np.where(stored, 0, _core.DATASET_CLIPPED)
    chunks, chunks_at = _chunks(survey, objects, compact)
    columns[:, 16], columns[:, 17] = chunks_at, survey.n_chunks[objects]
    sources, blob = _sources(survey, direct, turnstile, words.blob)
    all_words = np.concatenate([extents, np.array(words.words, np.uint64)])
    parts = (sources, columns.tobytes(), chunks.tobytes(), all_words.tobytes(), blob)
    header = TABLE_HEADER.pack(
        TABLE_MAGIC,
        TABLE_HEADER.size + sum(map(len, parts)),
        2 * n_files,
        len(objects),
        len(chunks),
        len(all_words),
        len(blob),
        0,
    )
    return SurveyTable(b"".join([header, *parts]), number, objects, n_rows, n_bytes, chunks_at)


def _n_elements(survey: Survey) -> I64:
    """Count the elements of each object; the core has seen that they are no more than 2**63."""
    counts = np.ones(len(survey), np.int64)
    for axes in np.unique(survey.rank).tolist():
        rows = np.flatnonzero(survey.rank == axes)
        dims = survey.dims[survey.dims_at[rows][:, None] + np.arange(axes)].astype(np.int64)
        counts[rows] = np.where((dims == 0).any(axis=1), 0, dims.prod(axis=1))
    return counts


def _chunks(survey: Survey, objects: I64, compact: Any) -> tuple[npt.NDArray[Any], I64]:
    """Return the chunks of the table's datasets, and the first chunk of each."""
    count = survey.n_chunks[objects]
    begins = np.cumsum(count) - count
    within = np.arange(int(count.sum())) - np.repeat(begins, count)
    rows = np.repeat(survey.chunks_at[objects], count) + within
    chunks = np.zeros(len(rows), CHUNK)
    names = ("grid_index", "byte_offset", "stored_size", "filter_mask")
    for name, column in zip(names, survey.chunks, strict=True):
        chunks[name] = column[rows]
    source = survey.file[objects] + np.where(compact, len(survey.files), 0)
    chunks["source"] = np.repeat(source, count)
    return chunks, begins


def _sources(survey: Survey, direct: bool, turnstile: bool, blob: bytearray) -> tuple[bytes, bytes]:
    """Return the files, then the compact elements of each; and the blob with their names."""
    inline = (b"",) * len(survey.files) + survey.inline
    sources = bytearray()
    for file, elements in zip((*survey.files, *survey.files), inline, strict=True):
        name, of, begin = os.fsencode(file.filename), file.fingerprint, len(blob)
        blob += name + elements
        is_direct = direct and len(sources) < len(survey.files) * SOURCE.size
        sources += SOURCE.pack(
            begin,
            len(name),
            of.device,
            of.inode,
            of.size_bytes,
            of.mtime_ns & (2**64 - 1),  # before 1970 it is negative
            begin + len(name),
            len(elements),
            _core.SOURCE_DIRECT * is_direct | _core.SOURCE_TURNSTILE * turnstile,
        )
    return bytes(sources), bytes(blob)


class _Words:
    """What records say of kinds: filters and fixes as words, fill values as bytes."""

    def __init__(self, kinds: tuple[Kind, ...], n_extents: int) -> None:
        self.n_extents = n_extents
        self.words: list[int] = []
        self.blob = bytearray()
        #: Number of a word in a dataset's record -> what it is for each kind.
        self.of_kinds: dict[int, list[int]] = {at: [] for at in (8, 9, 10, 11, 12)}
        for kind in kinds:
            filters_at = n_extents + len(self.words)
            for spec in kind.pipeline:
                self.words += [spec.id, spec.flags, len(spec.values), *spec.values]
            fixes_at = n_extents + len(self.words)
            for fix in kind.element.fixes:
                self.words += [fix.offset, fix.size, fix.count, fix.kind]
            told = (
                filters_at,
                len(kind.pipeline),
                len(self.blob),
                fixes_at,
                len(kind.element.fixes),
            )
            self.blob += kind.fill_value
            for of_kind, number in zip(self.of_kinds.values(), told, strict=True):
                of_kind.append(number)
