"""Loaders: the classes of projects that train from HDF5, on data of their shapes.

Law
---
1. Each class is measured as its project has it, with `multitables.open` in the same lines, and
   beside what this library offers for the shape.
2. Its options stand here; what is measured stands in `parts`.
"""

from __future__ import annotations

import argparse

from _multitables.benchmark.machine import environment
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import add_seconds, positive
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.loaders.parts import DATASETS, PARTS
from _multitables.benchmark.studies.setting import of_parts, of_smoke
from _multitables.benchmark.studies.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "loaders of projects that train from HDF5, beside samples of this library and others"
SMOKE = {"megabytes": 2, "rounds": 1, "seconds": 0.05}
JUDGED_MEGABYTES = 128  # of less, starting takes too large a part
PEERS = ("h5py", "torch", "pylance", "webdataset", "mosaicml-streaming", "scdataset", "annbatch")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of loaders."""
    parser.add_argument(
        "--megabytes",
        type=positive(int),
        default=512,
        metavar="N",
        help="decoded size of the data of each shape (default 512)",
    )
    add_seconds(parser, 10, "how long each is timed in each round, or a whole epoch")
    settings.add_arguments(parser, 5, PARTS, DATASETS)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    arguments = of_smoke(arguments, SMOKE)
    judges = arguments.megabytes >= JUDGED_MEGABYTES
    return settings.run(
        "loaders",
        arguments,
        f"{arguments.megabytes} MB a shape, {arguments.rounds} rounds, each timed "
        f"{arguments.seconds:g} s or an epoch in each",
        lambda own: Plan(of_parts(PARTS, arguments.part, own), views, judges=judges),
        {"megabytes": arguments.megabytes, "seconds": arguments.seconds},
        {"peers": environment.versions_of(PEERS)},
        size_bytes=arguments.megabytes * 10**6,
        datasets=tuple(arguments.dataset or DATASETS),
        seconds=arguments.seconds,
    )
