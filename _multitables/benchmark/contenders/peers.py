"""The other libraries that the device sweep measures beside this one.

Law
---
1. Each reads all rows in the order of the file, in the fastest documented way; those with threads
   or workers run in a process of their own.
2. A library that is not installed, or cannot read this dataset, is listed nevertheless, and raises
   `NotMeasuredError` when it is asked to read.
3. It installs nothing, and owns no table and no order of measuring.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from _multitables.benchmark.contenders import streams
from _multitables.benchmark.contenders.streams import SLAB_BYTES
from _multitables.benchmark.contract import Contender, Digest, NotMeasuredError, Sample, Source
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.data.zarr_copy import NoCopyError, ZarrCopy
from _multitables.benchmark.harness.child import Child, module_directory
from _multitables.benchmark.loops import peer_loop

THREAD_CHUNKS = 4  # of a slab that threads share, at least, for each of them
START_SECONDS = 60.0
SLOWEST_RATE = 5e6  # bytes per second; below it a peer is taken for hanging
NEWEST_PYTHON = "MULTITABLES_NEWEST_HDF5_PYTHON"
NEWEST, THREADED = "2.2.0", "2.3"  # whose sources cargo's registry has; which has internal threads
GET_NEWEST = (
    "it needs an interpreter whose h5py was built over it. In a checkout of multitables `python "
    f"tools/hdf5_build newest PREFIX` makes one; then set {NEWEST_PYTHON} to PREFIX/venv/bin/python"
)
NO_SOURCES = (
    f"HDF5 {THREADED} is the first that reads chunks by threads of its own. No registry of "
    f"packages has its sources yet; hdf5-metno-src of cargo's has those of HDF5 {NEWEST}. When it "
    "has newer ones, name them in tools/hdf5_build, build them, and measure again"
)


@dataclass(frozen=True)
class Peer:
    """One other library, and how it reads.

    Attributes
    ----------
    label : str
    access : str
        ``slabs``, ``threads`` or ``workers``.
    n_procs : int
        Its processes or threads; 1 where it has only one.
    contender : Contender
        Must be checked before its files are looked at: the check writes what it lacks of them.
    files : tuple of str
        What it reads.
    """

    label: str
    access: str
    n_procs: int
    contender: Contender
    files: tuple[str, ...]


@dataclass(frozen=True)
class Library:
    """One library of `peer_loop.RECIPES`.

    Attributes
    ----------
    recipe, label, access : str
    install : str
        The command that installs it.
    reads_zarr : bool
        It reads a zarr copy of the file.
    python : str or None
        An interpreter of its own, which lacks this library; "" where it is missing. None for this
        one.
    """

    recipe: str
    label: str
    access: str
    install: str
    reads_zarr: bool = False
    python: str | None = None


LIBRARIES = (
    Library("hidefix", "hidefix", "threads", "pip install hidefix"),
    Library("pyfive", "pyfive", "threads", "pip install 'pyfive>=1.3'"),
    Library("xarray-h5netcdf", "xarray, h5netcdf", "slabs", "pip install xarray h5netcdf"),
    Library("xarray-netcdf4", "xarray, netCDF4", "slabs", "pip install xarray netCDF4"),
    Library("xarray-hidefix", "xarray, hidefix", "threads", "pip install xarray hidefix netCDF4"),
    Library("zarr", "zarr-python", "threads", "pip install 'zarr>=3.1.6'", reads_zarr=True),
    Library("zarrs", "zarr-python, zarrs", "threads", "pip install zarrs", reads_zarr=True),
    Library("tensorstore", "TensorStore", "threads", "pip install tensorstore", reads_zarr=True),
    Library("DataLoader", "DataLoader over h5py", "workers", "pip install torch h5py hdf5plugin"),
)


def newest_hdf5() -> Library:
    """h5py over an HDF5 that is in no wheel, by the interpreter that `NEWEST_PYTHON` names."""
    python = os.environ.get(NEWEST_PYTHON, "")
    version = _hdf5_version(python) if python else ""
    label = f"h5py, HDF5 {version or NEWEST}"
    return Library("h5py", label, "slabs", GET_NEWEST, python=python if version else "")


def _hdf5_version(python: str) -> str:
    """The HDF5 of an interpreter's h5py; "" where it lacks h5py."""
    ask = "import h5py; print(h5py.version.hdf5_version)"
    try:
        done = subprocess.run([python, "-I", "-c", ask], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()


@dataclass(frozen=True)
class Awaited:
    """A library that is not released yet: it is listed with the reason."""

    name: str
    why: str
    needs: tuple[str, ...] = ()

    def check(self) -> Digest:
        """Say why it is not there."""
        raise NotMeasuredError(self.why)

    def measure(self) -> Sample:
        """The same."""
        raise NotMeasuredError(self.why)


@dataclass(frozen=True)
class ChildPeer:
    """A library that reads in a fresh process.

    Attributes
    ----------
    n_procs : int
        Threads or workers.
    chunk_rows : int
        Slabs are whole chunks.
    copy : ZarrCopy or None
        What is read in place of the source.
    """

    other: Library
    source: Source
    n_procs: int
    chunk_rows: int
    copy: ZarrCopy | None = None
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``hidefix x2``."""
        return f"{self.other.label} x{self.n_procs}"

    def check(self) -> Digest:
        """Digest of one whole pass."""
        return dict(self._ask("check"))

    def measure(self) -> Sample:
        """MB/s of one pass, without what opening takes."""
        found = self._ask("time")
        return Sample.of(found["seconds"], found["n_bytes"])

    def _ask(self, verb: str) -> Any:
        """What the child answers of a pass."""
        python = self.other.python
        if python == "":
            raise NotMeasuredError(f"{self.other.label}: {self.other.install}")
        place = None if python else module_directory()
        try:
            zarr = self.copy.make() if self.copy is not None else None
        except NoCopyError as error:
            raise NotMeasuredError(str(error)) from error
        timeout_seconds = START_SECONDS + self.source.decoded_bytes / SLOWEST_RATE
        request = {
            "recipe": self.other.recipe,
            "filename": os.path.abspath(self.source.filename),
            "path": self.source.path,
            "zarr": zarr,
            "rows": self.source.rows,
            "slab_rows": self._slab_rows(),
            "n_procs": self.n_procs,
        }
        label, install = self.other.label, self.other.install
        with Child(
            python or sys.executable, place, timeout_seconds, peer_loop, label, install
        ) as child:
            return child.ask(verb=verb, **request)

    def _slab_rows(self) -> int:
        """About 4 MiB, in which all threads have something to do; more would not fit the caches."""
        least = THREAD_CHUNKS * self.n_procs if self.other.access == "threads" else 1
        chunks = max(least, SLAB_BYTES // (self.chunk_rows * self.source.row_bytes))
        return min(chunks * self.chunk_rows, self.source.rows)


def peers(
    source: Source, workload: Workload, processes: Sequence[int], directory: str
) -> list[Peer]:
    """Every other library, each with every number of processes that it can have.

    Parameters
    ----------
    source : Source
    workload : Workload
        What the source holds.
    processes : sequence of int
        Numbers of processes, threads or workers.
    directory : str
        On the measured device; the copies that peers need are made there, and are the caller's to
        remove.
    """
    files = (source.filename,)
    found = [
        Peer("PyTables read(out=)", "slabs", 1, streams.pytables_read(source), files),
        Peer("h5py read_direct", "slabs", 1, streams.h5py_read(source), files),
    ]
    copy = ZarrCopy(source.filename, workload, directory)
    for library in (newest_hdf5(), *LIBRARIES):
        own = copy if library.reads_zarr else None
        for n in processes if library.access != "slabs" else (1,):
            contender = ChildPeer(library, source, n, copy.chunk_rows, own)
            read = own.files if own else files
            found.append(Peer(library.label, library.access, n, contender, read))
    awaited = Awaited(f"h5py, HDF5 {THREADED} with threads", NO_SOURCES)
    return [*found, Peer(awaited.name, "threads", 1, awaited, files)]
