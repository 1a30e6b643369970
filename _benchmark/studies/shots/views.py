"""What the study of shots shows: times beside the published ones, normalised, and where they go.

Law
---
1. Pure: rows in, values out. Every number is a median of rows.
2. Times are normalised by the study's baseline: the published method by one process of shots that
   were written shot by shot, without a page buffer for files, with the largest for objects.
3. Published figures are of the whole file on another machine; a ratio compares what ran here.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from _benchmark.harness.results import Kept, Row
from _benchmark.harness.rounds import Summary, summary
from _benchmark.report import published
from _benchmark.report.tables import Chart, Series, Table, View, figure, file_stem, spread
from _benchmark.studies.cases import OURS, without_numbers

METHOD = "published method"
PUBLISHED = "published"
TOP = (METHOD, OURS)  # whose fastest cases are listed, and who is drawn
TOTAL = "tot-runtime"
FASTEST = 15
PLACES = {"local": "a file", "s3": "an object"}
#: What tells a case from others, but for its contender.
KEY = ("where", "page_buffer", "layout", "access", "processes")

Key = tuple[str, ...]


@dataclass(frozen=True)
class Runs:
    """The rows of a run, and the published seconds; found by `KEY`."""

    rows: Sequence[Row]
    published: Mapping[Key, float]

    def at(self, key: Key, contender: str) -> list[Row]:
        """The rounds of a contender."""
        return [row for row in self.rows if of(row) == key and row["contender"] == contender]

    def of_contender(self, where: str, contender: str) -> bool:
        """Whether it was measured there."""
        return any((row["where"], row["contender"]) == (where, contender) for row in self.rows)

    def seconds(self, key: Key, contender: str) -> Summary | None:
        """Its time; None where there is none."""
        if contender == PUBLISHED:
            return summary([self.published[key]]) if key in self.published else None
        values = [float(row["value"]) for row in self.at(key, contender)]
        return summary(values) if values else None

    def baseline(self, where: str, of_published: bool = False) -> float | None:
        """The seconds that others are normalised by."""
        buffers = {row["page_buffer"] for row in self.rows if row["where"] == where}
        page_buffer = "0" if where == "local" else max(buffers, key=int, default="")
        found = self.seconds(
            (where, page_buffer, "shot", "shots", "1"), PUBLISHED if of_published else METHOD
        )
        return found.median if found else None


def of(row: Row) -> Key:
    """The key of a row."""
    return tuple(row[name] for name in KEY)


def distinct(rows: Sequence[Row], name: str) -> list[str]:
    """The values of a column, in their order."""
    return list(dict.fromkeys(row[name] for row in rows))


def views(kept: Kept) -> list[View]:
    """Everything that `kept` has to show: a view of files, and one of objects."""
    figures = published.figures(__file__)
    totals = {of(row): float(row["value"]) for row in figures if row["quantity"] == TOTAL}
    runs = Runs(kept.rows, totals)
    found = without_numbers(kept)
    for where in distinct(kept.rows, "where"):
        rows = [row for row in kept.rows if row["where"] == where]
        buffers = distinct(rows, "page_buffer")
        tables = [times(runs, rows, one) for one in buffers]
        tables += [fastest(runs, rows, one) for one in TOP if runs.of_contender(where, one)]
        tables += [where_it_goes(rows), also_published(figures, where)]
        plots = [chart for one in buffers for chart in charts(runs, rows, one)]
        facts = {"page buffers": sizes(rows)}
        found.append(View(f"Shots in {PLACES[where]}", facts, tables, plots))
    return found


def megabytes(page_buffer: str) -> str:
    """A page buffer, for people."""
    return f"{int(page_buffer) / 1e6:g} MB" if int(page_buffer) else "none"


def sizes(rows: Sequence[Row]) -> str:
    """Each buffer of the study with its size here, if that is another."""
    found = {row["page_buffer"]: row["buffer_bytes"] for row in rows if row["buffer_bytes"]}
    here = [
        f"{megabytes(one)}, as large beside this file {megabytes(size)}"
        if one != size
        else megabytes(one)
        for one, size in found.items()
    ]
    return "; ".join(here)


def lines(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """What a table has down: layout and access."""
    return list(dict.fromkeys((row["layout"], row["access"]) for row in rows))


def times(runs: Runs, rows: Sequence[Row], page_buffer: str) -> Table:
    """Seconds over processes: published, the published method here, ours, and their ratio."""
    rows = [row for row in rows if row["page_buffer"] == page_buffer]
    where, processes = rows[0]["where"], distinct(rows, "processes")
    everybody = [PUBLISHED, *distinct(rows, "contender")]
    cells = []
    for layout, access in lines(rows):
        keys = [(where, page_buffer, layout, access, one) for one in processes]
        name = f"{layout}/{access}"
        for who in sorted(everybody, key=lambda one: not one.startswith(PUBLISHED)):
            found = [runs.seconds(key, who) for key in keys]
            if any(found):
                cells.append([name, who, *(spread(one) if one else "-" for one in found)])
        ratios = [ratio(runs.seconds(key, METHOD), runs.seconds(key, OURS)) for key in keys]
        cells.append([name, f"{METHOD} / {OURS}", *ratios])
    title = f"{where}, page buffer {megabytes(page_buffer)}: tot-runtime, s, over processes"
    return Table(title, ["layout/access", "who", *processes], cells, ["who"])


def ratio(first: Summary | None, second: Summary | None) -> str:
    """How many times the one is the other."""
    return f"{figure(first.median / second.median)} x" if first and second else "-"


def charts(runs: Runs, rows: Sequence[Row], page_buffer: str) -> Iterator[Chart]:
    """Baseline / runtime over processes: what was measured here, and what was published."""
    rows = [row for row in rows if row["page_buffer"] == page_buffer]
    where, processes = rows[0]["where"], distinct(rows, "processes")
    for who, of_published in ((TOP, False), ((PUBLISHED,), True)):
        base = runs.baseline(where, of_published)
        if base is None:
            continue
        series = []
        for layout, access in lines(rows):
            for one in who:
                found = [
                    (n, runs.seconds((where, page_buffer, layout, access, n), one))
                    for n in processes
                ]
                points = [(float(n), normalised(base, time)) for n, time in found if time]
                if points:
                    label = f"{layout}/{access}" + ("" if of_published else f", {one}")
                    series.append(Series(label, points))
        if series:
            name = file_stem("shots", where, page_buffer, PUBLISHED if of_published else "")
            title = f"{where}, page buffer {megabytes(page_buffer)}"
            title += ", as published" if of_published else ""
            yield Chart(name, title, "processes", "norm-tot-runtime", series)


def normalised(base: float, time: Summary) -> Summary:
    """How many times as fast as the baseline."""
    return Summary(base / time.median, base / time.high, base / time.low, time.repeats)


def fastest(runs: Runs, rows: Sequence[Row], contender: str) -> Table:
    """The cases with the shortest times, as the study's notebook lists them."""
    where = rows[0]["where"]
    base, published_base = runs.baseline(where), runs.baseline(where, of_published=True)
    found = []
    for key in dict.fromkeys(of(row) for row in rows):
        time, theirs = runs.seconds(key, contender), runs.seconds(key, PUBLISHED)
        if time:
            norm = figure(base / time.median) if base else "-"
            was = figure(published_base / theirs.median) if published_base and theirs else "-"
            found.append((time.median, [norm, figure(time.median), *key[1:], was]))
    cells = [[str(n), *one] for n, (_, one) in enumerate(sorted(found)[:FASTEST], 1)]
    header = ["", "norm-tot-runtime", "tot-runtime, s", *KEY[1:], "published norm"]
    return Table(f"{where}: the fastest cases of {contender}", header, cells)


def short(value: float) -> str:
    """A number; a whole one without decimals."""
    return f"{value:.0f}" if value.is_integer() else figure(value)


def where_it_goes(rows: Sequence[Row]) -> Table:
    """Discovery, start, opening and reading; how uneven; and what the page buffer held."""
    columns = {
        "discovery": "discovery, s",
        "start": "start, s",
        "value": "tot-runtime, s",
        "open": "open, s",
        "read": "read, s",
        "imbalance": "max/mean read",
        "readers": "readers",
        "raw_hits": "raw hits, %",
        "meta_hits": "metadata hits, %",
        "requests": "requests",
    }
    used = {name: title for name, title in columns.items() if any(row[name] for row in rows)}
    cells = []
    for key in dict.fromkeys((*of(row), row["contender"]) for row in rows):
        here = [row for row in rows if (*of(row), row["contender"]) == key]
        _, page_buffer, layout, access, processes, who = key
        numbers = [[float(row[name]) for row in here if row[name]] for name in used]
        shown = [short(statistics.median(one)) if one else "-" for one in numbers]
        cells.append([f"{layout}/{access}", megabytes(page_buffer), processes, who, *shown])
    header = ["layout/access", "page buffer", "processes", "who", *used.values()]
    title = f"{rows[0]['where']}: where the time goes (of processes: open and read are means)"
    return Table(title, header, cells, ["who"])


def also_published(figures: Sequence[Row], where: str) -> Table:
    """The figures beside the times."""
    cells = [
        [
            row["quantity"],
            f"{row['layout'] or 'any'}/{row['access'] or 'any'}",
            megabytes(row["page_buffer"]) if row["page_buffer"] else "any",
            row["processes"] or "any",
            f"{row['value']} {row['unit']}".strip(),
        ]
        for row in figures
        if row["quantity"] != TOTAL and row["where"] in (where, "")
    ]
    header = ["published", "layout/access", "page buffer", "processes", "value"]
    return Table(f"{where}: what else was published", header, cells)
