"""The parts of random access: what is compared with what, and what is wanted.

Law
---
1. One function a part, in `PARTS`; wanted figures stand in the constants below.
2. It measures only through `Bench`, which checks the data and takes the turns.
3. Rates and latencies of single rows are those of chunks that are decoded already, so there the
   filter has no part, and one dataset of each kind does.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from _benchmark.contenders import random_keys
from _benchmark.contenders.random_contenders import (
    PROCESSES,
    RandomContender,
    ReaderAccess,
    Task,
    libraries,
)
from _benchmark.contenders.random_keys import BATCH_ROWS, Draw
from _benchmark.data.workloads import EVENT, Workload
from _benchmark.harness.rounds import summary
from _benchmark.harness.runner import (
    LABEL,
    OLD_LABEL,
    Bench,
    as_ratio,
    best,
    module_directory,
    ratios,
    warm,
    with_spread,
)
from _benchmark.report.tables import aligned

ROW_BYTES = 1024
MIN_SLICES = 3.0
MIN_COORDINATES = 5.0
MIN_REQUESTS = 100_000.0
MAX_MICROSECONDS = 200.0

BATCHES_IN_FLIGHT = 8
ROWS_IN_FLIGHT = 64
SPARE_STAGES = 2  # the consumer holds a view while it asks for the next
# 2.0.1 refuses arrays of coordinates, and of a key above 1 KiB the reader may see half
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


def slices(bench: Bench) -> None:
    """Random contiguous slices of 256 rows."""
    title = f"slices of {BATCH_ROWS} rows, anywhere"
    for name in bench.datasets:
        _batches(bench, "slices", title, name, random_keys.slices, N_SLICES, MIN_SLICES)


def coordinates(bench: Bench) -> None:
    """Batches of 256 uniformly random rows."""
    title = f"batches of {BATCH_ROWS} random rows"
    draw = random_keys.coordinates
    for name in bench.datasets:
        _batches(bench, "coordinates", title, name, draw, N_COORDINATES, MIN_COORDINATES)


def _batches(
    bench: Bench,
    part: str,
    title: str,
    name: str,
    draw: Callable[[int, int, int], Draw],
    n_batches: int,
    least: float,
) -> None:
    dataset = DATASETS[name]
    task = _task(bench, name, lambda rows: draw(rows, n_batches, 1))
    everybody = [*_readers(bench, task, BATCHES_IN_FLIGHT), *libraries(task)]
    batch_mb = task.draw.batch_rows * ROW_BYTES / 1e6
    verified = bench.verified(task.source, everybody, task.right)
    rates = bench.measure(
        part,
        dataset.title,
        {one.name: partial(_rate, one, bench.seconds, batch_mb) for one in verified},
        before=partial(warm, task.source),
    )
    names = [one.name for one in everybody]
    ours = _table(
        bench, f"{dataset.title}, {title}, page cache warm; {UNIT_LINE}", ".4g", names, rates
    )
    theirs = best({name: rates[name] for name in rates if not name.startswith(LABEL)}, "")
    bench.ratio_target(
        f"{dataset.title}: {part} / best rival",
        rates.get(ours or ""),
        rates.get(theirs or ""),
        least,
        f"{ours} / {theirs}",
    )


def requests(bench: Bench) -> None:
    """Single rows per second, many requests in flight, of chunks that are decoded."""
    for name in bench.datasets:
        if name not in CACHED:
            continue
        title = DATASETS[name].title
        task = _cached_task(bench, name, N_REQUESTS)
        misses: list[int] = []
        everybody = [*_readers(bench, task, ROWS_IN_FLIGHT, misses.append), *libraries(task)]
        verified = bench.verified(task.source, everybody, task.right)
        rates = bench.measure(
            "requests",
            title,
            {one.name: partial(_rate, one, bench.seconds) for one in verified},
            unit="requests/s",
            before=partial(warm, task.source),
        )
        ours = _table(
            bench,
            f"{title}, single rows of decoded chunks per second, one thread, {ROWS_IN_FLIGHT} in "
            "flight (libraries: one call each); median (minimum-maximum)",
            ".0f",
            [one.name for one in everybody],
            rates,
        )
        bench.floor_target(
            f"{title}: single rows in flight",
            rates.get(ours or ""),
            MIN_REQUESTS,
            "requests/s",
            f"{ours}; at most {max(misses, default=0)} chunks decoded while timed",
        )


def latency(bench: Bench) -> None:
    """A single request for a row of a decoded chunk, and nothing beside it."""
    for name in bench.datasets:
        if name not in CACHED:
            continue
        title = DATASETS[name].title
        task = _cached_task(bench, name, N_LATENCIES)
        everybody = [*_readers(bench, task, 1), *libraries(task)]
        everybody = bench.verified(task.source, everybody, task.right)
        ninety_nine: dict[str, list[float]] = {one.name: [] for one in everybody}

        def median_of(one: RandomContender, tails: list[float]) -> float:
            found = one.latencies()
            tails.append(statistics.quantiles(found, n=100)[98])
            return statistics.median(found)

        medians = bench.measure(
            "latency",
            title,
            {one.name: partial(median_of, one, ninety_nine[one.name]) for one in everybody},
            unit="us",
            before=partial(warm, task.source),
        )
        rows = [
            [one, with_spread(summary(found), ".3g"), with_spread(summary(ninety_nine[one]), ".3g")]
            for one, found in medians.items()
        ]
        bench.tables.append(
            f"{title}, one request for a row of a decoded chunk, microseconds; medians of the "
            "rounds (minimum-maximum)\n" + aligned(["contender", "median", "99th percentile"], rows)
        )
        ours = min(
            (one for one in medians if one.startswith(LABEL)),
            key=lambda one: statistics.median(medians[one]),
            default="",
        )
        for what, values in (("median", medians), ("99th percentile", ninety_nine)):
            bench.limit_target(
                f"{title}: latency, {what}", values.get(ours), MAX_MICROSECONDS, "us", ours
            )


def _task(bench: Bench, name: str, draw: Callable[[int], Draw]) -> Task:
    workload = DATASETS[name].workload(name, bench.size_bytes)
    source = bench.source(workload)
    return Task(source, workload.is_table, draw(workload.rows), random_keys.oracle(workload))


def _cached_task(bench: Bench, name: str, n_draws: int) -> Task:
    """Rows of the first few chunks only."""
    return _task(
        bench, name, lambda rows: random_keys.single_rows(min(rows, CACHED_ROWS), n_draws, 1)
    )


def _readers(
    bench: Bench, task: Task, in_flight: int, note: Callable[[int], None] = lambda _misses: None
) -> list[RandomContender]:
    """This multitables, with a pool of stages and with its own memory, and the old release."""
    n_stages = in_flight + SPARE_STAGES
    ours = partial(ReaderAccess, task, LABEL, sys.executable, module_directory())
    found: list[RandomContender] = [ours(stages, in_flight, note=note) for stages in (n_stages, 0)]
    if bench.old_python is not None:
        pieces = OLD_PIECES if task.draw.kind == "coordinates" else 0
        found.append(
            ReaderAccess(task, OLD_LABEL, bench.old_python, None, n_stages, in_flight, pieces)
        )
    return found


def _rate(one: RandomContender, seconds: float, scale: float = 1) -> float:
    return one.rate(seconds) * scale


def _table(
    bench: Bench, title: str, form: str, names: list[str], rates: dict[str, list[float]]
) -> str | None:
    """Add the table of a part; returns the best of ours."""
    ours = best(rates, LABEL)
    rows = []
    for name in names:
        values = rates.get(name)
        if values is None:
            rows.append([name, "not measured", "", bench.reasons.get(name, "")])
            continue
        ratio = as_ratio(ratios(rates[ours], values)) if ours and ours != name else ""
        rows.append([name, with_spread(summary(values), form), ratio, ""])
    if bench.old_python is None:
        rows.append([OLD_LABEL, "not measured", "", bench.old_reason])
    header = ["contender", "rate", f"{LABEL} / it", "note"]
    bench.tables.append(f"{title}\n{aligned(header, rows, left=('note',))}")
    return ours


PARTS: dict[str, Callable[[Bench], None]] = {
    "slices": slices,
    "coordinates": coordinates,
    "requests": requests,
    "latency": latency,
}

__all__ = ["DATASETS", "PARTS", "PROCESSES", "ROW_BYTES"]
