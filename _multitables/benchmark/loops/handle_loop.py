"""The loops in which an open file is indexed, checked and timed, as a child of its own.

Law
---
1. A recipe opens the file and gives what is indexed like an array. What is checked and timed of it
   is the same for all, and what random access asks of libraries (`random_loop`).
2. Each is used as its documentation advises. Where it requires sorted, unique rows, sorting them
   and restoring the order is part of its time.
3. What the consumer saw while the clock ran is digested after it stopped.
"""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import numpy as np

from . import file_loop, index_loop, passes, random_loop, refusals, stream_loop
from .passes import Pass
from .shell import Loop, opening


@contextlib.contextmanager
def _h5py(_library: Any, asked: dict[str, Any]) -> Iterator[Any]:
    h5py = importlib.import_module("h5py")
    with contextlib.suppress(ImportError):
        importlib.import_module("hdf5plugin")  # registers filters like blosc
    with h5py.File(asked["filename"], "r") as file:
        dataset = file[asked["path"]]
        file_loop.check_filters(h5py, dataset)
        yield dataset


@contextlib.contextmanager
def _pyfive(_library: Any, asked: dict[str, Any]) -> Iterator[Any]:
    with importlib.import_module("pyfive").File(asked["filename"], "r") as file:
        yield file[asked["path"]]


class _OfHidefix:
    """hidefix's dataset, which takes tuples of slices."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitem__(self, key: Any) -> Any:
        if key is ...:
            key = slice(None)
        if not isinstance(key, slice):
            raise refusals.CannotReadError("it takes slices only")
        return self._dataset[(key,)]


@contextlib.contextmanager
def _hidefix(_library: Any, asked: dict[str, Any]) -> Iterator[Any]:
    group, _, name = asked["path"].rpartition("/")
    index = importlib.import_module("hidefix").Index(asked["filename"])
    yield _OfHidefix(index.dataset(name, group or None))


@contextlib.contextmanager
def _handle(library: Any, asked: dict[str, Any]) -> Iterator[Any]:
    with index_loop.opened(library, asked["filename"], **asked.get("options", {})) as file:
        yield file[asked["path"]]


RECIPES: dict[str, Callable[[Any, dict[str, Any]], AbstractContextManager[Any]]] = {
    "h5py": _h5py,
    "pyfive": _pyfive,
    "hidefix": _hidefix,
    "open": _handle,
}
TAKES_ANY_ORDER = ("open",)


def _read(dataset: Any, asked: dict[str, Any]) -> Callable[[Any], Any]:
    """What turns a key into rows."""
    read: Callable[[Any], Any] = dataset.__getitem__
    if asked["kind"] == "coordinates" and asked["recipe"] not in TAKES_ANY_ORDER:
        return random_loop.sorted_once(read)
    return read


# ---- rows by keys


def check_keys(dataset: Any, asked: dict[str, Any]) -> Any:
    """The digest of the rows of all keys."""
    keys = random_loop.keys_of(asked["kind"], asked["batches"])
    return random_loop.checked(partial(map, _read(dataset, asked)), keys, asked["kind"])


def time_keys(dataset: Any, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """`n_users` threads at once, each with its own part of the keys: what each has found."""
    kind, n = asked["kind"], asked["n_users"]
    keys = random_loop.keys_of(kind, asked["batches"])
    deliver = partial(map, _read(dataset, asked))
    random_loop.warm_up(deliver, keys, asked["seconds"] * random_loop.WARM_UP)
    together = threading.Barrier(n)
    found: list[Any] = [None] * n

    def use(number: int) -> None:
        together.wait()
        try:
            own = keys[number::n]
            found[number] = random_loop.timed(deliver, own, kind, asked["seconds"])
        except Exception as error:  # noqa: BLE001  raised again below
            found[number] = error

    users = [threading.Thread(target=use, args=(number,)) for number in range(1, n)]
    for user in users:
        user.start()
    use(0)
    for user in users:
        user.join()
    for one in found:
        if isinstance(one, Exception):
            raise one
    return found


def time_latency(dataset: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The seconds of single keys, one after the other."""
    keys = random_loop.keys_of(asked["kind"], asked["batches"])
    return random_loop.latencies(_read(dataset, asked), keys)


# ---- whole datasets


def _whole(dataset: Any, asked: dict[str, Any]) -> Pass:
    """All rows at once, in a new array or in one that is used again."""
    room = np.full(dataset.shape, 0, dataset.dtype) if asked["into"] else None

    def rows() -> Iterator[Any]:
        if room is None:
            yield dataset[...]
        else:
            dataset.read_direct(room)
            yield room

    return rows


def check_whole(dataset: Any, asked: dict[str, Any]) -> Any:
    """The digest of all rows."""
    return passes.check(_whole(dataset, asked), asked)


def time_whole(dataset: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The time of a second read."""
    return passes.time_second(_whole(dataset, asked), asked)


# ---- the first read


def first(library: Any, asked: dict[str, Any]) -> Any:
    """From opening the file to all rows of one dataset; everything was imported before."""
    recipe = RECIPES[asked["recipe"]]
    module = {"open": "multitables"}.get(asked["recipe"], asked["recipe"])
    importlib.import_module(module)
    if asked["saved_index"]:
        if not hasattr(library, "index_file"):
            raise refusals.AbsentError("this release has no multitables.index_file")
        if asked["verb"] == "check":
            library.index_file(asked["filename"], progress=False)
    start = time.perf_counter()
    with recipe(library, asked) as dataset:
        rows = dataset[...]
        seconds = time.perf_counter() - start
    if asked["verb"] == "time":
        return {"seconds": seconds}
    return stream_loop.digest_of(iter([np.ascontiguousarray(rows)]))


VERBS: dict[str, Callable[[Any, dict[str, Any]], Any]] = {
    "check keys": check_keys,
    "time keys": time_keys,
    "check latency": check_keys,
    "time latency": time_latency,
    "check whole": check_whole,
    "time whole": time_whole,
}
LOOP = Loop({**opening(RECIPES, VERBS), "check first": first, "time first": first})
