"""What the rows of the parameterised I/O test show.

Law
---
1. Pure: rows in, tables and a plot out.
2. Each test has a row of reading rates with the ratio of ours to the published path, and one of the
   seconds and rates of the published columns, with published figures behind them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from statistics import median

from _benchmark.data.iotest_ini import Configuration
from _benchmark.harness.results import Kept, Row
from _benchmark.harness.rounds import Summary, summary
from _benchmark.report import published
from _benchmark.report.tables import Chart, Series, Table, View, figure, spread
from _benchmark.studies.cases import without_numbers

KEYS = (
    "configuration",
    "dataset_rank",
    "slowest_dimension",
    "layout",
    "mpi_io",
    "process_rows",
    "process_columns",
    "scaling",
    "rows",
    "columns",
    "steps",
    "arrays",
    "fill_values",
    "libver_bound_low",
    "libver_bound_high",
    "alignment_increment",
    "alignment_threshold",
    "meta_block_size",
    "single_process",
    "split",
    "gzip",
    "szip",
)
#: What published figures may differ in from the test that they stand behind.
SIZES = ("configuration", "steps", "arrays")
#: Of what a published figure does not name.
DEFAULTS = {name: str(value) for name, value in asdict(Configuration()).items()}
OURS, THEIRS, MPI = "multitables", "h5py", "h5py, MPI-IO"
PHASES = {
    "write phase": "write_phase_max",
    "creat": "creat_max",
    "write": "write_max",
    "read phase": "read_phase_max",
    "read": "read_max",
    "wall": "wall",
}
MIB = 2**20
WARM = (
    "A test reads what was just written, so reads come from the page cache, as in the published "
    "runs. creat holds the filling of datasets with fill-values = true."
)


def views(kept: Kept) -> list[View]:
    """One view of all tests, and one of what has no numbers."""
    tests: dict[str, list[Row]] = {}
    for row in kept.rows:
        tests.setdefault(row["configuration"], []).append(row)
    if not tests:
        return without_numbers(kept)
    ratios = [(name, found) for name, rows in tests.items() if (found := _ratio(rows))]
    charts = []
    if len(ratios) > 1:
        bars = [Series("ratio", [(_label(tests[name][0]), found) for name, found in ratios])]
        title = "Reading: multitables / the published path"
        charts = [Chart("iotest_ratios", title, "", "times as fast", bars, "ratios")]
    tables = [_rates(tests), _phases(tests)]
    view = View("Reads and writes of the I/O test", {}, tables, charts, [WARM])
    return [*without_numbers(kept), view]


def _label(row: Row) -> str:
    words = [f"{row['configuration']}: rank {row['dataset_rank']}", row["slowest_dimension"]]
    return ", ".join([*words, row["layout"], row["mpi_io"]])


def _of(rows: Sequence[Row], contender: str) -> list[Row]:
    return [row for row in rows if row["contender"].rpartition(" x")[0] == contender]


def _rate(rows: Sequence[Row], contender: str) -> Summary | None:
    values = [float(row["value"]) for row in _of(rows, contender)]
    return summary(values) if values else None


def _ratio(rows: Sequence[Row]) -> Summary | None:
    """Of rounds that both have."""
    theirs = {row["round"]: float(row["value"]) for row in _of(rows, THEIRS)}
    found = [
        float(row["value"]) / theirs[row["round"]]
        for row in _of(rows, OURS)
        if row["round"] in theirs
    ]
    return summary(found) if found else None


def _rates(tests: dict[str, list[Row]]) -> Table:
    title = (
        "Reading, MB/s of all ranks together: their bytes in the slowest one's read phase; median "
        "(minimum-maximum)"
    )
    header = ["test", "rank", "slowest", "layout", "mpi-io", "grid", "GB"]
    header += [THEIRS, MPI, OURS, f"{OURS} / {THEIRS}"]
    rows = []
    for name, found in tests.items():
        row = found[0]
        figures = [_rate(found, one) for one in (THEIRS, MPI, OURS)]
        ratio = _ratio(found)
        rows.append(
            [
                name,
                row["dataset_rank"],
                row["slowest_dimension"],
                row["layout"],
                row["mpi_io"],
                f"{row['process_rows']} x {row['process_columns']}",
                figure(float(row["decoded_bytes"]) / 1e9),
                *[spread(one) if one else "-" for one in figures],
                spread(ratio) if ratio else "-",
            ]
        )
    return Table(title, header, rows, ("slowest", "layout", "mpi-io"))


def _phases(tests: dict[str, list[Row]]) -> Table:
    title = (
        "Seconds of the slowest rank, and MiB/s of one rank as published (write and read alone); "
        "medians"
    )
    header = ["test", "by", *PHASES, "write MiB/s", "read MiB/s", "file bytes"]
    rows = []
    for name, found in tests.items():
        for contender in dict.fromkeys(row["contender"] for row in found):
            own = [row for row in found if row["contender"] == contender]
            ranks = int(own[0]["process_rows"]) * int(own[0]["process_columns"])
            mib = float(own[0]["decoded_bytes"]) / ranks / MIB
            values = {one: median(float(row[one]) for row in own) for one in PHASES.values()}
            rates = [figure(mib / max(values[f"{one}_max"], 1e-9)) for one in ("write", "read")]
            seconds = [figure(one) for one in values.values()]
            rows.append([name, contender, *seconds, *rates, own[0]["fsize"]])
        rows += _published(name, found[0])
    return Table(title, header, rows, ("by",))


def _published(name: str, row: Row) -> Iterator[list[str]]:
    """The published figures of a test of this shape."""
    own = [
        one
        for one in published.figures(__file__)
        if all(one.get(key, DEFAULTS.get(key)) == row[key] for key in KEYS if key not in SIZES)
    ]
    for by in dict.fromkeys(one["by"] for one in own):
        told = {one["figure"]: one["value"] for one in own if one["by"] == by}
        wanted = [*PHASES.values(), "write_rate", "read_rate", "fsize"]
        yield [name, by, *[told.get(one, "-") for one in wanted]]
