"""How this library reads an object, and how obstore downloads it.

Law
---
1. Libraries are imported, and readers have run once, before the clock starts; a streamer that is
   timed is new, and starts its own.
2. It reads the same data as `hdf5_remote_loop`, but into this process.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from . import random_loop, remote_clock, store_options, stream_loop
from .passes import Rows
from .shell import Loop

IN_FLIGHT = 8
PART_BYTES = 8 << 20
Read = Callable[[bool], Any]


def _options(asked: dict[str, Any]) -> dict[str, Any]:
    if not asked["store"]:
        return {}
    return {"storage_options": {**asked["store"], **asked.get("options", {})}}


# ---- whole datasets


@contextlib.contextmanager
def queue(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """A queue to its end, of a streamer that is opened when the clock runs.

    What is told is also how long the first block took.
    """
    made = library.Streamer  # what is imported when it is named is imported before the clock starts

    def read(checks: bool) -> Any:
        rows, first_seconds, start = Rows(checks), 0.0, time.perf_counter()
        with made(asked["url"], **_options(asked)) as streamer:
            for block in _blocks(streamer, asked):
                first_seconds = first_seconds or time.perf_counter() - start
                rows.see(block)
        asked["counts"]["first_seconds"] = first_seconds
        return [rows.result()]

    yield read


@contextlib.contextmanager
def kept_queue(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """The same of a streamer that has read once, and whose readers run."""
    with library.Streamer(asked["url"], **_options(asked)) as streamer:

        def read(checks: bool) -> Any:
            rows = Rows(checks)
            for block in _blocks(streamer, asked):
                rows.see(block)
            return [rows.result()]

        read(False)
        yield read


def _blocks(streamer: Any, asked: dict[str, Any]) -> Iterator[Any]:
    """The blocks of a queue, perhaps of its first rows only; its statistics are kept at the end."""
    some = {"rows": slice(asked["rows"])} if asked.get("rows") else {}
    case = {"n_procs": asked["n_procs"], "remainder": True, **some}
    with streamer.get_queue(asked["path"], **case) as queue:
        for guard in queue.iter():
            with guard as block:
                yield block
        counts = queue.statistics()
    fetched = sum(one["fetched_bytes"] for one in counts["readers"])
    asked["counts"] = {"fetched_bytes": fetched, "metadata": counts.get("metadata")}  # of a store


@contextlib.contextmanager
def slabs(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """The same rows through the open file."""

    def read(checks: bool) -> Any:
        rows = Rows(checks)
        with library.open(asked["url"], **_options(asked)) as file:
            dataset = file[asked["path"]]
            stop, step = asked.get("rows") or len(dataset), (dataset.chunks or (1,))[0]
            step *= max(1, PART_BYTES // (step * (dataset.nbytes // len(dataset))))
            for start in range(0, stop, step):
                rows.see(dataset[start : min(start + step, stop)])
        return [rows.result()]

    yield read


@contextlib.contextmanager
def whole(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """All rows at once through a file that is opened when the clock runs."""

    def read(checks: bool) -> Any:
        with library.open(asked["url"], **_options(asked)) as file:
            rows = file[asked["path"]][...]
        return [stream_loop.hashes_of(rows) if checks else rows.nbytes]

    yield read


@contextlib.contextmanager
def download(_library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """The bytes of the object, or its first: in one request, or in ranges at the same time."""
    obstore = importlib.import_module("obstore")
    store, key = store_options.obstore_of(asked["url"], asked["store"])
    size = obstore.get(store, key, options={"range": (0, 1)}).meta["size"]
    asked["counts"] = {"size": size}
    size = min(size, asked.get("n_bytes") or size)
    starts = list(range(0, size, PART_BYTES))

    def read(_checks: bool) -> Any:
        if not asked["in_ranges"]:
            return [len(obstore.get(store, key).bytes())]
        ends = [min(size, start + PART_BYTES) for start in starts]
        return [sum(map(len, obstore.get_ranges(store, key, starts=starts, ends=ends)))]

    yield read


# ---- batches


@contextlib.contextmanager
def reader(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """The rows of a draw, with several requests in flight; the file is open before."""
    keys = random_loop.keys_of("coordinates", asked["batches"])
    with library.Reader(asked["url"], n_procs=asked["n_procs"], **_options(asked)) as reader:
        dataset = reader.get_dataset(asked["path"])
        stages = [dataset.create_stage_pool(len(keys[0]), IN_FLIGHT)]
        wanted = {"kind": "coordinates", "pieces": 0}
        deliver = partial(
            random_loop.deliver_by_requests, reader, dataset, stages, IN_FLIGHT, wanted
        )

        def read(checks: bool) -> Any:
            see = stream_loop.hashes_of if checks else random_loop.first_words
            return [see(rows) for rows in deliver(keys)]

        yield read


@contextlib.contextmanager
def shuffled(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """An epoch whose rows are fully shuffled."""
    with library.Streamer(asked["url"], **_options(asked)) as streamer:
        more = {"shuffle": "full", "epochs": 1, "n_procs": asked["n_procs"]}
        with streamer.get_batches(asked["path"], asked["batch_rows"], **more) as batches:

            def read(checks: bool) -> Any:
                if checks:
                    return [stream_loop.hashes_of(rows) for rows in batches]
                return [np.array(rows[:, :2]) for rows in batches]

            yield read


# ---- structure and items


@contextlib.contextmanager
def structure(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """A collection of all datasets: the places of all chunks are known when it is made."""

    def read(checks: bool) -> Any:
        with library.Streamer(asked["url"], **_options(asked)) as streamer:
            more = {"scales": False, "order": "key", "n_procs": asked["n_procs"]}
            made = streamer.get_collection(asked["pattern"], **more)
            if not checks:
                return [np.zeros(sum(len(made.names(key)) for key in made.keys), np.uint64)]
            prefix, _, _ = asked["pattern"].partition("*")
            hashes = [
                remote_clock.hashed(f"{prefix}{item.key}/{name}", rows.shape, rows.dtype.str)
                for item in made
                for name, rows in item.items()
            ]
        return [np.array(hashes, np.uint64)]

    _index(library, asked)
    yield read


@contextlib.contextmanager
def handle(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """Path, shape and type of every dataset, through the open file."""

    def read(checks: bool) -> Any:
        with library.open(asked["url"], **_options(asked)) as file:
            return [remote_clock.structure(file, checks)]

    yield read


@contextlib.contextmanager
def items(library: Any, asked: dict[str, Any]) -> Iterator[Read]:
    """A collection, item by item with its scales; making it is part of the time.

    What is told is how long that took, and what the readers say of themselves.
    """
    by, more = asked["by"], {"n_procs": asked["n_procs"]}
    more |= {"order": asked.get("order", "random"), "seed": asked.get("seed", 0)}

    def read(checks: bool) -> Any:
        seen, start = remote_clock.Seen(checks), time.perf_counter()
        with library.Streamer(asked["url"], **_options(asked)) as streamer:
            made = streamer.get_collection(asked["pattern"], by, **more)
            discovery = time.perf_counter() - start
            for item in made:
                scales = {}
                for name, rows in item.items():
                    shot, signal = (item.key, name) if by == 0 else (name, item.key)
                    seen.see(f"/shots/{shot}/signals/{signal}", rows)
                    for axis in item.scales[name]:
                        for scale, values in axis.items():
                            scales[f"/shots/{shot}/{scale}"] = values
                for path, values in scales.items():
                    seen.see(f"{item.key} {path}", values)
            asked["counts"] = {"discovery": discovery, "readers": made.statistics()["readers"]}
        return [seen.result()]

    _index(library, asked)
    yield read


def _index(library: Any, asked: dict[str, Any]) -> None:
    """Save an index of the file, where it is wanted; no clock runs."""
    if asked.get("saved_index"):
        options = {"storage_options": asked["store"]} if asked["store"] else {}
        library.index_file(asked["url"], progress=False, **options)


RECIPES: dict[str, Callable[[Any, dict[str, Any]], AbstractContextManager[Read]]] = {
    "queue": queue,
    "kept queue": kept_queue,
    "slabs": slabs,
    "whole": whole,
    "download": download,
    "reader": reader,
    "batches": shuffled,
    "structure": structure,
    "handle": handle,
    "items": items,
}


def read_once(library: Any, asked: dict[str, Any]) -> Any:
    """The data that a recipe reads, and the seconds."""
    if "://" in asked["url"]:
        importlib.import_module("obstore")
    task, verb = asked["task"], asked["verb"]
    recipe = RECIPES[asked["recipe"]]
    with recipe(library, asked) as read, remote_clock.marked(asked["clock"]) as clock:
        found = read(verb == "check")
    if verb == "check":
        return remote_clock.answer(task, verb, found, clock.seconds)
    more = {"counts": asked["counts"]} if "counts" in asked else {}
    if asked["recipe"] == "batches":
        task, more["numbers"] = "batches", [int(one) for rows in found for one in rows[:, 0]]
        found = [*map(random_loop.first_words, found)]
    return {**remote_clock.answer(task, verb, found, clock.seconds), **more}


LOOP = Loop({"check": read_once, "time": read_once})
