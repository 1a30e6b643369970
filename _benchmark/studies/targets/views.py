"""What a study of targets shows: its verdicts, and a table and a plot of each dataset of each part.

Law
---
1. Pure: its input is the rows and the JSON file's content.
2. Contenders stand in the order in which they were first measured.
3. The sentences name each missed target with its figures, or say that all are met.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from _benchmark.harness.results import Kept, Row
from _benchmark.harness.rounds import Summary, summary
from _benchmark.report.tables import UNIT_LINE, Chart, Series, Table, View, file_stem, spread
from _benchmark.studies.targets.verdicts import COLUMNS, LABEL, Target

SPREAD_LINE = "median (minimum-maximum)"

#: contender -> unit -> what was measured
Found = dict[str, dict[str, Summary]]


def views(kept: Kept) -> list[View]:
    """The verdicts, and one view for each part."""
    facts = facts_of(kept.rows)
    targets = [Target(**one) for one in kept.more.get("targets", ())]
    found = []
    if targets or kept.more.get("faults"):
        found.append(
            View("Verdicts", facts, [target_table(targets)], sentences=list(_said(kept, targets)))
        )
    for part in _each(kept.rows, "part"):
        rows = [row for row in kept.rows if row["part"] == part]
        found.append(_part(kept.name, part, rows, facts))
    return found


def facts_of(rows: Sequence[Row]) -> dict[str, str]:
    """What belongs to all rows of a run."""
    return {name: value for row in rows[:1] for name, value in row.items() if name not in COLUMNS}


def target_table(targets: Sequence[Target]) -> Table:
    """Measured, wanted, met or missed."""
    return Table(
        f"Targets; {SPREAD_LINE}",
        ["target", "measured", "wanted", "verdict", "note"],
        [[one.what, one.measured, one.wanted, one.verdict, one.note] for one in targets],
        left=("verdict", "note"),
    )


def _said(kept: Kept, targets: Sequence[Target]) -> Iterator[str]:
    for fault in kept.more.get("faults", ()):
        yield f"FAILED, so it has no number: {fault}."
    if kept.more.get("interrupted"):
        yield "The run was interrupted; this is what was finished."
    judged = [one for one in targets if one.met is not None]
    missed = [one for one in judged if not one.met]
    if judged and not missed:
        yield f"All {len(judged)} targets that were judged are met."
    for one in missed:
        note = f" ({one.note})" if one.note else ""
        yield f"Missed: {one.what} is {one.measured}, wanted {one.wanted}{note}."


def _part(study: str, part: str, rows: Sequence[Row], facts: Mapping[str, str]) -> View:
    tables, charts = [], []
    for dataset in _each(rows, "dataset"):
        own = [row for row in rows if row["dataset"] == dataset]
        found, units = _found(own), _each(own, "unit")
        caches = ", ".join(cache for cache in _each(own, "cache") if cache)
        title = f"{dataset}, page cache {caches}" if caches else dataset
        tables.append(_table(title, found, units))
        for unit in units:
            points = [(name, by[unit]) for name, by in found.items() if unit in by]
            if len(points) < 2:
                continue
            several = (unit,) if len(units) > 1 else ()
            charts.append(
                Chart(
                    name=file_stem(study, part, dataset, *several),
                    title=", ".join((title, *several)),
                    x_label="contender",
                    y_label=unit,
                    series=[Series(dataset, points)],
                    kind="bars",
                    strong=LABEL if any(name.startswith(LABEL) for name, _ in points) else "",
                )
            )
    return View(part[:1].upper() + part[1:], facts, tables, charts)


def _table(title: str, found: Found, units: Sequence[str]) -> Table:
    rows = []
    for name, by in found.items():
        cells = [spread(by[unit]) if unit in by else "-" for unit in units]
        repeats = sorted({one.repeats for one in by.values()})
        rows.append([name, *cells, ", ".join(map(str, repeats))])
    how = UNIT_LINE if "MB/s" in units else SPREAD_LINE
    return Table(f"{title}; {how}", ["contender", *units, "repeats"], rows)


def _found(rows: Sequence[Row]) -> Found:
    values: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        of_contender = values.setdefault(row["contender"], {})
        of_contender.setdefault(row["unit"], []).append(float(row["value"]))
    return {
        name: {unit: summary(of_unit) for unit, of_unit in by.items()}
        for name, by in values.items()
    }


def _each(rows: Sequence[Row], name: str) -> list[str]:
    """The values of a column, each once, in their order."""
    return list(dict.fromkeys(row[name] for row in rows))
