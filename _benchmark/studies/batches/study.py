"""Training batches: shuffled streams, beside DataLoader over h5py and what people use besides.

Law
---
1. Every contender delivers batches of 256 rows of the same dataset.
2. Its options stand here; what is measured stands in `parts`, how a run goes in `targets.run`.
"""

from __future__ import annotations

import argparse

from _benchmark.contenders.batch_contenders import WORKERS
from _benchmark.machine import environment
from _benchmark.studies.arguments import add_rows, positive
from _benchmark.studies.batches.parts import DATASETS, PARTS, ROW_BYTES
from _benchmark.studies.targets import run as target_run
from _benchmark.studies.targets.run import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "training batches: shuffled streams, beside DataLoader over h5py and others"
MIN_ROWS = 500_000  # of fewer, starting takes too large a part
SMOKE = {"rows": 4100, "rounds": 1, "seconds": 0.05}
SMOKE_DATASETS = ("lz4-64k", "zlib-512k", "lz4-narrow")
PEERS = ("torch", "torchdata", "grain")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of training batches."""
    add_rows(parser)
    parser.add_argument(
        "--seconds",
        type=positive(float),
        default=3,
        metavar="S",
        help="how long each peer is timed in each round; this library streams whole epochs "
        "(default 3)",
    )
    target_run.add_arguments(parser, PARTS, DATASETS, with_old_release=False)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    if arguments.smoke:
        dataset = arguments.dataset or SMOKE_DATASETS
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE | {"dataset": dataset}))
    peers = ", ".join(f"{name} {environment.version_of(name)}" for name in PEERS)
    return target_run.run(
        "batches",
        PARTS,
        arguments,
        f"{arguments.rows} rows of 1 KiB a dataset, {arguments.rounds} rounds, each peer timed "
        f"{arguments.seconds:g} s in each",
        more_facts={"peers": peers},
        size_bytes=arguments.rows * ROW_BYTES,
        processes=(WORKERS,),
        datasets=tuple(arguments.dataset or DATASETS),
        seconds=arguments.seconds,
        judged=arguments.rows >= MIN_ROWS,
    )
