"""Read and time many small datasets or files, in a child process.

Law
---
1. A recipe opens the file when it is entered, and then opens, indexes and reads each dataset whole,
   as an array or as the blocks of a stream. Recipes of many files are given the dataset's path, and
   open each file. Processes and threads have been started with the last one before the clock.
2. All recipes are checked and timed alike: by their rows, in the order of the paths.
3. It is run as a program, beside its neighbours: standard library, NumPy, and the recipe's library.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

if __package__:
    from _benchmark.loops import index_loop, refusals, stream_loop
else:  # run as a program
    import index_loop  # type: ignore[import-not-found,no-redef]
    import refusals  # type: ignore[import-not-found,no-redef]
    import stream_loop  # type: ignore[import-not-found,no-redef]

IN_FLIGHT = 64
#: Datasets of a stream of several.
TOGETHER = 4
BATCH_ROWS = 256

#: From paths to their arrays, or the blocks of them.
Read = Callable[[list[str]], Iterator[Any]]


def _one_by_one(read: Callable[[str], Any]) -> Read:
    return partial(map, read)


@contextlib.contextmanager
def _h5py(_library: Any, filename: str) -> Iterator[Read]:
    with importlib.import_module("h5py").File(filename, "r") as file:
        yield _one_by_one(lambda path: file[path][...])


@contextlib.contextmanager
def _pyfive(_library: Any, filename: str) -> Iterator[Read]:
    with importlib.import_module("pyfive").File(filename, "r") as file:
        yield _one_by_one(lambda path: file[path][...])


@contextlib.contextmanager
def _handle(library: Any, filename: str) -> Iterator[Read]:
    with index_loop.opened(library, filename) as file:
        yield _one_by_one(lambda path: file[path][...])


@contextlib.contextmanager
def _reader(library: Any, filename: str) -> Iterator[Read]:
    reader = library.Reader(filename)
    try:
        yield _one_by_one(lambda path: reader.request(reader.get_dataset(path)[...]).get())
    finally:
        reader.stop()


@contextlib.contextmanager
def _reader_ahead(library: Any, filename: str) -> Iterator[Read]:
    """Datasets are opened while the requests of others are on their way."""
    reader = library.Reader(filename, n_procs=2)

    def read(paths: list[str]) -> Iterator[Any]:
        pending: deque[Any] = deque()
        for path in paths:
            pending.append(reader.request(reader.get_dataset(path)[...]))
            if len(pending) == IN_FLIGHT:
                yield pending.popleft().get()
        while pending:
            yield pending.popleft().get()

    try:
        yield read
    finally:
        reader.stop()


@contextlib.contextmanager
def _streamer(library: Any, filename: str) -> Iterator[Read]:
    """A stream for each dataset, inside one streamer, which keeps its readers."""

    def read(path: str) -> Any:
        with streamer.get_queue(path, n_procs=1, remainder=True) as queue:
            blocks = []
            for guard in queue:
                with guard as block:
                    blocks.append(block.copy())
        return np.concatenate(blocks, dtype=blocks[0].dtype)  # in the byte order of the file

    with library.Streamer(filename) as streamer:
        yield _one_by_one(read)


@contextlib.contextmanager
def _queue(library: Any, filename: str) -> Iterator[Read]:
    """The same with the default number of readers; blocks are used where they lie."""

    def read(paths: list[str]) -> Iterator[Any]:
        for path in paths:
            with streamer.get_queue(path, remainder=True) as queue:
                for guard in queue:
                    with guard as block:
                        yield block

    with library.Streamer(filename) as streamer:
        yield read


@contextlib.contextmanager
def _together(library: Any, filename: str) -> Iterator[Read]:
    """Some datasets in one stream, which holds all of their blocks."""

    def read(paths: list[str]) -> Iterator[Any]:
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

    with library.Streamer(filename) as streamer:
        yield read


@contextlib.contextmanager
def _collection(library: Any, filename: str) -> Iterator[Read]:
    """One collection of all paths, which lie in one group; each dataset is an item."""

    def read(paths: list[str]) -> Iterator[Any]:
        group, _, name = paths[0].rpartition("/")
        some = "*" if len(paths) > 1 else f"{name[:-1]}[{name[-1]}]"
        with streamer.get_collection(f"{group}/{some}", scales=False, order="key") as items:
            for item in items:
                yield from item.values()

    with library.Streamer(filename) as streamer:
        yield read


@contextlib.contextmanager
def _files_by_h5py(_library: Any, path: str) -> Iterator[Read]:
    h5py = importlib.import_module("h5py")

    def read(filename: str) -> Any:
        with h5py.File(filename, "r") as file:
            return file[path][...]

    yield _one_by_one(read)


@contextlib.contextmanager
def _files_as_list(library: Any, path: str) -> Iterator[Read]:
    """Batches in the order of the files, of a streamer that is new each time."""

    def read(filenames: list[str]) -> Iterator[Any]:
        with (
            library.Streamer(filenames) as streamer,
            streamer.get_batches(path, BATCH_ROWS, shuffle=None, epochs=1) as batches,
        ):
            yield from batches

    yield read


@contextlib.contextmanager
def _files_as_manifest(library: Any, path: str) -> Iterator[Read]:
    """The same of a manifest of all files in their folder, which is written before the clock."""
    with tempfile.TemporaryDirectory() as folder, _files_as_list(library, path) as of_list:
        where = os.path.join(folder, "all.mtidx")

        def read(filenames: list[str]) -> Iterator[Any]:
            if not os.path.exists(where):
                pattern = os.path.join(os.path.dirname(filenames[0]), "*.h5")
                library.index_files(pattern, to=where, progress=False)
            return of_list(where)  # type: ignore[arg-type]  # a name stands for the list

        yield read


RECIPES: dict[str, Callable[[Any, str], AbstractContextManager[Read]]] = {
    "h5py": _h5py,
    "pyfive": _pyfive,
    "open": _handle,
    "reader": _reader,
    "reader ahead": _reader_ahead,
    "streamer": _streamer,
    "queue": _queue,
    "together": _together,
    "collection": _collection,
    "h5py, files": _files_by_h5py,
    "files": _files_as_list,
    "manifest": _files_as_manifest,
}


def check(read: Read, paths: list[str]) -> dict[str, Any]:
    """The digest of all rows."""
    return stream_loop.digest_of(read(paths))


def timed(read: Read, paths: list[str]) -> dict[str, Any]:
    """Seconds, those until the first array, and how many arrays and bytes were read."""
    for array in read(paths[-1:]):
        del array
    n = n_bytes = 0
    first_seconds = 0.0
    start = time.perf_counter()
    for array in read(paths):
        first_seconds = first_seconds or time.perf_counter() - start
        n += 1
        n_bytes += array.nbytes
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "first_seconds": first_seconds, "n": n, "n_bytes": n_bytes}


VERBS: dict[str, Callable[[Read, list[str]], Any]] = {"check": check, "time": timed}


def answer(library: Any, asked: dict[str, Any]) -> Any:
    """Do what one request of the protocol asks."""

    def ask() -> Any:
        with RECIPES[asked["recipe"]](library, asked["filename"]) as read:
            return VERBS[asked["verb"]](read, asked["paths"])

    return refusals.answered(asked["recipe"], ask)


if __name__ == "__main__":
    stream_loop.serve(answer)
