"""What the study of shots shows: times beside the published ones, normalised, and where they go.

Law
---
1. Pure: rows in, values out. Published seconds are rows of a contender of their own.
2. Times are normalised by the study's baseline: the published method by one process of shots that
   were written shot by shot, without a page buffer for files, with the largest for objects.
3. Published figures are of the whole file on another machine; a ratio compares what ran here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from _multitables.benchmark.harness.results import Kept, Row
from _multitables.benchmark.report import published
from _multitables.benchmark.report.figures import Column, Figures, ratio
from _multitables.benchmark.report.tables import Chart, Table, View, file_stem
from _multitables.benchmark.studies.frame import LABEL, without_numbers

METHOD = "published method"
PUBLISHED = "published"
TOP = (METHOD, LABEL)  # whose fastest cases are listed, and who is drawn
TOTAL = "tot-runtime"
NORM = f"norm-{TOTAL}"
FASTEST = 15
PLACES = {"local": "a file", "s3": "an object"}
#: The columns that distinguish a case, but for its contender.
KEY = ("where", "page_buffer", "layout", "access", "processes")
BUFFER = {"buffer": "page buffer"}
HEADS = {"layout": "layout", "access": "access", "processes": "processes"}
WHERE_IT_GOES = {
    "discovery": "discovery, s",
    "start": "start, s",
    "value": f"{TOTAL}, s",
    "open": "open, s",
    "read": "read, s",
    "imbalance": "max/mean read",
    "readers": "readers",
    "buffer_bytes": "its page buffer, bytes",
    "raw_hits": "raw hits, %",
    "meta_hits": "metadata hits, %",
    "requests": "requests",
}


def of(row: Row) -> tuple[str, ...]:
    """The key of a row."""
    return tuple(row[name] for name in KEY)


def views(kept: Kept) -> list[View]:
    """Everything that `kept` has to show: a view of files, and one of objects."""
    found = without_numbers(kept)
    measured = {of(row) for row in kept.rows}
    wide = published.rows(__file__, "quantity")
    more = {"contender": PUBLISHED, "unit": "s"}
    totals = [{**one, **more, "value": one[TOTAL]} for one in wide if TOTAL in one]
    rows = [row for row in _normalised(totals, PUBLISHED) if of(row) in measured]
    rows += _normalised(kept.rows, METHOD)
    faults = [_shown(one) for one in kept.more.get("faults", ())]
    for (where,), one in Figures(rows, faults).each("where"):
        buffers = list(one.each("buffer"))
        tables = [_times(f"{where}, page buffer {buffer}", case) for (buffer,), case in buffers]
        tables += [_fastest(where, who, one) for who in TOP if one.where(contender=who).rows]
        tables += [_where_it_goes(where, one), _also_published(where)]
        charts = [chart for (buffer,), case in buffers for chart in _charts(where, buffer, case)]
        found.append(View(f"Shots in {PLACES[where]}", {}, tables, charts))
    return found


def _shown(row: Row) -> Row:
    """With the page buffer for people."""
    size = row["page_buffer"]
    shown = {"": "any", "0": "none"}.get(str(size)) or f"{int(size) / 1e6:g} MB"
    return {**row, "buffer": shown}


def _normalised(every: Sequence[Row], method: str) -> Iterator[Row]:
    """Rows with how many times as fast as the baseline each is, where that was measured."""
    for (where,), rows in Figures(every).each("where"):
        page_buffer = "0" if where == "local" else max(rows.distinct("page_buffer"), key=int)
        base = rows.where(page_buffer=page_buffer, layout="shot", access="shots", processes=1)
        seconds = base.where(contender=method).median()
        for row in rows.rows:
            norm = str(seconds / float(row["value"])) if seconds else ""
            yield {**_shown(row), "norm": norm}


def _times(title: str, case: Figures) -> Table:
    """Seconds: published, the published method here, ours, and their ratio."""
    more: dict[str, Column] = {f"{METHOD} / {LABEL}": lambda one: ratio(one.beside(LABEL, METHOD))}
    return case.grid(f"{title}: {TOTAL}, s", HEADS, "contender", more=more)


def _charts(where: str, buffer: str, case: Figures) -> Iterator[Chart]:
    """Baseline / runtime over processes: what was measured here, and what was published."""
    for people, word in ((TOP, ""), ((PUBLISHED,), PUBLISHED)):
        lines = [
            line.series(f"{layout}/{access}, {who}", "processes", "norm")
            for (layout, access), of_case in case.each("layout", "access")
            for who in people
            if (line := of_case.where(contender=who)).median("norm")
        ]
        if lines:
            name = file_stem("shots", where, case.first("page_buffer"), word)
            title = f"{where}, page buffer {buffer}" + ", as published" * bool(word)
            yield Chart(name, title, "processes", NORM, lines)


def _fastest(where: str, contender: str, every: Figures) -> Table:
    """The cases with the shortest times, as the study's notebook lists them."""
    lines = [one for _key, one in every.where(contender=contender).each(*KEY)]
    lines.sort(key=lambda one: one.median() or 0.0)

    def was(line: Figures) -> str:
        key = {name: line.first(name) for name in KEY}
        return every.where(contender=PUBLISHED, **key).text("norm")

    return Figures([row for one in lines[:FASTEST] for row in one.rows]).grid(
        f"{where}: the fastest cases of {contender}",
        {**HEADS, **BUFFER},
        columns={NORM: "norm", f"{TOTAL}, s": "value", "published norm": was},
    )


def _where_it_goes(where: str, every: Figures) -> Table:
    """Discovery, start, opening and reading; how uneven; and what the page buffer held."""
    here = Figures([row for row in every.rows if row["contender"] != PUBLISHED], every.faults)
    return here.grid(
        f"{where}: where the time goes (of processes: open and read are means)",
        {**HEADS, **BUFFER, "contender": "who"},
        columns={
            head: partial(Figures.short, column=name)
            for name, head in WHERE_IT_GOES.items()
            if any(row[name] for row in here.rows)
        },
    )


def _also_published(where: str) -> Table:
    """The figures beside the times."""
    rows = [
        {name: text or "any" * (name in HEADS) for name, text in _shown(row).items()}
        for row in published.figures(__file__)
        if row["quantity"] != TOTAL and row["where"] in (where, "")
    ]
    heads = {"quantity": "published", **HEADS, **BUFFER, "value": "value", "unit": "unit"}
    return Figures(rows).grid(f"{where}: what else was published", heads)
