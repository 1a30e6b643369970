"""Random access: rows that the program chooses, beside the old release, PyTables and h5py.

Law
---
1. Every contender is asked for the same rows, drawn at random from a seed.
2. Its options stand here; what is measured stands in `parts`, how a run goes in `targets.run`.
"""

from __future__ import annotations

import argparse

from _benchmark.contenders.random_contenders import PROCESSES
from _benchmark.studies.arguments import add_rows, positive
from _benchmark.studies.random.parts import DATASETS, PARTS, ROW_BYTES
from _benchmark.studies.targets import run as target_run
from _benchmark.studies.targets.run import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "random access: scattered rows, slices and single rows, beside the old release and others"
MIN_ROWS = 500_000  # of fewer, too many lie in the contenders' caches
SMOKE = {"rows": 4000, "rounds": 1, "seconds": 0.05}
SMOKE_DATASETS = ("table-lz4", "earray-zlib")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of random access."""
    add_rows(parser)
    parser.add_argument(
        "--seconds",
        type=positive(float),
        default=2,
        metavar="S",
        help="how long each contender is timed in each round (default 2)",
    )
    target_run.add_arguments(parser, PARTS, DATASETS)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    if arguments.smoke:
        dataset = arguments.dataset or SMOKE_DATASETS
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE | {"dataset": dataset}))
    return target_run.run(
        "random",
        PARTS,
        arguments,
        f"{arguments.rows} rows of 1 KiB a dataset, each contender timed {arguments.rounds} x "
        f"{arguments.seconds:g} s",
        size_bytes=arguments.rows * ROW_BYTES,
        processes=(PROCESSES,),
        datasets=tuple(arguments.dataset or DATASETS),
        seconds=arguments.seconds,
        judged=arguments.rows >= MIN_ROWS,
    )
