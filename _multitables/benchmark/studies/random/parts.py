"""The parts of random access: what is compared with what, and what is wanted.

Law
---
1. A row of `PARTS` is a part, whose cases are its datasets; wanted figures stand in the constants.
2. It measures nothing: the frame checks the data and takes the turns.
3. Single rows come from chunks that are decoded already. The filter does not matter there, so one
   dataset of each kind is enough.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from _multitables.benchmark.contenders import random_keys
from _multitables.benchmark.contenders.random_contenders import ReaderAccess, Task, libraries
from _multitables.benchmark.contenders.random_keys import Draw
from _multitables.benchmark.contract import Contender
from _multitables.benchmark.data.datasets import of_each_filter
from _multitables.benchmark.data.workloads import EVENT
from _multitables.benchmark.harness.child import module_directory
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.studies.frame import LABEL, Case, Prepared, Wanted
from _multitables.benchmark.studies.setting import Part, Setting
from _multitables.benchmark.studies.verdicts import OTHERS

ROW_BYTES = 1024
MIN_SLICES = 3.0
MIN_COORDINATES = 5.0
MIN_REQUESTS = 100_000.0
MAX_MICROSECONDS = 200.0

BATCHES_IN_FLIGHT = 8
ROWS_IN_FLIGHT = 64
SPARE_STAGES = 2  # the consumer holds a view while it asks for the next
OLD_LABEL = "2.0.1"
# 2.0.1 refuses arrays of coordinates, and its reader may see half of a key above 1 KiB
OLD_PIECES = 2
N_SLICES = 4096  # drawn, then begun again
N_COORDINATES = 512
CACHED_ROWS = 512  # two chunks: one for each reader, and few enough for everybody's cache
N_REQUESTS = 4096
N_LATENCIES = 2000

#: Further columns of the rows -> their heads.
MORE = {"p99_microseconds": "99th percentile, us", "cache_misses": "chunks decoded"}

#: PyTables' default chunks and shuffle, and one of two filters.
DATASETS = {
    f"{kind}-{name}": replace(dataset, title=f"{title}, {dataset.title}")
    for kind, title, every in (
        ("table", "Table", of_each_filter(columns=1, dtype=EVENT, values="events")),
        ("earray", "EArray", of_each_filter()),
    )
    for name, dataset in every.items()
    if name != "none"
}
CACHED = ("table-lz4", "earray-lz4")


def _cached_rows(rows: int, n_draws: int) -> Draw:
    """Rows of the first few chunks only."""
    return random_keys.single_rows(min(rows, CACHED_ROWS), n_draws, 1)


def _readers(setting: Setting, task: Task, in_flight: int) -> list[Contender]:
    """This multitables, with a pool of stages and with its own memory, and the old release."""
    n_stages = in_flight + SPARE_STAGES
    ours = partial(ReaderAccess, task, LABEL, sys.executable, module_directory())
    found: list[Contender] = [ours(stages, in_flight) for stages in (n_stages, 0)]
    if setting.old_python is not None:
        pieces = OLD_PIECES if task.draw.kind == "coordinates" else 0
        found.append(
            ReaderAccess(task, OLD_LABEL, setting.old_python, None, n_stages, in_flight, pieces)
        )
    return found


def _part(
    name: str,
    draw: Callable[[int], Draw],
    in_flight: int,
    wanted: Sequence[Wanted],
    unit: str = "MB/s",
    datasets: Collection[str] = DATASETS,
    timed: bool = True,
) -> Part:
    """Readers and libraries at a draw of keys; without `timed`, one request at a time."""

    def cases(setting: Setting) -> Iterator[Case]:
        for dataset in filter(datasets.__contains__, setting.datasets):

            def prepare(_stack: ExitStack, dataset: str = dataset) -> Prepared:
                workload = DATASETS[dataset].workload(f"random_{dataset}", setting.size_bytes)
                source, oracle = setting.source(workload), random_keys.oracle(workload)
                seconds = setting.seconds if timed else None
                task = Task(source, workload.is_table, draw(workload.rows), oracle, seconds)
                everybody = [*_readers(setting, task, in_flight), *libraries(task)]
                files = [source.filename]
                return Prepared(everybody, against(task.right), files, wanted=wanted)

            yield Case({"part": name, "dataset": DATASETS[dataset].title}, prepare, unit)

    return cases


PARTS: dict[str, Part] = {
    # slices of 256 rows that start anywhere
    "slices": _part(
        "slices",
        partial(random_keys.slices, n_batches=N_SLICES, seed=1),
        BATCHES_IN_FLIGHT,
        [Wanted(LABEL, OTHERS, MIN_SLICES)],
    ),
    # batches of 256 uniformly random rows
    "coordinates": _part(
        "coordinates",
        partial(random_keys.coordinates, n_batches=N_COORDINATES, seed=1),
        BATCHES_IN_FLIGHT,
        [Wanted(LABEL, OTHERS, MIN_COORDINATES)],
    ),
    # single rows, one thread; libraries are called once for each
    "requests": _part(
        "requests",
        partial(_cached_rows, n_draws=N_REQUESTS),
        ROWS_IN_FLIGHT,
        [Wanted(LABEL, least=MIN_REQUESTS)],
        unit="requests/s",
        datasets=CACHED,
    ),
    # a single request, and nothing beside it
    "latency": _part(
        "latency",
        partial(_cached_rows, n_draws=N_LATENCIES),
        1,
        [
            Wanted(LABEL, most=MAX_MICROSECONDS),
            Wanted(LABEL, most=MAX_MICROSECONDS, column="p99_microseconds"),
        ],
        unit="us",
        datasets=CACHED,
        timed=False,
    ),
}
