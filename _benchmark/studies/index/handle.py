"""The open file, `multitables.open`: whole datasets, slices, rows, threads, and the first read.

Law
---
1. One function a comparison, in `COMPARISONS`; wanted figures stand in the constants below.
2. It measures only through `TargetRun`, which checks the rows and takes the turns.
3. The cache of decoded chunks is as each library makes it; only threads are measured with hardly
   any, since they are to decode at the same time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from _benchmark.contenders import index_contenders, random_keys
from _benchmark.contenders.index_contenders import OPEN, ORACLE
from _benchmark.contenders.random_contenders import Task
from _benchmark.contenders.random_keys import BATCH_ROWS, Draw
from _benchmark.contenders.streams import ChildStream
from _benchmark.contract import Contender, Differs
from _benchmark.data import structures
from _benchmark.data.structures import ManyDatasets
from _benchmark.data.workloads import Workload
from _benchmark.harness.child import module_directory
from _benchmark.harness.runner import against
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import LABEL, best, limit_target, ratio_target

ROW_BYTES = 1024
MIN_OF_QUEUE = 0.85
MIN_SLICES = 3.0
MIN_ROWS = 5.0
MAX_MICROSECONDS = 10.0
MIN_THREADS = 1.8
MAX_INDEXED_MILLISECONDS = 50.0

N_SLICES = 4096
N_COORDINATES = 512
N_SINGLE = 4096
N_LATENCIES = 2000
CACHED_ROWS = 256
N_USERS = 4
HARDLY_ANY_CACHE = 2**20
PROCESSES = 2


@dataclass(frozen=True)
class Dataset:
    """Rows of 256 float32 in PyTables' default chunks, with its shuffle and a filter."""

    title: str
    filters: dict[str, Any]

    def workload(self, name: str, size_bytes: float) -> Workload:
        """Its file."""
        rows = int(size_bytes) // ROW_BYTES
        return Workload(f"index_rows_{name}", rows, 256, "float32", "waves", **self.filters)


DATASETS = {
    "none": Dataset("no filter", {}),
    "lz4": Dataset("blosc:lz4 5", {"complib": "blosc:lz4", "complevel": 5}),
    "zlib": Dataset("zlib 3", {"complib": "zlib", "complevel": 3}),
}


def whole(run: TargetRun, name: str) -> None:
    """A whole dataset, beside this library's own queue."""
    task = _task(run, name, _no_draw)
    place = sys.executable, module_directory()
    queue = ChildStream(task.source, LABEL, "queue", PROCESSES, *place)
    everybody = [queue, *index_contenders.whole(task)]
    right = against(lambda: task.oracle.rows(np.arange(task.source.rows)))
    rates = _rates(run, "whole", f"{DATASETS[name].title}, whole", everybody, right, task)
    _judge(run, f"{DATASETS[name].title}, whole", rates, queue.name, MIN_OF_QUEUE)


def slices(run: TargetRun, name: str) -> None:
    """Slices of 256 rows, anywhere."""
    draw = partial(random_keys.slices, n_batches=N_SLICES, seed=1)
    _batches(run, name, "slices", f"slices of {BATCH_ROWS} rows", draw, MIN_SLICES)


def rows(run: TargetRun, name: str) -> None:
    """Batches of 256 rows that are anywhere."""
    draw = partial(random_keys.coordinates, n_batches=N_COORDINATES, seed=1)
    _batches(run, name, "rows", f"{BATCH_ROWS} scattered rows", draw, MIN_ROWS)


def _batches(
    run: TargetRun, name: str, part: str, what: str, draw: Callable[..., Draw], least: float
) -> None:
    task, title = _task(run, name, draw, run.seconds), f"{DATASETS[name].title}, {what}"
    everybody = index_contenders.keyed(task)
    rates = _rates(run, part, title, everybody, against(task.right), task)
    _judge(run, title, rates, ORACLE, least)


def one_row(run: TargetRun, name: str) -> None:
    """One row of a chunk that is decoded."""

    def draw(n_rows: int) -> Draw:
        return random_keys.single_rows(min(n_rows, CACHED_ROWS), N_LATENCIES, 1)

    task, title = _task(run, name, draw), f"{DATASETS[name].title}, one row of a cached chunk"
    everybody = index_contenders.latencies(task)
    times = _rates(run, "one row", title, everybody, against(task.right), task, "us")
    reason = run.reasons.get(OPEN, "")
    run.judge(limit_target(f"{title}: {OPEN}", times.get(OPEN), MAX_MICROSECONDS, "us", reason))


def threads(run: TargetRun, name: str) -> None:
    """Single rows anywhere, read by one thread of Python and by several."""
    draw = partial(random_keys.single_rows, n_draws=N_SINGLE, seed=1)
    task = _task(run, name, draw, run.seconds)
    title = f"{DATASETS[name].title}, single rows anywhere"
    few = {"cache_bytes": HARDLY_ANY_CACHE}
    everybody = [one for n in (1, N_USERS) for one in index_contenders.keyed(task, n, **few)]
    rates = _rates(run, "threads", title, everybody, against(task.right), task, "rows/s")
    several = f"{OPEN}, {N_USERS} threads"
    figures = rates.get(several), rates.get(OPEN)
    reason = run.reasons.get(several, "")
    run.judge(ratio_target(f"{title}: {several} / one", *figures, MIN_THREADS, reason))


def first(run: TargetRun) -> None:
    """Opening a file of many datasets and reading one, without and with a saved index."""
    n = run.sizes["datasets"]
    plain, indexed = (
        run.prepared(ManyDatasets(f"index_{one}_earliest_{n}", n, "earliest"), _written)
        for one in ("many", "indexed")
    )
    path = structures.path_of(n // 2)
    everybody = index_contenders.first_reads(plain, indexed, path)
    title = f"open a file of {n} datasets and read one"
    right = index_contenders.oracle_of(everybody)
    times = run.rates("first read", title, everybody, right, plain, indexed, unit="ms")
    names = [one.name for one in everybody]
    run.table(f"{title}, page cache warm", names, times, OPEN, ".3g", "ms")
    name = f"{OPEN}, saved index"
    target = times.get(name), MAX_INDEXED_MILLISECONDS, "ms", run.reasons.get(name, "")
    run.judge(limit_target(f"{title}: {name}", *target))


_written = structures.in_directory


# ---- what the comparisons share


def _no_draw(_rows: int) -> Draw:
    return Draw("slices", [[0, 0]])


def _task(
    run: TargetRun, name: str, draw: Callable[[int], Draw], seconds: float | None = None
) -> Task:
    workload = DATASETS[name].workload(name, run.size_bytes)
    source, oracle = run.source(workload), random_keys.oracle(workload)
    return Task(source, workload.is_table, draw(workload.rows), oracle, seconds)


def _rates(
    run: TargetRun,
    part: str,
    title: str,
    everybody: Sequence[Contender],
    right: Differs,
    task: Task,
    unit: str = "MB/s",
) -> dict[str, list[float]]:
    """Check, measure, and add the table."""
    rates = run.rates(part, title, everybody, right, task.source.filename, unit=unit)
    names = [one.name for one in everybody]
    ours = OPEN if OPEN in rates else best(rates, OPEN)
    run.table(f"{title}, page cache warm; {unit}", names, rates, ours, ".4g", unit)
    return rates


def _judge(
    run: TargetRun, title: str, rates: dict[str, list[float]], rival: str, least: float
) -> None:
    """Judge the best of the handle against a rival."""
    ours = best(rates, OPEN) or OPEN
    reason = next((why for name, why in run.reasons.items() if name.startswith(OPEN)), "")
    figures = rates.get(ours), rates.get(rival)
    run.judge(ratio_target(f"{title}: {ours} / {rival}", *figures, least, reason))


#: What is read of each dataset.
COMPARISONS: tuple[Callable[[TargetRun, str], None], ...] = (whole, slices, rows, one_row, threads)


def handle_part(run: TargetRun) -> None:
    """Everything that is asked of an open file."""
    chosen = [name for name in DATASETS if name in run.datasets]
    for name in chosen:
        for compare in COMPARISONS:
            compare(run, name)
    if chosen:
        first(run)
