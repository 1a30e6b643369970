"""The contenders that read a file of shots: the published method with Dask, and this library.

Law
---
1. What they do stands in `shots_loop` and `remote_loop`. Right is what h5py reads plainly of the
   file, each scale once for an item.
2. A figure is the seconds of reading, as the study's clock had them; what came before is beside it.
3. Keys are shuffled anew in each round, the same for the same round.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contenders.remote_contenders import Counted, need
from _multitables.benchmark.contract import Contender, Digest, Sample
from _multitables.benchmark.data.shots import LAYOUTS, PATTERN
from _multitables.benchmark.loops import (
    hdf5_remote_loop,
    remote_clock,
    remote_loop,
    shots_loop,
    stream_loop,
)
from _multitables.benchmark.objects.store import Store

OURS = "multitables"
INDEXED = f"{OURS}, saved index"
PUBLISHED = "published method"
GATHERED = f"{PUBLISHED}, data gathered"
ACCESSES = ("signals", "shots")
CHUNK_CACHE_BYTES = 8 << 20
TIMEOUT_SECONDS = 3600.0


@dataclass(frozen=True)
class Items:
    """What belongs together in a file, and what h5py reads of it.

    Attributes
    ----------
    groups : mapping
        Shot or signal to the paths of its datasets.
    counts : list of int
        How many datasets with their scales, and their bytes.
    digest : Digest
    """

    groups: Mapping[str, list[str]]
    counts: list[int]
    digest: Digest


def wildcard_of(access: str) -> int:
    """The wildcard of `PATTERN` that tells apart what is read together."""
    return LAYOUTS.index(access.removesuffix("s"))


def items_of(filename: str, by: int) -> Items:
    """The items of a file of shots: by 0, the shots; by 1, the signals."""
    import h5py

    seen, counts = remote_clock.Seen(True), remote_clock.Seen(False)
    groups: dict[str, list[str]] = {}
    with h5py.File(filename) as file:
        names = hdf5_remote_loop.dataset_names(file)
        for shot, group in file["shots"].items():
            for signal in group["signals"]:
                path = f"/shots/{shot}/signals/{signal}"
                groups.setdefault((shot, signal)[by], []).append(path)
        for key, paths in groups.items():
            several = (scale for path in paths for scale in file[path].dims[0].values())
            scales = dict.fromkeys(several)  # in order
            named = [(path, file[path]) for path in paths]
            named += [(f"{key} {names[scale]}", scale) for scale in scales]
            for name, dataset in named:
                values = dataset[...]
                seen.see(name, values)
                counts.see(name, values)
    return Items(groups, counts.result(), stream_loop.summed_up(seen.result()))


@dataclass(frozen=True)
class Reading:
    """A file of shots, and how it is read.

    Attributes
    ----------
    url, indexed_url : str
        The file or object, and the same with a saved index.
    items : Items
        What is in it, by `access`.
    access, plan : str
        What is read together; the order of the keys: ``random``, or as in the ``file``.
    n_procs, buffer_bytes : int
    as_described : bool
        Of the published method: even batches, and Dask starts inside the clock.
    folder : str
        For Dask's files.
    store : Store or None
        That has the object.
    ros3_python : str
        An interpreter whose h5py has HDF5's driver for S3; "" for s3fs.
    """

    url: str
    indexed_url: str
    items: Items
    access: str
    plan: str
    n_procs: int
    buffer_bytes: int
    as_described: bool
    folder: str
    store: Store | None = None
    ros3_python: str = ""

    @property
    def request(self) -> dict[str, Any]:
        """What every loop is asked."""
        store = {"store": self.store.options, "clock": self.store.endpoint} if self.store else {}
        asked = {"store": {}, "clock": "", "url": self.url, "n_procs": self.n_procs, "seed": 0}
        return {**asked, **store}


@dataclass(frozen=True)
class Seeded(Asked):
    """A recipe that gets the number of the round, as a seed."""

    rounds: Iterator[int] = field(default_factory=itertools.count)

    def measure(self) -> Sample:
        """The figure of one measurement."""
        return self.figure(self.ask("time", {"seed": next(self.rounds)}))


def contender(reading: Reading, name: str) -> Contender:
    """One of the four, by its name."""
    one = (_ours if name in (OURS, INDEXED) else _published)(reading, name)
    return Counted(one, reading.store) if reading.store else one


def _ours(reading: Reading, name: str) -> Seeded:
    """A collection of all signals, delivered to this process."""
    saved = name == INDEXED
    request = {
        **reading.request,
        "recipe": "items",
        "task": "items",
        "pattern": PATTERN,
        "by": wildcard_of(reading.access),
        "order": reading.plan,
        "saved_index": saved,
        "url": reading.indexed_url if saved else reading.url,
    }
    install = "pip install multitables[remote]"
    return Seeded(name, remote_loop, request, _delivered(reading.items), install, False)


def _published(reading: Reading, name: str) -> Seeded:
    """Dask's processes, which discard what they read unless it is gathered here."""
    buffer = {"page_buf_size": reading.buffer_bytes} if reading.buffer_bytes else {}
    driver = "file" if reading.store is None else "ros3" if reading.ros3_python else "s3fs"
    request = {
        **reading.request,
        "driver": driver,
        "open": {},
        "file": {"rdcc_nbytes": CHUNK_CACHE_BYTES, **buffer},
        "access": reading.access,
        "plan": reading.plan,
        "as_described": reading.as_described,
        "gathers": name == GATHERED,
        "folder": reading.folder,
    }
    python = reading.ros3_python if driver == "ros3" else ""
    return Seeded(
        name,
        shots_loop,
        request,
        _recorded(reading.items),
        "python tools/ros3_env.py PREFIX" if python else "pip install multitables[studies]",
        in_order=False,
        timeout_seconds=TIMEOUT_SECONDS,
        python=python,
    )


# ---- what a figure is


def _delivered(items: Items) -> Callable[[Any], Sample]:
    def figure(found: Mapping[str, Any]) -> Sample:
        need(found["n"], items.counts, "datasets or bytes")
        discovery, readers = found["counts"]["discovery"], found["counts"]["readers"]
        return _sample(
            found["seconds"] - discovery,
            items,
            [one["fetch_seconds"] + one["decode_seconds"] for one in readers],
            discovery=discovery,
            open=statistics.mean(one["open_seconds"] for one in readers),
        )

    return figure


def _recorded(items: Items) -> Callable[[Any], Sample]:
    def figure(found: Mapping[str, Any]) -> Sample:
        need(found["n"], items.counts, "datasets or bytes")
        records = found["records"]

        def mean(name: str) -> float | None:
            return statistics.mean(one[name] for one in records) if name in records[0] else None

        return _sample(
            found["seconds"],
            items,
            [one["read-data-time"] for one in records],
            discovery=records[0]["gather-time"],
            start=found["start"],
            open=mean("open-file-time"),
            raw_hits=mean("pb-raw-hitrate"),
            meta_hits=mean("pb-meta-hitrate"),
            buffer_bytes=records[0]["pb-size"],
            records=records,
        )

    return figure


def _sample(seconds: float, items: Items, reads: list[float], **more: Any) -> Sample:
    """Of both methods: the processes that read, the mean of their times, and the slowest's part."""
    mean = statistics.mean(reads)
    shared = {
        "seconds": seconds,
        "decoded_bytes": items.counts[1],
        "read": mean,
        "imbalance": max(reads) / mean if mean else 1.0,
        "readers": len(reads),
    }
    return Sample(seconds, {**shared, **more})
