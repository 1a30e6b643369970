"""Read and time many small datasets or files, in a child process.

Law
---
1. A recipe opens the file when it is entered, and then opens, indexes and reads each dataset whole,
   as an array or as the blocks of a stream. Recipes of many files are given the dataset's path, and
   open each file. Processes and threads have been started with the last one before the clock.
2. All recipes are checked and timed alike: by their rows, in the order of the paths.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from . import index_loop, passes, stream_loop
from .shell import Loop, opening

IN_FLIGHT = 64
#: Datasets of a stream of several.
TOGETHER = 4
BATCH_ROWS = 256

#: From paths to their arrays, or the blocks of them.
Read = Callable[[list[str]], Iterator[Any]]
Recipe = Callable[[Any, dict[str, Any]], AbstractContextManager[Read]]


def _one_by_one(read: Callable[[str], Any]) -> Read:
    return partial(map, read)


def _indexed(opens: Callable[[Any, str], AbstractContextManager[Any]]) -> Recipe:
    """A recipe for files whose datasets are indexed by their paths."""

    @contextlib.contextmanager
    def recipe(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
        with opens(library, asked["filename"]) as file:
            yield _one_by_one(lambda path: file[path][...])

    return recipe


def _through(kind: str, read: Callable[[Any, list[str]], Iterator[Any]], **options: Any) -> Recipe:
    """A recipe that reads paths through a ``Reader`` or ``Streamer`` of the file."""

    @contextlib.contextmanager
    def recipe(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
        with getattr(library, kind)(asked["filename"], **options) as opened:
            yield partial(read, opened)

    return recipe


def _requested(reader: Any, paths: list[str], in_flight: int = 1) -> Iterator[Any]:
    """Datasets are opened while the requests of others are on their way."""
    requests = (reader.request(reader.get_dataset(path)[...]) for path in paths)
    return (request.get() for request in passes.ahead(requests, in_flight))


def _streamed(streamer: Any, paths: list[str]) -> Iterator[Any]:
    """A stream for each dataset, inside one streamer, which keeps its readers."""
    for path in paths:
        with streamer.get_queue(path, n_procs=1, remainder=True) as queue:
            blocks = []
            for guard in queue:
                with guard as block:
                    blocks.append(block.copy())
        yield np.concatenate(blocks, dtype=blocks[0].dtype)  # in the byte order of the file


def _queued(streamer: Any, paths: list[str]) -> Iterator[Any]:
    """The same with the default number of readers; blocks are used where they lie."""
    for path in paths:
        with streamer.get_queue(path, remainder=True) as queue:
            for guard in queue:
                with guard as block:
                    yield block


def _together(streamer: Any, paths: list[str]) -> Iterator[Any]:
    """Some datasets in one stream, which holds all of their blocks."""
    for begin in range(0, len(paths), TOGETHER):
        of_stream = paths[begin : begin + TOGETHER]
        with (
            streamer.get_queue(of_stream, remainder=True) as queue,
            contextlib.ExitStack() as held,
        ):
            blocks = [held.enter_context(guard) for guard in queue]
            for number in range(len(of_stream)):
                yield from (block[number] for block in blocks)
            del blocks


def _collected(streamer: Any, paths: list[str]) -> Iterator[Any]:
    """One collection of all paths, which lie in one group; each dataset is an item."""
    group, _, name = paths[0].rpartition("/")
    some = "*" if len(paths) > 1 else f"{name[:-1]}[{name[-1]}]"
    with streamer.get_collection(f"{group}/{some}", scales=False, order="key") as items:
        for item in items:
            yield from item.values()


@contextlib.contextmanager
def _files_by_h5py(_library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    h5py, path = importlib.import_module("h5py"), asked["filename"]

    def read(filename: str) -> Any:
        with h5py.File(filename, "r") as file:
            return file[path][...]

    yield _one_by_one(read)


@contextlib.contextmanager
def _files_as_list(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """Batches in the order of the files, of a streamer that is new each time."""

    def read(filenames: list[str]) -> Iterator[Any]:
        with (
            library.Streamer(filenames) as streamer,
            streamer.get_batches(asked["filename"], BATCH_ROWS, shuffle=None, epochs=1) as batches,
        ):
            yield from batches

    yield read


@contextlib.contextmanager
def _files_as_manifest(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """The same of a manifest of all files in their folder, which is written before the clock."""
    with tempfile.TemporaryDirectory() as folder, _files_as_list(library, asked) as of_list:
        where = os.path.join(folder, "all.mtidx")

        def read(filenames: list[str]) -> Iterator[Any]:
            if not os.path.exists(where):
                pattern = os.path.join(os.path.dirname(filenames[0]), "*.h5")
                library.index_files(pattern, to=where, progress=False)
            return of_list(where)  # type: ignore[arg-type]  # a name stands for the list

        yield read


RECIPES: dict[str, Recipe] = {
    "h5py": _indexed(lambda _, filename: importlib.import_module("h5py").File(filename)),
    "pyfive": _indexed(lambda _, filename: importlib.import_module("pyfive").File(filename)),
    "open": _indexed(index_loop.opened),
    "reader": _through("Reader", _requested),
    "reader ahead": _through("Reader", partial(_requested, in_flight=IN_FLIGHT), n_procs=2),
    "streamer": _through("Streamer", _streamed),
    "queue": _through("Streamer", _queued),
    "together": _through("Streamer", _together),
    "collection": _through("Streamer", _collected),
    "h5py, files": _files_by_h5py,
    "files": _files_as_list,
    "manifest": _files_as_manifest,
}


def check(read: Read, asked: dict[str, Any]) -> dict[str, Any]:
    """The digest of all rows."""
    return stream_loop.digest_of(read(asked["paths"]))


def timed(read: Read, asked: dict[str, Any]) -> dict[str, Any]:
    """The result of `passes.timed` for all paths, after the last one alone."""
    for array in read(asked["paths"][-1:]):
        del array
    return passes.timed(read(asked["paths"]))


LOOP = Loop(opening(RECIPES, {"check": check, "time": timed}))
