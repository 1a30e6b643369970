"""A dataset beside a loop over h5py, as `multitables bench` measures it: a case, and its table.

Law
---
1. The records are kept beside the rows, and a dataset that has one is not measured again.
2. Rows that are not those of h5py are a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from _multitables.benchmark.contenders import beside_h5py
from _multitables.benchmark.report.tables import Table, figure
from _multitables.benchmark.studies.frame import Case, Prepared

NAME = beside_h5py.NAME
SHORT_SECONDS = 0.1  # of rounds in which opening and starting are a good part


def case(
    key: Mapping[str, Any],
    which: Mapping[str, str],
    file: Callable[[], tuple[str, str]],
    seconds: float,
    kept: list[dict[str, Any]],
) -> Case:
    """Reads a dataset with h5py and with this library.

    Parameters
    ----------
    key : mapping
        The columns of a fault.
    which : mapping
        What names the record; ``dataset`` is for people.
    file : callable
        The file's name and the dataset's path.
    seconds : float
    kept : list
        The records.
    """

    def prepare(_stack: ExitStack) -> Prepared:
        if not any(which.items() <= one.items() for one in kept):
            record = beside_h5py.measured(*file(), seconds)
            kept.append({**which, "record": record})
        return Prepared([])

    return Case({**key, "contender": NAME}, prepare, label=f"{which['dataset']}, {NAME}")


def tables(kept: Sequence[Mapping[str, Any]], **which: str) -> list[Table]:
    """A table of the records that have these values; an empty list without records."""
    rows = [_row(one["dataset"], one["record"]) for one in kept if which.items() <= one.items()]
    head = ["dataset", "h5py", "multitables", "times as fast", "page cache", "rows"]
    title = "A loop over h5py, and this library; MB/s of decoded data"
    return [Table(title, head, rows, left=("page cache", "rows"))] if rows else []


def _row(dataset: str, record: Mapping[str, Any]) -> list[str]:
    ours = record["multitables"]
    if record["why_no_h5py"]:
        theirs, times, rows = "-", "-", f"not compared: {record['why_no_h5py']}"
    else:
        theirs, times = figure(record["h5py"]["mb_per_second"]), f"{record['times_as_fast']:.2g}x"
        rows = "compared" if record["compared"] else "not compared, as types differ"
    if min(ours["seconds"]) < SHORT_SECONDS:
        rows += "; opening and starting take a good part of so short a time"
    return [dataset, theirs, figure(ours["mb_per_second"]), times, record["page_cache"], rows]
