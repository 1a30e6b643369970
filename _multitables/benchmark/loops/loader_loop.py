"""The loop in which loaders of samples are checked and timed, as a child of its own.

Law
---
1. Before the clock a recipe delivers drawn samples, the same ones of each; under it all in random
   order, until an epoch is over, or the time behind the first batch. The clock starts with opening
   the files.
2. A project's class runs in this process, or in those of torch's DataLoader. Of these the clock
   starts with the first batch, which does not count, so that no start of processes does.
"""

from __future__ import annotations

import importlib
import itertools
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import loader_recipes, stream_loop
from .loader_classes import PROJECTS
from .shell import Loop

CHECKED = 200
Batches = Iterator[dict[str, Any]]


def together(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """A batch of samples: stacked, or of different lengths one behind the other."""
    batch = {name: [sample[name] for sample in samples] for name in samples[0]}
    if all(len({one.shape for one in some}) == 1 for some in batch.values()):
        return {name: np.stack(some) for name, some in batch.items()}
    lengths = np.array([len(one) for one in next(iter(batch.values()))])
    return {**{name: np.concatenate(some) for name, some in batch.items()}, "lengths": lengths}


def as_tensors(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """The same as tensors, which come through shared memory from a process of a DataLoader."""
    torch = importlib.import_module("torch")
    bits = {np.dtype("u2"): np.dtype("i2")}  # old releases of torch lack a type
    found = together(samples).items()
    views = {name: one.view(bits.get(one.dtype, one.dtype)) for name, one in found}
    return {name: torch.from_numpy(one) for name, one in views.items()}


def of_class(opens: Any, picked: Any, asked: dict[str, Any]) -> Batches:
    """Batches of the project's class."""
    data, size = PROJECTS[asked["shape"]](opens, asked["files"]), asked["batch"]
    numbers = np.random.default_rng(0).permutation(len(data) if picked is None else picked)
    if asked["workers"]:
        torch = importlib.import_module("torch.utils.data")
        options = {"num_workers": asked["workers"], "collate_fn": as_tensors}
        loader = torch.DataLoader(data, size, sampler=numbers.tolist(), **options)
        yield from loader
        return
    for some in np.split(numbers, range(size, len(numbers), size)):
        yield together([data[number] for number in some.tolist()])


def batches(library: Any, picked: Any, asked: dict[str, Any]) -> Batches:
    """Batches of one pass, by the recipe."""
    if asked["recipe"] == "h5py":
        return of_class(importlib.import_module("h5py").File, picked, asked)
    if asked["recipe"] == "open":
        return of_class(library.open, picked, asked)
    found = loader_recipes.RECIPES[asked["shape"]][asked["recipe"]]
    return found(library, project(asked), picked, asked)


def project(asked: dict[str, Any]) -> Any:
    """The class over h5py, which numbers the samples."""
    return PROJECTS[asked["shape"]](importlib.import_module("h5py").File, asked["files"])


def samples(batch: dict[str, Any]) -> Iterator[Any]:
    """The bytes of each sample."""
    arrays = {name: np.asarray(one) for name, one in batch.items()}
    lengths = arrays.pop("lengths", None)
    ends = np.cumsum(lengths) if lengths is not None else np.arange(1, size_of(batch) + 1)
    for first, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True):
        of_sample = [np.ascontiguousarray(arrays[name][first:end]) for name in sorted(arrays)]
        yield np.concatenate([one.reshape(-1).view(np.uint8) for one in of_sample])[np.newaxis]


def size_of(batch: dict[str, Any]) -> int:
    """How many samples a batch has."""
    return len(batch.get("lengths", next(iter(batch.values()))))


def check(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """The digest of drawn samples."""
    n = len(project(asked))
    picked = np.random.default_rng(2).choice(n, min(n, asked["checked"]), replace=False)
    found = batches(library, np.sort(picked), asked)
    return stream_loop.digest_of(one for batch in found for one in samples(batch))


def _behind(first: Any, rest: Batches, begun: float, now: float) -> tuple[float, Batches]:
    """The start of the clock, and the batches that count; a single one counts with its start."""
    second = next(rest, None)
    return (begun, iter([first])) if second is None else (now, itertools.chain([second], rest))


def timed(library: Any, asked: dict[str, Any]) -> dict[str, Any]:
    """Samples and bytes of an epoch, or of the time that there is; and that time."""
    next(
        batches(library, np.arange(1), asked), None
    )  # copies are written, and modules imported, at first
    clock, n, n_bytes = time.perf_counter, 0, 0
    start, found = clock(), batches(library, None, asked)
    if asked["workers"]:
        first = next(found)
        start, found = _behind(first, found, start, clock())
    ends = float("inf")
    for batch in found:
        ends = min(ends, clock() + asked["seconds"])
        n += size_of(batch)
        n_bytes += sum(one.nbytes for name, one in batch.items() if name != "lengths")
        if clock() >= ends:
            break
    return {"seconds": clock() - start, "n": n, "n_bytes": n_bytes}


LOOP = Loop({"check": check, "time": timed})
