"""The studies of the benchmark program.

Law
---
1. A study is a module with ``SUMMARY``, ``add_arguments(parser)`` and ``run(arguments) -> int``,
   named in `STUDIES`; the entry needs no other change for a new one.
2. ``run`` returns the exit status: 0, or 1 when a data check failed. Ctrl-C ends it with what is
   finished, printed and kept, and 130.
"""

from __future__ import annotations

import argparse
from typing import Protocol

from _benchmark.studies import device_sweep, random_access, targets, training_batches


class Study(Protocol):
    """What the entry needs of a study."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


DEFAULT = "sweep"
STUDIES: dict[str, Study] = {
    DEFAULT: device_sweep,
    "targets": targets,
    "random": random_access,
    "batches": training_batches,
}
