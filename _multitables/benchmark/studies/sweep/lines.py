"""Who reads a dataset in the sweep: this library, the published method, the peers.

Law
---
1. It names contenders; it reads and measures nothing. A contender that cannot run here raises an
   error when it is checked, and is then left out.
2. All contenders get the page cache in the same state: peers read through it, from cold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from _multitables.benchmark.contenders import hdf5_direct, old_release
from _multitables.benchmark.contenders.peers import peers
from _multitables.benchmark.contenders.streams import ChildStream, Stream
from _multitables.benchmark.contract import Contender, Source
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.harness.runner import Entry
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.machine import io_mode
from _multitables.benchmark.machine.io_mode import IoMode
from _multitables.benchmark.studies.frame import LABEL

OLD_LABEL = f"multitables {old_release.VERSION}"

MakeContender = Callable[[Source, str, int, Mapping[str, Any], bool], Contender]


def line(
    who: str, access: str, mode: IoMode, n_procs: int, contender: Contender, files: Sequence[str]
) -> Entry:
    """Somebody who reads a dataset: its rows' columns but for the place, dataset and limit."""
    key = {"contender": who, "access": access, "driver": mode.name, "n_procs": n_procs}
    return Entry(f"{who} {access} x{n_procs}, {mode.name}", contender, key, files, mode)


@dataclass(frozen=True)
class Readers:
    """Who is asked for, on one place.

    Attributes
    ----------
    accesses, processes
        Of this library.
    chosen : sequence of IoMode
        For this place, each once.
    options : mapping
        More options of ``Streamer``.
    warm : bool
        Whether peers find the file in the page cache, too.
    with_peers : bool
    old_python, direct_python : str or None
        The interpreters of the old release, and of the one with libhdf5's direct VFD.
    make : callable
        This library; takes ``(source, access, n_procs, options, cold)``.
    """

    accesses: Sequence[str]
    processes: Sequence[int]
    chosen: Sequence[IoMode]
    options: Mapping[str, Any]
    warm: bool
    with_peers: bool
    old_python: str | None
    direct_python: str | None
    make: MakeContender = Stream

    @property
    def has_peers(self) -> bool:
        """Whether other libraries, or the old release, are asked for."""
        return self.with_peers or self.old_python is not None

    def lines(self, source: Source) -> list[Entry]:
        """This library and the published method; `source` need not be written yet."""
        found: list[Entry] = []
        for mode in self.chosen:
            if mode.name == io_mode.HDF5_DIRECT:
                found += self._published(source, mode)
            else:
                found += self._ours(source, mode)
        return found

    def _ours(self, source: Source, mode: IoMode) -> list[Entry]:
        options = {**mode.options, **self.options}
        cold = mode.name == io_mode.BUFFERED and mode.drop_before
        found = []
        for access in self.accesses:
            for n in self.processes:
                one = self.make(source, access, n, options, cold)
                found.append(line(LABEL, access, mode, n, one, (source.filename,)))
        return found

    def _published(self, source: Source, mode: IoMode) -> list[Entry]:
        """The old release, and as many bare processes, each through libhdf5's direct VFD."""
        assert self.direct_python is not None
        files = (source.filename,)
        found = []
        for n in self.processes:
            for access in stream_loop.ACCESSES:
                if access in self.accesses:
                    old = hdf5_direct.published(source, access, n, self.direct_python)
                    found.append(line(hdf5_direct.OLD_LABEL, access, mode, n, old, files))
            bare = hdf5_direct.pytables_processes(source, n, self.direct_python)
            found.append(line(hdf5_direct.PYTABLES_LABEL, "slabs", mode, n, bare, files))
        return found

    def peers(self, source: Source, workload: Workload, directory: str) -> list[Entry]:
        """The others; `directory` is for what they must write."""
        if not self.has_peers:
            return []
        buffered = io_mode.choose(source.filename, io_mode.BUFFERED, self.warm)
        found = []
        if self.with_peers:
            for one in peers(source, workload, self.processes, directory):
                who = one.label, one.access, buffered, one.n_procs
                found.append(line(*who, one.contender, one.files))
        if self.old_python is not None:
            old = partial(ChildStream, python=self.old_python, in_order=False, cold=not self.warm)
            for access in stream_loop.ACCESSES:
                for n in self.processes:
                    stream = old(source, OLD_LABEL, access, n)
                    found.append(line(OLD_LABEL, access, buffered, n, stream, (source.filename,)))
        return found
