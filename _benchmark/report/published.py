"""The figures that the re-run studies published, as data with their source.

Law
---
1. A study's ``published.csv`` has a row for each figure; its columns are the study's own, and
   ``source``, which says where the figure stands.
2. What a study published is never mixed with what was measured here: views show both side by side.
"""

from __future__ import annotations

import os

from _benchmark.harness.results import Row, read_rows

FILENAME = "published.csv"


def figures(study_file: str) -> list[Row]:
    """The rows beside a study's module, which passes its ``__file__``."""
    return read_rows(os.path.join(os.path.dirname(study_file), FILENAME))
