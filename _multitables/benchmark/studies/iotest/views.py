"""What the rows of the parameterised I/O test show.

Law
---
1. Pure: rows in, tables and a plot out.
2. Each test has a line of reading rates with the ratio of ours to the published path, and for each
   contender one of the seconds and rates of the published columns; published figures come last.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from math import prod
from typing import Any

from _multitables.benchmark.data.iotest_ini import Configuration
from _multitables.benchmark.harness.results import Kept, Row
from _multitables.benchmark.report import published
from _multitables.benchmark.report.figures import Figures, ratio
from _multitables.benchmark.report.tables import Chart, Series, View, figure
from _multitables.benchmark.studies.frame import without_numbers

SHOWN = {
    "configuration": "test",
    "dataset_rank": "rank",
    "slowest_dimension": "slowest",
    "layout": "layout",
    "mpi_io": "mpi-io",
}
KEYS = (
    *SHOWN,
    *("process_rows", "process_columns", "scaling", "rows", "columns", "steps", "arrays"),
    *("fill_values", "libver_bound_low", "libver_bound_high", "alignment_increment"),
    *("alignment_threshold", "meta_block_size", "single_process", "split", "gzip", "szip"),
)
#: What published figures may differ in from the test that they stand behind.
SIZES = ("configuration", "steps", "arrays")
#: Of what a published figure does not name.
DEFAULTS = {name: str(value) for name, value in asdict(Configuration()).items()}
OURS, THEIRS = "multitables", "h5py"
PHASES = {
    "write phase": "write_phase_max",
    "creat": "creat_max",
    "write": "write_max",
    "read phase": "read_phase_max",
    "read": "read_max",
    "wall": "wall",
    "write MiB/s": "write_rate",
    "read MiB/s": "read_rate",
    "file bytes": "fsize",
}
READING = (
    "Reading, MB/s of all ranks together: their bytes in the slowest one's read phase; median "
    "(minimum-maximum)"
)
PUBLISHED_COLUMNS = (
    "Seconds of the slowest rank, and MiB/s of one rank as published (write and read alone); "
    "medians"
)
WARM = (
    "A test reads what was just written, so reads come from the page cache, as in the published "
    "runs. creat holds the filling of datasets with fill-values = true."
)


def views(kept: Kept) -> list[View]:
    """One view of all tests, and one of what has no numbers."""
    found = without_numbers(kept)
    if not kept.rows:
        return found
    faults = kept.more.get("faults", ())
    tests = Figures([_derived(one) for one in kept.rows], [_derived(one) for one in faults])
    rates = tests.grid(
        READING,
        {**SHOWN, "grid": "grid", "GB": "GB"},
        "contender",
        more={f"{OURS} / {THEIRS}": lambda test: ratio(test.beside(OURS, THEIRS))},
    )
    behind = [row for _name, one in tests.each("configuration") for row in _with_published(one)]
    phases = Figures(behind, tests.faults).grid(
        PUBLISHED_COLUMNS,
        {"configuration": "test", "contender": "by"},
        columns={head: partial(Figures.short, column=name) for head, name in PHASES.items()},
    )
    return [
        *found,
        View("Reads and writes of the I/O test", {}, [rates, phases], _charts(tests), [WARM]),
    ]


def _derived(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row or a fault with what is shown of it: without the number of ranks in its name."""
    grid = row["process_rows"], row["process_columns"]
    ranks = prod(map(int, grid))
    n_bytes = 8 * prod(int(row[name]) for name in ("steps", "arrays", "rows", "columns"))
    n_bytes *= 1 if row["scaling"] == "strong" else ranks
    rates = {
        f"{one}_rate": str(n_bytes / ranks / 2**20 / max(float(row[f"{one}_max"]), 1e-9))
        for one in ("write", "read")
        if f"{one}_max" in row
    }
    name = row["contender"].rpartition(" x")[0]
    shown = {"contender": name, "grid": " x ".join(map(str, grid)), "GB": figure(n_bytes / 1e9)}
    return {**row, **shown, **rates}


def _with_published(test: Figures) -> Iterator[Row]:
    """The rows of a test, and the published ones of a test of this shape."""
    yield from test.rows
    for one in published.rows(__file__, "figure"):
        same = (one.get(k, DEFAULTS.get(k)) == test.first(k) for k in KEYS if k not in SIZES)
        if test.rows and all(same):
            yield {**one, "configuration": test.first("configuration"), "contender": one["by"]}


def _charts(tests: Figures) -> list[Chart]:
    points = [
        (f"{name}: rank {rank}, {', '.join(stored)}", found)
        for (name, rank, *stored), test in tests.each(*SHOWN)
        if (found := test.beside(OURS, THEIRS))
    ]
    if len(points) < 2:
        return []
    title = "Reading: multitables / the published path"
    bars = [Series("ratio", points)]
    return [Chart("iotest_ratios", title, "", "times as fast", bars, "ratios")]
