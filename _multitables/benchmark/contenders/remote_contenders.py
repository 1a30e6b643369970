"""The contenders that read an object of a store, each in processes of its own.

Law
---
1. What they do stands in `remote_loop` and `hdf5_remote_loop`; a figure is made only of what was
   checked, and of a timed run whose counts are right.
2. The proxy logs requests and bytes; the ones between the marks of the clock count.
3. It owns no table of results, no target and no order of measuring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contenders.random_keys import Draw, Oracle
from _multitables.benchmark.contract import Digest, Sample, WrongDataError, differs
from _multitables.benchmark.loops import hdf5_remote_loop, remote_clock, remote_loop
from _multitables.benchmark.objects.faults import Request
from _multitables.benchmark.objects.store import Store

OURS = "multitables"
S3FS = "h5py over s3fs"
TUNED = "h5py over s3fs, 8 MiB blocks"
ROS3 = "h5py ROS3"
DOWNLOAD = "obstore, the object"
RANGES = "obstore, ranges of 8 MiB"
NOTHING: Mapping[str, Any] = MappingProxyType({})
#: The usual advice for HDF5 in the cloud: fetch whole blocks and keep many.
BLOCKS = {"cache_type": "blockcache", "block_size": 8 << 20}
INSTALL = "pip install multitables[bench]"


@dataclass(frozen=True)
class Place:
    """An object, the number of processes that read it, and the interpreter of the ROS3 driver."""

    store: Store
    url: str
    n_procs: int
    ros3_python: str = ""

    @property
    def request(self) -> dict[str, Any]:
        """What every loop is asked."""
        store = self.store
        options = {"store": store.options, "clock": store.endpoint}
        return {**options, "url": self.url, "n_procs": self.n_procs}


@dataclass(frozen=True)
class Counted:
    """A contender whose requests are counted."""

    one: Asked
    store: Store
    needs: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.one.name

    def check(self) -> Digest | None:
        """As it checks."""
        return self.one.check()

    def measure(self) -> Sample:
        """As it measures, with ``requests``, ``heads`` and ``n_bytes``."""
        self.store.take_log()
        sample = self.one.measure()
        return dataclasses.replace(sample, more={**sample.more, **counted(self.store.take_log())})


def counted(log: Sequence[Request]) -> dict[str, int]:
    """Count the requests between the marks of the clock, the HEADs, and the bytes of bodies."""
    marks = [at for at, one in enumerate(log) if one.path == remote_clock.PATH]
    if len(marks) != 2:
        raise WrongDataError(f"{len(marks)} marks of the clock in the log (expected 2)")
    found = log[marks[0] + 1 : marks[1]]
    return {
        "requests": len(found),
        "heads": sum(one.method == "HEAD" for one in found),
        "n_bytes": sum(one.body_bytes for one in found),
    }


def ours(
    place: Place,
    name: str,
    recipe: str,
    task: str,
    figure: Callable[[Any], Sample],
    in_order: bool = True,
    **more: Any,
) -> Counted:
    """This library, or obstore."""
    request = {**place.request, "recipe": recipe, "task": task, **more}
    install = "pip install multitables[remote]"
    one = Asked(name, remote_loop, request, figure, install, in_order)
    return Counted(one, place.store)


def theirs(
    place: Place,
    task: str,
    figure: Callable[[Any], Sample],
    in_order: bool = True,
    file: Mapping[str, Any] = NOTHING,
    **more: Any,
) -> list[Counted]:
    """h5py over s3fs as it comes, with whole blocks, and by HDF5's own driver."""
    found = []
    for name, opens in ((S3FS, {}), (TUNED, BLOCKS), (ROS3, {})):
        driver = "ros3" if name == ROS3 else "s3fs"
        request = {
            **place.request,
            "task": task,
            "driver": driver,
            "open": opens,
            "file": dict(file),
        }
        python = place.ros3_python if driver == "ros3" else ""
        one = Asked(
            name,
            hdf5_remote_loop,
            {**request, **more},
            figure,
            INSTALL,
            in_order,
            timeout_seconds=1800.0,
            python=python,
        )
        found.append(Counted(one, place.store))
    return found


# ---- what a figure is


def rate(n_bytes: int) -> Callable[[Any], Sample]:
    """MB/s of decoded data, when all of it came."""

    def figure(found: Mapping[str, Any]) -> Sample:
        need(found["n"], n_bytes, "bytes")
        return Sample.of(found["seconds"], n_bytes, **found.get("counts", {}))

    return figure


def download_rate(n_bytes: int, size_bytes: int) -> Callable[[Any], Sample]:
    """The rate of a download, counted in decoded bytes so that it compares with the others."""

    def figure(found: Mapping[str, Any]) -> Sample:
        need(found["n"], size_bytes, "bytes")
        return Sample.of(found["seconds"], n_bytes)

    return figure


def need(found: Any, expected: Any, what: str) -> None:
    """Raise unless a timed run has seen what there is."""
    if found != expected:
        raise WrongDataError(f"{found} {what} in a timed run (expected {expected})")


def seconds(expected: Any) -> Callable[[Any], Sample]:
    """Seconds, when as much came as there is."""

    def figure(found: Mapping[str, Any]) -> Sample:
        need(found["n"], expected, "datasets or bytes")
        return Sample(found["seconds"], found)

    return figure


def batch_rate(draw: Draw, oracle: Oracle) -> Callable[[Any], Sample]:
    """Batches per second of a draw whose first words are right."""

    def figure(found: Mapping[str, Any]) -> Sample:
        _need_rows(found["digest"], oracle.seen(draw, len(draw.batches)))
        return Sample(found["n_keys"] / found["seconds"])

    return figure


def epoch_rate(n_rows: int, oracle: Oracle) -> Callable[[Any], Sample]:
    """Batches per second of an epoch: each row comes once, with the right values."""

    def figure(found: Mapping[str, Any]) -> Sample:
        numbers = found["numbers"]
        need(len(numbers), n_rows, "rows")
        need(len(set(numbers)), len(numbers), "different rows")
        _need_rows(found["digest"], oracle.first_words(numbers))
        return Sample(found["n_keys"] / found["seconds"])

    return figure


def _need_rows(found: Digest, expected: Digest) -> None:
    fault = differs(found, expected)
    if fault:
        raise WrongDataError(fault)
