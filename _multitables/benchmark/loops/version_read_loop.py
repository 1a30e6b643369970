"""The loop that reads versions of the study's files, as a child of its own.

Law
---
1. Opening and reading are timed apart: the published study timed only that a dataset was opened.
   Files are open, and processes run, when the clock starts.
2. A recipe yields its arrays with the versions that they belong to, so that those who read several
   versions at once are compared like the others.
"""

from __future__ import annotations

import contextlib
import importlib
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import passes, stream_loop
from .shell import Loop, opening

VERSIONS = "_version_data/versions"
IN_FLIGHT = 16
#: Of more versions the chunks of two blocks would take too much memory.
TOGETHER = 100
Pairs = Iterator[tuple[str, Any]]


@dataclass(frozen=True)
class Reading:
    """How a library opens the dataset of a version, and how it reads those that are open.

    `opens` is None where nothing is opened before it is read; `reads` is then given the names.
    """

    opens: Callable[[str], Any] | None
    reads: Callable[[Iterable[tuple[str, Any]]], Pairs]


def _each(opened: Iterable[tuple[str, Any]]) -> Pairs:
    return ((name, dataset[:]) for name, dataset in opened)


@contextlib.contextmanager
def _package(_library: Any, asked: dict[str, Any], mode: str) -> Iterator[Reading]:
    sys.excepthook = quiet
    sys.unraisablehook = lambda found: quiet(found.exc_type, found.exc_value)
    h5py, package = map(importlib.import_module, ("h5py", "versioned_hdf5"))
    with h5py.File(asked["filename"], mode) as file:
        versions = package.VersionedHDF5File(file)
        yield Reading(lambda name: versions[name][asked["path"]], _each)


@contextlib.contextmanager
def _plain(_library: Any, asked: dict[str, Any]) -> Iterator[Reading]:
    with importlib.import_module("h5py").File(asked["filename"], "r") as file:
        yield Reading(lambda _name: file[asked["path"]], _each)


@contextlib.contextmanager
def _open(library: Any, asked: dict[str, Any]) -> Iterator[Reading]:
    """One open file, and versions by their paths in it."""
    with library.open(asked["filename"]) as file:
        yield Reading(lambda name: file[f"{VERSIONS}/{name}/{asked['path']}"], _each)


@contextlib.contextmanager
def _open_version(library: Any, asked: dict[str, Any]) -> Iterator[Reading]:
    """A file of its own for each version."""
    with contextlib.ExitStack() as files:

        def opens(name: str) -> Any:
            file = library.open(asked["filename"], version=name)
            return files.enter_context(file)[asked["path"]]

        yield Reading(opens, _each)


@contextlib.contextmanager
def _reader(library: Any, asked: dict[str, Any]) -> Iterator[Reading]:
    """Requests, some of them in flight."""
    with library.Reader(asked["filename"], asked["n_procs"]) as reader:

        def reads(opened: Iterable[tuple[str, Any]]) -> Pairs:
            requests = ((name, reader.request(dataset[:])) for name, dataset in opened)
            return ((name, one.get()) for name, one in passes.ahead(requests, IN_FLIGHT))

        yield Reading(lambda name: reader.get_dataset(asked["path"], name), reads)


@contextlib.contextmanager
def _together(library: Any, asked: dict[str, Any]) -> Iterator[Reading]:
    """Some versions in one stream, which decodes each of their chunks once."""
    with library.Streamer(asked["filename"]) as streamer:

        def reads(opened: Iterable[tuple[str, Any]]) -> Pairs:
            names = [name for name, _ in opened]
            for first in range(0, len(names), TOGETHER):
                some = names[first : first + TOGETHER]
                options = {"n_procs": asked["n_procs"], "remainder": True}
                with streamer.get_queue(asked["path"], version=some, **options) as queue:
                    for guard in queue:
                        with guard as block:
                            yield from block.items()

        yield Reading(None, reads)


RECIPES: dict[str, Callable[[Any, dict[str, Any]], contextlib.AbstractContextManager[Reading]]] = {
    "versioned-hdf5 r": lambda library, asked: _package(library, asked, "r"),
    "versioned-hdf5 r+": lambda library, asked: _package(library, asked, "r+"),
    "h5py": _plain,
    "multitables": _open,
    "multitables version=": _open_version,
    "multitables Reader": _reader,
    "multitables together": _together,
}


def check(reading: Reading, asked: dict[str, Any]) -> dict[str, Any]:
    """The digest of all rows, version by version."""
    names = asked["names"]
    seen = {name: stream_loop.Digest() for name in names}
    for name, block in reading.reads(_opened(reading, names)):
        seen[name].see(block)
    return stream_loop.summed_up(np.concatenate([one.hashes() for one in seen.values()]))


def repeated(reading: Reading, asked: dict[str, Any]) -> dict[str, Any]:
    """The medians of some passes."""
    every = [timed(reading, asked["names"]) for _ in range(asked["repeats"])]
    opened = [one for one, _, _ in every if one is not None]
    return {
        "open_seconds": statistics.median(opened) if opened else None,
        "seconds": statistics.median(seconds for _, seconds, _ in every),
        "decoded_bytes": every[0][2],
    }


def timed(reading: Reading, names: Sequence[str]) -> tuple[float | None, float, int]:
    """Seconds until all are open, seconds until all are read, and decoded bytes."""
    start = time.perf_counter()
    opened = _opened(reading, names)
    opened_seconds = time.perf_counter() - start
    n_bytes = sum(block.nbytes for _name, block in reading.reads(opened))
    seconds = time.perf_counter() - start
    return None if reading.opens is None else opened_seconds, seconds, n_bytes


def _opened(reading: Reading, names: Sequence[str]) -> list[tuple[str, Any]]:
    return [(name, reading.opens(name) if reading.opens else None) for name in names]


def quiet(kind: type[BaseException], error: Any, *_more: Any) -> None:
    """Print an error that cannot be raised, but not the one that h5py 3.16 makes of each wrapper.

    Nobody empties the pipe of a child's errors, so that many would stop it.
    """
    if "_dealloc" not in str(error):
        print(f"{kind.__name__}: {error}", file=sys.stderr)


LOOP = Loop(opening(RECIPES, {"check": check, "time": repeated}))
