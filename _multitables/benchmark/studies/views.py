"""The views of studies of parts: what has no number, the verdicts, a grid and a plot of each case.

Law
---
1. Pure: its input is the rows and the JSON file's content.
2. Contenders stand in the order in which they were first measured, each beside the best of ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from _multitables.benchmark.harness.results import Kept, Row
from _multitables.benchmark.report.figures import Column, Figures, ratio
from _multitables.benchmark.report.tables import UNIT_LINE, Chart, Series, Table, View, file_stem
from _multitables.benchmark.studies.frame import without_numbers
from _multitables.benchmark.studies.verdicts import LABEL, Target

COLUMNS = ("study", "part", "dataset", "contender", "cache", "round", "value", "unit")
SPREAD_LINE = "median (minimum-maximum)"


def views(kept: Kept, more: Mapping[str, str] | None = None) -> list[View]:
    """All of a study; `more` are its further columns, with their heads."""
    figures = Figures(kept.rows, kept.more.get("faults", ()))
    facts = facts_of(kept.rows, more or {})
    targets = [Target(**one) for one in kept.more.get("targets", ())]
    found = without_numbers(kept)
    if targets:
        found.append(View("Verdicts", facts, [target_table(targets)]))
    for (part,), of_part in figures.each("part"):
        tables, charts = [], []
        for (dataset,), case in of_part.each("dataset"):
            tables.append(_grid(dataset, case, more or {}))
            charts += _chart(file_stem(kept.name, part, dataset), dataset, case)
        found.append(View(part[:1].upper() + part[1:], facts, tables, charts))
    return found


def facts_of(rows: Sequence[Row], more: Mapping[str, str]) -> dict[str, str]:
    """The facts that all rows of a run share."""
    first = rows[0] if rows else {}
    return {name: text for name, text in first.items() if name not in (*COLUMNS, *more)}


def target_table(targets: Sequence[Target]) -> Table:
    """Measured, wanted, met or missed."""
    return Table(
        f"Targets; {SPREAD_LINE}",
        ["target", "measured", "wanted", "verdict", "note"],
        [[one.what, one.measured, one.wanted, one.verdict, one.note] for one in targets],
        left=("verdict", "note"),
    )


def _grid(dataset: str, case: Figures, more: Mapping[str, str]) -> Table:
    caches = ", ".join(one for one in case.distinct("cache") if one)
    title = f"{dataset}, page cache {caches}" if caches else dataset
    unit = " ".join(case.units)
    best = Figures([row for row in case.rows if row["contender"].startswith(LABEL)]).best()
    columns: dict[str, Column] = {unit: "value"}
    if best.rows and len(case.distinct("contender")) > 1:
        columns[f"{best.first('contender')} / it"] = lambda line: _beside(best, line)
    columns |= {
        **{head: column for column, head in more.items() if any(r.get(column) for r in case.rows)},
        "repeats": lambda line: str(len(line.rows)),
    }
    how = UNIT_LINE if unit == "MB/s" else SPREAD_LINE
    return case.grid(f"{title}; {how}", {"contender": "contender"}, columns=columns)


def _beside(best: Figures, line: Figures) -> str:
    if line.first("contender") == best.first("contender"):
        return ""
    return ratio(best.times_as_good(line))


def _chart(name: str, title: str, case: Figures) -> list[Chart]:
    points = [(who, found) for (who,), one in case.each("contender") if (found := one.summary())]
    if len(points) < 2:
        return []
    strong = LABEL if any(who.startswith(LABEL) for who, _ in points) else ""
    bars = [Series(title, points)]
    return [Chart(name, title, "contender", " ".join(case.units), bars, "bars", strong)]
