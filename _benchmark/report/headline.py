"""The headline: this library beside h5py, PyTables, DataLoader, hidefix and the 2.x release.

Law
---
1. Pure: the rows of studies in, one table and one plot out. Every number is a median of kept rows;
   what was not measured has no number.
2. Each side is at its best: the fastest of its ways, with its best number of processes.
3. Only what reads HDF5 through the page cache is compared. The published methods of the studies
   that are run again read with h5py, so they stand in its column.
4. The README has a copy, which `COMMAND` writes; a test compares it with the stored rows.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from _benchmark.harness import results
from _benchmark.harness.results import Kept, Row
from _benchmark.harness.rounds import Summary, summary
from _benchmark.report import charts
from _benchmark.report.tables import Chart, Section, Series, Table, View, figure

COMMAND = (
    "python -m _benchmark.report.headline README.rst docs/results/headline docs/results/studies/*"
)
SUMMARY = "this library beside others, each at its best, through the page cache"
OURS = "multitables"
#: column of the table -> the contenders that belong to it
COLUMNS = {
    OURS: r"multitables(?! 2\.)",
    "h5py": r"h5py|published|versioned-hdf5",
    "PyTables": r"PyTables",
    "DataLoader": r"DataLoader.*h5py",
    "hidefix": r"hidefix",
    "2.0.1": r"(multitables )?2\.0\.1",
}
_SWEEP = {"data": "noise", "driver": "buffered", "limit_mb_per_s": ""}
#: row of the table -> (study, what its rows have in these columns)
WORKLOADS: dict[str, tuple[str, Mapping[str, str]]] = {
    "stream, no compression": ("sweep", {**_SWEEP, "complevel": "0"}),
    "stream, blosc 3": ("sweep", {**_SWEEP, "complib": "blosc", "complevel": "3"}),
    "stream, zlib 3": ("sweep", {**_SWEEP, "complib": "zlib", "complevel": "3"}),
    **{
        f"shuffled batches, {codec}": (
            "batches",
            {"part": "loader", "dataset": f"{codec}, chunks of 64 KiB"},
        )
        for codec in ("blosc:lz4 5", "zlib 3")
    },
    **{
        f"random rows, {codec}": ("random", {"part": "coordinates", "dataset": f"EArray, {codec}"})
        for codec in ("blosc:lz4 5", "zlib 3")
    },
    "I/O test, default": ("iotest", {"configuration": "default"}),
    "fusion shots, Dask": (
        "shots",
        {"where": "local", "page_buffer": "0", "layout": "shot", "access": "shots"},
    ),
    "particle columns, gzip": ("columns", {"storage": "gzip"}),
    "500 versions of a file": (
        "versions",
        {"test": "mostly_appends_sparse", "transactions": "500", "way": "as published"}
        | {"part": "read", "which": "all", "exponent": "12", "compression": "none"},
    ),
}
#: what makes two rows repeats of the same measurement
SAME = ("contender", "access", "n_procs", "processes", "ranks")

#: column -> its rate in MB/s
Rates = Mapping[str, Summary]


def sections(every: Sequence[Kept]) -> list[Section]:
    """The headline of the studies of one directory; nothing where nothing is compared."""
    rows: dict[str, list[Row]] = {}
    for one in every:
        rows.setdefault(one.name, []).extend(one.rows)
    rates: dict[str, Rates] = {}
    machines: dict[str, None] = {}
    for name, (study, wanted) in WORKLOADS.items():
        own = [row for row in rows.get(study, ()) if wanted.items() <= row.items()]
        own = [row for row in own if row.get("place") == own[0].get("place")]
        found = _rates(own)
        if OURS in found and len(found) > 1:
            rates[name] = found
            machines[_machine(own[0])] = None
    if not rates:
        return []
    facts = {"measured on": "; ".join(machines)}
    view = View("Beside others", facts, [_table(rates)], [_chart(rates)])
    return [Section(SUMMARY, Kept("headline", [], {}), {}, [view])]


def _machine(row: Row) -> str:
    return (
        f"{row['machine']}, {row['cores']} cores, {row['memory']} of memory, Python "
        f"{row['python']}, page cache {row['cache']}"
    )


def _rates(rows: Sequence[Row]) -> dict[str, Summary]:
    """The best of each column."""
    values: dict[tuple[str, ...], list[float]] = {}
    for row in rows:
        key = tuple(row.get(name, "") for name in SAME)
        values.setdefault(key, []).append(_mb_per_s(row))
    found = {}
    for column, pattern in COLUMNS.items():
        own = [summary(of_one) for key, of_one in values.items() if re.match(pattern, key[0])]
        if own:
            found[column] = max(own, key=lambda one: one.median)
    return found


def _mb_per_s(row: Row) -> float:
    if "decoded_bytes" in row and "mb_per_s" not in row:
        return float(row["decoded_bytes"]) / 1e6 / float(row["seconds"])
    return float(row.get("mb_per_s") or row["value"])


def _table(rates: Mapping[str, Rates]) -> Table:
    columns = [name for name in COLUMNS if any(name in found for found in rates.values())]
    rows = [
        [name, *(_cell(found[OURS], found.get(column)) for column in columns)]
        for name, found in rates.items()
    ]
    title = "MB/s of decoded rows; in brackets how many times as fast multitables is"
    return Table(title, ["MB/s", *columns], rows)


def _cell(ours: Summary, theirs: Summary | None) -> str:
    if theirs is None:
        return "-"
    if theirs is ours:
        return figure(ours.median)
    ratio = ours.median / theirs.median
    return f"{figure(theirs.median)} ({ratio:.{1 if ratio < 10 else 0}f}x)"


def _chart(rates: Mapping[str, Rates]) -> Chart:
    """This library beside the fastest of the others."""
    points = []
    for name, found in rates.items():
        ours = found[OURS]
        who = max(found.keys() - {OURS}, key=lambda one: found[one].median)
        theirs = found[who]
        ratio = Summary(
            ours.median / theirs.median,
            ours.low / theirs.high,
            ours.high / theirs.low,
            ours.repeats,
        )
        points.append((f"{name} / {who}", ratio))
    title = "multitables / the fastest of the others"
    return Chart("headline", title, "", "times as fast", [Series("ratio", points)], "ratios")


# ---- the README's copy

BLOCK = re.compile(r"(?<=\n\.\. headline\n\n).*(?=\.\. end of the headline\n)", re.DOTALL)


def in_readme(text: str, view: View) -> str:
    """The README with this table, and the plot beside it, in place of what stands there."""
    (table,), (chart,) = view.tables, view.charts
    words = textwrap.fill(f"{table.title}. Measured on {view.facts['measured on']}.", 100)
    block = f"""{table.simple()}

{words}

.. image:: docs/{chart.name}.svg
   :alt: {chart.title}

"""
    found, times = BLOCK.subn(lambda _match: block, text)
    if times != 1:
        raise ValueError(f"the headline has {times} places in the README, expected 1")
    return found


def main(readme: str, *directories: str) -> None:
    """Write the table into the README, and the plot into ``docs`` beside it."""
    names = {study for study, _ in WORKLOADS.values()}
    every = [results.read(directory, name) for directory in directories for name in sorted(names)]
    ((view,),) = [one.views for one in sections([one for one in every if one])]
    filename = Path(readme)
    filename.write_text(in_readme(filename.read_text(encoding="utf-8"), view), encoding="utf-8")
    drawing = charts.draw(view.charts[0])
    (filename.parent / "docs" / "headline.svg").write_text(drawing, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
