"""Rows as a Parquet file, whose columns have types.

Law
---
1. A column is of numbers when all that stands in it is; an empty cell is a missing value, and an
   empty column one of missing numbers, as pandas reads it from the CSV.
2. What a run was measured on stays text, also where it looks like a number.
3. pyarrow is imported here and nowhere else, when something is written.
"""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Callable, Collection, Sequence
from typing import Any

from _multitables.benchmark.harness.results import Row

KINDS: tuple[Callable[[str], Any], ...] = (int, float)


def can_write() -> bool:
    """Whether pyarrow is installed."""
    return importlib.util.find_spec("pyarrow") is not None


def typed(rows: Sequence[Row], words: Collection[str] = ()) -> dict[str, list[Any]]:
    """The columns of at least one row; those named in `words` stay text."""
    return {name: _column([row[name] for row in rows], name in words) for name in rows[0]}


def _column(texts: Sequence[str], words: bool) -> list[Any]:
    for kind in () if words else KINDS:
        try:
            return [kind(text) if text else None for text in texts]
        except ValueError:
            continue
    return [text or None for text in texts]


def _there(values: Sequence[Any]) -> list[bool]:
    return [value is not None for value in values]


def file_of(rows: Sequence[Row], words: Collection[str] = ()) -> bytes:
    """The bytes of the file.

    Raises
    ------
    ImportError
        pyarrow is not installed.
    """
    import pyarrow as pa
    import pyarrow.parquet

    table = pa.table(
        {
            name: pa.array(values, None if any(_there(values)) else pa.float64())
            for name, values in typed(rows, words).items()
        }
    )
    found = io.BytesIO()
    pyarrow.parquet.write_table(table, found)
    return found.getvalue()
