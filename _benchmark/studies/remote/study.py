"""Objects of a store: whole datasets, random batches, opening, and shots, over a slow network.

Law
---
1. Server and proxy are on this machine, and gone at the end; every request waits as it would on
   the way to a store.
2. With the URL of a user's own object no server starts: `own` measures that object.
3. Its options stand here; what is measured stands in `parts`, how a run goes in `targets.run`.
"""

from __future__ import annotations

import argparse
import os
import tempfile

from _benchmark.contract import NotMeasuredError
from _benchmark.data import workloads
from _benchmark.machine import environment
from _benchmark.objects.server import NoServerError
from _benchmark.objects.store import Store
from _benchmark.studies.arguments import positive
from _benchmark.studies.remote import own
from _benchmark.studies.remote.parts import DATASETS, PARTS, Remote
from _benchmark.studies.targets import run as target_run
from _benchmark.studies.targets.run import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "objects of a store: whole datasets, random batches, opening, shots; or your own one"
ROS3_PYTHON = "MULTITABLES_ROS3_PYTHON"
SIZE_BYTES = 320 * 2**20
MIN_BYTES = 2**27  # of less, opening and starting take too large a part
N_SHOTS, N_SIGNALS, N_DATASETS, N_BATCHES = 20, 62, 3000, 8
LARGER = 64  # times the rows of the small datasets: some 60 KB each
SMOKE = {"scale": 2**-6, "rounds": 1, "latency_ms": 1.0}
SMOKE_SIZES = {"shots": 3, "signals": 5, "datasets": 60, "batches": 2, "times": 4}
SMOKE_DATASETS = ("zlib",)
PEERS = ("obstore", "h5py", "s3fs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of objects."""
    own.add_arguments(parser)
    add = parser.add_argument
    add(
        "--latency_ms",
        type=positive(float),
        default=20,
        metavar="MS",
        help="how long each request waits before it is passed on (default 20)",
    )
    add(
        "--mb_per_s",
        type=positive(float),
        metavar="MB",
        help="the network's bandwidth, MB of 10**6 bytes (default: as fast as this machine)",
    )
    add(
        "--scale",
        type=positive(float),
        default=1,
        metavar="X",
        help=f"files this many times as large: {SIZE_BYTES >> 20} MiB decoded a dataset, and "
        f"{N_SHOTS} shots (default 1)",
    )
    add(
        "--processes",
        type=positive(int),
        default=2,
        metavar="N",
        help="processes of every contender that can have several (default 2)",
    )
    add(
        "--ros3_python",
        default=os.environ.get(ROS3_PYTHON, ""),
        metavar="PATH",
        help="interpreter of an environment whose h5py has HDF5's driver for S3, as "
        f"tools/ros3_env.py makes it (default: {ROS3_PYTHON}, or it is not measured)",
    )
    target_run.add_arguments(parser, PARTS, DATASETS, with_old_release=False)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    if arguments.file is not None:
        return own.run(arguments)
    sizes = {
        "shots": max(2, round(N_SHOTS * arguments.scale)),
        "signals": N_SIGNALS,
        "datasets": N_DATASETS,
        "batches": N_BATCHES,
        "times": LARGER,
    }
    if arguments.smoke:
        dataset = arguments.dataset or SMOKE_DATASETS
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE | {"dataset": dataset}))
        sizes = SMOKE_SIZES
    size_bytes = SIZE_BYTES * arguments.scale
    bandwidth = f"{arguments.mb_per_s:g} MB/s" if arguments.mb_per_s else "no limit of bandwidth"
    what = (
        f"{arguments.latency_ms:g} ms a request, {bandwidth}, {arguments.processes} processes, "
        f"{workloads.as_size(size_bytes)} decoded a dataset, each contender timed "
        f"{arguments.rounds} x"
    )
    latency_seconds = arguments.latency_ms / 1000
    with workloads.scratch_directory(tempfile.gettempdir()) as folder:
        try:
            store = Store(folder, latency_seconds, 1e6 * (arguments.mb_per_s or 0))
        except NoServerError as error:
            raise NotMeasuredError(str(error)) from error
        with store:
            remote = Remote(store, arguments.ros3_python)
            return target_run.run(
                "remote",
                {name: remote.part(part) for name, part in PARTS.items()},
                arguments,
                what,
                more_facts={
                    "peers": ", ".join(f"{one} {environment.version_of(one)}" for one in PEERS)
                },
                size_bytes=size_bytes,
                processes=(arguments.processes,),
                datasets=tuple(arguments.dataset or DATASETS),
                sizes={**sizes, "latency_us": round(1e6 * latency_seconds)},
                judged=size_bytes >= MIN_BYTES,
            )
