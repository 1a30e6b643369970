"""The speed targets: every claim measured beside its rivals in one run, met or missed.

Law
---
1. A target is a row of the table: measured, wanted, met or missed. What could not be measured says
   why and counts as neither.
2. Its options stand here; what is measured stands in `parts`, how a run goes in `run`.
"""

from __future__ import annotations

import argparse

from _benchmark.data import workloads
from _benchmark.studies.arguments import numbers, positive
from _benchmark.studies.targets import run as target_run
from _benchmark.studies.targets.parts import DATASETS, PARTS
from _benchmark.studies.targets.run import views

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
    target_run.add_arguments(parser, PARTS, DATASETS)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    if arguments.smoke:
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE))
    size_bytes = arguments.size * 2**30
    return target_run.run(
        "targets",
        PARTS,
        arguments,
        f"{workloads.as_size(size_bytes)} decoded a dataset, each contender timed "
        f"{arguments.rounds} x",
        size_bytes=size_bytes,
        processes=tuple(arguments.processes),
        datasets=tuple(arguments.dataset or DATASETS),
        judged=size_bytes >= MIN_BYTES,
    )
