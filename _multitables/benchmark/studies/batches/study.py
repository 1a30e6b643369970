"""Training batches: shuffled streams, beside DataLoader over h5py and what people use besides.

Law
---
1. Every contender delivers batches of 256 rows of the same dataset.
2. Its options stand here; what is measured stands in `parts`.
"""

from __future__ import annotations

import argparse
from functools import partial

from _multitables.benchmark.machine import environment
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies import views as default_views
from _multitables.benchmark.studies.arguments import add_rows, add_seconds
from _multitables.benchmark.studies.batches.parts import DATASETS, MORE, PARTS, ROW_BYTES
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.setting import of_parts, of_smoke

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "training batches: shuffled streams, beside DataLoader over h5py and others"
MIN_ROWS = 500_000  # of fewer, starting takes too large a part
SMOKE = {"rows": 4100, "rounds": 1, "seconds": 0.05}
SMOKE_DATASETS = ("lz4-64k", "zlib-512k", "lz4-narrow")
PEERS = ("torch", "torchdata", "grain")

views = partial(default_views.views, more=MORE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of training batches."""
    add_rows(parser)
    add_seconds(
        parser, 3, "how long each peer is timed in each round; this library streams whole epochs"
    )
    settings.add_arguments(parser, 5, PARTS, DATASETS)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    arguments = of_smoke(arguments, {**SMOKE, "dataset": arguments.dataset or SMOKE_DATASETS})
    peers = environment.versions_of(PEERS)
    return settings.run(
        "batches",
        arguments,
        f"{arguments.rows} rows of 1 KiB a dataset, {arguments.rounds} rounds, each peer timed "
        f"{arguments.seconds:g} s in each",
        lambda own: Plan(
            of_parts(PARTS, arguments.part, own),
            views,
            more=[*MORE],
            judges=arguments.rows >= MIN_ROWS,
        ),
        {"rows": arguments.rows, "seconds": arguments.seconds},
        {"peers": peers},
        size_bytes=arguments.rows * ROW_BYTES,
        datasets=tuple(arguments.dataset or DATASETS),
        seconds=arguments.seconds,
    )
