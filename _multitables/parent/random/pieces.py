"""Requests for rows of many datasets of one table, and their failures.

Law
---
1. A request is a value: it lists datasets, and finds the one that a failure is about.
"""

from __future__ import annotations

from dataclasses import dataclass

from _multitables import _core
from _multitables.index.datasets.survey import Survey
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.parent.readers.error_report import Record
from _multitables.plan.collection import Layout
from _multitables.plan.dataset_table import Dataset, dataset_of
from _multitables.wire.request_bytes import encode_pieces
from _multitables.wire.survey_bytes import SurveyTable


class PieceError(Exception):
    """A failed dataset: its number, and the error for the user."""

    def __init__(self, number: int, kind: str, error: BaseException) -> None:
        super().__init__(number, kind)
        self.number = number
        self.kind = kind
        self.error = error


@dataclass(frozen=True)
class SharedTable:
    """The table of a survey, as readers were told it."""

    survey: Survey
    table: SurveyTable
    core: _core.SharedTable
    direct: bool


@dataclass(frozen=True)
class Pieces:
    """Whole datasets that are asked for together."""

    of: SharedTable
    layout: Layout

    def send(
        self, queue: _core.WorkQueue, stages: _core.Stages, timeout: float, n: int
    ) -> _core.RequestHandle:
        """Ask `n` readers."""
        words = encode_pieces(self.layout.pieces, self.layout.n_bytes)
        return self.of.core.pieces(queue, words, self.layout.n_shares(n), stages, timeout)

    def number(self, record: Record) -> int:
        """Return the number of the dataset that a failure is about."""
        table = self.of.table
        if record.chunk is not None:
            return table.object_of(record.chunk)
        return int(table.objects[int(self.layout.pieces[0, 0])])

    def place(self, number: int, record: Record) -> tuple[Dataset, tuple[int, int, int] | None]:
        """Return the dataset of this number, and the chunk that a failure is about."""
        index = self.of.survey.index(number)
        dataset = dataset_of(index, self.of.direct, READERS_FILTERS)
        return dataset, None if record.chunk is None else self.of.core.chunk(record.chunk)
