"""The datasets of a survey as a table for the readers.

Law
---
1. The layout is that of `plan_bytes.encode_datasets`, whose records are written here by the column.
2. Datasets without elements and those that are alone are not in the table.
3. Pure: bytes out, no shared memory here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables import _core, sizes
from _multitables.index.runs import I64
from _multitables.index.survey import NO_DATASET, Kind, Survey
from _multitables.plan.dataset_table import CHUNK
from _multitables.wire.plan_bytes import DATASET, SOURCE, TABLE_HEADER, TABLE_MAGIC

U64 = npt.NDArray[np.uint64]
DATASET_WORDS = DATASET.size // 8


@dataclass(frozen=True)
class SurveyTable:
    """Where the objects of a survey are in a table, and its bytes when they are asked for."""

    survey: Survey
    #: Readers bypass the page cache; they hand their requests to the disk one at a time, in the
    #: order of the tasks.
    direct: bool
    turnstile: bool
    #: Of each object its number in the table, or -1.
    number: I64
    #: Of each dataset of the table its object, its rows (1 of a scalar), and bytes.
    objects: I64
    n_rows: I64
    n_bytes: I64

    @cached_property
    def chunks_at(self) -> I64:
        """The first chunk of each dataset of the table."""
        count = self.survey.n_chunks[self.objects]
        return np.cumsum(count) - count

    def object_of(self, chunk: int) -> int:
        """Return the object that has a chunk of the table."""
        at = int(np.searchsorted(self.chunks_at, chunk, side="right")) - 1
        return int(self.objects[at])

    @cached_property
    def encoded(self) -> bytes:
        """The table as readers take it."""
        survey, objects, n_files = self.survey, self.objects, len(self.survey.files)
        kind, width = survey.kind[objects], np.maximum(survey.rank[objects], 1)
        words = _Words(survey.kinds, 2 * int(width.sum()))
        stored = np.array([one.layout == "chunked" for one in survey.kinds], bool)[kind]
        compact = np.array([one.layout == "compact" for one in survey.kinds], bool)[kind]
        source = survey.file[objects] + np.where(compact, n_files, 0)
        extents_at = np.cumsum(2 * width) - 2 * width
        columns = np.zeros((len(objects), DATASET_WORDS), np.uint64)
        columns[:, 0], columns[:, 1] = source, self.n_bytes // self.n_rows
        columns[:, 2] = columns[:, 4] = _element_bytes(survey, objects)
        columns[:, 5], columns[:, 6], columns[:, 7] = width, extents_at, extents_at + width
        for word, of_kind in words.of_kinds.items():
            columns[:, word] = np.array(of_kind, np.uint64)[kind]
        columns[:, 13] = np.where(stored, 0, _core.DATASET_CLIPPED)
        columns[:, 16], columns[:, 17] = self.chunks_at, survey.n_chunks[objects]
        chunks = self._chunks(source)
        sources, blob = _sources(survey, self.direct, self.turnstile, words.blob)
        all_words = np.concatenate([self._extents(stored, extents_at), words.array])
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
        return b"".join([header, *parts])

    def _extents(self, stored: npt.NDArray[np.bool_], extents_at: I64) -> U64:
        """Return dims and chunk dims of each dataset; one that is not `stored` is cut in pieces."""
        survey, objects = self.survey, self.objects
        extents = np.zeros(2 * int(np.maximum(survey.rank[objects], 1).sum()), np.uint64)
        piece_bytes = sizes.DIRECT_TASK_BYTES if self.direct else sizes.PIECE_BYTES
        if any(file.fingerprint.access for file in survey.files):
            piece_bytes = sizes.REMOTE_TASK_BYTES
        row_bytes = np.maximum(self.n_bytes // self.n_rows, 1)
        for axes, rows in _by_rank(survey.rank[objects]):
            at = survey.dims_at[objects[rows]][:, None] + np.arange(axes)
            dims = survey.dims[at] if axes else np.ones((len(rows), 1), np.uint64)
            chunk_dims = survey.chunk_dims[at] if axes else dims
            pieces = dims.copy()
            pieces[:, 0] = np.maximum(piece_bytes // row_bytes[rows], 1)
            to = extents_at[rows][:, None] + np.arange(max(axes, 1))
            extents[to] = dims
            extents[to + max(axes, 1)] = np.where(stored[rows][:, None], chunk_dims, pieces)
        return extents

    def _chunks(self, source: I64) -> npt.NDArray[Any]:
        """Return the chunks of the table's datasets."""
        survey, objects = self.survey, self.objects
        count = survey.n_chunks[objects]
        shift = np.repeat(survey.chunks_at[objects] - self.chunks_at, count)
        rows = np.arange(len(shift)) + shift
        chunks = np.zeros(len(rows), CHUNK)
        names = ("grid_index", "byte_offset", "stored_size", "filter_mask")
        for name, column in zip(names, survey.chunks, strict=True):
            chunks[name] = column[rows]
        chunks["source"] = np.repeat(source, count)
        return chunks


def table_of(survey: Survey, direct: bool, turnstile: bool = False) -> SurveyTable:
    """Lay the datasets of a survey out; see `SurveyTable` for options."""
    n_elements = _n_elements(survey)
    objects = np.flatnonzero((survey.kind < NO_DATASET) & (n_elements > 0))
    number = np.full(len(survey), -1, np.int64)
    number[objects] = np.arange(len(objects))
    n_rows, has_rows = np.ones(len(objects), np.int64), survey.rank[objects] > 0
    n_rows[has_rows] = survey.dims[survey.dims_at[objects[has_rows]]]
    n_bytes = n_elements[objects] * _element_bytes(survey, objects)
    return SurveyTable(survey, direct, turnstile, number, objects, n_rows, n_bytes)


def _by_rank(rank: I64) -> Iterator[tuple[int, I64]]:
    """Yield each rank, and which datasets have it."""
    for axes in np.flatnonzero(np.bincount(rank)).tolist():
        yield axes, np.flatnonzero(rank == axes)


def _element_bytes(survey: Survey, objects: I64) -> I64:
    of_kind = np.array([kind.element_bytes for kind in survey.kinds], np.int64)
    return of_kind[survey.kind[objects]]


def _n_elements(survey: Survey) -> I64:
    """Count the elements of each object; the core has seen that they are no more than 2**63."""
    counts = np.ones(len(survey), np.int64)
    for axes, rows in _by_rank(survey.rank):
        dims = survey.dims[survey.dims_at[rows][:, None] + np.arange(axes)].astype(np.int64)
        counts[rows] = np.where((dims == 0).any(axis=1), 0, dims.prod(axis=1))
    return counts


def _sources(survey: Survey, direct: bool, turnstile: bool, blob: bytearray) -> tuple[bytes, bytes]:
    """Return the files, then the compact elements of each; and the blob with their names."""
    inline = (b"",) * len(survey.files) + survey.inline
    sources = bytearray()
    for file, elements in zip((*survey.files, *survey.files), inline, strict=True):
        name, of, begin = os.fsencode(file.filename), file.fingerprint, len(blob)
        access = of.access.encoded if of.access else b""
        blob += name + elements + access
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
            begin + len(name) + len(elements),
            len(access),
        )
    return bytes(sources), bytes(blob)


class _Words:
    """What records say of kinds: filters and conversions as words, fill values as bytes."""

    def __init__(self, kinds: tuple[Kind, ...], n_extents: int) -> None:
        words: list[int] = []
        self.blob = bytearray()
        #: Number of a word in a dataset's record -> what it is for each kind.
        self.of_kinds: dict[int, list[int]] = {at: [] for at in (8, 9, 10, 11, 12)}
        for kind in kinds:
            filters_at = n_extents + len(words)
            for spec in kind.pipeline:
                words += [spec.id, spec.flags, len(spec.values), *spec.values]
            conversions_at = n_extents + len(words)
            for conversion in kind.element.changes:
                words += conversion.words
            told = (
                filters_at,
                len(kind.pipeline),
                len(self.blob),
                conversions_at,
                len(kind.element.changes),
            )
            self.blob += kind.fill_value
            for of_kind, number in zip(self.of_kinds.values(), told, strict=True):
                of_kind.append(number)
        self.array = np.array(words, np.uint64)
