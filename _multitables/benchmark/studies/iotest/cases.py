"""A case for each test: its parameters, its contenders, and its files in the published format.

Law
---
1. A test writes over its file in every round, so a file of that name that holds something else is
   refused. Of temporary files one test's are there at a time.
2. The published path has the CSV file that the test names; MPI and this library have one beside it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from _multitables.benchmark.contenders import iotest_contenders as people
from _multitables.benchmark.contenders.iotest_contenders import MPI, OURS, TIMES, grid_of
from _multitables.benchmark.contract import Digest, NotMeasuredError, Sample
from _multitables.benchmark.data.iotest_ini import Configuration
from _multitables.benchmark.harness.results import Row
from _multitables.benchmark.studies.frame import Case, Plan, Prepared
from _multitables.benchmark.studies.iotest import columns
from _multitables.benchmark.studies.iotest.views import KEYS, views

MORE = ("seconds", "decoded_bytes", *TIMES, "fsize")
ENDINGS = {MPI: ".mpi", OURS: f".{OURS}"}


@dataclass
class Tests:
    """The tests of a run, by name.

    Attributes
    ----------
    output : str
        Where CSV files without a directory of their own go.
    keeps_files, as_described, resumes : bool
    mpi_python, mpiexec : str
    """

    tests: Mapping[str, Configuration]
    output: str
    keeps_files: bool
    as_described: bool
    resumes: bool
    mpi_python: str
    mpiexec: str
    _begun: set[str] = field(default_factory=set)

    def plan(self, directory: str) -> Plan:
        """What is measured; relative names of files are in `directory`."""
        cases = [
            Case(
                key(name, test),
                functools.partial(self._prepare, test, directory),
                names=people.names(test),
                label=name,
            )
            for name, test in self.tests.items()
        ]
        return Plan(cases, views, KEYS, MORE, keep=self.keep)

    def _prepare(self, test: Configuration, directory: str, _stack: ExitStack) -> Prepared:
        if not self.keeps_files:
            for name in os.listdir(directory):
                os.unlink(os.path.join(directory, name))
        filename = os.path.join(directory, test.hdf5_file)
        for one in (filename, people.mpi_filename(filename)):
            if os.path.lexists(one) and not holds(test, one):
                raise FileExistsError(
                    f"{one!r} exists and holds something else than this test's data. Remove it, "
                    "or choose another hdf5-file or --data_dir."
                )
        os.makedirs(os.path.dirname(filename), exist_ok=True)
        found = people.paths(test, filename, self.as_described, self.mpi_python, self.mpiexec)
        elements = grid_of(test).n_bytes // 8
        return Prepared(
            found,
            functools.partial(_differs, elements),
            [] if test.split else [filename],
        )

    def keep(self, row: Row, sample: Sample) -> None:
        """Add a run to its file in the published format."""
        test = self.tests[row["configuration"]]
        stem, ending = os.path.splitext(os.path.join(self.output, test.csv_file))
        contender = row["contender"].rpartition(" x")[0]
        filename = f"{stem}{ENDINGS.get(contender, '')}{ending}"
        anew = filename not in self._begun and not self.resumes
        self._begun.add(filename)
        columns.append(filename, test, sample.more, anew)


def key(name: str, test: Configuration) -> dict[str, Any]:
    """The parameters of a test, by `KEYS`."""
    return {"configuration": name, **{one: getattr(test, one) for one in KEYS[1:]}}


def _differs(elements: int, found: Digest) -> str:
    compared = found["elements"]
    return "" if compared == elements else f"{compared} elements instead of {elements}"


def holds(test: Configuration, filename: str) -> bool:
    """Whether a file holds the datasets of a test."""
    try:
        import h5py
    except ImportError as error:
        raise NotMeasuredError(f"{error}: pip install h5py") from error
    grid = grid_of(test)
    try:
        with h5py.File(filename, "r") as file:
            last = (grid.steps - 1, grid.arrays - 1)
            return all(
                file[path].shape == grid.shape and file[path].chunks == grid.chunks
                for path in (grid.path(0, 0), grid.path(*last))
            )
    except (OSError, KeyError):
        return False
