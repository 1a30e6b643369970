"""The published method: libhdf5's own direct VFD, under an interpreter that was built for it.

Law
---
1. No binary wheel has that driver: ``tools/hdf5_build`` builds it, and nothing is built here.
2. The data is checked as for every contender; a pass that ends early is a failure.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from _multitables.benchmark.contenders import old_release
from _multitables.benchmark.contenders.streams import SLAB_BYTES, ChildStream
from _multitables.benchmark.contract import NotMeasuredError, Sample, Source, WrongDataError
from _multitables.benchmark.loops import hdf5_direct_loop
from _multitables.benchmark.loops.hdf5_direct_loop import DRIVER
from _multitables.benchmark.machine import page_cache

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
class DirectRead(ChildStream):
    """Who reads through libhdf5's direct VFD, in fresh processes.

    The old release has the accesses ``queue`` and ``generator``, bare PyTables has ``slabs``.
    """

    loop: ModuleType = hdf5_direct_loop

    def request(self) -> dict[str, Any]:
        """The request of the child, but for the verb."""
        return {**super().request(), "slab_bytes": SLAB_BYTES}

    def measure(self) -> Sample:
        """MB/s of one pass, without what opening takes."""
        sample = super().measure()
        found, expected = sample.more["decoded_bytes"], self.source.decoded_bytes
        if found < expected:
            raise WrongDataError(f"{found} bytes of {expected} in a timed pass")
        return sample

    def _ask(self, verb: str) -> Any:
        refusal = page_cache.direct_refusal(self.source.filename)
        if refusal:
            raise NotMeasuredError(f"{refusal}: choose a place on a disk")
        return super()._ask(verb)


def _timeout_seconds(source: Source) -> float:
    """The old release reads ahead before the clock starts, so a pass more is counted."""
    return START_SECONDS + 2 * source.decoded_bytes / SLOWEST_RATE


def published(source: Source, access: str, n_procs: int, python: str) -> DirectRead:
    """The old release with its direct driver: the method of the published tables."""
    case = source, OLD_LABEL, access, n_procs, python
    more: dict[str, Any] = {"in_order": False, "options": {"DRIVER": DRIVER}}
    return DirectRead(*case, timeout_seconds=_timeout_seconds(source), **more)


def pytables_processes(source: Source, n_procs: int, python: str) -> DirectRead:
    """Bare PyTables, each process its share of the rows: what libhdf5's direct VFD has to give.

    Each process reads into memory of its own; what it costs to hand rows over is not in it.
    """
    case = source, PYTABLES_LABEL, "slabs", n_procs, python
    return DirectRead(*case, timeout_seconds=_timeout_seconds(source))
