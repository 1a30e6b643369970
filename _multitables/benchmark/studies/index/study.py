"""Structure and handle: telling, opening and indexing files, beside h5py, pyfive and hidefix.

Law
---
1. Every contender tells the same datasets and chunks, and is asked for the same rows.
2. Its options stand here; what is measured stands in `parts` and `handle`.
"""

from __future__ import annotations

import argparse
from functools import partial

from _multitables.benchmark.machine import environment
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies import views as default_views
from _multitables.benchmark.studies.arguments import add_rows, add_seconds, positive
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.index.handle import ROW_BYTES
from _multitables.benchmark.studies.index.parts import DATASETS, PARTS, start
from _multitables.benchmark.studies.setting import Part, of_parts, of_smoke

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "structure and handle: all datasets and chunks, small datasets, multitables.open"
SMOKE = {"rows": 4000, "n_datasets": 200, "n_chunks": 400, "rounds": 1, "seconds": 0.05}
SMOKE_DATASETS = ("earliest", "extensible-array", "zlib")
#: Of less, starting and opening take too large a part, and rows fit into the cache of an open file.
MIN_SIZES = {"rows": 500_000, "n_datasets": 20_000, "n_chunks": 200_000}
N_READ = 1000
PEERS = ("h5py", "pyfive", "hidefix")
#: Further columns of the rows -> their heads.
MORE = {"p99_microseconds": "99th percentile, us"}

views = partial(default_views.views, more=MORE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of structure and handle."""
    add = parser.add_argument
    for name, default, what in (
        ("datasets", 100_000, "small datasets in a file"),
        ("chunks", 1_000_000, "chunks of a dataset, rounded down to a square"),
    ):
        add(
            f"--n_{name}",
            type=positive(int),
            default=default,
            metavar="N",
            help=f"{what} (default {default})",
        )
    add_rows(parser)
    add_seconds(parser, 2, "how long rows are read by each contender in each round")
    add(
        "--before",
        metavar="PYTHON",
        help="interpreter of an environment with another release of multitables, whose start is "
        "measured beside (default: none)",
    )
    settings.add_arguments(parser, 5, PARTS, DATASETS)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    arguments = of_smoke(arguments, {**SMOKE, "dataset": arguments.dataset or SMOKE_DATASETS})
    peers = environment.versions_of(PEERS)
    parts: dict[str, Part] = {**PARTS, "start": partial(start, before=arguments.before)}
    return settings.run(
        "index",
        arguments,
        f"{arguments.n_datasets} datasets, {arguments.n_chunks} chunks, {arguments.rows} rows of "
        f"1 KiB, {arguments.rounds} rounds, rows read for {arguments.seconds:g} s in each",
        lambda own: Plan(
            of_parts(parts, arguments.part, own),
            views,
            more=[*MORE],
            judges=all(vars(arguments)[name] >= least for name, least in MIN_SIZES.items()),
        ),
        {name: vars(arguments)[name] for name in (*MIN_SIZES, "seconds")},
        {"peers": peers},
        size_bytes=arguments.rows * ROW_BYTES,
        datasets=tuple(arguments.dataset or DATASETS),
        seconds=arguments.seconds,
        sizes={
            "datasets": arguments.n_datasets,
            "chunks": arguments.n_chunks,
            "read": min(N_READ, arguments.n_datasets),
        },
    )
