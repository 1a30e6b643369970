"""The device sweep: compression x processes x access x I/O mode, on each device that is named.

Law
---
1. Without options it is the 2.x benchmark: the same values, levels, processes and cycles.
2. Its options stand here; what is measured stands in `cases` and `lines`, what it shows in `views`.
3. The files are removed, however the run ends.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from _multitables.benchmark.contenders import hdf5_direct, old_release
from _multitables.benchmark.contenders.streams import Stream
from _multitables.benchmark.contract import NotMeasuredError
from _multitables.benchmark.data import workloads
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.harness.child import face
from _multitables.benchmark.loops.stream_loop import AHEAD_BYTES, EVERY_ACCESS
from _multitables.benchmark.machine import environment, io_mode
from _multitables.benchmark.machine.io_mode import BUFFERED, DIRECT, HDF5_DIRECT, IO_MODES, IoMode
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import (
    add_result_options,
    complib,
    levels,
    numbers,
    positive,
    some_of,
)
from _multitables.benchmark.studies.beside import NAME
from _multitables.benchmark.studies.frame import Case, Plan
from _multitables.benchmark.studies.setting import of_smoke
from _multitables.benchmark.studies.sweep import cases as sweep_cases
from _multitables.benchmark.studies.sweep.cases import FIELDS, KEYS, MORE, Names, Place
from _multitables.benchmark.studies.sweep.lines import MakeContender, Readers
from _multitables.benchmark.studies.sweep.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "compression x processes x access on the device of each --directory (the default)"
#: The distributions of the peers, beside h5py and PyTables.
PEERS = (
    "hidefix",
    "pyfive",
    "xarray",
    "h5netcdf",
    "netCDF4",
    "zarr",
    "zarrs",
    "tensorstore",
    "torch",
)
MIN_RINGS = 8  # a pass shorter than this times what is read ahead
COMPLEVELS = (0, 3, 9)
BESIDE_SECONDS = 2.0
SMOKE_BESIDE_SECONDS = 0.1
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
        "help": "measure also PyTables, h5py, hidefix, pyfive, xarray, zarr-python, zarrs, "
        "TensorStore and DataLoader, as far as they are installed: pip install "
        "multitables[bench,torch]",
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
    arguments = of_smoke(arguments, SMOKE)
    datasets = sweep_cases.datasets(
        FIELDS[arguments.data],
        arguments.complib or ["blosc"],
        arguments.complevel,
        arguments.size * 2**30,
    )
    largest_bytes = max(one.needed_bytes for one in datasets.values())
    decoded_bytes = next(iter(datasets.values())).decoded_bytes
    notes = [_too_small(decoded_bytes, max(_processes(arguments)))]
    beside: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        filenames = stack.enter_context(_filenames(arguments.directory, arguments.file))
        for filename in filenames:  # a file at a time, and the peers' copy of it
            near = os.path.dirname(filename)
            workloads.check_disk(near, largest_bytes * (2 if arguments.peers else 1))
        readers = [_readers(name, arguments, make_contender, notes.append) for name in filenames]
        places = [
            Place(
                _given(filename, arguments),
                filename,
                who,
                _facts(filename, arguments),
                stack.enter_context(contextlib.ExitStack()),
            )
            for filename, who in zip(filenames, readers, strict=True)
        ]
        plan = Plan(
            [case for place in places for case in _cases(place, datasets, arguments, beside)],
            views,
            KEYS,
            MORE,
            beside={"notes": tuple(filter(None, dict.fromkeys(notes))), NAME: beside},
        )
        arguments.data_dir, arguments.rounds = os.path.dirname(filenames[0]), arguments.cycles
        options = {name: getattr(arguments, name) for name in ("size", "rotational")}
        return settings.run(
            "sweep",
            arguments,
            f"{workloads.as_size(decoded_bytes)} of decoded data a file; a pass is a new stream",
            lambda _own: plan,
            options | {"warm": arguments.H5FD_DIRECT_OFF},
            places[0].facts,
        )


def _cases(
    place: Place,
    datasets: Mapping[Names, Workload],
    arguments: argparse.Namespace,
    beside: list[dict[str, Any]],
) -> Iterator[Case]:
    limits = (None, *(arguments.limit_mb_per_s or ()))
    seconds = SMOKE_BESIDE_SECONDS if arguments.smoke else BESIDE_SECONDS
    for name, workload in datasets.items():
        yield place.beside_h5py(name, workload, seconds, beside)
        yield from place.cases(name, workload, limits)


def _facts(filename: str, arguments: argparse.Namespace) -> dict[str, str]:
    """What belongs to the numbers of a place."""
    facts = environment.facts(os.path.dirname(filename), face())
    if arguments.rotational:
        facts["rotational"] = "yes (--rotational)"
    if arguments.peers:
        facts["peers"] = environment.versions_of(PEERS)
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


def _given(filename: str, arguments: argparse.Namespace) -> str:
    """The directory as it was named: a temporary one is another at every run."""
    directory = os.path.dirname(filename)
    return directory if arguments.file else os.path.dirname(directory)


def _readers(
    filename: str, arguments: argparse.Namespace, make: MakeContender, note: Callable[[str], None]
) -> Readers:
    """The readers of a place; a note says which are missing there, and why."""
    old_python = direct_python = None
    if arguments.with_old_release:
        try:
            old_python = old_release.interpreter(arguments.with_old_release)
        except NotMeasuredError as error:
            note(str(error))
    names = list(arguments.driver)
    if arguments.peers and BUFFERED not in names:
        names.append(BUFFERED)  # peers read through the page cache, and are compared with this
    if HDF5_DIRECT in names:
        try:
            direct_python = hdf5_direct.find(arguments.direct_vfd)
        except NotMeasuredError as error:
            note(f"{error} It goes on with {DIRECT!r}.")
            names = [DIRECT, *(name for name in names if name not in (DIRECT, HDF5_DIRECT))]
    return Readers(
        accesses=arguments.access,
        processes=_processes(arguments),
        chosen=_io_modes(filename, names, arguments.H5FD_DIRECT_OFF, note),
        options={"rotational": True} if arguments.rotational else {},
        warm=arguments.H5FD_DIRECT_OFF,
        with_peers=arguments.peers,
        old_python=old_python,
        direct_python=direct_python,
        make=make,
    )


def _io_modes(
    filename: str, names: Sequence[str], warm: bool, note: Callable[[str], None]
) -> list[IoMode]:
    """The modes that this file system can have, each once."""
    if warm:
        names = (BUFFERED,)
    found: dict[str, IoMode] = {}
    with tempfile.NamedTemporaryFile(dir=os.path.dirname(filename)) as probe:
        probe.write(bytes(2**16))
        probe.flush()
        for name in names:
            mode = io_mode.choose(probe.name, name, warm)
            note(mode.note)
            found.setdefault(mode.name, mode)
    return list(found.values())
