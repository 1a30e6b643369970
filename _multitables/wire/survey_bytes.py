"""The datasets of a survey as a table of the core, for the readers.

Law
---
1. The core makes the table of the columns.
2. Datasets without elements and those that are alone are not in the table.
3. Pure: a table out, no shared memory here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from _multitables import _core, sizes
from _multitables.index.chunk_index import SourceFile
from _multitables.index.runs import I64
from _multitables.index.survey import NO_DATASET, Kind, Survey
from _multitables.wire.plan_bytes import kind_of


@dataclass(frozen=True)
class SurveyTable:
    """Where the objects of a survey are in a table, and the table when it is first needed."""

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
    def core(self) -> _core.Table:
        """The table as readers take it."""
        survey, files = self.survey, self.survey.files
        piece_bytes = sizes.DIRECT_TASK_BYTES if self.direct else sizes.PIECE_BYTES
        if any(file.fingerprint.access for file in files):
            piece_bytes = sizes.REMOTE_TASK_BYTES
        flags = _core.SOURCE_TURNSTILE * self.turnstile
        own = flags | _core.SOURCE_DIRECT * self.direct
        compact = np.array([kind.layout == "compact" for kind in survey.kinds], bool)
        kind, file = survey.kind[self.objects], survey.file[self.objects]
        columns = (survey.rank, survey.dims_at, survey.chunks_at, survey.n_chunks)
        of_objects = [
            kind,
            file + np.where(compact[kind], len(files), 0),
            *(column[self.objects] for column in columns),
        ]
        sources = [SourceFile(one.filename, one.fingerprint) for one in files]
        inline = zip(sources, survey.inline, strict=True)
        builder = _core.TableBuilder()
        builder.add_survey(
            files=[
                *(file.for_table(b"", own) for file in sources),
                *(file.for_table(elements, flags) for file, elements in inline),  # compact ones
            ],
            kinds=[_kind(kind) for kind in survey.kinds],
            chunked=[kind.layout == "chunked" for kind in survey.kinds],
            objects=np.stack(of_objects, axis=1).tolist(),
            dims=survey.dims,
            chunk_dims=survey.chunk_dims,
            chunks=survey.chunks,
            piece_bytes=piece_bytes,
        )
        return builder.table()


def _kind(kind: Kind) -> _core.Kind:
    element = kind.element_bytes, 0, kind.element_bytes, 0
    return kind_of(element, kind.pipeline, kind.element.changes, kind.fill_value)


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
