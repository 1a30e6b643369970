"""The device sweep: compression x processes x access x driver, on each device that is named.

Law
---
1. Without options it is the 2.x benchmark: the same values, levels, processes and cycles.
2. This is its options and its ends; what is measured stands in `plan` and `lines`, how
   a run goes in `run`, what it shows in `views`.
3. The files are removed, however the run ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

from _benchmark.contenders import hdf5_direct, old_release, streams
from _benchmark.contenders.streams import Stream
from _benchmark.contract import NotMeasuredError
from _benchmark.data import workloads
from _benchmark.harness.progress import Progress
from _benchmark.harness.results import ResultFile
from _benchmark.loops.stream_loop import AHEAD_BYTES, EVERY_ACCESS
from _benchmark.machine import environment, io_mode
from _benchmark.machine.io_mode import BUFFERED, DIRECT, HDF5_DIRECT, IO_MODES, IoMode
from _benchmark.report.tables import heading
from _benchmark.studies.arguments import (
    add_result_options,
    complib,
    levels,
    numbers,
    positive,
    some_of,
)
from _benchmark.studies.sweep import plan as sweep_plan
from _benchmark.studies.sweep.lines import MakeContender, Readers
from _benchmark.studies.sweep.plan import COLUMNS, COMPLEVELS, FIELDS
from _benchmark.studies.sweep.run import Place, Sweep
from _benchmark.studies.sweep.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "compression x processes x access on the device of each --directory (the default)"
MIN_RINGS = 8  # a pass shorter than this times what is read ahead
SMOKE = {"size": 2**23 / 2**30, "cycles": 1, "processes": (1, 2), "max_procs": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of 2.x, and what else can be swept."""
    add = parser.add_argument
    add(
        "--size",
        type=positive(float),
        default=1,
        metavar="GB",
        help="size of the decoded data, GB of 2**30 bytes (default 1)",
    )
    add(
        "--cycles",
        type=positive(int),
        default=2,
        metavar="N",
        help="number of timed passes over the file (default 2)",
    )
    add(
        "--max_procs",
        type=positive(int),
        default=6,
        metavar="N",
        help="measure 1 to N processes (default 6)",
    )
    add("--processes", type=numbers, metavar="N,N", help="measure these numbers of processes only")
    add(
        "--complib",
        type=complib,
        action="append",
        metavar="NAME",
        help="PyTables' compression library, like zlib or blosc:lz4; may be repeated "
        "(default blosc)",
    )
    add(
        "--complevel",
        type=levels,
        default=COMPLEVELS,
        metavar="N,N",
        help="levels of compression, 0 is none (default 0,3,9)",
    )
    add(
        "--data",
        choices=list(FIELDS),
        default="noise",
        help="noise, as published (the default); or real: with it a smooth field, counts and "
        "classes, which compress, and MB/s of storage beside those of decoded data",
    )
    add(
        "--access",
        type=some_of(EVERY_ACCESS),
        default=EVERY_ACCESS,
        metavar="NAME,NAME",
        help=f"ways to take the rows (default {','.join(EVERY_ACCESS)})",
    )
    add(
        "--driver",
        type=some_of(tuple(IO_MODES)),
        default=(DIRECT,),
        metavar="NAME,NAME",
        help=f"how files are read (default {DIRECT}): "
        + "; ".join(f"{name}: {text}" for name, text in IO_MODES.items()),
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--file",
        metavar="NAME",
        help="benchmark file to create, and to remove at the end (default: a temporary file); "
        "its place decides which device is measured",
    )
    place.add_argument(
        "--directory",
        action="append",
        metavar="DIR",
        help="measure the device of this directory; may be repeated, and each gets its own tables",
    )
    add(
        "--rotational",
        action="store_true",
        help="the disks turn, though the kernel does not say so (network file systems, FUSE, "
        "virtual disks): readers fetch one after the other",
    )
    add(
        "--limit_mb_per_s",
        type=positive(float),
        action="append",
        metavar="N",
        help="measure with the device limited to N MB/s, too, by the kernel's blkio throttle, "
        "where this user may set it; may be repeated",
    )
    add(
        "--H5FD_DIRECT_OFF",
        action="store_true",
        help="read through the page cache, which is left as it is; without this the file is read "
        "around it with O_DIRECT, which works with any build of HDF5",
    )
    add(
        "--peers",
        action="store_true",
        help="measure PyTables, h5py, hidefix, zarr-python, TensorStore and DataLoader, too, as "
        "far as they are installed: pip install multitables[bench,torch]",
    )
    add(
        "--with-old-release",
        nargs="?",
        const=old_release.default_directory(),
        metavar="DIR",
        help=f"measure multitables {old_release.VERSION}, too, in an environment of its own, which "
        f"is made from PyPI when it is not there (default DIR: {old_release.default_directory()})",
    )
    add(
        "--direct_vfd",
        metavar="PREFIX",
        help=f"where tools/direct_vfd put libhdf5 with its direct VFD, for --driver {HDF5_DIRECT}",
    )
    add_result_options(parser)


def run(arguments: argparse.Namespace, make_contender: MakeContender = Stream) -> int:
    """Measure, print, keep; returns the exit status.

    `make_contender` takes ``(source, access, n_procs, options, cold)``; tests put a liar there.
    """
    if arguments.smoke:
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE))
    face = streams.face()
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
        size = workloads.as_size(plan[0].workload.decoded_bytes)
        every_facts = [_facts(filename, face, size, arguments) for filename in filenames]
        results = stack.enter_context(
            ResultFile(
                arguments.output, "sweep", COLUMNS, every_facts[0], settings, arguments.resume
            )
        )
        print(heading(every_facts[0]), flush=True)
        progress = stack.enter_context(Progress(_total_bytes(arguments, plan, len(filenames))))
        sweep = Sweep(results, int(arguments.cycles), make_contender, progress)
        sweep.note(_too_small(plan[0].workload.decoded_bytes, max(_processes(arguments))))
        interrupted = False
        try:
            for filename, facts in zip(filenames, every_facts, strict=True):
                results.describe(facts)
                place = _place(filename, arguments, sweep)
                for dataset in plan:
                    sweep.measure(place, dataset)
        except KeyboardInterrupt:
            interrupted = True
        results.save_json(interrupted=interrupted, **sweep.more())
    text = "\n\n".join(view.text() for view in views(sweep.kept()))
    results.save_text(f"{heading(every_facts[0])}\n\n{text}")
    print(f"\n{text}")
    print(f"\n{'interrupted; what was finished' if interrupted else 'results'}: {results.filename}")
    return 1 if sweep.faults else 130 if interrupted else 0


def _facts(filename: str, face: Any, size: str, arguments: argparse.Namespace) -> dict[str, str]:
    """What belongs to the numbers of a place."""
    facts = environment.facts(os.path.dirname(filename), face)
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


def _total_bytes(
    arguments: argparse.Namespace, plan: Sequence[sweep_plan.Dataset], n_places: int
) -> int:
    """What will be written, checked and timed; peers come on top, as far as they are there."""
    n_lines = len(_processes(arguments)) * len(arguments.access) * len(arguments.driver)
    n_limits = 1 + len(arguments.limit_mb_per_s or [])
    passes = 2 + n_lines * (1 + int(arguments.cycles) * n_limits)
    return n_places * passes * sum(one.workload.decoded_bytes for one in plan)


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
        except old_release.OldReleaseError as error:
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
    """The drivers that this file system can have, each once."""
    if warm:
        names = (BUFFERED,)
    found: dict[str, IoMode] = {}
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(filename)) as probe:
        probe.write(bytes(2**16))
        probe.flush()
        for name in names:
            driver = io_mode.choose(probe.name, name, warm)
            sweep.note(driver.note)
            found.setdefault(driver.name, driver)
    return list(found.values())
