"""The datasets of a survey as a table of the core, for the readers.

Law
---
1. The core makes the table of the survey, and says where objects are in it.
2. Datasets without elements and those that are alone are not in the table.
3. Pure: a table out, no shared memory here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from _multitables import _core, sizes
from _multitables.index.chunk_index import I64
from _multitables.index.datasets.survey import Survey


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
    #: Of each dataset of the table its object, its rows (1 of a scalar), bytes, and the number of
    #: its first chunk.
    objects: I64
    n_rows: I64
    n_bytes: I64
    chunks_at: I64

    def object_of(self, chunk: int) -> int:
        """Return the object that has a chunk of the table."""
        at = int(np.searchsorted(self.chunks_at, chunk, side="right")) - 1
        return int(self.objects[at])

    @cached_property
    def core(self) -> _core.Table:
        """The table as readers take it."""
        survey = self.survey
        piece_bytes = sizes.DIRECT_TASK_BYTES if self.direct else sizes.PIECE_BYTES
        if survey.is_remote:
            piece_bytes = sizes.REMOTE_TASK_BYTES
        flags = _core.SOURCE_TURNSTILE * self.turnstile | _core.SOURCE_DIRECT * self.direct
        return survey.core.table(
            [file.for_table(flags=flags) for file in survey.files],
            [kind.for_table for kind in survey.kinds],
            piece_bytes,
        )


def table_of(survey: Survey, direct: bool, turnstile: bool = False) -> SurveyTable:
    """Lay the datasets of a survey out; see `SurveyTable` for options."""
    return SurveyTable(survey, direct, turnstile, *survey.core.laid_out())
