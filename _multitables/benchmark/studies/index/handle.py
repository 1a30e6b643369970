"""The open file, `multitables.open`: whole datasets, slices, rows, threads, and the first read.

Law
---
1. One row a comparison, in `COMPARISONS`; wanted figures stand in the constants below.
2. It measures nothing: the frame checks the rows and takes the turns.
3. The cache of decoded chunks is as each library makes it; only threads are measured with hardly
   any, since they are to decode at the same time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from _multitables.benchmark.contenders import index_contenders, random_keys
from _multitables.benchmark.contenders.index_contenders import OPEN, ORACLE
from _multitables.benchmark.contenders.random_contenders import Task
from _multitables.benchmark.contenders.random_keys import BATCH_ROWS, Draw
from _multitables.benchmark.contenders.streams import ChildStream
from _multitables.benchmark.contract import Contender
from _multitables.benchmark.data import structures
from _multitables.benchmark.data.datasets import of_each_filter
from _multitables.benchmark.data.structures import ManyDatasets
from _multitables.benchmark.harness.child import module_directory
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.studies.frame import LABEL, Case, Prepared, Wanted
from _multitables.benchmark.studies.setting import Setting

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

#: Rows of 256 float32 in PyTables' default chunks, with its shuffle and a filter.
DATASETS = of_each_filter()

#: What is read of each dataset: its case.
Comparison = Callable[[Setting, str], Case]


def _comparison(
    part: str,
    what: str,
    draw: Callable[[int], Draw],
    everybody: Callable[[Task], Sequence[Contender]],
    wanted: Wanted,
    unit: str = "MB/s",
    timed: bool = True,
) -> Comparison:
    """Those who read what is drawn of a dataset; without `timed`, one row after the other."""

    def case(setting: Setting, name: str) -> Case:
        def prepare(_stack: ExitStack) -> Prepared:
            workload = DATASETS[name].workload(f"index_rows_{name}", setting.size_bytes)
            source, oracle = setting.source(workload), random_keys.oracle(workload)
            seconds = setting.seconds if timed else None
            task = Task(source, workload.is_table, draw(workload.rows), oracle, seconds)
            files = [source.filename]
            return Prepared(everybody(task), against(task.right), files, wanted=[wanted])

        return Case({"part": part, "dataset": f"{DATASETS[name].title}, {what}"}, prepare, unit)

    return case


def _whole(task: Task) -> list[Contender]:
    """This library's own queue beside those who index."""
    queue = ChildStream(task.source, LABEL, "queue", PROCESSES, sys.executable, module_directory())
    return [queue, *index_contenders.whole(task)]


def _threads(task: Task) -> list[Contender]:
    """One thread of Python, and several."""
    keyed = partial(index_contenders.keyed, task, cache_bytes=HARDLY_ANY_CACHE)
    return [one for n in (1, N_USERS) for one in keyed(n_users=n)]


def _cached_rows(rows: int) -> Draw:
    return random_keys.single_rows(min(rows, CACHED_ROWS), N_LATENCIES, 1)


COMPARISONS: tuple[Comparison, ...] = (
    _comparison(
        "whole",
        "whole",
        lambda rows: Draw("slices", [[0, rows]]),
        _whole,
        Wanted(OPEN, (f"{LABEL} queue",), MIN_OF_QUEUE),
    ),
    _comparison(
        "slices",
        f"slices of {BATCH_ROWS} rows",
        partial(random_keys.slices, n_batches=N_SLICES, seed=1),
        index_contenders.keyed,
        Wanted(OPEN, (ORACLE,), MIN_SLICES),
    ),
    _comparison(
        "rows",
        f"{BATCH_ROWS} scattered rows",
        partial(random_keys.coordinates, n_batches=N_COORDINATES, seed=1),
        index_contenders.keyed,
        Wanted(OPEN, (ORACLE,), MIN_ROWS),
    ),
    _comparison(
        "one row",
        "one row of a cached chunk",
        _cached_rows,
        index_contenders.latencies,
        Wanted(OPEN, most=MAX_MICROSECONDS),
        unit="us",
        timed=False,
    ),
    _comparison(
        "threads",
        "single rows anywhere",
        partial(random_keys.single_rows, n_draws=N_SINGLE, seed=1),
        _threads,
        Wanted(f"{OPEN}, {N_USERS} threads", (OPEN,), MIN_THREADS),
        unit="rows/s",
    ),
)


def first(setting: Setting) -> Case:
    """Opening a file of many datasets and reading one, without and with a saved index."""
    n = setting.sizes["datasets"]

    def prepare(_stack: ExitStack) -> Prepared:
        plain, indexed = (
            setting.prepared(
                ManyDatasets(f"index_{one}_earliest_{n}", n, "earliest"), structures.in_directory
            )
            for one in ("many", "indexed")
        )
        everybody = index_contenders.first_reads(plain, indexed, structures.path_of(n // 2))
        right = index_contenders.oracle_of(everybody)
        wanted = [Wanted(f"{OPEN}, saved index", most=MAX_INDEXED_MILLISECONDS)]
        return Prepared(everybody, right, [plain, indexed], wanted=wanted)

    title = f"open a file of {n} datasets and read one"
    return Case({"part": "first read", "dataset": title}, prepare, "ms")


def handle_part(setting: Setting) -> Iterator[Case]:
    """Everything that is read of an open file."""
    chosen = [name for name in DATASETS if name in setting.datasets]
    for name in chosen:
        for compare in COMPARISONS:
            yield compare(setting, name)
    if chosen:
        yield first(setting)
