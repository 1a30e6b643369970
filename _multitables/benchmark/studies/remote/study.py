"""Objects of a store: whole datasets, random batches, opening, and shots, over a slow network.

Law
---
1. Server and proxy are on this machine, and gone at the end; every request waits as it would on
   the way to a store.
2. With the URL of a user's own object no server starts: `own` measures that object.
3. Its options stand here; what is measured stands in `parts`.
"""

from __future__ import annotations

import argparse
import tempfile

from _multitables.benchmark.contract import NotMeasuredError
from _multitables.benchmark.data import workloads
from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.machine import environment
from _multitables.benchmark.objects.server import NoServerError
from _multitables.benchmark.objects.store import Store
from _multitables.benchmark.report.tables import View
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies import views as case_views
from _multitables.benchmark.studies.arguments import add_processes, add_store, positive
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.remote import own
from _multitables.benchmark.studies.remote.parts import DATASETS, MORE, PARTS, Remote
from _multitables.benchmark.studies.setting import of_parts, of_smoke

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "objects of a store: whole datasets, random batches, opening, shots; or your own one"
SIZE_BYTES = 320 * 2**20
MIN_BYTES = 2**27  # of less, opening and starting take too large a part
N_SHOTS, N_SIGNALS, N_DATASETS, N_BATCHES = 20, 62, 3000, 8
LARGER = 64  # times the rows of the small datasets: some 60 KB each
SMOKE = {"scale": 2**-6, "rounds": 1, "latency_ms": 1.0}
SMOKE_SIZES = {"shots": 3, "signals": 5, "datasets": 60, "batches": 2, "times": 4}
SMOKE_DATASETS = ("zlib",)
PEERS = ("obstore", "h5py", "s3fs", "fsspec")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of objects."""
    own.add_arguments(parser)
    add = parser.add_argument
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
        help=f"files this many times as large: {SIZE_BYTES >> 20} MiB decoded a dataset, "
        f"{N_SHOTS} shots, and {N_DATASETS} small datasets (default 1)",
    )
    add_processes(parser, "processes of every contender that can have several")
    add_store(parser, "it is not measured")
    settings.add_arguments(parser, 5, PARTS, DATASETS)


def views(kept: Kept) -> list[View]:
    """All of the study; of a user's object also with whose rows the others were compared."""
    oracle = kept.more.get("compared_with")
    said = [View("Check", {}, sentences=[f"Rows compared with {oracle}."])] if oracle else []
    return [*said, *case_views.views(kept, {**MORE, **own.MORE})]


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    facts = {"peers": environment.versions_of(PEERS)}
    if arguments.file is not None:
        return own.run(arguments, views, facts)
    sizes = {
        "shots": max(2, round(N_SHOTS * arguments.scale)),
        "signals": N_SIGNALS,
        "datasets": max(2, round(N_DATASETS * arguments.scale)),
        "batches": N_BATCHES,
        "times": LARGER,
    }
    sizes = SMOKE_SIZES if arguments.smoke else sizes
    arguments = of_smoke(arguments, SMOKE | {"dataset": arguments.dataset or SMOKE_DATASETS})
    size_bytes = SIZE_BYTES * arguments.scale
    bandwidth = f"{arguments.mb_per_s:g} MB/s" if arguments.mb_per_s else "no limit of bandwidth"
    what = (
        f"{arguments.latency_ms:g} ms a request, {bandwidth}, {arguments.processes} processes, "
        f"{workloads.as_size(size_bytes)} decoded a dataset, each contender timed "
        f"{arguments.rounds} x"
    )
    with workloads.scratch_directory(tempfile.gettempdir()) as folder:
        try:
            store = Store(folder, arguments.latency_ms / 1000, 1e6 * (arguments.mb_per_s or 0))
        except NoServerError as error:
            raise NotMeasuredError(str(error)) from error
        with store:
            remote = Remote(store, arguments.ros3_python)
            parts = {name: remote.part(part) for name, part in PARTS.items()}
            return settings.run(
                "remote",
                arguments,
                what,
                lambda setting: Plan(
                    of_parts(parts, arguments.part, setting),
                    views,
                    more=[*MORE],
                    judges=size_bytes >= MIN_BYTES,
                ),
                {
                    "sizes": sizes,
                    **{one: getattr(arguments, one) for one in ("scale", "latency_ms", "mb_per_s")},
                    "processes": arguments.processes,
                },
                facts,
                size_bytes=size_bytes,
                processes=(arguments.processes,),
                datasets=tuple(arguments.dataset or DATASETS),
                sizes=sizes,
            )
