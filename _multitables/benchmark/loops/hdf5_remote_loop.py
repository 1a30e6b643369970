"""How h5py reads an object, over s3fs or by HDF5's own driver, in the given number of processes.

Law
---
1. A process is forked before libraries are imported, imports them, and waits for the word. The
   clock starts when all wait and stops when all have read.
2. Each has a part of the rows, batches or items, opens the object itself, and keeps what it reads:
   what it costs to hand data over is not in a figure.
3. The same text runs under this interpreter and under that of HDF5's driver: standard library,
   NumPy, h5py and s3fs.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from . import random_loop, ranks, refusals, remote_clock, store_options, stream_loop
from .passes import Rows
from .shell import Loop

SLAB_BYTES = 4 << 20
NO_ROS3 = (
    "h5py's wheels lack HDF5's driver for S3. `python tools/ros3_env.py PREFIX` makes "
    "an environment with one that has it; then give --ros3_python PREFIX/bin/python"
)
#: What brings the bytes where it is neither HDF5's own driver for S3 nor a file of this machine.
SYSTEMS = {"s3fs": "s3fs", "http": "aiohttp"}
#: Reads the part of a process; the argument says whether the data is checked.
Read = Callable[[bool], Any]


def make_ready(asked: dict[str, Any]) -> None:
    """Import the libraries, and refuse if one is missing."""
    library = importlib.import_module("h5py")
    with contextlib.suppress(ImportError):
        importlib.import_module("hdf5plugin")  # registers filters like blosc
    if asked["driver"] in SYSTEMS:
        importlib.import_module(SYSTEMS[asked["driver"]])
    elif asked["driver"] == "ros3" and not library.get_config().ros3:
        raise refusals.CannotReadError(NO_ROS3)


@contextlib.contextmanager
def opened(asked: dict[str, Any]) -> Iterator[Any]:
    """The open file."""
    library = importlib.import_module("h5py")
    store, url = asked["store"], asked["url"]
    if asked["driver"] == "file":
        with library.File(url, "r", **asked["file"]) as file:
            yield file
        return
    if asked["driver"] == "ros3":
        os.environ["AWS_ENDPOINT_URL_S3"] = store["endpoint"]
        names = ("region", "access_key_id", "secret_access_key")
        region, *keys = (store[one].encode() for one in names)
        driver = {"driver": "ros3", "aws_region": region, "secret_id": keys[0]}
        with library.File(url, "r", **driver, secret_key=keys[1], **asked["file"]) as file:
            yield file
        return
    if asked["driver"] == "http":
        files = importlib.import_module("fsspec.implementations.http")
        system = files.HTTPFileSystem(**store_options.http_arguments(store))
    else:
        arguments = store_options.s3fs_arguments(store)
        system = importlib.import_module("s3fs").S3FileSystem(**arguments)
    plain = system.open(url, "rb", **asked["open"])
    with plain, library.File(plain, "r", **asked["file"]) as file:
        yield file


# ---- what is read


@contextlib.contextmanager
def whole(asked: dict[str, Any], part: int) -> Iterator[Read]:
    """Slabs of whole chunks, of a part of the rows."""

    def read(checks: bool) -> Any:
        rows = Rows(checks)
        with opened(asked) as file:
            dataset = file[asked["path"]]
            step = (dataset.chunks or (1,))[0]
            n_rows = asked.get("rows") or len(dataset)
            first, stop = ranks.shares(n_rows, step, asked["n_procs"])[part]
            row_bytes = dataset.nbytes // len(dataset)
            step *= max(1, SLAB_BYTES // (step * row_bytes))
            for start in range(first, stop, step):
                rows.see(dataset[start : min(start + step, stop)])
        return rows.result()

    yield read


@contextlib.contextmanager
def batches(asked: dict[str, Any], part: int) -> Iterator[Read]:
    """Every n-th batch of rows, sorted for h5py and put back; the file is open before."""
    keys = random_loop.keys_of("coordinates", asked["batches"])[part :: asked["n_procs"]]
    with opened(asked) as file:
        take = random_loop.sorted_once(file[asked["path"]].__getitem__)

        def read(checks: bool) -> Any:
            see = stream_loop.hashes_of if checks else random_loop.first_words
            return [see(take(key)) for key in keys]

        yield read


@contextlib.contextmanager
def structure(asked: dict[str, Any], part: int) -> Iterator[Read]:
    """Path, shape and type of every dataset and, where they are asked for, its chunks."""

    def look(dataset: Any) -> None:
        if asked["with_chunks"] and dataset.chunks is not None:
            dataset.id.chunk_iter(lambda _chunk: None)

    def read(checks: bool) -> Any:
        with opened(asked) as file:
            return remote_clock.structure(file, checks, look)

    yield read


@contextlib.contextmanager
def items(asked: dict[str, Any], part: int) -> Iterator[Read]:
    """All datasets of a part of the items, each with its scales, as the study of shots read them.

    Which datasets there are, and which belong together, is known before.
    """
    keys = list(asked["items"])
    np.random.default_rng(0).shuffle(keys)
    first, stop = ranks.shares(len(keys), 1, asked["n_procs"])[part]

    def read(checks: bool) -> Any:
        seen = remote_clock.Seen(checks)
        with opened(asked) as file:
            names = dataset_names(file) if checks else {}
            for key in keys[first:stop]:
                read_item(file, key, asked["items"][key], seen, names)
        return seen.result()

    yield read


def dataset_names(file: Any) -> dict[Any, str]:
    """Return the path of each dataset.

    HDF5 would search the whole file for the name of each scale, since references lead to them.
    """
    kind, found = importlib.import_module("h5py").Dataset, {}

    def visit(name: str, one: Any) -> None:
        if isinstance(one, kind):
            found[one] = f"/{name}"

    file.visititems(visit)
    return found


def read_item(
    file: Any,
    key: str,
    paths: list[str],
    seen: remote_clock.Sees,
    names: Mapping[Any, str],
) -> int:
    """Read datasets that belong together, each with its scales; returns how many were read.

    Scales go by their `names`, which only data that is checked needs.
    """
    scales, n_read = {}, 0
    for path in paths:
        dataset = file[path]
        seen.see(path, dataset[...])
        n_read += 1
        for dim in dataset.dims:
            for scale in dim.values():  # read again for each that has it
                scales[scale] = scale[...]
                n_read += 1
    for scale, values in scales.items():
        seen.see(f"{key} {names.get(scale, '')}", values)
    return n_read


TASKS: dict[str, Callable[[dict[str, Any], int], AbstractContextManager[Read]]] = {
    "whole": whole,
    "batches": batches,
    "structure": structure,
    "items": items,
}


def together(task: str, parts: list[Any]) -> Any:
    """What the processes have read, in order."""
    if task == "batches":
        return [parts[at % len(parts)][at // len(parts)] for at in range(sum(map(len, parts)))]
    return parts


# ---- processes


def read_part(asked: dict[str, Any], pipe: Connection, part: int) -> None:
    """Be a process: read at every word; the word ``"check"`` asks for the data's digest."""
    make_ready(asked)
    with TASKS[asked["task"]](asked, part) as read:
        ranks.serve(pipe, lambda word: read(word == "check"))


def together_read(asked: dict[str, Any]) -> Any:
    """The data that all processes read at the word of the request, and the seconds."""
    with (
        ranks.forked(asked["n_procs"], partial(read_part, asked)) as processes,
        remote_clock.marked(asked["clock"]) as clock,
    ):
        parts = processes.ask(asked["verb"])
    found = together(asked["task"], parts)
    return remote_clock.answer(asked["task"], asked["verb"], found, clock.seconds)


LOOP = Loop({"check": together_read, "time": together_read}, library="")
