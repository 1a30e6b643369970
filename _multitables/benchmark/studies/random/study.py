"""Random access: rows that the program chooses, beside the old release, PyTables and h5py.

Law
---
1. Every contender is asked for the same rows, drawn at random from a seed.
2. Its options stand here; what is measured stands in `parts`.
"""

from __future__ import annotations

import argparse
from functools import partial

from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies import views as default_views
from _multitables.benchmark.studies.arguments import add_rows, add_seconds
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.random.parts import DATASETS, MORE, PARTS, ROW_BYTES
from _multitables.benchmark.studies.setting import of_parts, of_smoke

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "random access: scattered rows, slices and single rows, beside the old release and others"
MIN_ROWS = 500_000  # of fewer, too many lie in the contenders' caches
SMOKE = {"rows": 4000, "rounds": 1, "seconds": 0.05}
SMOKE_DATASETS = ("table-lz4", "earray-zlib")

views = partial(default_views.views, more=MORE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of random access."""
    add_rows(parser)
    add_seconds(parser, 2, "how long each contender is timed in each round")
    settings.add_arguments(parser, 5, PARTS, DATASETS, with_old_release=True)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    arguments = of_smoke(arguments, {**SMOKE, "dataset": arguments.dataset or SMOKE_DATASETS})
    return settings.run(
        "random",
        arguments,
        f"{arguments.rows} rows of 1 KiB a dataset, each contender timed {arguments.rounds} x "
        f"{arguments.seconds:g} s",
        lambda own: Plan(
            of_parts(PARTS, arguments.part, own),
            views,
            more=[*MORE],
            judges=arguments.rows >= MIN_ROWS,
        ),
        {"rows": arguments.rows, "seconds": arguments.seconds},
        size_bytes=arguments.rows * ROW_BYTES,
        datasets=tuple(arguments.dataset or DATASETS),
        seconds=arguments.seconds,
    )
