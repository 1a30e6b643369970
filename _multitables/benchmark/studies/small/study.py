"""Small and uncompressed data: datasets of 1 KB to 64 MB, shots, files, an object, and the start.

Law
---
1. Each case is measured beside what a user would take otherwise, which h5py's loop is mostly.
2. Its options stand here; what is measured stands in `parts`.
"""

from __future__ import annotations

import argparse

from _multitables.benchmark.machine import environment
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.setting import of_parts, of_smoke
from _multitables.benchmark.studies.small.parts import DATASETS, N_DATASETS, PARTS
from _multitables.benchmark.studies.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "small and uncompressed data beside h5py: datasets, shots, files, an object, the start"
SIZES = {
    "datasets": max(N_DATASETS.values()),
    "shots": 50,
    "signals": 62,
    "files": 3000,
    "rows": 60_000,
    "latency_ms": 20,
}
SMOKE_SIZES = {"datasets": 3, "shots": 2, "signals": 3, "files": 5, "rows": 2048, "latency_ms": 1}
SMOKE_BYTES = 2**14
PROCESSES = 2
PEERS = ("h5py", "fsspec", "aiohttp", "obstore", "dask")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of small data."""
    settings.add_arguments(parser, 5, PARTS, DATASETS)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    smoke = arguments.smoke
    arguments = of_smoke(arguments, {"rounds": 1})
    sizes = SMOKE_SIZES if smoke else SIZES
    return settings.run(
        "small",
        arguments,
        f"each contender timed {arguments.rounds} x",
        lambda own: Plan(of_parts(PARTS, arguments.part, own), views, judges=not smoke),
        {"sizes": sizes},
        {"peers": environment.versions_of(PEERS)},
        size_bytes=SMOKE_BYTES if smoke else max(N_DATASETS),
        processes=(PROCESSES,),
        datasets=tuple(arguments.dataset or DATASETS),
        sizes=sizes,
    )
