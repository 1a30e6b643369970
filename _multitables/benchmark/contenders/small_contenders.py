"""Contenders for small datasets, files, shots, an object and fresh starts, each in a process.

Law
---
1. What they do stands in the loops; a figure is made only of what was checked, and of a timed run
   whose bytes are right. Figures are milliseconds.
2. It owns no table of results, no target and no order of measuring.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from _multitables.benchmark.contenders import file_contenders, shots_contenders, startup
from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contenders.remote_contenders import need
from _multitables.benchmark.contenders.shots_contenders import Reading
from _multitables.benchmark.contract import Contender, Digest, Measurement, Sample
from _multitables.benchmark.loops import hdf5_remote_loop, index_loop, remote_loop, small_loop

OURS = "multitables"
OPEN = f"{OURS}.open"
QUEUE, READER, COLLECTION = f"{OURS} queue", f"{OURS} Reader", f"{OURS} collection"
TOGETHER = f"{OURS} queue of {small_loop.TOGETHER}"
PEER = "h5py"
OVER_HTTP = "h5py over fsspec, blocks of 4 MB"
FIRST_BATCH, ALL_BATCHES = f"{OURS}, first batch", f"{OURS}, all"
OF_MANIFEST = f"{OURS}, all of a manifest"
FIRST_BLOCK, NEW_STREAMER = f"{OURS}, first block", f"{OURS}, new Streamer"
VIRTUAL, PLAIN = f"{OURS}, virtual", f"{OURS}, stored plainly"
#: Name of a contender -> recipe of `small_loop`.
WHOLE = {
    OPEN: "open",
    QUEUE: "queue",
    TOGETHER: "together",
    READER: "reader",
    COLLECTION: "collection",
    PEER: "h5py",
}
HTTP_BLOCK_BYTES = 4_000_000
INSTALL = "pip install multitables[bench,remote]"


def _milliseconds(counted: str, expected: int, key: str = "seconds", of: int = 1) -> Any:
    """The figure of a timed run that has counted what was expected, for each `of` as many."""

    def figure(found: Mapping[str, Any]) -> Sample:
        need(found[counted], expected, counted)
        return Sample(1000 * {**found, **found.get("counts", {})}[key] / of, found)

    return figure


def _small(name: str, recipe: str, place: str, paths: Sequence[str], figure: Any) -> Asked:
    request = {"filename": place, "paths": list(paths), "recipe": recipe}
    return Asked(name, small_loop, request, figure)


def datasets(
    filename: str, paths: Sequence[str], n_bytes: int, names: Sequence[str]
) -> list[Contender]:
    """Return readers of all datasets of one file, one after the other; figures are per dataset."""
    figure = _milliseconds("n_bytes", n_bytes, of=len(paths))
    place = os.path.abspath(filename)
    return [_small(name, WHOLE[name], place, paths, figure) for name in names]


def files(filenames: Sequence[str], path: str, n_bytes: int) -> list[Contender]:
    """Return readers of the same dataset of many files."""
    first, everything = (
        _milliseconds("n_bytes", n_bytes, key) for key in ("first_seconds", "seconds")
    )
    places = [os.path.abspath(one) for one in filenames]
    return [
        _small(FIRST_BATCH, "files", path, places, first),
        _small(ALL_BATCHES, "files", path, places, everything),
        _small(OF_MANIFEST, "manifest", path, places, everything),
        _small(PEER, "h5py, files", path, places, everything),
    ]


def names_of_attributes(filename: str, n_datasets: int) -> list[Contender]:
    """Return walks by ``visititems`` that list paths, shapes, types and names of attributes."""
    asked = {"filename": os.path.abspath(filename), "task": "objects", "with_chunks": False}
    figure = _milliseconds("n", n_datasets)
    return [
        Asked(name, index_loop, {**asked, "recipe": recipe}, figure)
        for name, recipe in ((OPEN, "open, names"), (PEER, "h5py, names"))
    ]


def collection(reading: Reading) -> list[Contender]:
    """The collection, and the published method of the study of shots, from the file's name on."""
    return [
        dataclasses.replace(one, figure=partial(_total, one.figure))
        for name in (shots_contenders.OURS, shots_contenders.PUBLISHED)
        if isinstance(one := shots_contenders.contender(reading, name), Asked)
    ]


def _total(figure: Callable[[Any], Sample], found: Any) -> Sample:
    sample = figure(found)
    parts = [sample.value, *(sample.more.get(name, 0.0) for name in ("discovery", "start"))]
    return Sample(1000 * sum(parts), sample.more)


def virtual(made: str, plain: str, path: str, n_procs: int) -> list[Contender]:
    """A queue of a virtual dataset and of the plain one, and h5py of the first.

    The plain one may hold what the other does not show, so it is only timed.
    """
    shown, stored, oracle = (
        dataclasses.replace(one, figure=lambda found: Sample(1000 * found["seconds"]))
        for one in (
            file_contenders.ours(VIRTUAL.removeprefix(OURS), made, path, n_procs),
            file_contenders.ours(PLAIN.removeprefix(OURS), plain, path, n_procs),
            file_contenders.theirs(PEER, PEER, made, [path]),
        )
    )
    return [shown, Measurement(stored.name, stored.measure), oracle]


# ---- fresh processes


def imports(bytecode: str) -> list[Contender]:
    """The import, NumPy being there, of what was compiled into a folder before."""

    def once(library: str) -> Sample:
        request = {"verb": "import", "library": library, "before": ["numpy"]}
        return Sample(1000 * float(startup.probe(request, bytecode=bytecode)["seconds"]))

    def compiled(library: str) -> None:
        once(library)

    return [
        Measurement(name, partial(once, name), partial(compiled, name)) for name in (OURS, PEER)
    ]


def processes(filename: str, path: str, bytecode: str) -> list[Contender]:
    """A process from its start to its end: import, open, read."""
    asked = {"verb": "read", "filename": os.path.abspath(filename), "path": path}

    def check(library: str) -> Digest:
        request = {**asked, "library": library, "checks": True}
        found: Digest = startup.probe(request, bytecode=bytecode)["digest"]
        return found

    def once(library: str) -> Sample:
        start = time.perf_counter()
        startup.probe({**asked, "library": library, "checks": False}, bytecode=bytecode)
        return Sample(1000 * (time.perf_counter() - start))

    return [Measurement(name, partial(once, name), partial(check, name)) for name in (OURS, PEER)]


# ---- an object over HTTP


def over_http(url: str, path: str, n_bytes: int) -> list[Contender]:
    """Return readers of a dataset of an object; each begins with the URL."""
    asked: dict[str, Any] = {
        "url": url,
        "path": path,
        "task": "whole",
        "store": {},
        "clock": "",
        "n_procs": None,
    }
    everything = _milliseconds("n", n_bytes)
    first = _milliseconds("n", n_bytes, "first_seconds")
    people = {
        FIRST_BLOCK: ("queue", first),
        NEW_STREAMER: ("queue", everything),
        OPEN: ("whole", everything),
    }
    found: list[Contender] = [
        Asked(name, remote_loop, {**asked, "recipe": recipe}, figure, INSTALL)
        for name, (recipe, figure) in people.items()
    ]
    opens = {"driver": "http", "open": {"block_size": HTTP_BLOCK_BYTES}, "file": {}}
    request = {**asked, **opens, "n_procs": 1}
    return [*found, Asked(OVER_HTTP, hdf5_remote_loop, request, everything, INSTALL)]
