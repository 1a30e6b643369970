"""The headline: this library beside h5py, PyTables, DataLoader, hidefix and the 2.x release.

Law
---
1. Pure: the rows of studies in, one table and one plot out. Every number is a median of kept rows;
   what was not measured has no number.
2. Each side is at its best: the fastest of its ways, with its best number of processes.
3. Only what reads HDF5 through the page cache is compared, and in one state of it. The published
   methods of the studies that are run again read with h5py, so they stand in its column.
4. A row of many settings has their range. Where another is as fast, a sentence says so.
5. The README has a copy, which `COMMAND` writes; a test compares it with the stored rows.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from _multitables.benchmark.harness import results
from _multitables.benchmark.harness.results import Kept, Row
from _multitables.benchmark.harness.rounds import Summary, summary
from _multitables.benchmark.report import charts
from _multitables.benchmark.report.tables import Chart, Section, Series, Table, View, figure

COMMAND = (
    "python -m _multitables.benchmark.report.headline README.rst docs/results/peers_warm "
    "docs/results/peers docs/results/random docs/results/batches docs/results/studies/*"
)
SUMMARY = "this library beside others, each at its best, through the page cache"
OURS = "multitables"
#: Where pictures lie for pages that are not beside them, such as those of a package index.
PICTURES = "https://raw.githubusercontent.com/ghcollin/multitables/main/docs"
#: column of the table -> the contenders that belong to it; DataLoaders shuffle all rows, so batches
#: that this library mixes over a window only are not compared with them
COLUMNS = {
    OURS: r"multitables(?! 2\.| shuffle=True| TorchDataset)",
    "h5py": r"h5py|published|versioned-hdf5",
    "PyTables": r"PyTables",
    "DataLoader": r"DataLoader.*h5py",
    "hidefix": r"hidefix",
    "2.0.1": r"(multitables )?2\.0\.1",
}
_SWEEP = {"data": "noise", "driver": "buffered", "limit_mb_per_s": ""}
_STREAMS = {
    "no compression": {"complevel": "0"},
    "blosc 3": {"complib": "blosc", "complevel": "3"},
    "zlib 3": {"complib": "zlib", "complevel": "3"},
}
#: row of the table -> (study, what its rows have in these columns)
WORKLOADS: dict[str, tuple[str, Mapping[str, str]]] = {
    **{
        f"stream, {codec}{title}": ("sweep", {**_SWEEP, **columns, "cache": cache})
        for codec, columns in _STREAMS.items()
        for cache, title in (("warm", ""), ("cold", ", cold"))
    },
    **{
        f"full shuffle, {codec}": (
            "batches",
            {"part": "loader", "dataset": f"{codec}, chunks of 64 KiB"},
        )
        for codec in ("blosc:lz4 5", "zlib 3")
    },
    **{
        f"random rows, {codec}": ("random", {"part": "coordinates", "dataset": f"EArray, {codec}"})
        for codec in ("blosc:lz4 5", "zlib 3")
    },
    "I/O test, range": ("iotest", {}),
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
#: what a row has for each of its settings
SETTING = "configuration"

#: column -> its rate in MB/s
Rates = Mapping[str, Summary]
#: the rates of each setting; most rows have one
Settings = Sequence[Rates]


def sections(every: Sequence[Kept]) -> list[Section]:
    """The headline of the studies of one directory; nothing where nothing is compared."""
    rows: dict[str, list[Row]] = {}
    for one in every:
        rows.setdefault(one.name, []).extend(one.rows)
    rates: dict[str, Settings] = {}
    machines: dict[str, None] = {}
    for name, (study, wanted) in WORKLOADS.items():
        own = [row for row in rows.get(study, ()) if wanted.items() <= row.items()]
        own = [row for row in own if row.get("place") == own[0].get("place")]
        found = [_rates(of_one) for of_one in _by_setting(own)]
        compared = [one for one in found if OURS in one and len(one) > 1]
        if compared:
            rates[name] = compared
            machines[_machine(own[0])] = None
    if not rates:
        return []
    facts = {"measured on": "; ".join(machines)}
    view = View("Beside others", facts, [_table(rates)], [_chart(rates)], _not_faster(rates))
    return [Section(SUMMARY, Kept("headline", [], {}), {}, [view])]


def _by_setting(rows: Sequence[Row]) -> list[list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.get(SETTING, ""), []).append(row)
    return list(found.values())


def _machine(row: Row) -> str:
    return (
        f"{row['machine']}, {row['cores']} cores, {row['memory']} of memory, Python {row['python']}"
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
    if row.get("unit") == "s":
        return float(row["decoded_bytes"]) / 1e6 / float(row["seconds"])
    return float(row["value"])


def _table(rates: Mapping[str, Settings]) -> Table:
    every = {column for settings in rates.values() for one in settings for column in one}
    columns = [name for name in COLUMNS if name in every]
    rows = [
        [name, *(_cell(settings, column) for column in columns)] for name, settings in rates.items()
    ]
    title = (
        "MB/s of decoded rows, page cache warm where a row does not say cold; in brackets how many "
        "times as fast multitables is"
    )
    return Table(title, ["MB/s", *columns], rows)


def _cell(settings: Settings, column: str) -> str:
    has = [one for one in settings if column in one]
    if not has:
        return "-"
    values = _range([one[column].median for one in has], figure)
    if column == OURS:
        return values
    return f"{values} ({_range([_ratio(one, column) for one in has], _times)}x)"


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    return "-".join(dict.fromkeys([text(min(values)), text(max(values))]))


def _times(ratio: float) -> str:
    return f"{ratio:.{2 if ratio < 1.2 else 1 if ratio < 10 else 0}f}"


def _ratio(rates: Rates, column: str) -> float:
    return rates[OURS].median / rates[column].median


def _fastest(rates: Rates) -> str:
    """The fastest of the others."""
    return max(rates.keys() - {OURS}, key=lambda one: rates[one].median)


def _chart(rates: Mapping[str, Settings]) -> Chart:
    """This library beside the fastest of the others; of a range its median and its ends."""
    points = []
    for name, settings in rates.items():
        if len(settings) == 1:
            ours, theirs = settings[0][OURS], settings[0][_fastest(settings[0])]
            median = ours.median / theirs.median
            ratio = Summary(median, ours.low / theirs.high, ours.high / theirs.low, ours.repeats)
        else:
            ratio = summary([_ratio(one, _fastest(one)) for one in settings])
        who = dict.fromkeys(_fastest(one) for one in settings)
        points.append((f"{name} / {', '.join(who)}", ratio))
    title = "multitables / the fastest of the others"
    return Chart("headline", title, "", "times as fast", [Series("ratio", points)], "ratios")


def _not_faster(rates: Mapping[str, Settings]) -> list[str]:
    """The rows in which another library is as fast, or faster."""
    found = []
    for name, settings in rates.items():
        ratios = [(_ratio(one, _fastest(one)), _fastest(one)) for one in settings]
        slower = [pair for pair in ratios if pair[0] <= 1]
        if slower:
            ratio, who = min(slower)
            of_all = f" at worst; in {len(slower)} of {len(ratios)} settings"
            found.append(f"{name} ({_times(ratio)}x {who}{of_all if len(ratios) > 1 else ''})")
    return [f"Not faster than others here: {'; '.join(found)}."] if found else []


# ---- the README's copy

BLOCK = re.compile(r"(?<=\n\.\. headline\n\n).*(?=\.\. end of the headline\n)", re.DOTALL)


def in_readme(text: str, view: View) -> str:
    """The README with this table, and the plot beside it, in place of what stands there."""
    (table,), (chart,) = view.tables, view.charts
    said = [f"{table.title}. Measured on {view.facts['measured on']}.", *view.sentences]
    words = textwrap.fill(" ".join(said), 100)
    block = f"""{table.simple()}

{words}

.. image:: {PICTURES}/{chart.name}.svg
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
