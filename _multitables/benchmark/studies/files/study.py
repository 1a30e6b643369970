"""Kinds of files: virtual datasets, versions, rows of any length, selections.

Law
---
1. Each kind is measured beside the same data stored plainly, and beside h5py.
2. Its options stand here; what is measured stands in `parts`.
"""

from __future__ import annotations

import argparse

from _multitables.benchmark.data import workloads
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import add_processes, positive
from _multitables.benchmark.studies.files.parts import DATASETS, PARTS
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.setting import of_parts, of_smoke
from _multitables.benchmark.studies.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "kinds of files: virtual datasets, versions, rows of any length, selections"
MIN_BYTES = 2**28  # of less, opening and starting take too large a part
SMOKE = {"size": 2**21 / 2**30, "rounds": 1, "versions": 3}
SMOKE_DATASETS = ("zlib",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the kinds of files."""
    add = parser.add_argument
    add(
        "--size",
        type=positive(float),
        default=0.25,
        metavar="GB",
        help="decoded size of each dataset, GB of 2**30 bytes (default 0.25)",
    )
    add(
        "--versions",
        type=positive(int),
        default=100,
        metavar="N",
        help="versions of a file, beside one (default 100)",
    )
    add_processes(parser, "readers of every stream")
    settings.add_arguments(parser, 5, PARTS, DATASETS)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    arguments = of_smoke(arguments, SMOKE | {"dataset": arguments.dataset or SMOKE_DATASETS})
    size_bytes = arguments.size * 2**30
    return settings.run(
        "files",
        arguments,
        f"{workloads.as_size(size_bytes)} decoded a dataset, {arguments.versions} versions, "
        f"{arguments.processes} readers, each contender timed {arguments.rounds} x",
        lambda own: Plan(
            of_parts(PARTS, arguments.part, own), views, judges=size_bytes >= MIN_BYTES
        ),
        {name: getattr(arguments, name) for name in ("size", "versions", "processes")},
        size_bytes=size_bytes,
        processes=(arguments.processes,),
        datasets=tuple(arguments.dataset or DATASETS),
        sizes={"versions": arguments.versions},
    )
