"""What the study of columns shows: the published summary, and what each rank did.

Law
---
1. Pure: rows in, values out. Read, compute and total are each the slowest rank's, as published.
2. A ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from _benchmark.harness.results import Kept, Row
from _benchmark.harness.rounds import Summary, summary
from _benchmark.report import published
from _benchmark.report.tables import Chart, Series, Table, View, figure, file_stem, spread
from _benchmark.studies.cases import OURS, without_numbers
from _benchmark.studies.columns.parts import PUBLISHED

PHASES = ("read", "compute", "total")


def views(kept: Kept) -> list[View]:
    """One for each storage, and what was published."""
    storages = dict.fromkeys(row["storage"] for row in kept.rows)
    found = [
        _view(storage, [row for row in kept.rows if row["storage"] == storage])
        for storage in storages
    ]
    said = published.figures(__file__)
    header = ["what", "ranks", "seconds", "source"]
    rows = [[row["what"], row["ranks"], row["seconds"], row["source"]] for row in said]
    table = Table("Published, and measured again before", header, rows, header)
    if found:
        found.append(View("What was published", {}, [table]))
    return [*without_numbers(kept), *found]


def _view(storage: str, rows: Sequence[Row]) -> View:
    people = list(dict.fromkeys(row["contender"] for row in rows))
    stem = file_stem("columns", storage)
    charts = [
        Chart(
            f"{stem}_{phase}",
            f"{storage}: {phase}, slowest rank",
            "ranks",
            "seconds",
            [_line(rows, who, phase) for who in people],
        )
        for phase in PHASES
    ]
    boxes = [
        Series(
            who,
            [
                (f"{row['ranks']} ranks", summary([float(text)]))
                for row in rows
                if row["contender"] == who
                for text in row["rank_reads"].split()
            ],
        )
        for who in people
    ]
    title = f"{storage}: reading of each rank"
    charts.append(Chart(f"{stem}_ranks", title, "", "seconds", boxes, "boxes"))
    read = [
        Series(
            who,
            [
                (x, _megabytes([row for row in rows if row["contender"] == who], x))
                for x in _ranks(rows, who)
            ],
        )
        for who in people
    ]
    title = f"{storage}: decoded bytes of a rank, with keys"
    charts.append(Chart(f"{stem}_bytes", title, "ranks", "MB", read))
    return View(f"Columns stored as {storage}", {}, [_table(storage, rows, people)], charts)


def _ranks(rows: Sequence[Row], who: str) -> list[int]:
    return sorted({int(row["ranks"]) for row in rows if row["contender"] == who})


def _values(rows: Sequence[Row], who: str, ranks: int, column: str) -> dict[str, float]:
    """The rounds of a cell."""
    return {
        row["round"]: float(row[column])
        for row in rows
        if (row["contender"], row["ranks"]) == (who, str(ranks))
    }


def _line(rows: Sequence[Row], who: str, phase: str) -> Series:
    points = [
        (float(ranks), summary(list(_values(rows, who, ranks, phase).values())))
        for ranks in _ranks(rows, who)
    ]
    return Series(who, points)


def _megabytes(rows: Sequence[Row], ranks: int) -> Summary:
    """What a rank gets: over all ranks and rounds."""
    return summary(
        [
            int(text) / 1e6
            for row in rows
            if row["ranks"] == str(ranks)
            for text in row["rank_bytes"].split()
        ]
    )


def _table(storage: str, rows: Sequence[Row], people: Sequence[str]) -> Table:
    header = ["ranks", "contender", *PHASES, "MB a rank", *(f"{phase} x" for phase in PHASES)]
    lines = [
        line
        for ranks in sorted({int(row["ranks"]) for row in rows})
        for line in _lines(rows, people, ranks)
    ]
    title = f"{storage}: seconds of the slowest rank; x: published over {OURS}"
    return Table(title, header, lines, ["contender"])


def _lines(rows: Sequence[Row], people: Sequence[str], ranks: int) -> Iterator[list[str]]:
    for who in people:
        of_who = [row for row in rows if row["contender"] == who]
        if ranks not in _ranks(rows, who):
            continue
        cells = [
            spread(summary(list(_values(rows, who, ranks, phase).values()))) for phase in PHASES
        ]
        ratios = [_ratio(rows, who, ranks, phase) for phase in PHASES]
        yield [str(ranks), who, *cells, figure(_megabytes(of_who, ranks).median), *ratios]


def _ratio(rows: Sequence[Row], who: str, ranks: int, phase: str) -> str:
    """How many times as long as this library."""
    theirs, ours = (_values(rows, one, ranks, phase) for one in (who, OURS))
    found = [theirs[number] / ours[number] for number in theirs if ours.get(number)]
    return figure(summary(found).median) if found and who.startswith(PUBLISHED) else ""
