"""The device sweep: compression x processes x access x I/O mode, on each device that is named.

Law
---
1. Without options it is the 2.x benchmark: the same values, levels, processes and cycles.
2. Its options stand here; what is measured stands in `plan` and `lines`, how a run goes in `run`,
   what it shows in `views`.
3. The files are removed, however the run ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from _benchmark.contenders import hdf5_direct, old_release
from _benchmark.contenders.streams import Stream
from _benchmark.contract import NotMeasuredError
from _benchmark.data import workloads
from _benchmark.harness.child import face
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import ResultFile
from _benchmark.loops.stream_loop import AHEAD_BYTES, EVERY_ACCESS
from _benchmark.machine import environment, io_mode
from _benchmark.machine.io_mode import BUFFERED, DIRECT, HDF5_DIRECT, IO_MODES, IoMode
from _benchmark.studies.arguments import (
    add_result_options,
    complib,
    levels,
    numbers,
    positive,
    some_of,
)
from _benchmark.studies.conduct import conduct
from _benchmark.studies.sweep import plan as sweep_plan
from _benchmark.studies.sweep.lines import MakeContender, Readers
from _benchmark.studies.sweep.plan import COLUMNS, COMPLEVELS, FIELDS
from _benchmark.studies.sweep.run import Place, Sweep
from _benchmark.studies.sweep.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "compression x processes x access on the device of each --directory (the default)"
MIN_RINGS = 8  # a pass shorter than this times what is read ahead
SMOKE = {"size": 2**23 / 2**30, "cycles": 1, "processes": (1, 2), "max_procs": 2}


OPTIONS: dict[str, dict[str, Any]] = {
    "--size": {
        "type": positive(float),
        "default": 1,
        "metavar": "GB",
        "help": "decoded size of the data, in GB of 2**30 bytes (default 1)",
    },
    "--cycles": {
        "type": positive(int),
        "default": 2,
        "metavar": "N",
        "help": "timed passes over the file (default 2)",
    },
    "--max_procs": {
        "type": positive(int),
        "default": 6,
        "metavar": "N",
        "help": "measure 1 to N processes (default 6)",
    },
    "--processes": {
        "type": numbers,
        "metavar": "N,N",
        "help": "measure only these numbers of processes",
    },
    "--complib": {
        "type": complib,
        "action": "append",
        "metavar": "NAME",
        "help": "compression library of PyTables, like zlib or blosc:lz4; may be repeated "
        "(default blosc)",
    },
    "--complevel": {
        "type": levels,
        "default": COMPLEVELS,
        "metavar": "N,N",
        "help": "compression levels; 0 stores uncompressed data (default 0,3,9)",
    },
    "--data": {
        "choices": list(FIELDS),
        "default": "noise",
        "help": "noise, as published (the default), or real, which adds a smooth field, counts and "
        "classes; these compress, so MB/s of storage are shown beside those of decoded data",
    },
    "--access": {
        "type": some_of(EVERY_ACCESS),
        "default": EVERY_ACCESS,
        "metavar": "NAME,NAME",
        "help": f"how the rows are taken (default {','.join(EVERY_ACCESS)})",
    },
    "--driver": {
        "type": some_of(tuple(IO_MODES)),
        "default": (DIRECT,),
        "metavar": "NAME,NAME",
        "help": f"how files are read (default {DIRECT}): "
        + "; ".join(f"{name}: {text}" for name, text in IO_MODES.items()),
    },
    "--rotational": {
        "action": "store_true",
        "help": "the disks rotate although the kernel does not say so (network file systems, FUSE, "
        "virtual disks): readers fetch one after the other",
    },
    "--limit_mb_per_s": {
        "type": positive(float),
        "action": "append",
        "metavar": "N",
        "help": "measure also with the device limited to N MB/s by the kernel's blkio throttle, "
        "where this user may set it; may be repeated",
    },
    "--H5FD_DIRECT_OFF": {
        "action": "store_true",
        "help": "read through the page cache and leave it as it is; by default the file is read "
        "around it with O_DIRECT, which works with any build of HDF5",
    },
    "--peers": {
        "action": "store_true",
        "help": "measure also PyTables, h5py, hidefix, zarr-python, TensorStore and DataLoader, as "
        "far as they are installed: pip install multitables[bench,torch]",
    },
    "--with-old-release": {
        "nargs": "?",
        "const": old_release.default_directory(),
        "metavar": "DIR",
        "help": f"measure also multitables {old_release.VERSION}, in an environment of its own, "
        f"made from PyPI when it is missing (default DIR: {old_release.default_directory()})",
    },
    "--direct_vfd": {
        "metavar": "PREFIX",
        "help": f"where tools/hdf5_build put its libhdf5, for --driver {HDF5_DIRECT}",
    },
}
PLACES: dict[str, dict[str, Any]] = {
    "--file": {
        "metavar": "NAME",
        "help": "benchmark file to create, and to remove at the end (default: a temporary file); "
        "its directory decides which device is measured",
    },
    "--directory": {
        "action": "append",
        "metavar": "DIR",
        "help": "measure the device of this directory; may be repeated, with tables for each",
    },
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of 2.x, and what else can be swept."""
    place = parser.add_mutually_exclusive_group()
    for group, options in ((parser, OPTIONS), (place, PLACES)):
        for name, option in options.items():
            group.add_argument(name, **option)
    add_result_options(parser)


def run(arguments: argparse.Namespace, make_contender: MakeContender = Stream) -> int:
    """Measure, print, keep; returns the exit status.

    `make_contender` takes ``(source, access, n_procs, options, cold)``; tests put a faulty one
    there.
    """
    if arguments.smoke:
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE))
    library = face()
    plan = sweep_plan.datasets(
        FIELDS[arguments.data],
        arguments.complib or ["blosc"],
        arguments.complevel,
        arguments.size * 2**30,
    )
    settings = {name: getattr(arguments, name) for name in ("size", "rotational")}
    settings["warm"] = arguments.H5FD_DIRECT_OFF
    with contextlib.ExitStack() as stack:
        filenames = stack.enter_context(_filenames(arguments.directory, arguments.file))
        for filename in filenames:
            needed_bytes = sweep_plan.needed_bytes(plan, arguments.peers)
            workloads.check_disk(os.path.dirname(filename), needed_bytes)
        decoded_bytes = plan[0].workload.decoded_bytes
        size = workloads.as_size(decoded_bytes)
        every_facts = [_facts(filename, library, size, arguments) for filename in filenames]
        results = stack.enter_context(
            ResultFile(
                arguments.output, "sweep", COLUMNS, every_facts[0], settings, arguments.resume
            )
        )
        progress = Progress(_total_steps(arguments, len(plan) * len(filenames)), "steps")
        sweep = Sweep(results, int(arguments.cycles), plan, make_contender, progress)
        sweep.note(_too_small(decoded_bytes, max(_processes(arguments))))
        places = (_place(filename, arguments, sweep) for filename in filenames)
        sweep.places = zip(every_facts, places, strict=True)
        return conduct(results, every_facts[0], sweep)


def _facts(filename: str, library: Any, size: str, arguments: argparse.Namespace) -> dict[str, str]:
    """What belongs to the numbers of a place."""
    facts = environment.facts(os.path.dirname(filename), library)
    facts["run"] = f"{size} of decoded data a file; a pass is a new stream"
    if arguments.rotational:
        facts["rotational"] = "yes (--rotational)"
    if HDF5_DIRECT in arguments.driver and arguments.direct_vfd:
        built = environment.as_line(hdf5_direct.versions(arguments.direct_vfd))
        facts["versions"] += f"; with libhdf5's direct VFD: {built or 'nothing'}"
    return facts


def _processes(arguments: argparse.Namespace) -> tuple[int, ...]:
    return arguments.processes or tuple(range(1, int(arguments.max_procs) + 1))


def _too_small(decoded_bytes: int, most_procs: int) -> str:
    """A warning, where readers hold a good part of the file in advance."""
    least_bytes = MIN_RINGS * AHEAD_BYTES * most_procs
    if decoded_bytes >= least_bytes:
        return ""
    return (
        "MB/s mean little for a file this small, of which readers hold much in advance. Take at "
        f"least {workloads.as_size(least_bytes)}."
    )


def _total_steps(arguments: argparse.Namespace, n_datasets: int) -> int:
    """What will be written, checked and timed; peers come on top, as far as they are there."""
    n_lines = len(_processes(arguments)) * len(arguments.access) * len(arguments.driver)
    n_limits = 1 + len(arguments.limit_mb_per_s or [])
    return n_datasets * (1 + n_lines * (1 + int(arguments.cycles) * n_limits))


@contextlib.contextmanager
def _filenames(directories: Sequence[str] | None, name: str | None) -> Iterator[list[str]]:
    """The benchmark file's name on each place; nothing is left there afterwards."""
    if name is None:
        with contextlib.ExitStack() as stack:
            yield [
                os.path.join(
                    stack.enter_context(workloads.scratch_directory(directory)), "bench.h5"
                )
                for directory in directories or [tempfile.gettempdir()]
            ]
        return
    filename = os.path.abspath(name)
    if os.path.lexists(filename):
        raise FileExistsError(
            f"{name!r} exists, and the benchmark would write over it and remove it. "
            "Give --file a new name."
        )
    try:
        yield [filename]
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(filename)


def _place(filename: str, arguments: argparse.Namespace, sweep: Sweep) -> Place:
    """Who reads there; what cannot be had there is said."""
    old_python = direct_python = None
    if arguments.with_old_release:
        try:
            old_python = old_release.interpreter(arguments.with_old_release)
        except NotMeasuredError as error:
            sweep.note(str(error))
    names = list(arguments.driver)
    if arguments.peers and BUFFERED not in names:
        names.append(BUFFERED)  # peers read through the page cache, and are compared with this
    if HDF5_DIRECT in names:
        try:
            direct_python = hdf5_direct.find(arguments.direct_vfd)
        except NotMeasuredError as error:
            sweep.note(f"{error} It goes on with {DIRECT!r}.")
            names = [DIRECT, *(name for name in names if name not in (DIRECT, HDF5_DIRECT))]
    readers = Readers(
        accesses=arguments.access,
        processes=_processes(arguments),
        chosen=_io_modes(filename, names, arguments.H5FD_DIRECT_OFF, sweep),
        options={"rotational": True} if arguments.rotational else {},
        warm=arguments.H5FD_DIRECT_OFF,
        with_peers=arguments.peers,
        old_python=old_python,
        direct_python=direct_python,
    )
    # the name of the directory as it was given: a temporary one is another at every run
    directory = os.path.dirname(filename)
    given = directory if arguments.file else os.path.dirname(directory)
    return Place(given, filename, readers, (None, *(arguments.limit_mb_per_s or ())))


def _io_modes(filename: str, names: Sequence[str], warm: bool, sweep: Sweep) -> list[IoMode]:
    """The modes that this file system can have, each once."""
    if warm:
        names = (BUFFERED,)
    found: dict[str, IoMode] = {}
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(filename)) as probe:
        probe.write(bytes(2**16))
        probe.flush()
        for name in names:
            mode = io_mode.choose(probe.name, name, warm)
            sweep.note(mode.note)
            found.setdefault(mode.name, mode)
    return list(found.values())
