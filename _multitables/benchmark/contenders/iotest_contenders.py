"""Who writes and reads the files of the parameterised I/O test.

Law
---
1. What is timed stands in the loops; a figure is made of a pass that read every byte of a file,
   which has the published size where that is known.
2. The published path writes a file in each measurement, as published; this library reads the one
   that was written last by one process.
3. What it cannot read, or what is not installed, leaves a contender out with the reason.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import Any

from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contract import (
    ContenderError,
    Digest,
    NotMeasuredError,
    Sample,
    WrongDataError,
)
from _multitables.benchmark.data.iotest_ini import Configuration, known_bytes
from _multitables.benchmark.loops import iotest_loop, iotest_mpi_loop
from _multitables.benchmark.loops.iotest_grid import ITEM_BYTES, Grid

OURS = "multitables"
H5PY, MPI = "h5py", "h5py, MPI-IO"
MPI_PYTHON = "MULTITABLES_MPI_PYTHON"
GET_MPI = (
    "needs an interpreter with mpi4py and an h5py that was built with MPI. In a checkout of "
    "multitables `python tools/hdf5_build mpi PREFIX` makes one; then give --mpi_python "
    f"PREFIX/venv/bin/python, or set {MPI_PYTHON}"
)
TIMEOUT_SECONDS = 3600.0
#: What is kept of a sample beside seconds and bytes, and stands in the published columns.
TIMES = (
    "write_phase_min",
    "write_phase_max",
    "creat_min",
    "creat_max",
    "write_min",
    "write_max",
    "read_phase_min",
    "read_phase_max",
    "read_min",
    "read_max",
    "wall",
)


def grid_of(test: Configuration) -> Grid:
    """The datasets of a test."""
    share = (test.process_rows, test.process_columns) if test.is_strong else (1, 1)
    return Grid(
        steps=test.steps,
        arrays=test.arrays,
        rows=test.rows // share[0],
        columns=test.columns // share[1],
        process_rows=test.process_rows,
        process_columns=test.process_columns,
        dataset_rank=test.dataset_rank,
        slowest=test.slowest_dimension,
        chunked=test.layout == "chunked",
    )


def request(test: Configuration, filename: str) -> dict[str, Any]:
    """What every loop is asked."""
    bounds = {"v18": "v108"}
    driver = "core" if test.single_process == "core" and test.n_ranks == 1 else ""
    return {
        **asdict(grid_of(test)),
        "filename": os.path.abspath(filename),
        "libver": [bounds.get(one, one) for one in (test.libver_bound_low, test.libver_bound_high)],
        "alignment": [test.alignment_threshold, test.alignment_increment],
        "meta_block_size": test.meta_block_size,
        "fill": test.fill_values == "true",
        "gzip": test.gzip,
        "szip": test.szip,
        "collective": test.mpi_io == "collective",
        "driver": "split" if test.split else driver,
    }


@dataclass
class File:
    """A test's file, and what its last writing took.

    Attributes
    ----------
    as_described : bool
        The time of creation is that of the file alone, as the test's documentation says; as its
        program measures, it is that of the datasets, too.
    """

    test: Configuration
    filename: str
    as_described: bool
    wrote: Mapping[str, float] = field(default_factory=dict)

    @property
    def grid(self) -> Grid:
        """Its datasets."""
        return grid_of(self.test)

    def keep(self, found: Mapping[str, Any]) -> Mapping[str, float]:
        """The figures of a writing, if the file has the size that it should have."""
        expected = known_bytes(self.test)
        if expected not in (None, found["fsize"]):
            raise WrongDataError(
                f"the file has {found['fsize']} bytes, and that of the published test {expected}"
            )
        created = found["opened"]
        if not self.as_described:
            created = [sum(both) for both in zip(created, found["created"], strict=True)]
        self.wrote = {
            **_least_and_most("write_phase", found["phase"]),
            **_least_and_most("creat", created),
            **_least_and_most("write", found["each"]),
            "fsize": found["fsize"],
        }
        return self.wrote


def _least_and_most(name: str, seconds: list[float]) -> dict[str, float]:
    return {f"{name}_min": min(seconds), f"{name}_max": max(seconds)}


@dataclass(frozen=True)
class Path:
    """A way to read the test's file, and perhaps to write it.

    Attributes
    ----------
    missing : str
        Why it cannot be measured; "" where it can.
    writer : Asked or None
        Who writes the file for one that only reads.
    """

    asked: Asked
    file: File
    missing: str = ""
    writer: Asked | None = None
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.asked.name

    def check(self) -> Digest:
        """Read everything, and compare every element; returns how many."""
        if self.missing:
            raise NotMeasuredError(self.missing)
        if self.writer and not self.file.wrote:
            try:
                self.file.keep(self.writer.ask("write")["write"])
            except ContenderError as error:
                raise NotMeasuredError(f"there is no file to read: {error}") from error
        found = self.asked.ask("check")
        if "write" in found:
            self.file.keep(found["write"])
        return {"elements": found["read"]["n"]}

    def measure(self) -> Sample:
        """MB/s of the slowest rank's read phase, opening included."""
        found = self.asked.ask("time")
        wrote = self.file.keep(found["write"]) if "write" in found else self.file.wrote
        read, grid = found["read"], self.file.grid
        if read["n"] * ITEM_BYTES != grid.n_bytes:
            raise WrongDataError(f"{read['n'] * ITEM_BYTES} bytes read, not {grid.n_bytes}")
        wall = found.get("wall") or wrote["write_phase_max"] + read["wall"]
        reads = {
            **_least_and_most("read_phase", read["phase"]),
            **_least_and_most("read", read["each"]),
        }
        return Sample.of(max(read["phase"]), grid.n_bytes, **wrote, **reads, wall=wall)


def paths(
    test: Configuration, filename: str, as_described: bool, mpi_python: str, mpiexec: str
) -> list[Path]:
    """The contenders of a test, by `names`."""
    asked = request(test, filename)
    own = File(test, filename, as_described)

    def one(name: str, loop: ModuleType, **more: Any) -> Asked:
        label = f"{name} x{test.n_ranks}"
        install = "pip install h5py"
        return Asked(
            label, loop, {**asked, **more}, _none, install, timeout_seconds=TIMEOUT_SECONDS
        )

    h5py = one(H5PY, iotest_loop, recipe="h5py")
    beside = os.path.join(os.path.dirname(mpi_python), "mpiexec")
    mpi = one(
        MPI,
        iotest_mpi_loop,
        filename=mpi_filename(asked["filename"]),
        mpi_python=mpi_python,
        mpiexec=mpiexec or (beside if os.path.exists(beside) else "mpiexec"),
    )
    ours = one(OURS, iotest_loop, recipe="ours")
    split = "HDF5's split driver keeps metadata and data in two files"
    every = [
        Path(h5py, own),
        Path(mpi, File(test, filename, as_described), _no_mpi(test, mpi_python)),
        Path(ours, own, f"{split}, which multitables does not read" if test.split else "", h5py),
    ]
    return [path for path in every if path.name in names(test)]


def _none(_found: Any) -> Sample:
    raise AssertionError("`Path` makes the figures")


def mpi_filename(filename: str) -> str:
    """The file that MPI's ranks write, beside that of one process."""
    return f"{filename}.mpi"


def _no_mpi(test: Configuration, mpi_python: str) -> str:
    if test.split:
        return "the split driver is for one process"
    return "" if mpi_python and shutil.which(mpi_python) else GET_MPI


def names(test: Configuration) -> list[str]:
    """Who measures a test: a test of one process may say whether it goes through MPI."""
    alone = test.single_process if test.n_ranks == 1 else ""
    out = {"posix": MPI, "core": MPI, "mpi-io-uni": H5PY}.get(alone)
    return [f"{name} x{test.n_ranks}" for name in (H5PY, MPI, OURS) if name != out]
