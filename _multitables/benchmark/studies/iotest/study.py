"""The HDF Group's parameterised I/O test: its options, and which tests a run has.

Law
---
1. What an INI file says is refused before anything is written, with the file, line, key and rule.
2. The study starts MPI's ranks itself, so it does not run as one of several ranks.
3. Its options stand here; what is measured stands in `cases`.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import asdict, replace

from _multitables.benchmark.contenders.iotest_contenders import MPI_PYTHON
from _multitables.benchmark.contract import NotMeasuredError
from _multitables.benchmark.data import iotest_ini
from _multitables.benchmark.data.iotest_ini import Configuration, IniError
from _multitables.benchmark.machine import environment
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.iotest.cases import Tests
from _multitables.benchmark.studies.iotest.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "the HDF Group's parameterised I/O test, from its INI files: published path and ours"
COMBINATIONS = "combinations"
USAGE = f"expected nothing, INI, or {COMBINATIONS} ROWS COLS [INI]"
WORLDS = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_SIZE")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the test."""
    add = parser.add_argument
    add(
        "what",
        nargs="*",
        metavar="INI",
        help="a file that describes a test (default: the published default); or "
        f"'{COMBINATIONS} ROWS COLS [INI]', which writes the 24 standard files for a grid of "
        "processes, run-1.ini to run-24.ini, into --output, on the base of INI",
    )
    add("--run", action="store_true", help=f"with {COMBINATIONS}: run all 24, too")
    rules = parser.add_mutually_exclusive_group()
    rules.add_argument(
        "--as-published",
        dest="as_described",
        action="store_false",
        default=False,
        help="as the published program does: creat is the time to create the file and the "
        "datasets, and the last value of a key wins, in any section (default)",
    )
    rules.add_argument(
        "--as-described",
        dest="as_described",
        action="store_true",
        help="as its documentation says: creat is the time to create the file, and [CUSTOM] wins "
        "over [DEFAULT] in any order",
    )
    add(
        "--mpi_python",
        default=os.environ.get(MPI_PYTHON, ""),
        metavar="PATH",
        help="interpreter with mpi4py and a parallel h5py, which tools/hdf5_build makes (default: "
        f"{MPI_PYTHON}, or MPI-IO is not measured)",
    )
    add(
        "--mpiexec",
        default="",
        metavar="COMMAND",
        help="what starts ranks, with its options (default: the mpiexec beside that interpreter, "
        "or the one in PATH)",
    )
    settings.add_arguments(parser, 3, scale="20 steps of 500 arrays of 160 kB are 1.6 GB")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    refuse_ranks(os.environ)
    try:
        tests = chosen(arguments)
    except IniError as error:
        raise NotMeasuredError(str(error)) from error
    if not tests:
        return 0
    arguments = settings.of_smoke(arguments, {"rounds": 1})
    if arguments.smoke:
        tests = {name: test.tiny() for name, test in tests.items()}
    elif arguments.scale != 1:
        tests = {name: test.scaled(arguments.scale) for name, test in tests.items()}
    if any(test.restart for test in tests.values()):
        arguments = argparse.Namespace(**vars(arguments) | {"resume": True})
    planned = Tests(
        tests,
        arguments.output,
        arguments.data_dir is not None,
        arguments.as_described,
        arguments.resume,
        arguments.mpi_python,
        arguments.mpiexec,
    )
    manner = "described" if arguments.as_described else "published"
    grids = dict.fromkeys(f"{one.process_rows} x {one.process_columns}" for one in tests.values())
    return settings.run(
        "iotest",
        arguments,
        f"{len(tests)} tests as {manner}, processes in a grid of {', '.join(grids)}, each "
        f"contender timed {arguments.rounds} x",
        lambda own: planned.plan(own.directory),
        {"tests": {name: asdict(test) for name, test in tests.items()}, "as": manner},
        {"h5py": environment.version_of("h5py")},
    )


def refuse_ranks(variables: Mapping[str, str]) -> None:
    """Raise where this process is one of several ranks."""
    for name in WORLDS:
        if variables.get(name, "").isdigit() and int(variables[name]) > 1:
            raise NotMeasuredError(
                f"this is one of {variables[name]} ranks, and the study starts the ranks itself: "
                "run it without mpiexec, with --mpi_python and, if need be, --mpiexec"
            )


def chosen(arguments: argparse.Namespace) -> dict[str, Configuration]:
    """The tests to run, by name; none where files are only written.

    Raises
    ------
    IniError, OSError
        A file describes no test, or cannot be read.
    """
    words, described = arguments.what, arguments.as_described
    if words[:1] == [COMBINATIONS]:
        return combined(arguments)
    if len(words) > 1:
        raise NotMeasuredError(f"{USAGE}; got {' '.join(words)}")
    if arguments.run:
        raise NotMeasuredError(f"--run is for {COMBINATIONS}")
    if words:
        stem = os.path.splitext(os.path.basename(words[0]))[0]
        return {stem: iotest_ini.read(words[0], described)}
    default = Configuration()
    if not arguments.smoke:
        return {"default": default}
    grid = replace(default, process_rows=2, process_columns=2)
    some = {
        "contiguous": grid,
        "chunked": replace(grid, layout="chunked"),
        "arrays": replace(grid, dataset_rank=3, slowest_dimension="array", mpi_io="collective"),
        "single": replace(grid, dataset_rank=2, process_columns=1, scaling="strong"),
    }
    return {
        name: replace(one, hdf5_file=f"{name}.h5", csv_file=f"{name}.csv")
        for name, one in some.items()
    }


def combined(arguments: argparse.Namespace) -> dict[str, Configuration]:
    """Write the standard files; their tests, where they shall be run."""
    words = arguments.what[1:]
    if len(words) not in (2, 3) or not all(word.isdigit() and int(word) for word in words[:2]):
        raise NotMeasuredError(f"{USAGE}; got {' '.join(arguments.what)}")
    base = iotest_ini.text_of(Configuration())
    if len(words) == 3:
        iotest_ini.read(words[2], arguments.as_described)  # its errors are of its own lines
        with open(words[2], encoding="utf-8") as file:
            base = file.read()
    os.makedirs(arguments.output, exist_ok=True)
    found = {}
    for name, text in iotest_ini.combinations(base, int(words[0]), int(words[1])):
        filename = os.path.join(arguments.output, name)
        found[name.removesuffix(".ini")] = iotest_ini.parse(text, filename, arguments.as_described)
        with open(filename, "w", encoding="utf-8") as file:
            file.write(text)
    print(f"{len(found)} files: {os.path.join(arguments.output, 'run-*.ini')}")
    return found if arguments.run else {}
