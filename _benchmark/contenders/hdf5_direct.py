"""The published method: libhdf5's own direct VFD, under an interpreter that was built for it.

Law
---
1. No binary wheel has that driver: ``tools/hdf5_build`` builds it, and nothing is built here.
2. The data is checked as for every contender; a pass that ends early is a failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from _benchmark.contenders import old_release
from _benchmark.contenders.streams import SLAB_BYTES
from _benchmark.contract import (
    Digest,
    NotMeasuredError,
    Sample,
    Source,
    WrongDataError,
    promised,
)
from _benchmark.harness.child import Child
from _benchmark.loops import hdf5_direct_loop
from _benchmark.loops.hdf5_direct_loop import DRIVER
from _benchmark.machine import page_cache

OLD_LABEL = f"multitables {old_release.VERSION}, libhdf5 direct"
PYTABLES_LABEL = "PyTables, libhdf5 direct"
READY = "ready.json"  # written by tools/hdf5_build when its last check has passed
START_SECONDS = 60.0
SLOWEST_RATE = 2e6  # bytes per second; below it a contender is taken for hanging


def find(prefix: str | None) -> str:
    """The interpreter that `tools/hdf5_build` made in `prefix`.

    Raises
    ------
    NotMeasuredError
        No finished build is there; the message says how to make it.
    """
    if prefix is None:
        raise NotMeasuredError(
            "libhdf5's direct VFD is in no binary wheel. In a checkout of multitables, "
            "`python tools/hdf5_build direct PREFIX` builds it in some minutes; then give "
            "--direct_vfd PREFIX."
        )
    python = os.path.join(os.path.abspath(prefix), "venv", "bin", "python")
    if not (os.path.exists(python) and versions(prefix)):
        raise NotMeasuredError(
            f"{prefix!r} holds no finished build of libhdf5 with its direct VFD. In a checkout of "
            f"multitables, `python tools/hdf5_build direct {prefix}` makes it, or goes on with it."
        )
    return python


def versions(prefix: str) -> dict[str, str]:
    """What `tools/hdf5_build` built in `prefix`, by name; empty where it has not finished."""
    try:
        with open(os.path.join(prefix, READY), encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return {str(name): str(version) for name, version in found.items()}


@dataclass(frozen=True)
class DirectRead:
    """Who reads through libhdf5's direct VFD, in fresh processes.

    Attributes
    ----------
    label : str
    access : str
        Of the old release: ``queue`` or ``generator``. Of bare PyTables: ``slabs``.
    n_procs : int
        Processes that read.
    python : str
        The interpreter, from `find`.
    in_order : bool
        Rows are checked in the order of the file.
    options : mapping
        Of the old release's ``Streamer``.
    """

    source: Source
    label: str
    access: str
    n_procs: int
    python: str
    in_order: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``multitables 2.0.1, libhdf5 direct queue x2``."""
        return f"{self.label} {self.access} x{self.n_procs}"

    def check(self) -> Digest:
        """Digest of one whole pass."""
        return promised(self._ask("check"), self.in_order)

    def measure(self) -> Sample:
        """MB/s of one pass, without what opening takes."""
        seconds, decoded_bytes = self._ask("time")
        if decoded_bytes < self.source.decoded_bytes:
            raise WrongDataError(
                f"{decoded_bytes} bytes of {self.source.decoded_bytes} in a timed pass"
            )
        return Sample.of(seconds, decoded_bytes)

    def _ask(self, verb: str) -> Any:
        refusal = page_cache.direct_refusal(self.source.filename)
        if refusal:
            raise NotMeasuredError(f"{refusal}: choose a place on a disk")
        # the old release reads ahead before the clock starts, so count a pass more
        timeout_seconds = START_SECONDS + 2 * self.source.decoded_bytes / SLOWEST_RATE
        with Child(self.python, None, timeout_seconds, hdf5_direct_loop.__file__) as child:
            return child.ask(
                verb=verb,
                filename=os.path.abspath(self.source.filename),
                path=self.source.path,
                access=self.access,
                n_procs=self.n_procs,
                options=dict(self.options),
                slab_bytes=SLAB_BYTES,
                rows=self.source.rows,
                row_bytes=self.source.row_bytes,
            )


def published(source: Source, access: str, n_procs: int, python: str) -> DirectRead:
    """The old release with its direct driver: the method of the published tables."""
    return DirectRead(
        source, OLD_LABEL, access, n_procs, python, in_order=False, options={"DRIVER": DRIVER}
    )


def pytables_processes(source: Source, n_procs: int, python: str) -> DirectRead:
    """Bare PyTables, each process its share of the rows: what libhdf5's direct VFD has to give.

    Each process reads into memory of its own; what it costs to hand rows over is not in it.
    """
    return DirectRead(source, PYTABLES_LABEL, "slabs", n_procs, python, in_order=True)
