"""The steps of the build, in order, and which of them are to be done.

Law
---
1. The table is the only home of the order. Steps of one stage need nothing of each other.
2. A step's key holds what it depends on, and the keys of all stages before: a change of either has
   it done again.
3. The plan is a value; it touches nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import steps
from building import Work
from steps import Options

NETWORK = "See that pip and cargo reach their registries."
COMPILER = (
    "See that there are a C compiler (on Debian: apt-get install gcc libc6-dev), memory and disk."
)
BOTH = f"{COMPILER} {NETWORK}"
SOURCES = (
    "See that cargo is installed (https://rustup.rs) and reaches its registry; a --source must be "
    "a release of HDF5."
)
ENVIRONMENT = f"{NETWORK} On Debian: apt-get install python3-venv."


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes
    ----------
    stage : int
        Steps of earlier stages are finished before it begins.
    name, what, advice : str
        ``hdf5``; what it does; what to do when it fails.
    act : callable
    output : tuple of str
        A path in the prefix that is there when it is finished.
    inputs : tuple of str
        What it depends on, beside the options that are its own.
    """

    stage: int
    name: str
    what: str
    advice: str
    act: Callable[[Options, Work], None]
    output: tuple[str, ...]
    inputs: tuple[str, ...] = ()


TABLE = (
    Row(
        0,
        "sources",
        "fetch the sources of HDF5 and zlib",
        SOURCES,
        steps.fetch,
        ("build", "vendor"),
        (steps.HDF5_CRATE_VERSION, steps.ZLIB_CRATE_VERSION),
    ),
    Row(
        0,
        "environment",
        "make a virtual environment with cmake",
        ENVIRONMENT,
        steps.environment,
        ("venv", "bin", "python"),
        (steps.CMAKE,),
    ),
    Row(1, "zlib", "build zlib", COMPILER, steps.zlib, ("zlib", "lib", "libz.a")),
    Row(
        2,
        "hdf5",
        "build HDF5 with its direct VFD",
        COMPILER,
        steps.hdf5,
        ("hdf5", "include", "hdf5.h"),
        steps.HDF5_OPTIONS,
    ),
    Row(
        3,
        "blosc",
        "build the c-blosc of PyTables",
        BOTH,
        steps.blosc,
        ("build", "tables"),
        (steps.TABLES, *steps.CONSTRAINTS),
    ),
    Row(4, "pytables", "build PyTables", BOTH, steps.pytables, ("build", "wheels", "tables")),
    Row(4, "h5py", "build h5py", BOTH, steps.h5py, ("build", "wheels", "h5py"), (steps.H5PY,)),
    Row(
        5,
        "packages",
        f"install them and multitables {steps.OLD_RELEASE}",
        NETWORK,
        steps.packages,
        ("venv", "bin", "pt2to3"),
        steps.RUNTIME,
    ),
)


@dataclass(frozen=True)
class Step:
    """A row for given options.

    Attributes
    ----------
    output : str
        Absolute.
    lasts : bool
        The output stays when the build directory is removed.
    key : str
    """

    stage: int
    name: str
    what: str
    advice: str
    act: Callable[[Options, Work], None]
    output: str
    lasts: bool
    key: str


def plan(options: Options) -> list[Step]:
    """All steps, in order."""
    rows = [row for row in TABLE if options.with_h5py or row.name != "h5py"]
    own = {
        "sources": (str(options.source), options.source_identity),
        "environment": (str(options.python.version),),
    }
    found: list[Step] = []
    for row in rows:
        before = [step.key for step in found if step.stage < row.stage]
        words = (options.prefix, row.name, *row.inputs, *own.get(row.name, ()), *before)
        found.append(
            Step(
                row.stage,
                row.name,
                row.what,
                row.advice,
                row.act,
                options.path(*row.output),
                row.output[0] != "build",
                hashlib.sha256("\n".join(words).encode()).hexdigest()[:16],
            )
        )
    return found


def todo(
    plan: Sequence[Step], finished: Mapping[str, str], exists: Callable[[str], bool]
) -> list[Step]:
    """The steps of `plan` that are to be done.

    These are the ones that are not finished with their key, or have lost what lasts of them; what
    comes after those; and what they need of the build directory, when that is gone.
    """
    wanted = [
        step
        for step in plan
        if finished.get(step.name) != step.key or (step.lasts and not exists(step.output))
    ]
    if not wanted:
        return []
    first = min(step.stage for step in wanted)
    return [
        step for step in plan if step in wanted or step.stage > first or not exists(step.output)
    ]
