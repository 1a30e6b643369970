"""The figures that the re-run studies published, as data with their source.

Law
---
1. A study's ``published.csv`` has a row for each figure; its columns are the study's own, and
   ``source``, which says where the figure stands.
2. Published figures are never mixed with measured ones: their rows are of contenders of
   their own, which views show beside the others.
"""

from __future__ import annotations

import os

from _multitables.benchmark.harness.results import Row, read_rows

FILENAME = "published.csv"
#: The columns of a figure that say neither what it is of, nor what it is.
_OF_FIGURE = ("value", "unit", "source")


def figures(study_file: str) -> list[Row]:
    """The rows beside a study's module, which passes its ``__file__``."""
    return read_rows(os.path.join(os.path.dirname(study_file), FILENAME))


def rows(study_file: str, quantity: str) -> list[Row]:
    """The figures as kept rows: one for each thing measured, its quantities in columns."""
    found: dict[tuple[str, ...], dict[str, str]] = {}
    for one in figures(study_file):
        key = {name: text for name, text in one.items() if name not in (quantity, *_OF_FIGURE)}
        made = found.setdefault(tuple(key.values()), {**key, "round": "published"})
        made[one[quantity]] = one["value"]
    return list(found.values())
