"""Loaders: the classes of projects that train from HDF5, on data of their shapes.

Law
---
1. Each class is measured as its project has it, with `multitables.open` in the same lines, and
   beside what this library offers for the shape.
2. Its options stand here; what is measured stands in `parts`, how a run goes in `targets.run`.
"""

from __future__ import annotations

import argparse

from _benchmark.machine import environment
from _benchmark.studies.arguments import positive
from _benchmark.studies.loaders.parts import DATASETS, PARTS
from _benchmark.studies.targets import run as target_run
from _benchmark.studies.targets.run import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "loaders of projects that train from HDF5, beside samples of this library and others"
SMOKE = {"megabytes": 2, "rounds": 1, "seconds": 0.05}
JUDGED_MEGABYTES = 128  # of less, starting takes too large a part
PEERS = ("h5py", "torch", "pylance", "webdataset", "mosaicml-streaming", "scdataset", "annbatch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of loaders."""
    add = parser.add_argument
    add(
        "--megabytes",
        type=positive(int),
        default=512,
        metavar="N",
        help="decoded size of the data of each shape (default 512)",
    )
    add(
        "--seconds",
        type=positive(float),
        default=10,
        metavar="S",
        help="how long each is timed in each round, or a whole epoch (default 10)",
    )
    target_run.add_arguments(parser, PARTS, DATASETS, with_old_release=False)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    if arguments.smoke:
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE))
    peers = ", ".join(f"{name} {environment.version_of(name)}" for name in PEERS)
    return target_run.run(
        "loaders",
        PARTS,
        arguments,
        f"{arguments.megabytes} MB a shape, {arguments.rounds} rounds, each timed "
        f"{arguments.seconds:g} s or an epoch in each",
        more_facts={"peers": peers},
        size_bytes=arguments.megabytes * 10**6,
        processes=(2,),
        datasets=tuple(arguments.dataset or DATASETS),
        seconds=arguments.seconds,
        judged=arguments.megabytes >= JUDGED_MEGABYTES,
    )
