"""The published method of the study of shots: Dask's processes read a batch of the keys each.

Law
---
1. The order is the study's: look through the file, group, shuffle, start Dask, start the clock,
   read. As it was described, the clock starts before Dask.
2. A process reads its datasets with their scales and keeps nothing; only where the data is to be
   gathered does it come here.
3. Seconds and counts of each process have the names that the study published.
4. The same text runs under this interpreter and under that of HDF5's driver for S3: standard
   library, NumPy, h5py, s3fs and Dask.
"""

from __future__ import annotations

import contextlib
import importlib
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from . import hdf5_remote_loop, remote_clock
from .ranks import shares
from .shell import Clock, Loop

#: Shot or signal -> the paths of its datasets.
Groups = dict[str, list[str]]


def gathered(asked: dict[str, Any]) -> Groups:
    """The paths of all signals, by shot or by signal; a signal is a dataset that is no scale."""
    kind = importlib.import_module("h5py").Dataset
    shots: Groups = {}

    def visit(name: str, one: Any) -> None:
        if isinstance(one, kind) and not one.is_scale:
            shots.setdefault(str(one.attrs["shot"]), []).append(f"/{name}")

    with hdf5_remote_loop.opened(asked) as file:
        file.visititems(visit)
    if asked["access"] == "shots":
        return shots
    signals: Groups = {}
    for paths in shots.values():
        for path in paths:
            signals.setdefault(path.rpartition("/")[2], []).append(path)
    return signals


def batches(keys: list[str], n_procs: int, as_described: bool) -> list[list[str]]:
    """A batch for each process: as described even ones, as published of ``len // n + 1`` keys.

    The latter may be fewer than there are processes.
    """
    if as_described:
        found = [keys[start:stop] for start, stop in shares(len(keys), 1, n_procs)]
        return [one for one in found if one]
    size = len(keys) // n_procs + 1
    return [keys[at : at + size] for at in range(0, len(keys), size)]


class Taken:
    """Datasets that were read, to be sent to who asked."""

    def __init__(self) -> None:
        self.datasets: list[tuple[str, Any]] = []

    def see(self, name: str, values: Any) -> None:
        """Keep one dataset."""
        self.datasets.append((name, values))


def read_batch(asked: dict[str, Any], groups: Groups) -> tuple[dict[str, Any], Any]:
    """Be a process: its record by the published names, and what it has seen or taken."""
    seen = Taken() if asked["gathers"] else remote_clock.Seen(asked["verb"] == "check")
    n_read, start = 0, time.perf_counter()
    with hdf5_remote_loop.opened(asked) as file:
        open_seconds = time.perf_counter() - start
        names = hdf5_remote_loop.dataset_names(file) if asked["verb"] == "check" else {}
        for key, paths in groups.items():
            n_read += hdf5_remote_loop.read_item(file, key, paths, seen, names)
        seconds = time.perf_counter() - start - open_seconds
        record = {
            "open-file-time": open_seconds,
            "pb-size": file.id.get_access_plist().get_page_buffer_size()[0],
            "read-data-time": seconds,
            "wrkr-num-objs": len(groups),
            "mean-obj-time": seconds / len(groups),
            "num-dsets": n_read,
            "mean-dset-time": seconds / n_read,
            **buffer_counts(file),
        }
    return record, seen.datasets if isinstance(seen, Taken) else seen.result()


def buffer_counts(file: Any) -> dict[str, Any]:
    """What a page buffer has counted; nothing where there is none.

    A rate of hits leaves out what went past the buffer; it is no number where everything did.
    """
    if not file.id.get_access_plist().get_page_buffer_size()[0]:
        return {}
    counts, found = file.id.get_page_buffering_stats(), {}
    for name, one in (("meta", counts.meta), ("raw", counts.raw)):
        buffered = one.accesses - one.bypasses
        found[f"pb-{name}-accesses"] = one.accesses
        found[f"pb-{name}-hitrate"] = 100 * one.hits / buffered if buffered else float("nan")
        found[f"pb-{name}-evicts"] = one.evictions
    return found


@contextlib.contextmanager
def client(asked: dict[str, Any]) -> Iterator[Any]:
    """Dask's processes, of one thread each; they end with the block."""
    library = importlib.import_module("distributed")
    own = importlib.import_module("dask").config.set({"temporary-directory": asked["folder"]})
    processes = {"processes": True, "n_workers": asked["n_procs"], "threads_per_worker": 1}
    with own, library.Client(**processes, dashboard_address=None) as found:
        yield found


def read(asked: dict[str, Any], groups: Groups, keys: list[str]) -> tuple[list[Any], float, float]:
    """What each process has found; seconds until Dask was there, and those of the clock."""
    parts = batches(keys, asked["n_procs"], asked["as_described"])
    start = time.perf_counter()
    with client(asked) as ready:
        start_seconds = time.perf_counter() - start
        if not asked["as_described"]:
            start = time.perf_counter()
        futures = [
            ready.submit(read_batch, asked, {key: groups[key] for key in part}, pure=False)
            for part in parts
        ]
        found = ready.gather(futures)
        seconds = time.perf_counter() - start
    return found, start_seconds, seconds


def run(asked: dict[str, Any]) -> Any:
    """Gather the paths, and read them all as published."""
    hdf5_remote_loop.make_ready(asked)
    importlib.import_module("distributed")
    with remote_clock.marked(asked["clock"]):
        with Clock() as gathering:
            groups = gathered(asked)
        keys = list(groups)
        if asked["plan"] == "random":
            np.random.default_rng(asked["seed"]).shuffle(keys)
        found, start_seconds, seconds = read(asked, groups, keys)
    whole = {
        "num-workers": asked["n_procs"],
        "file": asked["url"],
        "obj-type": asked["access"],
        "tot-num-obj": len(keys),
        "gather-time": gathering.seconds,
        "tot-runtime": seconds,
    }
    records = [{**one, "worker#": at, **whole} for at, (one, _) in enumerate(found)]
    parts = [part for _, part in found]
    if asked["gathers"]:
        seen = remote_clock.Seen(asked["verb"] == "check")
        for name, values in (dataset for part in parts for dataset in part):
            seen.see(name, values)
        parts = [seen.result()]
    found = remote_clock.answer("items", asked["verb"], parts, seconds)
    if asked["verb"] == "check":
        return found
    return {**found, "start": start_seconds, "records": records}


LOOP = Loop({"check": run, "time": run}, library="")
