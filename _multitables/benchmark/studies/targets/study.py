"""The speed targets: every claim measured beside its rivals in one run, met or missed.

Law
---
1. A target is a row of the table: measured, wanted, met or missed. What could not be measured says
   why and counts as neither.
2. Its options stand here; what is measured stands in `parts`.
"""

from __future__ import annotations

import argparse

from _multitables.benchmark.data import workloads
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import numbers, positive
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.setting import of_parts, of_smoke
from _multitables.benchmark.studies.targets.parts import DATASETS, PARTS
from _multitables.benchmark.studies.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "the speed targets, beside the old release, PyTables, h5py, fio and the codec limit"
MIN_BYTES = 2**29  # of less, too large a part lies in the ring when the clock starts
SMOKE = {"size": 2**23 / 2**30, "rounds": 1, "processes": (1, 2)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the targets."""
    parser.add_argument(
        "--size",
        type=positive(float),
        default=1,
        metavar="GB",
        help="decoded size of each dataset, GB of 2**30 bytes (default 1)",
    )
    parser.add_argument(
        "--processes",
        type=numbers,
        default=(1, 2, 4),
        metavar="N,N",
        help="numbers of readers; the best counts (default 1,2,4)",
    )
    settings.add_arguments(parser, 5, PARTS, DATASETS, with_old_release=True)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    arguments = of_smoke(arguments, SMOKE)
    size_bytes = arguments.size * 2**30
    return settings.run(
        "targets",
        arguments,
        f"{workloads.as_size(size_bytes)} decoded a dataset, each contender timed "
        f"{arguments.rounds} x",
        lambda own: Plan(
            of_parts(PARTS, arguments.part, own), views, judges=size_bytes >= MIN_BYTES
        ),
        {"size": arguments.size, "processes": arguments.processes},
        size_bytes=size_bytes,
        processes=tuple(arguments.processes),
        datasets=tuple(arguments.dataset or DATASETS),
    )
