"""What the study of columns shows: the published summary, and what each rank did.

Law
---
1. Pure: rows in, values out. Read, compute and total are each the slowest rank's, as published.
2. A ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from _multitables.benchmark.harness.results import Kept, Row
from _multitables.benchmark.harness.rounds import Summary, summary
from _multitables.benchmark.report import published
from _multitables.benchmark.report.figures import Column, Figures, ratio
from _multitables.benchmark.report.tables import Chart, Series, View, file_stem
from _multitables.benchmark.studies.columns.parts import PUBLISHED
from _multitables.benchmark.studies.frame import LABEL, without_numbers

PHASES = ("read", "compute", "total")
READ, BYTES = "read of each", "MB of each"
#: phase -> title of its plot, and the words in the name of its file
PLOTS = {
    **{phase: (f"{phase}, slowest rank", phase) for phase in PHASES},
    READ: ("reading of each rank", "ranks"),
    BYTES: ("decoded bytes of a rank, with keys", "bytes"),
}


def views(kept: Kept) -> list[View]:
    """One for each storage, and what was published."""
    rows = [one for row in sorted(kept.rows, key=_ranks) for one in _phases(row)]
    every = Figures(rows, kept.more.get("faults", ()))
    found = without_numbers(kept)
    for storage in every.distinct("storage") if rows else ():
        one = every.where(storage=storage)
        beside: dict[str, Column] = {f"{name} x": partial(_beside, one, name) for name in PHASES}
        title = f"{storage}: seconds of the slowest rank, and of each; x: published over {LABEL}"
        table = one.grid(title, {"ranks": "ranks", "contender": "contender"}, "phase", more=beside)
        found.append(View(f"Columns stored as {storage}", {}, [table], list(_charts(storage, one))))
    said = Figures(published.figures(__file__))
    heads = {name: name for name in ("what", "ranks", "seconds", "source")}
    table = said.grid("Published, and measured again before", heads)
    return [*found, View("What was published", {}, [table])] if rows else found


def _ranks(row: Row) -> int:
    return int(row["ranks"])


def _phases(row: Row) -> Iterator[Row]:
    """A row for each phase of a run, and two for each of its ranks."""
    for phase in PHASES:
        yield {**row, "phase": phase, "value": row[phase]}
    for seconds in row["rank_reads"].split():
        yield {**row, "phase": READ, "value": seconds}
    for n_bytes in row["rank_bytes"].split():
        yield {**row, "phase": BYTES, "value": str(int(n_bytes) / 1e6), "unit": "MB"}


def _beside(every: Figures, phase: str, line: Figures) -> str:
    """How many times as long as this library the published method takes."""
    if not line.first("contender").startswith(PUBLISHED):
        return ""
    ours = every.where(ranks=line.first("ranks"), contender=LABEL, phase=phase)
    return ratio(ours.times_as_good(line.where(phase=phase)))


def _charts(storage: str, every: Figures) -> Iterator[Chart]:
    for (phase,), rows in every.each("phase"):
        title, word = PLOTS[phase]
        name, title = file_stem("columns", storage, word), f"{storage}: {title}"
        people = list(rows.each("contender"))
        if phase == READ:
            boxes = [Series(who, _points(line)) for (who,), line in people]
            yield Chart(name, title, "", "seconds", boxes, "boxes")
        else:
            unit = "MB" if phase == BYTES else "seconds"
            lines = [line.series(who, "ranks") for (who,), line in people]
            yield Chart(name, title, "ranks", unit, lines)


def _points(line: Figures) -> list[tuple[float | str, Summary]]:
    return [(f"{row['ranks']} ranks", summary([float(row["value"])])) for row in line.rows]
