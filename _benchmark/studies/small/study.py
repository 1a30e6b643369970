"""Small and uncompressed data: datasets of 1 KB to 64 MB, shots, files, an object, and the start.

Law
---
1. Each case is measured beside what a user would take otherwise, which h5py's loop is mostly.
2. Its options stand here; what is measured stands in `parts`, how a run goes in `targets.run`.
"""

from __future__ import annotations

import argparse

from _benchmark.machine import environment
from _benchmark.studies.small.parts import DATASETS, N_DATASETS, PARTS
from _benchmark.studies.targets import run as target_run
from _benchmark.studies.targets.run import views

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
    target_run.add_arguments(parser, PARTS, DATASETS, with_old_release=False)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    smoke = arguments.smoke
    if smoke:
        arguments = argparse.Namespace(**(vars(arguments) | {"rounds": 1}))
    peers = ", ".join(f"{name} {environment.version_of(name)}" for name in PEERS)
    return target_run.run(
        "small",
        PARTS,
        arguments,
        f"each contender timed {arguments.rounds} x",
        more_facts={"peers": peers},
        size_bytes=SMOKE_BYTES if smoke else max(N_DATASETS),
        processes=(PROCESSES,),
        datasets=tuple(arguments.dataset or DATASETS),
        sizes=SMOKE_SIZES if smoke else SIZES,
        judged=not smoke,
    )
