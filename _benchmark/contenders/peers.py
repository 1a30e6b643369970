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
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from _benchmark.contenders import streams
from _benchmark.contenders.asked import found_in
from _benchmark.contenders.streams import SLAB_BYTES
from _benchmark.contract import Contender, Digest, NotMeasuredError, Sample, Source
from _benchmark.data.workloads import Workload
from _benchmark.data.zarr_copy import NoCopyError, ZarrCopy
from _benchmark.harness.child import Child
from _benchmark.loops import peer_loop

THREAD_CHUNKS = 4  # of a slab that threads share, at least, for each of them
#: Where the face is: the protocol's server imports it.
HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
START_SECONDS = 60.0
SLOWEST_RATE = 5e6  # bytes per second; below it a peer is taken for hanging


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
    """

    recipe: str
    label: str
    access: str
    install: str
    reads_zarr: bool = False


LIBRARIES = (
    Library("hidefix", "hidefix", "threads", "pip install hidefix"),
    Library("zarr", "zarr-python", "threads", "pip install 'zarr>=3.1'", reads_zarr=True),
    Library("tensorstore", "TensorStore", "threads", "pip install tensorstore", reads_zarr=True),
    Library("DataLoader", "DataLoader over h5py", "workers", "pip install torch h5py hdf5plugin"),
)


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
        return Sample.of(*self._ask("time"))

    def _ask(self, verb: str) -> Any:
        """What the child answers of a pass."""
        if self.other.recipe == "DataLoader":
            with streams.h5py_dataset(self.source):
                pass  # all filters are there
        try:
            zarr = self.copy.make() if self.copy is not None else None
        except NoCopyError as error:
            raise NotMeasuredError(str(error)) from error
        timeout_seconds = START_SECONDS + self.source.decoded_bytes / SLOWEST_RATE
        with Child(sys.executable, HERE, timeout_seconds, peer_loop.__file__) as child:
            found: dict[str, Any] = child.ask(
                verb=verb,
                recipe=self.other.recipe,
                filename=os.path.abspath(self.source.filename),
                path=self.source.path,
                zarr=zarr,
                rows=self.source.rows,
                slab_rows=self._slab_rows(),
                n_procs=self.n_procs,
            )
        return found_in(found, self.other.label, self.other.install)

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
    for library in LIBRARIES:
        own = copy if library.reads_zarr else None
        for n in processes:
            contender = ChildPeer(library, source, n, copy.chunk_rows, own)
            read = own.files if own else files
            found.append(Peer(library.label, library.access, n, contender, read))
    return found
