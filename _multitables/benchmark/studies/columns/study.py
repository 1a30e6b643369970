"""A particle-physics analysis of columns, by ranks: the published method and this library.

Law
---
1. Its options stand here; who measures stands in `parts`, how a run goes in `cases`.
2. More ranks than spills are refused before anything is written.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil

from _multitables.benchmark.contenders.columns_contenders import found_mpiexec
from _multitables.benchmark.contract import NotMeasuredError
from _multitables.benchmark.data.particle_columns import SAMPLE_SPILLS, STORAGES
from _multitables.benchmark.machine import environment
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import numbers, positive, some_of
from _multitables.benchmark.studies.columns.parts import (
    KEYS,
    LOGS,
    METHODS,
    MORE,
    Columns,
    keep_logs,
)
from _multitables.benchmark.studies.columns.views import views
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.setting import Setting

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "tables of columns analysed by ranks: cuts and a histogram, beside the published method"
SMOKE = {"spills": 2000, "ranks": (2,), "rounds": 1, "files": 2}
#: Options that a run which is resumed must share.
SETTINGS = ("ranks", "storage", "evtseq", "files", "seed", "cold", "rounds", "spills")
LIBRARIES = ("h5py", "pandas", "boost-histogram", "mpi4py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of columns."""
    settings.add_arguments(parser, 3, scale=f"{SAMPLE_SPILLS} spills, 1.2 GB in each storage")
    add = parser.add_argument
    add(
        "--spills",
        type=positive(int),
        metavar="N",
        help="spills of all files together, in place of --scale",
    )
    add(
        "--files",
        type=positive(int),
        default=1,
        metavar="N",
        help="spread over N files (default 1)",
    )
    add("--seed", type=int, default=0, help="of the random values (default 0)")
    add(
        "--ranks",
        type=numbers,
        default=(1, 2, 4),
        metavar="N,N",
        help="numbers of ranks (default 1,2,4)",
    )
    add(
        "--storage",
        type=some_of(STORAGES),
        default=STORAGES,
        metavar="NAME,NAME",
        help=f"how columns are stored: {', '.join(STORAGES)} (default: all)",
    )
    add(
        "--evtseq",
        type=some_of(tuple(METHODS)),
        default=("all",),
        metavar="NAME,NAME",
        help="who reads the keys in the published method: all (every rank all of them, as "
        "published), root (rank 0 for all), shared (each rank a part) (default: all)",
    )
    add("--cold", action="store_true", help="drop the files from the page cache before each run")
    add("--no-mpi", action="store_true", help="plain processes, also where MPI is installed")
    add(
        "--mpiexec",
        metavar="COMMAND",
        help='what starts ranks, with its options: "srun --mpi=pmix" (default: mpiexec beside this '
        "Python or on PATH; plain processes where it or mpi4py is missing)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    n_spills = arguments.spills or max(1, round(SAMPLE_SPILLS * arguments.scale))
    arguments = settings.of_smoke(
        argparse.Namespace(**vars(arguments) | {"spills": n_spills}), SMOKE
    )
    n_spills = arguments.spills // arguments.files
    if max(arguments.ranks) > n_spills:
        raise NotMeasuredError(
            f"{max(arguments.ranks)} ranks cannot share {n_spills} spills of a file; choose fewer "
            "--ranks or --files, or more --spills"
        )
    has_mpi = not arguments.no_mpi and importlib.util.find_spec("mpi4py") is not None
    mpiexec = (arguments.mpiexec or found_mpiexec()) if has_mpi else ""
    kind = "ranks of MPI" if mpiexec else "plain processes as ranks"
    # kept rows say which program, and not where it lies on this machine
    program, _, options = mpiexec.partition(" ")
    starter = f"{os.path.basename(program)} {options}".strip()
    shared = {name: getattr(arguments, name) for name in SETTINGS} | {"mpiexec": starter}
    output = arguments.output

    def plan(own: Setting) -> Plan:
        if not arguments.resume:
            shutil.rmtree(os.path.join(output, LOGS), ignore_errors=True)
        varied = Columns(
            own.directory,
            arguments.storage,
            arguments.ranks,
            arguments.evtseq,
            arguments.spills,
            arguments.files,
            arguments.seed,
            mpiexec,
            arguments.cold,
        )
        return Plan(
            list(varied.cases()),
            views,
            KEYS,
            MORE,
            keep=lambda row, sample: keep_logs(output, row, sample.more["logs"]),
        )

    what = (
        f"{arguments.spills} spills in {arguments.files} file(s), {kind}, each contender timed "
        f"{arguments.rounds} x"
    )
    versions = environment.versions_of(LIBRARIES)
    return settings.run("columns", arguments, what, plan, shared, {"peers": versions})
