"""The parts of random access: what is compared with what, and what is wanted.

Law
---
1. One function a part, in `PARTS`; wanted figures stand in the constants below.
2. It measures only through `TargetRun`, which checks the data and takes the turns.
3. Single rows come from chunks that are decoded already. The filter does not matter there, so one
   dataset of each kind is enough.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from _benchmark.contenders import random_keys
from _benchmark.contenders.random_contenders import ReaderAccess, Task, libraries
from _benchmark.contenders.random_keys import BATCH_ROWS, Draw
from _benchmark.contract import Contender
from _benchmark.data.workloads import EVENT, Workload
from _benchmark.harness.child import module_directory
from _benchmark.harness.rounds import summary
from _benchmark.harness.runner import against
from _benchmark.report.tables import aligned
from _benchmark.studies.targets.run import TargetRun
from _benchmark.studies.targets.verdicts import (
    LABEL,
    OLD_LABEL,
    best,
    floor_target,
    limit_target,
    ratio_target,
    with_spread,
)

ROW_BYTES = 1024
MIN_SLICES = 3.0
MIN_COORDINATES = 5.0
MIN_REQUESTS = 100_000.0
MAX_MICROSECONDS = 200.0

BATCHES_IN_FLIGHT = 8
ROWS_IN_FLIGHT = 64
SPARE_STAGES = 2  # the consumer holds a view while it asks for the next
# 2.0.1 refuses arrays of coordinates, and its reader may see half of a key above 1 KiB
OLD_PIECES = 2
N_SLICES = 4096  # drawn, then begun again
N_COORDINATES = 512
CACHED_ROWS = 512  # two chunks: one for each reader, and few enough for everybody's cache
N_REQUESTS = 4096
N_LATENCIES = 2000

UNIT_LINE = (
    "MB/s = 10^6 bytes of delivered rows per second; median (minimum-maximum); ratios are of the "
    "same rounds"
)


@dataclass(frozen=True)
class Dataset:
    """A dataset: PyTables' default chunks and shuffle, and one of two filters."""

    title: str
    table: bool
    filters: dict[str, Any]

    def workload(self, name: str, size_bytes: float) -> Workload:
        """Its file."""
        rows, name = int(size_bytes) // ROW_BYTES, f"random_{name}"
        if self.table:
            return Workload(name, rows, 1, EVENT, "events", **self.filters)
        return Workload(name, rows, 256, "float32", "waves", **self.filters)


_LZ4 = {"complib": "blosc:lz4", "complevel": 5}
_ZLIB = {"complib": "zlib", "complevel": 3}
DATASETS = {
    "table-lz4": Dataset("Table, blosc:lz4 5", True, _LZ4),
    "table-zlib": Dataset("Table, zlib 3", True, _ZLIB),
    "earray-lz4": Dataset("EArray, blosc:lz4 5", False, _LZ4),
    "earray-zlib": Dataset("EArray, zlib 3", False, _ZLIB),
}
CACHED = ("table-lz4", "earray-lz4")


def slices(run: TargetRun) -> None:
    """Random contiguous slices of 256 rows."""
    title = f"slices of {BATCH_ROWS} rows, anywhere"
    _batches(run, "slices", title, random_keys.slices, N_SLICES, MIN_SLICES)


def coordinates(run: TargetRun) -> None:
    """Batches of 256 uniformly random rows."""
    title = f"batches of {BATCH_ROWS} random rows"
    draw = random_keys.coordinates
    _batches(run, "coordinates", title, draw, N_COORDINATES, MIN_COORDINATES)


def _batches(
    run: TargetRun,
    part: str,
    title: str,
    draw: Callable[[int, int, int], Draw],
    n_batches: int,
    least: float,
) -> None:
    for name in run.datasets:
        task = _task(run, name, lambda rows: draw(rows, n_batches, 1), run.seconds)
        everybody = [*_readers(run, task, BATCHES_IN_FLIGHT), *libraries(task)]
        dataset = DATASETS[name].title
        rates = _rates(run, part, dataset, task, everybody)
        ours = best(rates, LABEL)
        theirs = best({name: rates[name] for name in rates if not name.startswith(LABEL)})
        _table(run, f"{dataset}, {title}, page cache warm; {UNIT_LINE}", ".4g", everybody, rates)
        figures = rates.get(ours or ""), rates.get(theirs or "")
        run.judge(
            ratio_target(f"{dataset}: {part} / best rival", *figures, least, f"{ours} / {theirs}")
        )


def requests(run: TargetRun) -> None:
    """Single rows per second, many requests in flight, of chunks that are decoded."""
    for name in filter(CACHED.__contains__, run.datasets):
        title = DATASETS[name].title
        task = _cached_task(run, name, N_REQUESTS, run.seconds)
        misses: list[int] = []
        everybody = [*_readers(run, task, ROWS_IN_FLIGHT, misses.append), *libraries(task)]
        rates = _rates(run, "requests", title, task, everybody, unit="requests/s")
        ours = best(rates, LABEL)
        what = (
            f"{title}, single rows of decoded chunks per second, one thread, {ROWS_IN_FLIGHT} in "
            "flight (libraries: one call each); median (minimum-maximum)"
        )
        _table(run, what, ".0f", everybody, rates)
        note = f"{ours}; at most {max(misses, default=0)} chunks decoded while timed"
        values = rates.get(ours or "")
        run.judge(
            floor_target(
                f"{title}: single rows in flight", values, MIN_REQUESTS, "requests/s", note
            )
        )


def latency(run: TargetRun) -> None:
    """A single request for a row of a decoded chunk, and nothing beside it."""
    for name in filter(CACHED.__contains__, run.datasets):
        title = DATASETS[name].title
        task = _cached_task(run, name, N_LATENCIES, None)
        everybody = [*_readers(run, task, 1), *libraries(task)]
        medians = _rates(run, "latency", title, task, everybody, unit="us")
        # those of this run: of an earlier one only the medians are kept
        tails = {one: [each.more["p99"] for each in run.samples[one]] for one in run.samples}
        rows = [
            [
                one,
                *(
                    with_spread(summary(by[one]), ".3g") if one in by else "-"
                    for by in (medians, tails)
                ),
            ]
            for one in medians
        ]
        run.tables.append(
            f"{title}, one request for a row of a decoded chunk, microseconds; medians of the "
            "rounds (minimum-maximum)\n" + aligned(["contender", "median", "99th percentile"], rows)
        )
        ours = min(
            (one for one in medians if one.startswith(LABEL)),
            key=lambda one: statistics.median(medians[one]),
            default="",
        )
        for what, values in (("median", medians), ("99th percentile", tails)):
            target = f"{title}: latency, {what}"
            run.judge(limit_target(target, values.get(ours), MAX_MICROSECONDS, "us", ours))


def _task(run: TargetRun, name: str, draw: Callable[[int], Draw], seconds: float | None) -> Task:
    workload = DATASETS[name].workload(name, run.size_bytes)
    source, oracle = run.source(workload), random_keys.oracle(workload)
    return Task(source, workload.is_table, draw(workload.rows), oracle, seconds)


def _cached_task(run: TargetRun, name: str, n_draws: int, seconds: float | None) -> Task:
    """Rows of the first few chunks only."""

    def draw(rows: int) -> Draw:
        return random_keys.single_rows(min(rows, CACHED_ROWS), n_draws, 1)

    return _task(run, name, draw, seconds)


def _readers(
    run: TargetRun, task: Task, in_flight: int, note: Callable[[int], None] = lambda _misses: None
) -> list[Contender]:
    """This multitables, with a pool of stages and with its own memory, and the old release."""
    n_stages = in_flight + SPARE_STAGES
    ours = partial(ReaderAccess, task, LABEL, sys.executable, module_directory())
    found: list[Contender] = [ours(stages, in_flight, note=note) for stages in (n_stages, 0)]
    if run.old_python is not None:
        pieces = OLD_PIECES if task.draw.kind == "coordinates" else 0
        found.append(
            ReaderAccess(task, OLD_LABEL, run.old_python, None, n_stages, in_flight, pieces)
        )
    return found


def _rates(
    run: TargetRun,
    part: str,
    dataset: str,
    task: Task,
    everybody: list[Contender],
    unit: str = "MB/s",
) -> dict[str, list[float]]:
    return run.rates(part, dataset, everybody, against(task.right), task.source.filename, unit=unit)


def _table(
    run: TargetRun, title: str, form: str, everybody: list[Contender], rates: dict[str, list[float]]
) -> None:
    names = [one.name for one in everybody]
    if run.old_python is None:
        run.reasons[OLD_LABEL] = run.old_reason
        names.append(OLD_LABEL)
    run.table(title, names, rates, best(rates, LABEL), form, "rate")


PARTS: dict[str, Callable[[TargetRun], None]] = {
    "slices": slices,
    "coordinates": coordinates,
    "requests": requests,
    "latency": latency,
}
